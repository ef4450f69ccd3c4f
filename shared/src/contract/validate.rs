//! The rules of a contract that a grammar cannot say.

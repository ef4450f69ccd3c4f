//! The commands against a mediator of the wire only.

//! The course of a Run: what follows from the end of a step.

pub(super) mod fork;

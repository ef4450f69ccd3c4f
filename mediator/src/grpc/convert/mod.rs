//! Between wire messages and our own types, in one place: [`from_wire`] parses and validates what came in,
//! [`to_wire`] and [`work`] write what goes out. Nothing behind this module sees a generated type.

pub mod from_wire;
pub mod to_wire;
pub mod work;

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod tests;

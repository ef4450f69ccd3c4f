//! The agent of one machine. Everything is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    enode::cli::main()
}

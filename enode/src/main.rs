//! The agent of one machine. Everything is in the library.

use std::process::ExitCode;

/// Many small things on several threads, which this one is better at than the C library's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    enode::cli::main()
}

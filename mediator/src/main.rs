//! The `mediator` program. Everything is in the library, so that tests reach it.

/// Many small things on several threads, which this one is better at than the C library's.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    mediator::cli::main()
}

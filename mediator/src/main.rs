//! The `mediator` program. Everything is in the library, so that tests reach it.

fn main() -> std::process::ExitCode {
    mediator::cli::main()
}

//! The program of a measured step: notes when its process began and when it was about to end.
//!
//! `stamp FILE ID` appends the line `ID BEGAN ENDED` to the file, in nanoseconds since 1970. It depends on
//! nothing, so that starting it costs no more than starting a process does.

use std::{
    io::Write as _,
    process::ExitCode,
    time::{SystemTime, UNIX_EPOCH},
};

fn now() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos()
}

fn main() -> ExitCode {
    let began = now();
    let mut args = std::env::args().skip(1);
    let (Some(file), Some(id)) = (args.next(), args.next()) else { return ExitCode::from(2) };
    let Ok(mut file) = std::fs::File::options().create(true).append(true).open(file) else {
        return ExitCode::from(3);
    };
    // One write: lines of processes that overlap do not mix.
    match file.write_all(format!("{id} {began} {}\n", now()).as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::from(4),
    }
}

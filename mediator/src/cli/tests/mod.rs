//! The commands, run in this process against a mediator of the wire only.

use std::{
    io::{self, Cursor, Write},
    sync::{Arc, Mutex},
};

use super::{
    exit::Exit,
    output::{Interrupt, Io},
    run_args,
};

mod admin;
mod answering;
mod contracts;
mod errors;
mod fake;
mod following;
mod help;
mod messages;
mod naming;
mod pages;
mod streams;
mod submitting;

use fake::Fake;

/// What a command left behind.
struct Ran {
    exit: Exit,
    out: String,
    err: String,
}

impl std::fmt::Display for Ran {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "exit {}\n-- stdout\n{}-- stderr\n{}", self.exit.code(), self.out, self.err)
    }
}

/// A writer whose bytes can be read while it is in use.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Shared {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned()
    }
}

impl Write for Shared {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(data);
        Ok(data.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Streams that are files, not terminals.
fn io(out: &Shared, err: &Shared) -> Io {
    Io {
        stdin: Box::new(io::empty()),
        out: Box::new(out.clone()),
        err: Box::new(err.clone()),
        out_is_terminal: false,
        err_is_terminal: false,
        err_width: 80,
        colour: false,
        interrupt: Box::pin(std::future::pending()),
    }
}

/// Runs without a mediator, with this on stdin.
async fn run_with(stdin: &str, args: &[&str]) -> Ran {
    let (out, err) = (Shared::default(), Shared::default());
    let mut io = io(&out, &err);
    io.stdin = Box::new(Cursor::new(stdin.to_owned()));
    let exit = run_args(args, &mut io).await;
    Ran { exit, out: out.text(), err: err.text() }
}

/// Runs against `fake`; its address is `http://MEDIATOR` in what comes back.
async fn run(fake: &Fake, args: &[&str]) -> Ran {
    run_changed(fake, args, |_| {}).await
}

/// The same with streams as the test wants them.
async fn run_changed(fake: &Fake, args: &[&str], change: impl FnOnce(&mut Io)) -> Ran {
    let (out, err) = (Shared::default(), Shared::default());
    let mut io = io(&out, &err);
    change(&mut io);
    let url = fake.url();
    let args: Vec<_> = args.iter().copied().chain(["--mediator", &url]).collect();
    let exit = run_args(&args, &mut io).await;
    let hide = |text: String| text.replace(&url, "http://MEDIATOR");
    Ran { exit, out: hide(out.text()), err: hide(err.text()) }
}

/// Waits until `holds`, and fails the test when it never does.
async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let waited = tokio::time::timeout(std::time::Duration::from_secs(20), async {
        while !holds() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    });
    assert!(waited.await.is_ok(), "never happened: {what}");
}

/// Ctrl-C at the moment the test sends it.
fn interrupt() -> (tokio::sync::oneshot::Sender<()>, Interrupt) {
    let (press, pressed) = tokio::sync::oneshot::channel();
    (press, Box::pin(async move { drop(pressed.await) }))
}

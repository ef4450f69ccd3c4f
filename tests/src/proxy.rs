//! A TCP proxy between an agent and its mediator that can hold bytes back and cut connections.
//!
//! An agent talks over two connections: one for heartbeats, one for work. They are told apart by the label that
//! every advert carries in the clear. Held bytes are delivered once they are let go, as after a partition; a
//! connection that must lose them is cut.

use std::{
    io::{ErrorKind, Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

/// In every advert of an agent of these tests.
const IN_ADVERTS: &[u8] = b"test machine";
const TICK: Duration = Duration::from_millis(5);

/// What goes through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Flow {
    /// Everything.
    Pass,
    /// Everything but what the mediator sends on work connections.
    HoldWorkReplies,
    /// Heartbeats only.
    HoldWork,
    /// Requests only.
    HoldReplies,
    /// Nothing.
    HoldAll,
}

/// Which connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// Heartbeats and work.
    All,
    /// Everything but heartbeats.
    Work,
}

#[derive(Debug)]
struct Connection {
    client: TcpStream,
    server: TcpStream,
    heartbeat: AtomicBool,
    dead: AtomicBool,
}

#[derive(Debug)]
struct State {
    target: String,
    flow: AtomicU8,
    over: AtomicBool,
    accepted: AtomicU64,
    connections: Mutex<Vec<Arc<Connection>>>,
}

/// A running proxy. Dropping it cuts everything.
#[derive(Debug)]
pub struct Proxy {
    address: String,
    state: Arc<State>,
}

impl Proxy {
    /// Listens, and connects to `target` for each connection it is given.
    #[must_use]
    pub fn start(target: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("its address").to_string();
        let state = Arc::new(State {
            target: target.to_owned(),
            flow: AtomicU8::new(Flow::Pass as u8),
            over: AtomicBool::new(false),
            accepted: AtomicU64::new(0),
            connections: Mutex::default(),
        });
        let accepting = state.clone();
        thread::spawn(move || {
            for client in listener.incoming() {
                if accepting.over.load(Ordering::SeqCst) {
                    return;
                }
                if let Ok(client) = client {
                    accepting.open(client);
                }
            }
        });
        Self { address, state }
    }

    /// `http://127.0.0.1:PORT`
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// From now on, for every connection.
    pub fn set(&self, flow: Flow) {
        self.state.flow.store(flow as u8, Ordering::SeqCst);
    }

    /// Ends connections in both directions; what was held is lost.
    pub fn cut(&self, which: Which) {
        self.state.each(which, Connection::close);
    }

    /// Lets nothing more through on the connections of now, which stay open: a dead peer, as the kernel sees it.
    pub fn freeze(&self, which: Which) {
        self.state.each(which, |it| it.dead.store(true, Ordering::SeqCst));
    }

    /// How many connections there have been.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.state.accepted.load(Ordering::SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.state.over.store(true, Ordering::SeqCst);
        self.cut(Which::All);
        // Wakes the listener, which then sees that it is over.
        drop(TcpStream::connect(&self.address));
    }
}

impl State {
    fn open(self: &Arc<Self>, client: TcpStream) {
        let Ok(server) = TcpStream::connect(&self.target) else { return };
        self.accepted.fetch_add(1, Ordering::SeqCst);
        for stream in [&client, &server] {
            stream.set_nodelay(true).ok();
            stream.set_read_timeout(Some(TICK)).ok();
        }
        let flags = (AtomicBool::new(false), AtomicBool::new(false));
        let connection = Arc::new(Connection { client, server, heartbeat: flags.0, dead: flags.1 });
        self.connections.lock().unwrap_or_else(PoisonError::into_inner).push(connection.clone());
        for reply in [false, true] {
            let (state, connection) = (self.clone(), connection.clone());
            thread::spawn(move || {
                state.pump(&connection, reply);
                connection.close();
            });
        }
    }

    fn each(&self, which: Which, act: impl Fn(&Connection)) {
        let connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        let meant = |it: &&Arc<Connection>| which == Which::All || !it.heartbeat.load(Ordering::SeqCst);
        connections.iter().filter(meant).for_each(|it| act(it));
    }

    fn holds(&self, connection: &Connection, reply: bool) -> bool {
        let (flow, work) = (self.flow.load(Ordering::SeqCst), !connection.heartbeat.load(Ordering::SeqCst));
        connection.dead.load(Ordering::SeqCst)
            || flow == Flow::HoldAll as u8
            || (flow == Flow::HoldReplies as u8 && reply)
            || (flow == Flow::HoldWork as u8 && work)
            || (flow == Flow::HoldWorkReplies as u8 && work && reply)
    }

    /// Copies one direction until either side has closed.
    fn pump(&self, connection: &Connection, reply: bool) {
        let (mut from, mut to) =
            if reply { (&connection.server, &connection.client) } else { (&connection.client, &connection.server) };
        let (mut held, mut seen, mut chunk) = (Vec::new(), Vec::new(), [0; 16 << 10]);
        loop {
            match from.read(&mut chunk) {
                Ok(0) => return,
                Ok(n) => held.extend_from_slice(&chunk[..n]),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Err(_) => return,
            }
            if !reply && !connection.heartbeat.load(Ordering::SeqCst) && seen.len() < 64 << 10 {
                seen.extend_from_slice(&held);
                if seen.windows(IN_ADVERTS.len()).any(|it| it == IN_ADVERTS) {
                    connection.heartbeat.store(true, Ordering::SeqCst);
                }
            }
            if !held.is_empty() && !self.holds(connection, reply) {
                if to.write_all(&held).is_err() {
                    return;
                }
                held.clear();
            }
        }
    }
}

impl Connection {
    fn close(&self) {
        self.client.shutdown(Shutdown::Both).ok();
        self.server.shutdown(Shutdown::Both).ok();
    }
}

//! As little HTTP as a test needs, so that every header is the test's own.

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

/// An answer.
#[derive(Debug)]
pub(crate) struct Got {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Got {
    /// A header's value; empty where it is not there.
    pub(crate) fn header(&self, name: &str) -> &str {
        let pairs = self.head.lines().filter_map(|line| line.split_once(": "));
        pairs.filter(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value).next().unwrap_or_default()
    }
}

/// Sends a request as it is written.
pub(crate) fn send(port: u16, head: &str, body: &str) -> Got {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream.write_all(format!("{head}\r\nConnection: close\r\n\r\n{body}").as_bytes()).unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let text = String::from_utf8(bytes).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text:?}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Got { status, head: head.to_owned(), body: body.to_owned() }
}

pub(crate) fn get(port: u16, path: &str) -> Got {
    send(port, &format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}"), "")
}

pub(crate) fn form(fields: &[(&str, &str)]) -> String {
    let escaped = |text: &str| {
        text.bytes()
            .map(
                |byte| if byte.is_ascii_alphanumeric() { char::from(byte).to_string() } else { format!("%{byte:02X}") },
            )
            .collect::<String>()
    };
    fields.iter().map(|(name, value)| format!("{}={}", escaped(name), escaped(value))).collect::<Vec<_>>().join("&")
}

pub(crate) fn post(port: u16, path: &str, fields: &[(&str, &str)]) -> Got {
    post_with(port, path, fields, &format!("Host: 127.0.0.1:{port}\r\nOrigin: http://127.0.0.1:{port}"))
}

/// With the headers that the test wants.
pub(crate) fn post_with(port: u16, path: &str, fields: &[(&str, &str)], headers: &str) -> Got {
    let body = form(fields);
    let head = format!(
        "POST {path} HTTP/1.1\r\n{headers}\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: {}",
        body.len()
    );
    send(port, &head, &body)
}

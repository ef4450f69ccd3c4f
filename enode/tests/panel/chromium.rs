//! A browser, driven over its debugging pipe: JSON messages that end with a zero byte, on file descriptors 3 and 4. Two
//! named pipes and a shell give it these, so that neither a port nor a library is needed.

use std::{
    collections::VecDeque,
    fs::{File, OpenOptions},
    io::{Read, Write},
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc::{self, Receiver},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

const PROGRAM: &str = "/usr/bin/chromium";
const PATIENCE: Duration = Duration::from_secs(60);

/// One browser with one page.
pub(crate) struct Browser {
    to: File,
    from: Receiver<Value>,
    child: Child,
    _home: tempfile::TempDir,
    session: String,
    number: u64,
    /// What came while something else was waited for.
    events: VecDeque<Value>,
}

impl Browser {
    /// A fresh one that knows nothing.
    pub(crate) fn start() -> Self {
        assert!(Path::new(PROGRAM).exists(), "{PROGRAM} is missing: `make test` installs Debian's package chromium");
        let home = tempfile::tempdir().unwrap();
        let pipes = ["in", "out"].map(|name| home.path().join(name));
        for pipe in &pipes {
            assert!(Command::new("mkfifo").arg(pipe).status().unwrap().success());
        }
        // Opened for both directions neither side waits for the other.
        let open = |at: usize| OpenOptions::new().read(true).write(true).open(&pipes[at]).unwrap();
        let (to, mut out) = (open(0), open(1));
        let child = Command::new("sh")
            .args(["-c", "exec \"$0\" \"$@\" 3<>in 4<>out"])
            .arg(PROGRAM)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
            .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
            .args(["--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-pipe"])
            .arg(format!("--user-data-dir={}", home.path().join("profile").display()))
            .current_dir(home.path())
            .env("HOME", home.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (tell, from) = mpsc::channel();
        std::thread::spawn(move || {
            let (mut text, mut piece) = (Vec::new(), vec![0; 1 << 16]);
            while let Ok(len) = out.read(&mut piece) {
                text.extend_from_slice(&piece[..len]);
                while let Some(end) = text.iter().position(|byte| *byte == 0) {
                    let message = serde_json::from_slice(&text[..end]).unwrap();
                    text.drain(..=end);
                    if tell.send(message).is_err() {
                        return;
                    }
                }
            }
        });
        let mut it = Self { to, from, child, _home: home, session: String::new(), number: 0, events: VecDeque::new() };
        let page = it.call("Target.createTarget", json!({"url": "about:blank"}));
        let page = it.call("Target.attachToTarget", json!({"targetId": page["targetId"], "flatten": true}));
        page["sessionId"].as_str().unwrap().clone_into(&mut it.session);
        for domain in ["Page", "Runtime", "Network", "Log"] {
            it.call(&format!("{domain}.enable"), json!({}));
        }
        it
    }

    /// Calls a method and gives back its result.
    pub(crate) fn call(&mut self, method: &str, params: Value) -> Value {
        self.number += 1;
        let mut message = json!({"id": self.number, "method": method, "params": params});
        if !self.session.is_empty() {
            message["sessionId"] = self.session.clone().into();
        }
        self.to.write_all(format!("{message}\0").as_bytes()).unwrap();
        let until = Instant::now() + PATIENCE;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let got = self.from.recv_timeout(left).unwrap_or_else(|_| panic!("{method} has no answer"));
            if got["id"] == self.number {
                // A form that was sent takes the page away while it answers.
                let is_left = got["error"]["message"].as_str().is_some_and(|it| it.contains("navigated"));
                assert!(got["error"].is_null() || is_left, "{method}: {}", got["error"]);
                return got["result"].clone();
            }
            self.events.push_back(got);
        }
    }

    /// Goes to an address and waits until it is loaded.
    pub(crate) fn open(&mut self, url: &str) {
        self.js("window.isLeft = true");
        let got = self.call("Page.navigate", json!({"url": url}));
        assert!(got["errorText"].is_null(), "{url}: {got}");
        self.loaded();
    }

    /// Waits for a page that is not the one that was marked as left.
    pub(crate) fn loaded(&mut self) {
        self.until("!window.isLeft && document.readyState === 'complete'");
    }

    /// The value of an expression; a promise is waited for.
    pub(crate) fn js(&mut self, text: &str) -> Value {
        let params = json!({"expression": text, "returnByValue": true, "awaitPromise": true});
        let got = self.call("Runtime.evaluate", params);
        assert!(got["exceptionDetails"].is_null(), "{text}: {}", got["exceptionDetails"]);
        got["result"]["value"].clone()
    }

    pub(crate) fn text(&mut self, expression: &str) -> String {
        self.js(expression).as_str().unwrap_or_default().to_owned()
    }

    /// Waits until an expression holds, also across pages.
    pub(crate) fn until(&mut self, expression: &str) {
        let begun = Instant::now();
        loop {
            let params = json!({"expression": format!("!!({expression})"), "returnByValue": true});
            let got = self.call("Runtime.evaluate", params);
            if got["result"]["value"] == true {
                return;
            }
            if begun.elapsed() > Duration::from_secs(30) {
                let page = self.text("location.href + ' ' + document.body.innerText");
                panic!("never: {expression}\n{page}\n{got}");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Clicks what leads to another page, and waits for that.
    pub(crate) fn follow(&mut self, selector: &str) {
        self.js(&format!("window.isLeft = true; document.querySelector({selector:?}).click()"));
        self.loaded();
    }

    /// Presses and lets go of a key.
    pub(crate) fn key(&mut self, key: &str) {
        let (code, text) = match key {
            "Enter" => (13, "\r"),
            "Tab" => (9, ""),
            "Escape" => (27, ""),
            " " => (32, " "),
            _ => (0, key),
        };
        for kind in [if text.is_empty() { "rawKeyDown" } else { "keyDown" }, "keyUp"] {
            let mut params = json!({"type": kind, "key": key, "windowsVirtualKeyCode": code});
            if kind == "keyDown" {
                params["text"] = text.into();
            }
            self.call("Input.dispatchKeyEvent", params);
        }
    }

    /// Types a text into what has the focus.
    pub(crate) fn typed(&mut self, text: &str) {
        self.call("Input.insertText", json!({"text": text}));
    }

    /// Goes on with the Tab key until the focus is where it should be.
    pub(crate) fn tab_to(&mut self, selector: &str) {
        for _ in 0..200 {
            self.key("Tab");
            if self.js(&format!("document.activeElement.matches({selector:?})")) == true {
                return;
            }
        }
        panic!("Tab never comes to {selector}");
    }

    /// Width and height of the window, and its colours.
    pub(crate) fn look(&mut self, width: u32, height: u32, is_dark: bool) {
        let params = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", params);
        let value = if is_dark { "dark" } else { "light" };
        let params = json!({"features": [{"name": "prefers-color-scheme", "value": value}]});
        self.call("Emulation.setEmulatedMedia", params);
    }

    pub(crate) fn script(&mut self, is_on: bool) {
        self.call("Emulation.setScriptExecutionDisabled", json!({"value": !is_on}));
    }

    /// The whole page as PNG in base64.
    pub(crate) fn screenshot(&mut self) -> String {
        let got = self.call("Page.captureScreenshot", json!({"format": "png", "captureBeyondViewport": false}));
        got["data"].as_str().unwrap().to_owned()
    }

    /// Every address that was asked for, and every complaint of the browser, so far.
    pub(crate) fn requests_and_complaints(&mut self) -> (Vec<String>, Vec<String>) {
        self.js("0");
        let (mut requests, mut complaints) = (Vec::new(), Vec::new());
        for event in &self.events {
            match event["method"].as_str().unwrap_or_default() {
                "Network.requestWillBeSent" => {
                    requests.push(event["params"]["request"]["url"].as_str().unwrap().to_owned());
                }
                "Log.entryAdded" => complaints.push(event["params"]["entry"]["text"].to_string()),
                "Runtime.exceptionThrown" => complaints.push(event["params"]["exceptionDetails"].to_string()),
                _ => {}
            }
        }
        (requests, complaints)
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The shell has become the browser, whose children end with it.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

//! The panel with a real mediator, agent and worker behind it.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Child, Stdio},
    time::Duration,
};

use tests::{Agent, AgentOptions, Engine, Mediator, Queue, mediator::signal, wait_for, wait_until};

use crate::gate::Gate;

struct Panel {
    child: Child,
    host: String,
}

impl Panel {
    /// With nothing but a configuration file.
    fn start(queue: &Queue, config: &str) -> Self {
        let mut command = queue.program(&["panel", "--config", config]);
        for name in ["TICKET_QUEUE", "MEDIATOR_URL", "MEDIATOR_TOKEN"] {
            command.env_remove(name);
        }
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let host = line.trim().strip_prefix("http://").and_then(|it| it.strip_suffix('/'));
        let host = host.unwrap_or_else(|| panic!("it says no address: {line:?}")).to_owned();
        Self { child, host }
    }

    /// Status and text.
    fn ask(&self, head: &str, body: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.host).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let host = &self.host;
        write!(stream, "{head}\r\nHost: {host}\r\nOrigin: http://{host}\r\nConnection: close\r\n\r\n{body}").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        (text.split(' ').nth(1).unwrap().parse().unwrap(), text)
    }

    fn page(&self, path: &str) -> String {
        let (status, text) = self.ask(&format!("GET {path} HTTP/1.1"), "");
        assert_eq!(status, 200, "{path}: {text}");
        text
    }

    /// Sends a form whose values need no escapes.
    fn send(&self, path: &str, fields: &str) -> (u16, String) {
        let page = self.page("/new");
        let csrf = page.split("name=\"csrf\" value=\"").nth(1).unwrap().split('"').next().unwrap();
        let body = format!("csrf={csrf}&{fields}");
        let kind = "Content-Type: application/x-www-form-urlencoded";
        self.ask(&format!("POST {path} HTTP/1.1\r\n{kind}\r\nContent-Length: {}", body.len()), &body)
    }
}

impl Drop for Panel {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

#[test]
fn r37_a_ticket_with_a_live_run_is_taken_away_in_the_panel_and_its_run_is_cancelled() {
    let mediator = Mediator::start(Engine::Sqlite);
    let _agent = Agent::start(&mediator, "n1");
    let queue = Queue::new(Some(&mediator));
    let gate = Gate::new();
    queue.write("a.md", "---\ntitle: A long one\n---\n");
    let command = format!("while [ ! -e {} ]; do sleep 0.05; done", gate.path("end").display());
    let mut worker = queue.spawn(&["work", "--poll", "50ms", "--command", &command]);
    let run = wait_for("its Run runs", || {
        let page = mediator.json(&["runs", "--work", "ticket:a"]);
        let run = page["runs"].as_array()?.iter().find(|it| it["state"] == "RUNNING")?.clone();
        Some(run["run_id"].as_str()?.to_owned())
    });
    let home = queue.home.path();
    std::fs::write(home.join("submitter.token"), mediator.token("submitter", "tickets")).unwrap();
    let config = format!(
        "name = \"n1\"\n[panel]\nlisten = \"127.0.0.1:0\"\nqueue = \"tickets\"\nmediator = \"{}\"\ntoken_file = \
         \"submitter.token\"\n",
        mediator.url()
    );
    std::fs::write(home.join("n1.toml"), config).unwrap();
    let panel = Panel::start(&queue, "n1.toml");
    wait_until("it is in progress", || panel.page("/ticket/a").contains(&run));
    let before = queue.text("a.wip.md");
    // Not without a second word.
    let (status, text) = panel.send("/ticket/a/unassign", "back=%2Fticket%2Fa");
    assert!(status == 409 && text.contains("A Run works on it") && text.contains(&run), "{text}");
    assert_eq!(queue.text("a.wip.md"), before);
    let (status, text) = panel.send("/ticket/a/unassign", "force=yes&back=%2Fticket%2Fa");
    assert!(status == 303 && text.to_lowercase().contains("location: /ticket/a"), "{text}");
    mediator.wait_state(&run, "FAILED");
    let cause = mediator.json(&["runs", "--work", "ticket:a"]).to_string();
    assert!(cause.to_lowercase().contains("cancel"), "{cause}");
    // Open, and locked until somebody says how to go on.
    assert!(queue.path("a.md").exists() && !queue.path("a.wip.md").exists(), "{:?}", queue.files());
    let page = panel.page("/ticket/a");
    assert!(page.contains("waits for an answer") && page.contains("name=\"awaiting\" value=\"a-answer-1\""), "{page}");
    let board = panel.page("/");
    assert!(board.contains("id=\"answer-a\""), "{board}");
    let (status, text) = panel.send("/ticket/a/answer", "awaiting=a-answer-1&answer=go+on&back=%2F");
    assert_eq!(status, 303, "{text}");
    gate.open("end");
    wait_until("it is worked on again and done", || queue.path("a.done.md").exists());
    signal(worker.id(), "TERM");
    assert!(worker.wait().unwrap().success());
}

#[test]
fn what_is_wrong_in_the_panels_table_is_said_with_its_place() {
    let queue = Queue::new(None);
    let start = |text: &str| {
        std::fs::write(queue.home.path().join("n.toml"), format!("name = \"n\"\n[panel]\n{text}\n")).unwrap();
        let mut command = queue.program(&["panel", "--listen", "127.0.0.1:0", "--config", "n.toml"]);
        tests::mediator::run(command.env_remove("TICKET_QUEUE"))
    };
    for (text, says) in [
        ("listen = \"x\"", "n.toml:3: panel.listen must be IP:PORT"),
        ("queue = \"nowhere\"", "n.toml:3: panel.queue"),
        ("queue = \"tickets\"\ntoken_file = \"gone\"", "n.toml:4: panel.token_file"),
        ("queue = \"tickets\"\nca_file = \"gone\"", "n.toml:4: panel.ca_file"),
        ("queue = \"tickets\"\ntemplates = \"gone\"", "n.toml:4: panel.templates"),
    ] {
        let ran = start(text);
        assert!(ran.code == 2 && ran.stderr.contains(says), "{text}: {ran:?}");
    }
}

#[test]
fn r44_the_board_draws_the_line_of_the_list_under_any_suffix() {
    let mut queue = Queue::new(None);
    queue.set("TICKET_INPROGRESS", "-진행중");
    queue.set("TICKET_DONE", "-완료");
    for (name, text) in [
        ("p1.md", "priority: 1\n"),
        ("p2.md", "priority: 2\n"),
        ("p3.md", ""),
        ("p5.md", "priority: 5\ndeps: [p2, p0]\n"),
        ("p0-완료.md", ""),
        ("w-진행중.md", "owner: me\n"),
        // With these suffixes it is an open ticket.
        ("p4.done.md", "priority: 4\n"),
    ] {
        queue.write(name, &format!("---\n{text}---\n"));
    }
    let config = "name = \"n1\"\n[panel]\nlisten = \"127.0.0.1:0\"\nqueue = \"tickets\"\n";
    std::fs::write(queue.home.path().join("n1.toml"), config).unwrap();
    let page = Panel::start(&queue, "n1.toml").page("/");
    let cards = page.split("id=\"card-").skip(1).filter_map(|rest| rest.split('"').next());
    let line = queue.line();
    assert_eq!(line, ["p2", "p5", "p4.done", "p3", "p1"]);
    assert_eq!(cards.collect::<Vec<_>>(), [line.iter().map(String::as_str).collect(), vec!["w", "p0"]].concat());
}

#[test]
fn the_nodes_page_says_when_the_machine_is_drained() {
    const SAFE: &str = "<b>Drained</b>";
    let mediator = Mediator::start(Engine::Sqlite);
    let table = "[panel]\nlisten = \"127.0.0.1:0\"\n";
    let agent = Agent::start_with(&mediator, &AgentOptions { extra: table, ..AgentOptions::builder("n1") });
    mediator.wait_node("n1", "is listed", |_| true);
    let (queue, gate) = (Queue::new(None), Gate::new());
    let config = agent.home.path().join("n1.toml");
    let panel = Panel::start(&queue, config.to_str().unwrap());
    assert!(!panel.page("/node").contains(SAFE), "it is lent");
    mediator.submit(&crate::gate::waiting(&gate, "end"));
    wait_until("its step runs", || panel.page("/node").contains("step hold, attempt 1"));
    agent.set_drain("graceful");
    wait_until("the drain is in force", || panel.page("/node").contains("<dd>graceful</dd>"));
    assert!(!panel.page("/node").contains(SAFE), "a Run is still on it");
    gate.open("end");
    mediator.wait_state("end", "SUCCEEDED");
    wait_until("it says so", || panel.page("/node").contains(SAFE));
    agent.set_drain("");
    wait_until("it is lent again", || !panel.page("/node").contains(SAFE));
}

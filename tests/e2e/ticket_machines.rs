//! Several machines that share one queue's folder and one mediator. One of them dies in the middle, with all that is on it.

use std::{
    fs::File,
    process::{Child, Stdio},
};

use tests::{Agent, AgentOptions, Engine, Mediator, Queue, mediator::signal, wait_until};

/// Its agent, with a state folder of its own, its workers, and their home.
struct Machine {
    agent: Agent,
    workers: Vec<Child>,
    home: tempfile::TempDir,
}

impl Machine {
    fn start(mediator: &Mediator, queue: &Queue, name: &str, command: &str) -> Self {
        let agent = Agent::start_with(mediator, &AgentOptions { slots: 2, ..AgentOptions::builder(name) });
        let home = tempfile::tempdir().unwrap();
        let token = mediator.token("submitter", &format!("tickets-of-{name}"));
        let worker = |_| {
            let log = File::options().create(true).append(true).open(home.path().join("log")).unwrap();
            let mut worker = queue.command(&["work", "--name", name, "--poll", "200ms", "--command", command]);
            worker.env("HOME", home.path()).env("MEDIATOR_TOKEN", &token).current_dir(home.path());
            worker.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap()
        };
        let workers = (0..3).map(worker).collect();
        Self { agent, workers, home }
    }

    /// By the kernel's hand: first who speaks, then the steps.
    fn die(&mut self, steps: &[u32]) {
        for worker in &mut self.workers {
            worker.kill().unwrap();
            worker.wait().unwrap();
        }
        self.agent.kill();
        for step in steps {
            signal(*step, "KILL");
        }
    }
}

fn lines(path: &std::path::Path) -> Vec<String> {
    std::fs::read_to_string(path).unwrap_or_default().lines().map(str::to_owned).collect()
}

fn one_of_three_dies(refuse_links: bool) {
    let mediator = Mediator::start(Engine::Sqlite);
    let mut queue = Queue::new(Some(&mediator));
    // What was killed between a claim and its first word is taken for dead after this.
    queue.set("TICKET_GRACE", "2s");
    if refuse_links {
        queue.set("TICKET_REFUSE_LINKS", "1");
    }
    let (begun, ended) = (queue.home.path().join("begun"), queue.home.path().join("ended"));
    // What is begun on the first machine never ends there.
    let command = format!(
        "echo \"$NODE_ID $TICKET $$\" >> {}; case $NODE_ID in m1*) while :; do sleep 0.05; done;; esac; echo $TICKET >> {}",
        begun.display(),
        ended.display()
    );
    let names: Vec<String> = (0..18).map(|at| format!("t{at:02}")).collect();
    let mut machines: Vec<Machine> =
        ["m1", "m2", "m3"].iter().map(|name| Machine::start(&mediator, &queue, name, &command)).collect();
    for name in &names {
        queue.write(&format!("{name}.md"), &format!("---\ntitle: {name}\n---\n"));
    }
    let on_first = || lines(&begun).into_iter().filter(|line| line.starts_with("m1")).collect::<Vec<_>>();
    wait_until("both nodes of the first machine work", || on_first().len() == 2);
    let steps = on_first().iter().map(|line| line.split(' ').next_back().unwrap().parse().unwrap()).collect::<Vec<_>>();
    machines[0].die(&steps);
    let lost: Vec<String> = on_first().iter().map(|line| line.split(' ').nth(1).unwrap().to_owned()).collect();
    wait_until("the others do everything", || names.iter().all(|name| queue.path(&format!("{name}.done.md")).exists()));
    for machine in &mut machines[1..] {
        for worker in &mut machine.workers {
            signal(worker.id(), "TERM");
            assert!(worker.wait().unwrap().success());
        }
    }
    let logs: String =
        machines.iter().map(|it| std::fs::read_to_string(it.home.path().join("log")).unwrap_or_default()).collect();
    let files: Vec<String> = queue.files().into_keys().collect();
    assert_eq!(files, names.iter().map(|name| format!("{name}.done.md")).collect::<Vec<_>>(), "{logs}");
    let mut ended = lines(&ended);
    ended.sort_unstable();
    assert_eq!(ended, names, "each is done once: {logs}");
    for name in &names {
        let times = lines(&begun).iter().filter(|line| line.split(' ').nth(1) == Some(name)).count();
        assert_eq!(times, 1 + usize::from(lost.contains(name)), "{name}: {logs}");
    }
    assert!(lines(&begun).iter().any(|it| it.starts_with("m2")) && lines(&begun).iter().any(|it| it.starts_with("m3")));
}

#[test]
fn r01_of_three_machines_on_one_folder_one_dies_and_each_ticket_is_done_once() {
    one_of_three_dies(false);
}

#[test]
fn r02_of_three_machines_on_one_folder_without_links_one_dies_and_each_ticket_is_done_once() {
    one_of_three_dies(true);
}

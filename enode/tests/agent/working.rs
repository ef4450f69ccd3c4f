//! Steps that go well, and steps that do not.

use enode::policy::quarantine::Rule;
use proto::v1::{self, work_item::Item};
use shared::Duration;

use crate::{Yard, fake, reason};

#[tokio::test]
async fn a_step_gets_its_inputs_and_leaves_log_files_and_exit_code() {
    let yard = Yard::new().await;
    yard.grant("r1", 1);
    let text = b"hello from before";
    yard.with(|world| world.blobs.insert(fake::sha256(text), text.to_vec()));
    let script = "cat $IN/deep/greeting; echo; echo oops >&2; mkdir $OUT/d; echo made > $OUT/d/file; \
                  touch $IN/new 2>/dev/null && [ $(id -u) != 0 ] && echo writable; \
                  echo $STEP_ID $NODE_ID $ATTEMPT $GREET; exit 3";
    let mut step = yard.step(0, &["sh", "-c", "$SCRIPT"]).with_env("SCRIPT", script);
    step.env.insert("GREET".to_owned(), "hi $RUN_ID".to_owned());
    step.inputs =
        vec![v1::InputFile { path: "deep/greeting".into(), sha256: fake::sha256(text), size: text.len() as i64 }];
    yard.send(Item::Step(step)).await;
    let report = yard.report("a report").await;
    assert_eq!(reason(&report), ("exit 3".to_owned(), String::new()));
    let (log, files) = yard.with(|world| (world.logs["r1/0/1"].clone(), world.artifacts.clone()));
    assert_eq!(String::from_utf8(log.clone()).unwrap(), "hello from before\noops\nstep0 yard 1 hi r1\n");
    assert_eq!(report.log_bytes, log.len() as i64);
    assert_eq!(files.into_iter().collect::<Vec<_>>(), [("d/file".to_owned(), b"made\n".to_vec())]);
    yard.advert("an advert without the step", |it| it.running.is_empty() && it.finished.is_empty()).await;
    assert!(yard.names("spool/yard").is_empty());
}

#[tokio::test]
async fn steps_of_a_lease_share_a_folder_that_goes_with_the_lease() {
    let yard = Yard::new().await;
    yard.grant("r1", 1);
    yard.send(Item::Step(yard.step(0, &["sh", "-c", "echo one > kept; echo c > $CACHE/c"]))).await;
    yard.report("the first").await;
    yard.send(Item::Step(yard.step(1, &["sh", "-c", "cat kept"]))).await;
    yard.until("the second", |world| world.reports.get(1).cloned()).await;
    assert_eq!(yard.with(|world| world.logs["r1/1/1"].clone()), b"one\n");
    assert_eq!(yard.names("work/yard"), ["r1"]);
    yard.release();
    crate::wait_for("an empty work folder", || yard.names("work/yard").is_empty().then_some(())).await;
    assert_eq!(yard.names("cache/yard"), ["c"]);
}

#[tokio::test]
async fn the_log_is_live_and_goes_on_where_a_broken_upload_stopped() {
    let yard = Yard::new().await;
    yard.with(|world| world.break_logs = 2);
    yard.grant("r1", 1);
    let go = yard.path("go");
    let script = format!("echo first; while [ ! -e {} ]; do sleep 0.01; done; echo second", go.display());
    yard.send(Item::Step(yard.step(0, &["sh", "-c", "$S"]).with_env("S", &script))).await;
    yard.until("the first line while it runs", |world| {
        world.logs.get("r1/0/1").is_some_and(|log| log == b"first\n").then_some(())
    })
    .await;
    std::fs::write(go, "").unwrap();
    let report = yard.report("a report").await;
    assert_eq!(yard.with(|world| world.logs["r1/0/1"].clone()), b"first\nsecond\n");
    assert_eq!(report.log_bytes, 13);
    assert_eq!(yard.with(|world| world.break_logs), 0);
}

#[tokio::test]
async fn a_flood_of_output_arrives_whole() {
    let yard = Yard::new().await;
    yard.grant("r1", 1);
    yard.send(Item::Step(yard.step(0, &["sh", "-c", "yes 0123456789abcde | head -c 20000000"]))).await;
    let report = yard.report("a report").await;
    assert_eq!(report.log_bytes, 20_000_000);
    let log = yard.with(|world| world.logs["r1/0/1"].clone());
    assert_eq!(log.len(), 20_000_000);
    assert!(log.chunks_exact(16).all(|line| line == b"0123456789abcde\n"));
}

#[tokio::test]
async fn a_file_that_is_known_already_is_acknowledged_before_it_is_sent() {
    let yard = Yard::new().await;
    yard.grant("r1", 1);
    let script = "head -c 6000000 /dev/zero > $OUT/a; for i in b c d e f; do cp $OUT/a $OUT/$i; done";
    yard.send(Item::Step(yard.step(0, &["sh", "-c", "$S"]).with_env("S", script))).await;
    assert_eq!(reason(&yard.report("a report").await).0, "exit 0");
    let sizes = yard.with(|world| world.artifacts.values().map(Vec::len).collect::<Vec<_>>());
    assert_eq!(sizes, [6_000_000; 6]);
}

#[tokio::test]
async fn ten_thousand_files_are_stored_with_few_descriptors() {
    let limit = rustix::process::Rlimit { current: Some(256), maximum: Some(256) };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, limit).unwrap();
    let yard = Yard::new().await;
    yard.grant("r1", 1);
    let script = "cd $OUT && seq 1 10000 | xargs touch && ls | wc -l";
    yard.send(Item::Step(yard.step(0, &["sh", "-c", script.replace('$', "$$").as_str()]))).await;
    yard.until("a report", |world| world.reports.first().cloned()).await;
    assert_eq!(yard.with(|world| world.artifacts.len()), 10_000);
}

#[tokio::test]
async fn e05_what_goes_wrong_before_the_start_is_said() {
    let yard = Yard::new().await;
    yard.grant("r1", 1);
    let cases: [(v1::Step, &str, &str); 5] = [
        (yard.step(0, &["no-such-tool"]), "could_not_start", "\"no-such-tool\""),
        (yard.step(1, &["./missing"]), "could_not_start", "/work/yard/r1/run"),
        (yard.step(2, &["true", "$NOBODY"]), "could_not_start", "run[1]: $NOBODY is not known here"),
        (
            v1::Step {
                inputs: vec![v1::InputFile { path: "x".into(), sha256: "00".repeat(32), size: 1 }],
                ..yard.step(3, &["true"])
            },
            "input_missing",
            "input x: NOT_FOUND",
        ),
        (
            v1::Step {
                inputs: vec![v1::InputFile { path: "../x".into(), sha256: "00".repeat(32), size: 1 }],
                ..yard.step(4, &["true"])
            },
            "input_missing",
            "\"../x\" is not a path below $IN",
        ),
    ];
    for (at, (step, wanted, text)) in cases.into_iter().enumerate() {
        yard.send(Item::Step(step)).await;
        let report = yard.until(wanted, |world| world.reports.get(at).cloned()).await;
        let (reason, message) = reason(&report);
        assert_eq!(reason, wanted, "{message}");
        assert!(message.contains(text), "{message}");
    }
}

#[tokio::test]
async fn what_is_a_runs_own_fault_takes_no_machine_away_and_what_is_the_machines_does() {
    let rule = Rule { after: 2, within: Duration::from_secs(60) };
    let yard = Yard::with(|config| (config.quarantine, config.artifact_bytes) = (rule, 10)).await;
    let input = |path: &str| v1::InputFile { path: path.into(), sha256: "00".repeat(32), size: 1 };
    let long = "x".repeat(200_000);
    let own: [(&[&str], &str); 6] = [
        (&["no-such-tool"], "could_not_start"),
        (&["./missing"], "could_not_start"),
        (&["/etc"], "could_not_start"),
        (&["true", "$NOBODY"], "could_not_start"),
        (&["true", &long], "could_not_start"),
        (&["sh", "-c", "echo 0123456789 > $OUT/big"], "output_refused"),
    ];
    let mut number = 0;
    let mut fails = async |step: &dyn Fn(&Yard) -> v1::Step, wanted: &str| {
        yard.grant(&format!("r{number}"), number);
        yard.send(Item::Step(step(&yard))).await;
        let report = yard.until(wanted, |world| world.reports.get(usize::from(number)).cloned()).await;
        assert_eq!(reason(&report).0, wanted, "{number}");
        number += 1;
    };
    for (argv, wanted) in own {
        fails(&|yard| yard.step(0, argv), wanted).await;
    }
    fails(&|yard| v1::Step { inputs: vec![input("x")], ..yard.step(0, &["true"]) }, "input_missing").await;
    fails(&|yard| v1::Step { inputs: vec![input("../x")], ..yard.step(0, &["true"]) }, "input_missing").await;
    let drain = |it: &v1::AdvertiseRequest| it.policy.clone().unwrap_or_default().drain;
    let advert = yard.advert("an advert after all of them", |_| true).await;
    assert_eq!(drain(&advert), "", "{:?}", advert.policy);

    // The folder in which its Runs work cannot be used.
    yard.release();
    crate::wait_for("nothing is left", || yard.names("work/yard").is_empty().then_some(())).await;
    std::fs::remove_dir_all(yard.path("work/yard")).unwrap();
    std::fs::write(yard.path("work/yard"), "not a folder").unwrap();
    for _ in 0..2 {
        fails(&|yard| yard.step(0, &["true"]), "could_not_start").await;
    }
    yard.advert("the node is held back", |it| drain(it) == "graceful").await;
}

#[tokio::test]
async fn a_later_step_whose_folder_is_gone_has_lost_its_workspace() {
    let yard = Yard::new().await;
    yard.grant("r1", 1);
    yard.send(Item::Step(yard.step(1, &["true"]))).await;
    assert_eq!(reason(&yard.report("a report").await).0, "workspace_lost");
}

#[tokio::test]
async fn a_timeout_ends_the_whole_group() {
    let yard = Yard::new().await;
    yard.grant("r1", 1);
    let mark = yard.path("mark");
    let script = format!("trap '' TERM; sleep 1000 & {}", crate::sleeper(&mark));
    let step = yard.step(0, &["sh", "-c", "$S"]).with_env("S", &script);
    yard.send(Item::Step(v1::Step { timeout_ms: 400, ..step })).await;
    let (reason, message) = reason(&yard.report("a report").await);
    assert_eq!((reason.as_str(), message.as_str()), ("timeout", "it ran longer than its timeout of 400ms"));
    crate::dies(&yard.appears(&mark).await).await;
}

#[tokio::test]
async fn an_output_over_the_limit_is_refused_by_name() {
    let yard = Yard::with(|config| config.artifact_bytes = 10).await;
    yard.grant("r1", 1);
    yard.send(Item::Step(yard.step(0, &["sh", "-c", "echo 0123456789 > $OUT/big; echo x > $OUT/a"]))).await;
    let (reason, message) = reason(&yard.report("a report").await);
    assert_eq!(reason, "output_refused");
    assert!(message.starts_with("big has 11 bytes"), "{message}");
}

/// Steps with a variable more.
pub(crate) trait WithEnv {
    fn with_env(self, name: &str, value: &str) -> Self;
}

impl WithEnv for v1::Step {
    fn with_env(mut self, name: &str, value: &str) -> Self {
        // A dollar in a script is the shell's.
        self.env.insert(name.to_owned(), value.replace('$', "$$"));
        self
    }
}

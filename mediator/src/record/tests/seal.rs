//! What a Record holds, and that it stays as it is.

use serde_json::Value;
use shared::domain::FailReason;

use super::{
    super::{RecordError, Removal, Sealed},
    *,
};

fn json(path: PathBuf) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn names(root: &Path) -> Vec<String> {
    let below = |path: PathBuf| path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
    tree(root).into_iter().filter(|path| path.is_file()).map(below).collect()
}

#[tokio::test]
async fn a_record_holds_manifest_steps_logs_and_files() {
    let room = Room::new();
    let input = room.filled().await;
    let (report, verdict) = (input.artifacts[0].sha256, input.artifacts[1].sha256);
    assert_eq!(room.store.seal(input).await.unwrap(), Sealed { truncated: false });

    let mut wanted = vec![
        format!("blobs/{report}"),
        format!("blobs/{verdict}"),
        "logs/00-test.1.log".to_owned(),
        "logs/01-judge.1.log".to_owned(),
        "manifest.json".to_owned(),
        "steps/00-test.json".to_owned(),
        "steps/01-judge.json".to_owned(),
    ];
    wanted.sort();
    assert_eq!(names(&room.record()), wanted);

    let manifest = json(room.record().join("manifest.json"));
    let listed: Vec<&str> =
        manifest["files"].as_array().unwrap().iter().map(|it| it["path"].as_str().unwrap()).collect();
    wanted.retain(|name| name != "manifest.json");
    assert_eq!(listed, wanted);
    assert_eq!(manifest["format"], 1);
    assert_eq!(manifest["run_id"], "build-4711");
    assert_eq!(manifest["work_id"], "gerrit:I5c9");
    assert_eq!(manifest["state"], "SUCCEEDED");
    assert_eq!(manifest["verdict"]["cause"], "judged");
    assert_eq!(manifest["verdict"]["findings"][0]["holds"], "held");
    assert_eq!(manifest["assigned"], json!([{"as": "builder", "node": "yard/0"}]));
    assert_eq!(manifest["created_at"], "2023-11-14T22:13:18.123Z");
    assert_eq!(manifest["ended_at"], "2023-11-14T22:13:20.123Z");
    assert_eq!(manifest["contract"]["steps"][1]["id"], "judge");
    assert_eq!(manifest["truncated"], false);

    let step = json(room.record().join("steps/01-judge.json"));
    assert_eq!(step["state"], "DONE");
    assert_eq!(step["exit_code"], 0);
    assert_eq!(step["needs"], json!(["test"]));
    assert_eq!(step["chosen"], false);
    assert_eq!(step["attempts"][0]["node"], "yard/0");
    // A hostile name is data here; it names no file.
    assert_eq!(step["attempts"][0]["artifacts"], json!({"../../etc/passwd": verdict.to_string()}));

    assert_eq!(room.store.verify(&room.run).await.unwrap(), Vec::<String>::new());
    assert_eq!(room.log(0, 1).await, b"first try\n", "logs are read as before");
    assert_eq!(room.store.read_small(&room.run, &report, 100).await.unwrap(), b"<report/>");
    assert!(!room.dir.path().join("runs/build-4711").exists(), "moved, not copied");
}

#[tokio::test]
async fn a_record_is_read_only_and_holds_no_secret() {
    let room = Room::new();
    let input = room.filled().await;
    room.store.seal(input).await.unwrap();
    let nonce = Nonce::from_bits(NONCE).reveal();
    for (path, (mode, _, content)) in snapshot(&room.record()) {
        assert_eq!(mode, if path.is_dir() { 0o555 } else { 0o444 }, "{}", path.display());
        let text = String::from_utf8_lossy(&content);
        assert!(!text.contains(&nonce) && !text.contains(SUBMITTER), "{}", path.display());
    }
}

#[tokio::test]
async fn a_sealed_record_never_changes() {
    let mut room = Room::new();
    let mut input = room.filled().await;
    room.store.seal(input.clone()).await.unwrap();
    let before = snapshot(&room.dir.path().join("records"));
    for _ in 0..2 {
        // Not even when what is said of the Run has changed.
        input.run.contract_hash = "another".into();
        input.log_bytes.insert((0, 1), 1_000);
        assert_eq!(room.store.seal(input.clone()).await.unwrap(), Sealed { truncated: false });
        let late = room.store.append_log(&room.run, 0, 1, 10, b"late".to_vec()).await.unwrap_err();
        assert!(matches!(&late, RecordError::Sealed(run) if *run == room.run), "{late}");
        let late = room.store.blob_writer(&room.run).await.unwrap_err();
        assert!(matches!(late, RecordError::Sealed(_)), "{late}");
        assert!(snapshot(&room.dir.path().join("records")) == before);
        assert!(!room.dir.path().join("runs/build-4711").exists());
        room.reopen();
    }
}

#[tokio::test]
async fn an_id_that_is_used_again_after_gc_takes_logs_and_files_again() {
    let room = Room::new();
    for held in [false, true] {
        room.store.seal(room.filled().await).await.unwrap();
        // Somebody was late, or still follows: the gate is known as closed.
        let late = room.store.append_log(&room.run, 0, 1, 10, b"late".to_vec()).await.unwrap_err();
        assert!(matches!(late, RecordError::Sealed(_)), "{late}");
        let watch = room.store.watch(&room.run).await.unwrap();
        let watch = held.then_some(watch);
        {
            let removal = Removal::begin(room.dir.path()).unwrap().unwrap();
            removal.set_aside(&room.run).unwrap();
            removal.remove(&room.run).unwrap();
        }
        room.store.append_log(&room.run, 0, 1, 0, b"anew".to_vec()).await.unwrap();
        assert_eq!(room.log(0, 1).await, b"anew");
        room.put(b"a file").await;
        drop(watch);
        fs::remove_dir_all(room.dir.path().join("runs/build-4711")).unwrap();
        room.store.0.logs.release(&room.run);
        room.store.0.gates.forget(&room.run);
    }
}

#[tokio::test]
async fn a_file_that_is_finished_too_late_is_refused() {
    let room = Room::new();
    let mut writer = room.store.blob_writer(&room.run).await.unwrap();
    writer.write(b"late".to_vec()).await.unwrap();
    room.store.seal(input(&room.run, &["a"])).await.unwrap();
    let late = writer.ready(4, &Digest::of(b"late")).await.unwrap();
    let late = room.store.publish(&room.run, vec![late]).await.unwrap_err();
    assert!(matches!(late, RecordError::Sealed(_)), "{late}");
    assert_eq!(fs::read_dir(room.dir.path().join("runs/.tmp/own")).unwrap().count(), 0);
    assert_eq!(names(&room.record()), ["manifest.json", "steps/00-a.json"]);
}

#[tokio::test]
async fn e03_a_log_or_file_that_is_not_whole_makes_the_record_truncated() {
    for case in ["whole", "short log", "no log", "cut log", "lost file"] {
        let room = Room::with(Limits { log_bytes: if case == "cut log" { 4 } else { 100 }, ..Limits::default() });
        let mut input = room.filled().await;
        match case {
            "short log" => _ = input.log_bytes.insert((0, 1), 11),
            "no log" => _ = input.log_bytes.insert((1, 2), 1),
            "lost file" => input.artifacts.push(artifact(0, "gone", Digest::of(b"gone"), 4)),
            _ => {}
        }
        let truncated = case != "whole";
        assert_eq!(room.store.seal(input.clone()).await.unwrap(), Sealed { truncated }, "{case}");
        assert_eq!(room.store.seal(input).await.unwrap(), Sealed { truncated }, "{case}, asked again");
        let manifest = json(room.record().join("manifest.json"));
        assert_eq!(manifest["truncated"], truncated, "{case}");
        let step = json(room.record().join("steps/00-test.json"));
        let log_truncated = step["attempts"][0].get("log_truncated").is_some();
        assert_eq!(log_truncated, matches!(case, "short log" | "cut log"), "{case}");
        let lost = json!([Digest::of(b"gone").to_string()]);
        assert_eq!(manifest.get("missing"), (case == "lost file").then_some(&lost), "{case}");
    }
}

#[tokio::test]
async fn a_file_that_no_artifact_names_is_not_in_the_record() {
    let room = Room::new();
    room.put(b"from a node that had lost its lease").await;
    room.store.seal(input(&room.run, &["a"])).await.unwrap();
    assert_eq!(names(&room.record()), ["manifest.json", "steps/00-a.json"]);
    assert_eq!(room.store.verify(&room.run).await.unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn a_run_that_was_cancelled_in_the_queue_is_sealed_too() {
    let room = Room::new();
    room.store.seal(cancelled(&room.run, &["a", "b"])).await.unwrap();
    assert_eq!(names(&room.record()), ["manifest.json", "steps/00-a.json", "steps/01-b.json"]);
    let manifest = json(room.record().join("manifest.json"));
    assert_eq!(manifest["verdict"], json!({"cause": "cancelled", "by": "grace-who-cancels"}));
    assert_eq!(manifest["assigned"], json!([]));
}

#[tokio::test]
async fn every_cause_is_told_apart() {
    let node = NodeId::new("yard/0").unwrap();
    let who = Principal::new("grace-who-cancels").unwrap();
    let causes = [
        (Cause::Judged, json!({"cause": "judged"})),
        (Cause::StepFailed(StepName::new("a").unwrap()), json!({"cause": "step_failed", "step": "a"})),
        (Cause::Cancelled(who), json!({"cause": "cancelled", "by": "grace-who-cancels"})),
        (Cause::Drain(node.clone()), json!({"cause": "drain", "node": "yard/0"})),
        (Cause::LeaseExpired(node.clone()), json!({"cause": "lease_expired", "node": "yard/0"})),
        (Cause::NodeRestarted(node), json!({"cause": "node_restarted", "node": "yard/0"})),
        (Cause::Rejected, json!({"cause": "rejected"})),
    ];
    for (cause, wanted) in causes {
        let room = Room::new();
        let mut input = input(&room.run, &["a"]);
        input.run.state = RunState::Failed(Verdict { cause, findings: Vec::new() });
        room.store.seal(input).await.unwrap();
        let manifest = json(room.record().join("manifest.json"));
        assert_eq!((&manifest["verdict"], &manifest["state"]), (&wanted, &json!("FAILED")));
    }
}

#[tokio::test]
async fn a_step_that_did_not_complete_says_why() {
    let room = Room::new();
    let mut input = input(&room.run, &["a"]);
    let at = Timestamp::from_millis(ENDED_AT);
    let (reason, message) = (FailReason::Timeout, "ran longer than 10s".to_owned());
    input.run.steps[0].state = StepState::Failed { reason, message, at };
    input.run.steps[0].attempts[0].answer = None;
    room.store.seal(input).await.unwrap();
    let step = json(room.record().join("steps/00-a.json"));
    assert_eq!(step["reason"], "timeout");
    assert_eq!(step["message"], "ran longer than 10s");
    assert_eq!(step["ended_at"], "2023-11-14T22:13:20.123Z");
    assert_eq!(step.get("exit_code"), None);
    assert_eq!(step["attempts"][0].get("answer"), None);
}

#[tokio::test]
async fn a_run_that_goes_on_is_not_sealed() {
    let room = Room::new();
    let mut open = room.filled().await;
    (open.run.state, open.run.ended_at) = (RunState::Running, None);
    let refused = room.store.seal(open).await.unwrap_err();
    assert!(matches!(refused, RecordError::NotEnded(_)), "{refused}");
    assert_eq!(room.store.append_log(&room.run, 0, 1, 10, b"more".to_vec()).await.unwrap(), 14);
    let unsealed = room.store.tar(&room.run).await.unwrap_err();
    assert!(matches!(unsealed, RecordError::NotSealed(_)), "{unsealed}");
}

#[tokio::test]
async fn a_group_is_sealed_at_once_and_one_failure_stays_alone() {
    let room = Room::new();
    let run = |n: usize| RunId::new(&format!("r{n:02}")).unwrap();
    let mut group: Vec<_> = (0..40).map(|n| input(&run(n), &["a"])).collect();
    group[7].run.ended_at = None;
    group.push(input(&run(3), &["a"]));
    fs::create_dir(room.dir.path().join("records/r09")).unwrap();
    let turn = room.store.turn_to_seal().await.unwrap().unwrap();
    let answers = room.store.seal_all(&turn, group).await.unwrap();
    assert_eq!(answers.len(), 40);
    for (n, (id, answer)) in answers.into_iter().enumerate() {
        assert_eq!(id, run(n));
        match n {
            7 => assert!(matches!(answer, Err(RecordError::NotEnded(_)))),
            9 => assert!(matches!(answer, Err(RecordError::Io { .. })), "a Record without a manifest is not one"),
            _ => {
                assert_eq!(answer.unwrap(), Sealed { truncated: false });
                assert!(room.store.verify(&id).await.unwrap().is_empty());
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn appends_and_seals_that_race_lose_no_acknowledged_byte() {
    for _ in 0..20 {
        let room = Room::new();
        let (store, run) = (room.store.clone(), room.run.clone());
        let sender = tokio::spawn(async move {
            let mut stored = 0;
            loop {
                match store.append_log(&run, 0, 1, stored, b"0123456789".to_vec()).await {
                    Ok(now) => stored = now,
                    Err(RecordError::Sealed(_)) => return stored,
                    Err(other) => panic!("{other}"),
                }
            }
        });
        while room.log(0, 1).await.len() < 50 {
            tokio::task::yield_now().await;
        }
        let seal = async || loop {
            match room.store.seal(input(&room.run, &["a"])).await {
                Err(RecordError::NoTurnToSeal(_)) => tokio::task::yield_now().await,
                sealed => return sealed.unwrap().truncated,
            }
        };
        assert_eq!(tokio::join!(seal(), seal()), (false, false));
        assert_eq!(room.log(0, 1).await.len() as u64, sender.await.unwrap());
        assert!(room.store.verify(&room.run).await.unwrap().is_empty());
    }
}

#[tokio::test]
async fn verify_finds_what_was_tampered_with() {
    let room = Room::new();
    let input = room.filled().await;
    let report = input.artifacts[0].sha256;
    room.store.seal(input).await.unwrap();
    for dir in folders(&room.record()) {
        fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let path = |name: &str| room.record().join(name);
    fs::remove_file(path(&format!("blobs/{report}"))).unwrap();
    fs::remove_file(path("logs/00-test.1.log")).unwrap();
    fs::write(path("logs/00-test.1.log"), "first lie\n").unwrap();
    fs::write(path("logs/extra"), "").unwrap();
    let problems = room.store.verify(&room.run).await.unwrap();
    let wanted = [format!("blobs/{report} is missing"), "logs/00-test.1.log has SHA-256".into(), "logs/extra".into()];
    assert_eq!(problems.len(), wanted.len(), "{problems:?}");
    for (problem, wanted) in problems.iter().zip(wanted) {
        assert!(problem.starts_with(&wanted), "{problem}");
    }
}

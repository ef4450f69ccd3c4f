use tokio::io::AsyncReadExt as _;

use super::*;
use crate::work::group;

fn sh(script: &str) -> Program {
    let env = [("PATH", "/usr/bin:/bin")].map(|(name, value)| (name.into(), value.into())).into();
    Program { argv: ["sh", "-c", script].map(str::to_owned).to_vec(), env, ..Program::default() }
}

const GRACE: Duration = Duration::from_millis(200);
const STUCK: Duration = Duration::from_secs(20);

fn orders() -> (watch::Sender<Option<Stop>>, watch::Receiver<Option<Stop>>) {
    watch::channel(None)
}

/// Starts a script and waits for its first line.
async fn start_and_read(script: &str) -> (Process, pipe::Receiver, String) {
    let (process, mut pipe) = start(&sh(script), Path::new("/")).unwrap();
    let mut line = Vec::new();
    while !line.ends_with(b"\n") {
        line.push(pipe.read_u8().await.unwrap());
    }
    (process, pipe, String::from_utf8(line).unwrap().trim().to_owned())
}

#[tokio::test]
async fn both_outputs_come_in_the_order_in_which_they_were_written() {
    let script = "for i in 1 2 3 4 5 6 7 8 9; do echo out$i; echo err$i >&2; done; exit 7";
    let (mut process, mut pipe) = start(&sh(script), Path::new("/")).unwrap();
    let mut log = String::new();
    pipe.read_to_string(&mut log).await.unwrap();
    let wanted: String = (1..=9).map(|i| format!("out{i}\nerr{i}\n")).collect();
    assert_eq!(log, wanted);
    let (_keep, mut orders) = orders();
    assert_eq!(process.supervise(None, &mut orders, GRACE, STUCK).await, (Ended::ByItself, true));
    assert_eq!(exit_code(process.reap(STUCK, || ()).await.unwrap().unwrap()), 7);
}

#[tokio::test]
async fn the_end_by_a_signal_is_128_and_its_number() {
    let (mut process, _pipe) = start(&sh("kill -9 $$"), Path::new("/")).unwrap();
    let (_keep, mut orders) = orders();
    assert_eq!(process.supervise(None, &mut orders, GRACE, STUCK).await, (Ended::ByItself, true));
    assert_eq!(exit_code(process.reap(STUCK, || ()).await.unwrap().unwrap()), 137);
}

#[tokio::test]
async fn the_end_is_seen_where_the_kernel_does_not_tell_of_it() {
    let (mut process, mut pipe, _) = start_and_read("echo ready; exit 5").await;
    process.leader = None;
    let (_keep, mut orders) = orders();
    assert_eq!(process.supervise(None, &mut orders, GRACE, STUCK).await, (Ended::ByItself, true));
    assert_eq!(exit_code(process.reap(STUCK, || ()).await.unwrap().unwrap()), 5);
    assert_eq!(pipe.read_u8().await.map_err(|e| e.kind()), Err(io::ErrorKind::UnexpectedEof));
}

#[tokio::test]
async fn a_program_that_ignores_sigterm_is_killed_after_the_grace() {
    let (mut process, _pipe, _) = start_and_read("trap '' TERM; echo ready; while :; do sleep 1000; done").await;
    let group = process.group();
    let (_keep, mut orders) = orders();
    let limit = Some(Duration::from_millis(50));
    assert_eq!(process.supervise(limit, &mut orders, GRACE, STUCK).await, (Ended::TimedOut, true));
    assert_eq!(exit_code(process.reap(STUCK, || ()).await.unwrap().unwrap()), 137);
    assert!(group::gone(group, STUCK).await);
}

#[tokio::test]
async fn a_program_that_heeds_sigterm_gets_to_end_by_itself() {
    let (mut process, mut pipe, _) =
        start_and_read("trap 'echo bye; exit 3' TERM; echo ready; while :; do sleep 0.01; done").await;
    let (order, mut orders) = orders();
    order.send_replace(Some(Stop { cause: StopCause::Stopped, grace: Duration::from_secs(60) }));
    let ended = process.supervise(None, &mut orders, GRACE, STUCK).await;
    assert_eq!(ended, (Ended::Stopped(StopCause::Stopped), true));
    assert_eq!(exit_code(process.reap(STUCK, || ()).await.unwrap().unwrap()), 3);
    let mut rest = String::new();
    pipe.read_to_string(&mut rest).await.unwrap();
    // Its child gets the signal too, and some shells say so.
    assert!(rest.ends_with("bye\n"), "{rest}");
}

#[tokio::test]
async fn a_second_order_cuts_the_grace_short() {
    let (mut process, _pipe, _) = start_and_read("trap '' TERM; echo ready; while :; do sleep 1000; done").await;
    let (order, mut orders) = orders();
    order.send_replace(Some(Stop { cause: StopCause::Stopped, grace: Duration::from_secs(3_600) }));
    let both = async {
        tokio::task::yield_now().await;
        order.send_replace(Some(Stop { cause: StopCause::LeaseEnded, grace: Duration::default() }));
    };
    let (ended, ()) = tokio::join!(process.supervise(None, &mut orders, GRACE, STUCK), both);
    assert_eq!(ended, (Ended::Stopped(StopCause::LeaseEnded), true));
    drop(process.reap(STUCK, || ()).await);
}

#[tokio::test]
async fn a_grandchild_that_stays_is_killed_when_the_program_ends() {
    let (mut process, mut pipe, grandchild) = start_and_read("sleep 1000 & echo $!; exit 0").await;
    let group = process.group();
    assert!(group::is_alive(group), "the grandchild holds it");
    let (_keep, mut orders) = orders();
    assert_eq!(process.supervise(None, &mut orders, GRACE, STUCK).await, (Ended::ByItself, true));
    assert_eq!(exit_code(process.reap(STUCK, || ()).await.unwrap().unwrap()), 0);
    assert!(group::gone(group, STUCK).await, "{grandchild}");
    let mut rest = Vec::new();
    assert_eq!(pipe.read_to_end(&mut rest).await.unwrap(), 0, "nobody holds the pipe any more");
}

#[tokio::test]
async fn what_cannot_start_is_named_with_its_folder() {
    let folder = tempfile::tempdir().unwrap();
    let said = |argv: &str, folder: &Path| {
        let env = [("PATH".into(), "/nowhere".into())].into();
        start(&Program { argv: vec![argv.to_owned()], env, ..Program::default() }, folder).unwrap_err().to_string()
    };
    let text = said("no-such-tool", folder.path());
    assert!(text.contains("\"no-such-tool\"") && text.contains("not on the PATH /nowhere"), "{text}");
    assert!(text.contains(folder.path().to_str().unwrap()), "{text}");
    std::fs::write(folder.path().join("script"), "#!/no/such/interpreter\n").unwrap();
    let text = said("./script", folder.path());
    assert!(text.contains("ermission denied"), "{text}");
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(folder.path().join("script"), std::fs::Permissions::from_mode(0o700)).unwrap();
    let text = said("./script", folder.path());
    assert!(text.contains("interpreter in its first line"), "{text}");
}

#[tokio::test]
async fn a_program_has_its_folder_its_environment_and_no_input() {
    let folder = tempfile::tempdir().unwrap();
    let (mut process, mut pipe) = start(&sh("pwd; env | sort; cat; echo end"), folder.path()).unwrap();
    let mut log = String::new();
    pipe.read_to_string(&mut log).await.unwrap();
    let pwd = folder.path().canonicalize().unwrap().display().to_string();
    let lines: Vec<&str> = log.lines().filter(|line| !line.starts_with("_=") && !line.starts_with("SHLVL=")).collect();
    assert_eq!(lines, [pwd.as_str(), "PATH=/usr/bin:/bin", &format!("PWD={pwd}"), "end"]);
    let (_keep, mut orders) = orders();
    process.supervise(None, &mut orders, GRACE, STUCK).await;
    drop(process.reap(STUCK, || ()).await);
}

/// Its tracer is what is left of the step, perhaps: that must end before the step has an end.
#[cfg(target_arch = "x86_64")]
#[tokio::test]
async fn the_end_of_a_program_that_is_traced_comes_when_its_tracer_has_gone() {
    // prctl(PR_SET_PTRACER, ANY) in the program, then setsid and ptrace(PTRACE_SEIZE) in its child.
    let script = r#"exec perl -e '
        syscall(157, 0x59616d61, -1, 0, 0, 0);
        my $me = $$;
        pipe(my $reads, my $writes);
        unless (fork) { syscall(112); print syscall(101, 0x4206, $me, 0, 0) == 0 ? "$$\n" : "no\n"; $| = 1; print ""; close $writes; sleep 1000 }
        close $writes; <$reads>; exit 4'"#;
    let (mut process, _pipe, tracer) = start_and_read(script).await;
    let tracer = Pid::from_raw(tracer.parse().unwrap()).unwrap();
    let (_keep, mut orders) = orders();
    assert_eq!(process.supervise(None, &mut orders, GRACE, STUCK).await, (Ended::ByItself, true));
    assert_eq!(process.reap(Duration::default(), || ()).await.unwrap(), None, "its tracer holds it");
    let kill = || {
        let _is_there = rustix::process::kill_process(tracer, Signal::KILL);
    };
    let end = process.reap(STUCK, kill).await;
    assert_eq!(exit_code(end.unwrap().unwrap()), 4);
}

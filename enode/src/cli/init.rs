//! `enode init`: a configuration to start from. Writes nothing that is there already.

use std::{io::Write, path::Path};

use anyhow::{Context, anyhow};
use serde_json::json;
use shared::NodeId;

use super::{Exit, Failure, Outcome, args::InitArgs, out::Out};
use crate::{
    config::{Config, Flags, Layers, Need, is_mediator_url},
    detect,
    identity::Identity,
};

pub(super) fn run(args: &InitArgs, out: &Out) -> Outcome {
    let name = match &args.name {
        Some(name) => name.clone(),
        None => detect::hostname()
            .filter(|name| NodeId::new(name).is_ok())
            .ok_or_else(|| refused(anyhow!("the host's name cannot be the name of a node: give --name NAME")))?,
    };
    if name.contains('/') {
        return Err(refused(anyhow!("the name must not have a slot: enode adds /0, /1, … itself when slots > 1")));
    }
    if NodeId::new(&name).is_err() {
        return Err(refused(anyhow!("the name {name:?} must be made of 1 to 128 letters, digits, '.', '_' and '-'")));
    }
    if !is_mediator_url(&args.mediator) {
        return Err(refused(anyhow!("--mediator {:?} is not http://HOST:PORT or https://HOST:PORT", args.mediator)));
    }
    std::fs::create_dir_all(&args.dir).with_context(|| format!("cannot make {}", args.dir.display()))?;
    let path = args.dir.join(format!("{name}.toml"));
    write_new(&path, &template(&name, &args.mediator))?;
    let shown = path.display().to_string();
    let token = args.dir.join(format!("{name}.token"));
    out.data(&json!({"config": shown, "token_file": token, "name": name}), || format!("wrote {shown}"))?;
    // By all that counts beside the file, as `enode run` reads it.
    let layers = Layers::of_system(Some(path), Flags::default());
    if let Some(state) = Config::load(&layers, Need::Owner).ok().map(|it| it.state_dir).filter(|it| Identity::is_in(it))
    {
        out.note(format!(
            "note: the state folder {} has served an agent: what a node of the same name has left there is taken up; for a new start set another state_dir",
            state.display()
        ));
    }
    let authority = if args.mediator.starts_with("https:") {
        format!("\n     and the ca.crt of `mediator pki init` into {}", args.dir.join("ca.crt").display())
    } else {
        String::new()
    };
    out.note(format!(
        "next:\n  1. look through {shown}: what this machine offers stands under [[capability]]\n  \
         2. on the mediator: mediator token create --role node --principal OWNER\n     (whoever owns this machine) and put the token into {} \
         (chmod 600){authority}\n  3. enode run --config {shown}\nto take the machine back at any time: enode drain --config {shown}",
        token.display()
    ));
    Ok(Exit::Done)
}

fn refused(error: anyhow::Error) -> Failure {
    Failure::new(Exit::Refused, error)
}

fn write_new(path: &Path, text: &str) -> Result<(), Failure> {
    let opened = std::fs::OpenOptions::new().write(true).create_new(true).open(path);
    let mut file = match opened {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            return Err(refused(anyhow!(
                "{} is there already: edit it, or give another --name or --dir",
                path.display()
            )));
        }
        Err(error) => {
            return Err(anyhow::Error::from(error).context(format!("cannot write {}", path.display())).into());
        }
    };
    file.write_all(text.as_bytes()).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(())
}

pub(super) fn template(name: &str, mediator: &str) -> String {
    let quoted = |text: &str| toml_edit::Value::from(text).to_string();
    let ca_file = if mediator.starts_with("https:") { "ca_file" } else { "# ca_file" };
    format!(
        r#"# The agent of this machine. `enode config show` prints the effective values and where each comes from.
# The owner's policy file is {name}.policy.toml beside this one; `enode drain` and `enode undrain` write it.

# Name in the fleet. With slots > 1 the nodes are NAME/0, NAME/1, …
name = {quoted_name}
# For people; the host's name unless set.
# label = "the board in room 3"

# Where the mediator listens. Beyond this host use https:// and the ca.crt that `mediator pki init` wrote.
mediator = {quoted_mediator}
{ca_file} = "ca.crt"
# The token of role `node`, alone in a file that only the agent's user may read. Paths are relative to this file.
token_file = {quoted_token}
# Or a client certificate that stands for it (`mediator pki issue --role node`).
# cert_file = "enode.crt"
# key_file = "enode.key"

# How many Runs this machine may serve at once.
slots = 1

# What this machine offers. Contracts ask for a name and, if they care, for attributes.
[[capability]]
name = "build"
# attrs = {{ board = "stm32", cores = 4 }}

# Everything below shows its default; take the # away to change it. Keys without a table must stand above the
# first [[capability]].
#
# Add os, arch, cores, memory_gib, hostname and tools to every capability (`enode detect` shows them).
#   detect = true
# Folder for spool, workspaces and identity (here as root; else below ~/.local/state/enode).
#   state_dir = "/var/lib/enode/{name}"
# Environment variables that steps inherit.
#   pass_env = ["PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ"]
# Between SIGTERM and SIGKILL of a step.
#   grace = "10s"
# How long what runs may go on after the agent was told to stop.
#   stop_timeout = "30s"
# How long a step waits for the processes of the one before it.
#   start_timeout = "30s"
# How long a Run's folder outlives its lease.
#   keep_workspace = "0s"
# Largest output file.
#   artifact_bytes = "1GiB"
# Most of a step's output that is spooled here; the rest is counted and lost. A mediator has a limit of its own
# (limits.log_bytes, 64MiB by default): keep this one above it.
#   log_bytes = "80MiB"
#
# Coding agents that contracts may use in `agent` steps: any command. Each is advertised as capability `agent` with
# attribute `harness`. {{prompt}}, {{prompt_file}}, {{schema_file}}, {{answer_file}} and {{max_turns}} are filled in; what stands
# in a list of its own is left out where the step does not say it. The prompt comes on stdin unless an argument takes it.
# [harness.default]
# command = ["my-agent", "--non-interactive", ["--max-turns", "{{max_turns}}"], ["--schema", "{{schema_file}}"]]
# Where the answer comes from: "file", the agent writes {{answer_file}} (also $ANSWER_FILE), or "stdout", it prints it;
# then `pointer` may name the part of the printed JSON that is the answer.
# answer = "stdout"
# pointer = "/result"
# Environment variables that this command inherits beyond pass_env, such as the key to its service.
# pass_env = ["MY_AGENT_KEY"]
#
# Do not lend this machine while less than this is free where Runs work (state_dir/work); "0" = whatever is free.
# [disk]
# min_free = "1GiB"
#
# Do not lend a node any more when so many Runs in a row (0 = never) failed on it within so short a time, because
# nothing could be started, fetched or stored; `enode undrain --quarantine` lends it again.
# [quarantine]
# after = 5
# within = "10s"
"#,
        quoted_name = quoted(name),
        quoted_mediator = quoted(mediator),
        quoted_token = quoted(&format!("{name}.token")),
    )
}

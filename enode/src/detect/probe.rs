//! Looks at the system. Everything here may fail and then says nothing.

use std::{
    ffi::OsStr,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use super::{Facts, facts};

/// Tools worth advertising.
const TOOLS: [&str; 24] = [
    "bash", "cargo", "clang", "cmake", "curl", "docker", "g++", "gcc", "gdb", "git", "go", "java", "make", "node",
    "npm", "openocd", "perl", "podman", "python3", "rsync", "rustc", "ssh", "tar", "valgrind",
];

/// The facts of this machine.
#[must_use]
pub fn probe() -> Facts {
    Facts {
        os: std::env::consts::OS.to_owned(),
        arch: std::env::consts::ARCH.to_owned(),
        cores: std::thread::available_parallelism().map_or(0, |cores| cores.get() as u64),
        memory_gib: std::fs::read_to_string("/proc/meminfo")
            .ok()
            .and_then(|text| facts::memory_gib(&text))
            .unwrap_or(0),
        hostname: hostname(),
        tools: tools_on(std::env::var_os("PATH").as_deref()),
    }
}

/// The host's name.
#[must_use]
pub fn hostname() -> Option<String> {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    Some(name).filter(|name| !name.is_empty() && name != "(none)")
}

/// Whether a program is there: a whole path, or a name on the agent's own `PATH`.
#[must_use]
pub fn is_there(program: &str) -> bool {
    // Joining a whole path to a folder gives the whole path.
    folders(std::env::var_os("PATH").as_deref()).any(|folder| is_program(&folder.join(program)))
}

fn folders(path: Option<&OsStr>) -> impl Iterator<Item = PathBuf> {
    path.map(std::env::split_paths).into_iter().flatten().filter(|dir| dir.is_absolute())
}

fn tools_on(path: Option<&OsStr>) -> Vec<String> {
    let folders: Vec<_> = folders(path).collect();
    let found = |tool: &str| folders.iter().any(|folder| is_program(&folder.join(tool)));
    TOOLS.iter().filter(|tool| found(tool)).map(ToString::to_string).collect()
}

fn is_program(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_is_an_executable_file_on_the_path() {
        let dir = tempfile::tempdir().unwrap();
        for (name, mode) in [("git", 0o755), ("make", 0o644)] {
            std::fs::write(dir.path().join(name), "").unwrap();
            std::fs::set_permissions(dir.path().join(name), std::fs::Permissions::from_mode(mode)).unwrap();
        }
        std::fs::create_dir(dir.path().join("gcc")).unwrap();
        assert_eq!(tools_on(Some(dir.path().as_os_str())), ["git"]);
        assert!(tools_on(None).is_empty());
    }

    #[test]
    fn this_machine_has_an_os_and_processors() {
        let facts = probe();
        assert!(!facts.os.is_empty() && !facts.arch.is_empty() && facts.cores > 0);
    }
}

use super::*;

#[test]
fn regular_files_are_found_sorted_and_hashed() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("b/c")).unwrap();
    fs::write(dir.path().join("b/c/z"), "").unwrap();
    fs::write(dir.path().join("a"), "abc").unwrap();
    let found = collect(dir.path(), 100).unwrap();
    let names: Vec<_> = found.files.iter().map(|it| (it.name.as_str(), it.size)).collect();
    assert_eq!(names, [("a", 3), ("b/c/z", 0)]);
    assert_eq!(found.files[0].sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

#[test]
fn what_is_no_file_is_skipped_with_a_word() {
    let dir = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/etc/passwd", dir.path().join("link")).unwrap();
    std::os::unix::fs::symlink("/etc", dir.path().join("way-out")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(dir.path().join("socket")).unwrap();
    let found = collect(dir.path(), 100).unwrap();
    assert!(found.files.is_empty());
    assert_eq!(
        found.skipped,
        [
            "link is a symbolic link and is not stored",
            "socket is not a regular file and is not stored",
            "way-out is a symbolic link and is not stored"
        ]
    );
}

#[test]
fn a_file_over_the_limit_and_a_name_that_is_no_text_are_named() {
    use std::os::unix::ffi::OsStrExt as _;
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("d")).unwrap();
    fs::write(dir.path().join("d/big"), "12345").unwrap();
    let said = collect(dir.path(), 4).unwrap_err().to_string();
    assert_eq!(said, "d/big has 5 bytes; this node stores files of at most 4 bytes (`artifact_bytes`)");
    fs::write(dir.path().join(std::ffi::OsStr::from_bytes(b"d/\xff")), "").unwrap();
    let said = collect(dir.path(), 100).unwrap_err().to_string();
    assert!(said.starts_with("d/") && said.ends_with("has a name that is not UTF-8"), "{said}");
}

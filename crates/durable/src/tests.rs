use super::*;

/// The names in a folder, in order.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn the_old_content_stays_until_commit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table.parquet");
    write(&path, "old").unwrap();
    let mut pending = PendingFile::create(&path).unwrap();
    pending.write_all(b"new, and longer").unwrap();
    pending.flush().unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"old");
    let both = names(folder.path());
    assert!(both.len() == 2 && both[1].starts_with("table.parquet."), "{both:?}");
    assert!(both[1].ends_with(".unfinished"), "{both:?}");
    pending.commit().unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"new, and longer");
    assert_eq!(names(folder.path()), ["table.parquet"]);
}

#[test]
fn what_is_dropped_or_fails_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    let mut pending = PendingFile::create(&path).unwrap();
    pending.write_all(&[0; 100_000]).unwrap();
    drop(pending);
    assert!(names(folder.path()).is_empty());
    // A file cannot take the place of a folder: the rename fails.
    fs::create_dir(&path).unwrap();
    let error = write(&path, "x").unwrap_err();
    assert_eq!(error.path, path);
    assert!(error.to_string().starts_with(&format!("{}: ", path.display())), "{error}");
    assert_eq!(names(folder.path()), ["state"]);
}

#[test]
fn errors_name_the_file() {
    let folder = tempfile::tempdir().unwrap();
    for path in [folder.path().join("missing/state"), PathBuf::from("/"), PathBuf::new()] {
        let error = write(&path, "x").unwrap_err();
        assert_eq!(error.path, path, "{error}");
        assert!(!error.to_string().contains("unfinished"), "{error}");
    }
}

#[test]
fn a_folder_replaces_another_or_goes_away() {
    let parent = tempfile::tempdir().unwrap();
    let target = parent.path().join("made/features");
    let content =
        |pending: &PendingFolder, text| fs::write(pending.path().join("a"), text).unwrap();
    let first = PendingFolder::create(&target).unwrap();
    content(&first, "first");
    fs::write(first.path().join("only-first"), "").unwrap();
    assert!(!target.exists());
    first.commit().unwrap();
    content(&PendingFolder::create(&target).unwrap(), "dropped");
    assert_eq!(names(target.parent().unwrap()), ["features"]);
    assert_eq!(names(&target), ["a", "only-first"]);
    // What a killed process has left is not part of the next one.
    fs::create_dir_all(parent.path().join("made/features.unfinished/left")).unwrap();
    let second = PendingFolder::create(&target).unwrap();
    content(&second, "second");
    second.commit().unwrap();
    assert_eq!(names(&target), ["a"]);
    assert_eq!(fs::read(target.join("a")).unwrap(), b"second");
}

#[cfg(unix)]
mod unix {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn permissions_are_those_of_the_umask_or_of_the_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("plain"), "").unwrap();
        write(&path("usual"), "").unwrap();
        assert_eq!(mode(&path("usual")), mode(&path("plain")));
        let pending = PendingFile::create_private(&path("private")).unwrap();
        let unfinished =
            names(folder.path()).into_iter().find(|name| name.ends_with(".unfinished"));
        assert_eq!(mode(&path(&unfinished.unwrap())), 0o600);
        pending.commit().unwrap();
        assert_eq!(mode(&path("private")), 0o600);
        // Those of the file that was there do not matter.
        write_private(&path("usual"), "").unwrap();
        assert_eq!(mode(&path("usual")), 0o600);
    }

    #[test]
    fn links_stay_and_devices_are_written_to() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        write(&file, "old").unwrap();
        symlink(&file, &link).unwrap();
        write(&link, "new").unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        let null = folder.path().join("null");
        symlink("/dev/null", &null).unwrap();
        write(&null, "gone").unwrap();
        assert_eq!(fs::read(&null).unwrap(), b"");
        assert_eq!(names(folder.path()), ["file", "link", "null"]);
    }
}

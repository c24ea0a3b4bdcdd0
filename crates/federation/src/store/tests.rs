use super::*;

/// The same contract for both, and what only a disk can suffer.
fn keeps_two_generations(mut store: impl Store) {
    assert_eq!(store.rounds().unwrap(), []);
    assert_eq!(store.run_record().unwrap(), None);
    for round in [10, 20, 30] {
        store.put(Round(round), format!("state {round}").as_bytes()).unwrap();
    }
    assert_eq!(store.rounds().unwrap(), [Round(20), Round(30)]);
    assert_eq!(store.get(Round(30)).unwrap(), b"state 30");
    assert!(matches!(store.get(Round(10)), Err(StoreError::Missing { round: Round(10), .. })));
    store.put(Round(30), b"again").unwrap();
    assert_eq!(store.get(Round(30)).unwrap(), b"again");
    store.forget_after(Round(20)).unwrap();
    assert_eq!(store.rounds().unwrap(), [Round(20)]);
    store.put_run_record(b"record").unwrap();
    assert_eq!(store.run_record().unwrap().unwrap(), b"record");
}

#[test]
fn two_generations_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    keeps_two_generations(FolderStore::open(folder.path()).unwrap());
    keeps_two_generations(MemoryStore::default());
}

#[test]
fn a_damaged_checkpoint_counts_as_absent() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = FolderStore::open(folder.path()).unwrap();
    store.put(Round(1), b"one").unwrap();
    store.put(Round(2), b"two").unwrap();
    let path = folder.path().join("round-00000002.state");
    let mut bytes = fs::read(&path).unwrap();
    for length in 0..bytes.len() {
        fs::write(&path, &bytes[..length]).unwrap();
        assert_eq!(store.rounds().unwrap(), [Round(1)], "cut to {length} bytes");
    }
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&path, &bytes).unwrap();
    assert_eq!(store.rounds().unwrap(), [Round(1)]);
    assert!(matches!(store.get(Round(2)), Err(StoreError::Missing { .. })));
    assert_eq!(store.get(Round(1)).unwrap(), b"one");
}

#[test]
fn what_a_killed_process_was_writing_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = FolderStore::open(folder.path()).unwrap();
    store.put(Round(7), b"seven").unwrap();
    store.put_run_record(b"record").unwrap();
    let left = ["round-00000008.state.a1B2c3.unfinished", "run.json.XyZ012.unfinished"];
    // Others' files, and one that only looks like it.
    let others = ["noise.txt.a1B2c3.unfinished", "round-00000009.state.unfinished", "ledger.jsonl"];
    for name in left.into_iter().chain(others) {
        fs::write(folder.path().join(name), b"half").unwrap();
    }
    store.remove_unfinished().unwrap();
    assert!(left.iter().all(|name| !folder.path().join(name).exists()));
    assert!(others.iter().all(|name| folder.path().join(name).exists()));
    assert_eq!(store.rounds().unwrap(), [Round(7)]);
    assert_eq!(store.run_record().unwrap().unwrap(), b"record");
}

//! Disks that are full.

use super::*;

/// A file on a disk that is full while the spare is there, and that may not let itself be cut.
struct FullDisk {
    content: Arc<Mutex<Vec<u8>>>,
    room: usize,
    spare: PathBuf,
    cuts_fail: Arc<Mutex<bool>>,
}

impl Write for FullDisk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut content = self.content.lock().expect("content");
        let room = if self.spare.exists() { self.room } else { usize::MAX };
        let taken = bytes.len().min(room.saturating_sub(content.len()));
        if taken == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        content.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Lines for FullDisk {
    fn cut(&mut self, length: u64) -> io::Result<()> {
        if *self.cuts_fail.lock().expect("a switch") {
            return Err(io::ErrorKind::Other.into());
        }
        self.content.lock().expect("content").truncate(length as usize);
        Ok(())
    }
    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_leaves_room_for_a_goodbye() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.spare");
    let (content, cuts_fail) = (Arc::<Mutex<Vec<u8>>>::default(), Arc::new(Mutex::new(false)));
    let file = FullDisk { content: content.clone(), room: 10, spare: path.clone(), cuts_fail };
    let spare = Some(Spare::keep(path.clone()).unwrap());
    let mut sink = FileSink { file, length: 0, whole: true, spare };
    sink.append(b"first\n").unwrap();
    let error = sink.append(b"second\n").unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    assert!(!path.exists());
    // Half of the second line was written, and is not there.
    sink.append(b"goodbye\n").unwrap();
    assert_eq!(*content.lock().unwrap(), b"first\ngoodbye\n");
}

/// Half a line that could not be cut off is cut off before the next one.
#[test]
fn a_line_never_follows_half_a_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.spare");
    let (content, cuts_fail) = (Arc::<Mutex<Vec<u8>>>::default(), Arc::new(Mutex::new(true)));
    let file = FullDisk {
        content: content.clone(),
        room: 10,
        spare: path.clone(),
        cuts_fail: cuts_fail.clone(),
    };
    let spare = Some(Spare::keep(path).unwrap());
    let mut sink = FileSink { file, length: 0, whole: true, spare };
    sink.append(b"first\n").unwrap();
    sink.append(b"second\n").unwrap_err();
    sink.append(b"third\n").unwrap_err();
    assert_eq!(*content.lock().unwrap(), b"first\nseco");
    *cuts_fail.lock().unwrap() = false;
    sink.append(b"third\n").unwrap();
    assert_eq!(*content.lock().unwrap(), b"first\nthird\n");
}

#[test]
fn the_spare_is_there_as_long_as_the_ledger_is_open() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.jsonl");
    let ledger = Ledger::open(&path, &PartyId::new("a").unwrap()).unwrap();
    let spare = folder.path().join("ledger.spare");
    assert_eq!(std::fs::metadata(&spare).unwrap().len(), Spare::BYTES as u64);
    drop(ledger);
    assert!(!spare.exists());
}

//! A disk in memory that a crash may catch in the middle of writing a checkpoint.
//!
//! It does what [`FolderStore`](federation::FolderStore) does, in the same steps: a new file appears
//! whole, then the oldest is removed. Clones share the disk, so it outlives a party.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};

use federation::store::GENERATIONS;
use federation::{Store, StoreError};
use protocol::Round;

/// When a party dies that writes its next checkpoint.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Death {
    /// Before the file is there.
    Before,
    /// When it is there, before the oldest is removed.
    Between,
    /// When all is done, before anything more leaves the party.
    After,
}

#[derive(Clone, Default)]
pub struct DiskStore(Arc<Mutex<Content>>);

#[derive(Default)]
struct Content {
    states: BTreeMap<Round, Vec<u8>>,
    record: Option<Vec<u8>>,
    death: Option<Death>,
    /// Since its death nothing that a party does reaches the disk.
    dead: bool,
}

impl DiskStore {
    fn content(&self) -> MutexGuard<'_, Content> {
        self.0.lock().expect("a disk")
    }

    /// The party will die in its next checkpoint.
    pub fn kill(&self, death: Death) {
        self.content().death = Some(death);
    }

    /// It will not die in its next checkpoint.
    pub fn spare(&self) {
        self.content().death = None;
    }

    /// Whether it has died; it will not die again.
    pub fn has_killed(&self) -> bool {
        std::mem::take(&mut self.content().dead)
    }
}

impl Store for DiskStore {
    fn put(&mut self, round: Round, state: &[u8]) -> Result<(), StoreError> {
        let mut content = self.content();
        let death = content.death.take();
        if content.dead || death == Some(Death::Before) {
            content.dead = true;
            return Ok(());
        }
        content.states.insert(round, state.to_vec());
        content.dead = death.is_some();
        while death != Some(Death::Between) && content.states.len() > GENERATIONS {
            content.states.pop_first();
        }
        Ok(())
    }
    fn get(&self, round: Round) -> Result<Vec<u8>, StoreError> {
        let missing = || StoreError::Missing { path: PathBuf::from("(disk)"), round };
        self.content().states.get(&round).cloned().ok_or_else(missing)
    }
    fn rounds(&self) -> Result<Vec<Round>, StoreError> {
        Ok(self.content().states.keys().copied().collect())
    }
    fn forget_after(&mut self, round: Round) -> Result<(), StoreError> {
        let mut content = self.content();
        if !content.dead {
            content.states.retain(|&kept, _| kept <= round);
        }
        Ok(())
    }
    fn put_run_record(&mut self, record: &[u8]) -> Result<(), StoreError> {
        let mut content = self.content();
        if !content.dead {
            content.record = Some(record.to_vec());
        }
        Ok(())
    }
    fn run_record(&self) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.content().record.clone())
    }
}

//! Real recordings for the tables: a folder of pNEUMA files, imported once.
//!
//! All fleet seeds are drawn from one import: each has a copy of the dataset with features of its
//! own.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use durable::PendingFolder;
use sensing::Dataset;
use sensing::pneuma::Session;
use traffic::network_file_hash;
use training::InvalidOption;

use super::datasets::{Datasets, Needed, copy, prepared};
use super::scene::Scene;
use crate::data::import::file_names;
use crate::data::load_network;
use crate::data::pneuma::PneumaImport;

/// What is imported.
pub(super) struct Recordings<'a> {
    /// The folder with the files.
    pub folder: &'a Path,
    /// The network file; the corridor's if none.
    pub network: Option<&'a Path>,
}

impl Recordings<'_> {
    /// Finds or makes the dataset of each fleet seed.
    pub(super) fn prepare_all(
        &self,
        root: &Path,
        seeds: &[u64],
        needed: &Needed,
    ) -> Result<Datasets> {
        std::fs::create_dir_all(root).with_context(|| root.display().to_string())?;
        let imported = self.import(root)?;
        let mut all = Datasets::new();
        for &seed in seeds {
            let folder = root.join(format!("pneuma-fleet-seed-{seed}"));
            if !folder.exists() {
                copy(&imported, &folder)?;
            }
            let dataset = Dataset::open(&folder)?;
            let manifest = Dataset::open(&imported)?.manifest().clone();
            ensure!(
                *dataset.manifest() == manifest,
                "{}: found another dataset than {}; delete the folder, or choose another folder for datasets",
                folder.display(),
                imported.display()
            );
            let usual = Scene::USUAL;
            all.insert((seed, usual), prepared(&dataset, seed, seed, usual, needed)?);
        }
        Ok(all)
    }

    /// Finds or makes the dataset of all files.
    fn import(&self, root: &Path) -> Result<PathBuf> {
        let files = self.files()?;
        let folder = root.join("pneuma");
        if !folder.exists() {
            let pending = PendingFolder::create(&folder)?;
            let report = PneumaImport::new(&files, self.network, pending.path()).import()?.report;
            eprintln!("{report}");
            pending.commit()?;
        }
        let dataset = Dataset::open(&folder)?;
        let found = dataset.manifest().source.get("import").cloned().unwrap_or_default();
        let expected = file_names(&files);
        let network = network_file_hash(&load_network(self.network)?);
        ensure!(
            dataset.manifest().network_file_hash == network,
            "{}: network: found {}, expected {network}; delete the folder to import again, or choose another folder for datasets",
            folder.display(),
            dataset.manifest().network_file_hash
        );
        ensure!(
            found == expected,
            "{}: files: found {found}, expected {expected}; delete the folder to import again, or choose another folder for datasets",
            folder.display()
        );
        Ok(folder)
    }

    /// The files of the folder that are named as recordings are, in order.
    fn files(&self) -> Result<Vec<PathBuf>> {
        let entries =
            std::fs::read_dir(self.folder).with_context(|| self.folder.display().to_string())?;
        let mut files = Vec::new();
        for entry in entries {
            let path = entry.with_context(|| self.folder.display().to_string())?.path();
            if Session::of_file(&path).is_ok() {
                files.push(path);
            }
        }
        files.sort();
        if files.is_empty() {
            let problem = format!(
                "{}: found no file named like 20181024_d1_0830_0900.csv, expected at least three",
                self.folder.display()
            );
            return Err(InvalidOption::new("pneuma", problem).into());
        }
        Ok(files)
    }
}

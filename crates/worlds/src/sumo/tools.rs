//! Finding SUMO's programs.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::SumoError;

/// The programs of a SUMO installation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SumoTools {
    netconvert: PathBuf,
    sumo: PathBuf,
}

/// Where `make sumo` installs it, from the project's folder.
const OWN: &str = ".venv-sumo/bin";

impl SumoTools {
    /// Looks in the folder given (of the programs, or with `bin` in it), and only there; else in
    /// `$SUMO_HOME/bin`, in `.venv-sumo/bin` of this folder or one above it, and on the `PATH`.
    pub fn find(folder: Option<&Path>) -> Result<Self, SumoError> {
        let folders = match folder {
            Some(folder) => vec![folder.to_owned(), folder.join("bin")],
            None => usual_folders(),
        };
        folders.iter().find_map(|folder| Self::within(folder)).ok_or_else(|| {
            let looked = folders.iter().map(|folder| folder.display().to_string());
            SumoError::NotFound { looked: looked.collect::<Vec<_>>().join(", ") }
        })
    }

    /// Such as `1.28.0`.
    pub fn version(&self) -> Result<String, SumoError> {
        let output = Command::new(&self.sumo)
            .arg("--version")
            .output()
            .map_err(|error| SumoError::Start { program: self.sumo.clone(), error })?;
        let text = String::from_utf8_lossy(&output.stdout);
        let words = text.split_whitespace();
        let number = words
            .map(|word| word.trim_start_matches('v'))
            .find(|word| word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.'));
        Ok(number.unwrap_or("unknown").to_owned())
    }

    /// The program that makes networks.
    pub(crate) fn netconvert(&self) -> &Path {
        &self.netconvert
    }

    /// The simulator.
    pub fn sumo(&self) -> &Path {
        &self.sumo
    }

    /// The program that makes networks up, where it lies beside the others.
    pub fn netgenerate(&self) -> Option<PathBuf> {
        let name = format!("netgenerate{}", env::consts::EXE_SUFFIX);
        let beside = self.sumo.with_file_name(&name);
        let programs = [Some(beside), self.home().map(|home| home.join("bin").join(&name))];
        programs.into_iter().flatten().find(|program| program.is_file())
    }

    /// SUMO's home, which holds its scenarios in `tools`: above its programs, or in the packages of the Python that
    /// has installed it.
    pub fn home(&self) -> Option<PathBuf> {
        let above = self.sumo.parent()?.parent()?;
        let mut homes = vec![above.to_owned(), above.join("share").join("sumo")];
        let versions = std::fs::read_dir(above.join("lib")).into_iter().flatten().flatten();
        homes.extend(versions.map(|python| python.path().join("site-packages").join("sumo")));
        homes.into_iter().find(|home| home.join("tools").join("game").is_dir())
    }

    fn within(folder: &Path) -> Option<Self> {
        // The programs are run from other folders: their own must not be relative to this one.
        let folder = std::path::absolute(folder).ok()?;
        let program = |name: &str| {
            let path = folder.join(format!("{name}{}", env::consts::EXE_SUFFIX));
            path.is_file().then_some(path)
        };
        Some(Self { netconvert: program("netconvert")?, sumo: program("sumo")? })
    }
}

fn usual_folders() -> Vec<PathBuf> {
    let mut folders = Vec::new();
    let set = |name| env::var_os(name).filter(|value: &OsString| !value.is_empty());
    if let Some(home) = set("SUMO_HOME") {
        folders.push(PathBuf::from(home).join("bin"));
    }
    if let Ok(here) = env::current_dir() {
        folders.extend(here.ancestors().map(|folder| folder.join(OWN)).filter(|own| own.is_dir()));
    }
    if let Some(path) = set("PATH") {
        folders.extend(env::split_paths(&path));
    }
    folders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_sumo_says_how_to_get_it() {
        let empty = tempfile::tempdir().unwrap();
        let error = SumoTools::find(Some(empty.path())).unwrap_err().to_string();
        assert!(error.contains("make sumo"), "{error}");
        assert!(error.contains(&empty.path().display().to_string()), "{error}");
    }

    #[test]
    fn both_programs_must_be_there() {
        let folder = tempfile::tempdir().unwrap();
        let bin = folder.path().join("bin");
        std::fs::create_dir(&bin).unwrap();
        let file = |name: &str| bin.join(format!("{name}{}", env::consts::EXE_SUFFIX));
        std::fs::write(file("sumo"), "").unwrap();
        let error = SumoTools::find(Some(folder.path())).unwrap_err();
        let SumoError::NotFound { looked } = error else { panic!("{error}") };
        assert_eq!(looked, format!("{}, {}", folder.path().display(), bin.display()));
        std::fs::write(file("netconvert"), "").unwrap();
        let tools = SumoTools::find(Some(folder.path())).unwrap();
        assert_eq!((tools.sumo(), tools.netconvert()), (&*file("sumo"), &*file("netconvert")));
        let here = tempfile::tempdir_in(".").unwrap();
        for name in ["sumo", "netconvert"] {
            std::fs::copy(file(name), here.path().join(file(name).file_name().unwrap())).unwrap();
        }
        let relative = PathBuf::from(here.path().file_name().unwrap());
        assert!(SumoTools::find(Some(&relative)).unwrap().sumo().is_absolute());
    }
}

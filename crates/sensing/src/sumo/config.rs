//! SUMO's configuration files (`.sumocfg`): which net and which additional files a scenario has, and its times.

use std::path::{Path, PathBuf};

use quick_xml::escape::escape;
use traffic::Seconds;

use super::SumoFileError;
use super::xml::XmlFile;

/// What a scenario is made of, as far as a network and a run of it need it.
#[derive(Clone, Debug, PartialEq)]
pub struct SumoConfig {
    /// The configuration itself.
    pub path: PathBuf,
    /// The net.
    pub net: PathBuf,
    /// Additional files, in the order in which SUMO loads them.
    pub additional: Vec<PathBuf>,
    /// When it begins.
    pub begin: Seconds,
    /// When it ends, unless it is when the last vehicle has left.
    pub end: Option<Seconds>,
    /// Length of SUMO's steps.
    pub step: Seconds,
    /// All lights are off, whatever their programs.
    pub lights_off: bool,
    /// All that it says: options and their values as they are written.
    pub options: Vec<(String, String)>,
}

impl SumoConfig {
    /// Reads a configuration; the files that it names lie relative to it.
    pub fn read(path: &Path) -> Result<Self, SumoFileError> {
        let mut xml = XmlFile::open_any(path, "configuration")?;
        let mut config = Self {
            path: path.to_owned(),
            net: PathBuf::new(),
            additional: Vec::new(),
            begin: Seconds::new(0.0),
            end: None,
            step: Seconds::new(1.0),
            lights_off: false,
            options: Vec::new(),
        };
        while let Some(element) = xml.next_element()? {
            let name = String::from_utf8_lossy(element.name()).into_owned();
            // The elements that sort options into groups have no value.
            let value = match element.find("value")? {
                Some(value) => value,
                None => match element.find("v")? {
                    Some(value) => value,
                    None => continue,
                },
            };
            match name.as_str() {
                "net-file" | "net" | "n" => config.net = beside(path, value.trim()),
                "additional-files" | "additional" | "a" => {
                    let files = value.split(',').map(str::trim).filter(|file| !file.is_empty());
                    config.additional = files.map(|file| beside(path, file)).collect();
                }
                "begin" | "b" => config.begin = time(value).unwrap_or(config.begin),
                // Below 0: until the last vehicle has left.
                "end" | "e" => config.end = time(value).filter(|end| end.get() >= 0.0),
                "step-length" => {
                    config.step =
                        time(value).filter(|step| step.get() > 0.0).unwrap_or(config.step);
                }
                "tls.all-off" => {
                    config.lights_off =
                        matches!(value.trim(), "true" | "1" | "yes" | "on" | "t" | "x");
                }
                _ => {}
            }
            config.options.push((name, value.to_owned()));
        }
        if config.net.as_os_str().is_empty() {
            let fault = super::Fault::new("net-file", "nothing", "the name of a net");
            return Err(fault.at(path, 1));
        }
        Ok(config)
    }

    /// The text of a configuration that says the same but for these options, and that may lie anywhere:
    /// what is the name of a file beside this one is made absolute.
    pub fn without(&self, names: &[&str]) -> String {
        let mut text = String::from("<configuration>\n");
        for (name, value) in &self.options {
            if names.contains(&name.as_str()) {
                continue;
            }
            let parts = value.split(',').map(|part| {
                let file = beside(&self.path, part.trim());
                match std::path::absolute(&file) {
                    Ok(absolute) if file.is_file() => absolute.to_string_lossy().into_owned(),
                    _ => part.to_owned(),
                }
            });
            let value = parts.collect::<Vec<_>>().join(",");
            text.push_str(&format!("  <{name} value=\"{}\"/>\n", escape(value.as_str())));
        }
        text + "</configuration>\n"
    }
}

/// SUMO's times: seconds, or hours, minutes and seconds (days before them) with colons. What is none SUMO refuses.
fn time(text: &str) -> Option<Seconds> {
    seconds(text).map(Seconds::new)
}

/// The same as a number.
pub(super) fn seconds(text: &str) -> Option<f64> {
    let (sign, text) = match text.trim().strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text.trim()),
    };
    let fields = text.split(':').map(|field| field.parse().ok().filter(|x: &f64| x.is_finite()));
    let fields = fields.collect::<Option<Vec<f64>>>()?;
    let seconds = match fields[..] {
        [seconds] => seconds,
        [hours, minutes, seconds] => (hours * 60.0 + minutes) * 60.0 + seconds,
        [days, hours, minutes, seconds] => {
            ((days * 24.0 + hours) * 60.0 + minutes) * 60.0 + seconds
        }
        _ => return None,
    };
    Some(sign * seconds)
}

/// A file that another one names, relative to that one's folder.
pub(super) fn beside(file: &Path, name: &str) -> PathBuf {
    file.parent().unwrap_or(Path::new("")).join(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_says_the_same_elsewhere() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.sumocfg");
        let text = "<sumoConfiguration><input><net-file value=\"a&amp;b.net.xml\"/>\
            <a v=\"x.xml, y.xml\"/></input><begin value=\"0:1:0\"/><tls.all-off value=\"true\"/>\
            <osg-view value=\"1\"/></sumoConfiguration>";
        std::fs::write(&path, text).unwrap();
        std::fs::write(folder.path().join("a&b.net.xml"), "").unwrap();
        let config = SumoConfig::read(&path).unwrap();
        assert_eq!(config.additional, ["x.xml", "y.xml"].map(|name| folder.path().join(name)));
        assert_eq!((config.begin, config.lights_off), (Seconds::new(60.0), true));
        let other = folder.path().join("other");
        std::fs::create_dir(&other).unwrap();
        let copy = other.join("b.sumocfg");
        std::fs::write(&copy, config.without(&["osg-view"])).unwrap();
        let copied = SumoConfig::read(&copy).unwrap();
        // The net exists; the additional files do not, and so cannot be told from other values.
        assert_eq!((copied.net, copied.begin), (config.net, config.begin));
        let names: Vec<&str> = copied.options.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["net-file", "a", "begin", "tls.all-off"]);
    }

    #[test]
    fn times_are_those_of_sumo() {
        let seconds = |text| time(text).map(Seconds::get);
        assert_eq!(seconds("25200"), Some(25_200.0));
        assert_eq!(seconds(" 7:00:30.5"), Some(25_230.5));
        assert_eq!(seconds("1:0:0:1"), Some(86_401.0));
        assert_eq!(seconds("-1"), Some(-1.0));
        for none in ["", "7:00", "a", "1:2:3:4:5", "inf"] {
            assert_eq!(seconds(none), None, "{none}");
        }
    }
}

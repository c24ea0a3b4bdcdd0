//! What may change in a network whose links and turns stay: loops, targets and signals.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use sensing::sumo::{ImportOptions, import_net};
use sensing::{Dataset, read_network};
use serde::Deserialize;
use traffic::{LinkId, LoopDetector, Metres, Network, NetworkParts, network_hash, write_network};
use training::InvalidOption;

/// Loops and targets of a network that comes without them.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NetworkEdits {
    /// Loops to add: links by name, each with metres along it (its middle if absent), or a share of all links
    #[arg(long, allow_hyphen_values = true, value_name = "LINK[@METRES][,…]|N%")]
    pub loops: Vec<String>,
    /// Links whose estimates are scored, instead of those of the network
    #[arg(long, allow_hyphen_values = true, value_name = "LINK[,…]")]
    pub targets: Vec<String>,
}

impl NetworkEdits {
    /// The network with these loops and targets.
    pub fn apply(&self, network: Network) -> Result<Network> {
        if self.loops.is_empty() && self.targets.is_empty() {
            return Ok(network);
        }
        let mut parts = network.parts().clone();
        let mut names: HashSet<String> = parts.loops.iter().map(|one| one.name.clone()).collect();
        let place = |one: &LoopDetector| (one.link, one.position.get().to_bits());
        let mut taken: HashSet<(LinkId, u64)> = parts.loops.iter().map(place).collect();
        for text in &self.loops {
            for (link, position) in listed(&network, text, places)?.into_iter().flatten() {
                // A link that was named after a share of all has its loop already.
                if taken.insert((link, position.get().to_bits())) {
                    let name = free_name(&names, &network.link(link).name);
                    names.insert(name.clone());
                    parts.loops.push(LoopDetector { name, link, position });
                }
            }
        }
        if !self.targets.is_empty() {
            let target = |network: &Network, name: &str| named(network, "targets", name);
            let targets = self.targets.iter().map(|text| listed(&network, text, target));
            parts.targets = targets.collect::<Result<Vec<_>, _>>()?.concat();
        }
        Network::new(parts).context("the network with these loops and targets")
    }
}

/// Changes of a network file, or of the network of a dataset.
#[derive(Clone, Debug, clap::Args)]
pub struct NetworkEdit {
    /// The network file, or the folder of a dataset
    pub path: PathBuf,
    #[command(flatten)]
    edits: NetworkEdits,
    /// Take loops, signals and targets of this network file, which has the same links and turns
    #[arg(long, value_name = "FILE", conflicts_with = "additional")]
    pub from: Option<PathBuf>,
    /// SUMO's additional files: their signal programs replace the signals, their induction loops are added
    #[arg(long, value_delimiter = ',', value_name = "FILE[,FILE]", requires = "net")]
    pub additional: Vec<PathBuf>,
    /// With --additional: the SUMO net that the network was imported from
    #[arg(long, value_name = "FILE", requires = "additional")]
    pub net: Option<PathBuf>,
    /// Of a network file: where to write the result, instead of into the file itself
    #[arg(long)]
    pub out: Option<PathBuf>,
}

/// A network that was changed.
pub struct EditedNetwork {
    /// As it is now.
    pub network: Network,
    /// Whether features went because they counted at other loops.
    pub features_deleted: bool,
}

impl NetworkEdit {
    /// Changes the network where it lies.
    pub fn run(&self) -> Result<EditedNetwork> {
        if !self.path.is_dir() {
            let network = self.changed(read_network(&self.path)?)?;
            durable::write(self.out.as_ref().unwrap_or(&self.path), write_network(&network))?;
            return Ok(EditedNetwork { network, features_deleted: false });
        }
        if self.out.is_some() {
            let problem = "found with a dataset, which is changed where it lies, expected with a network file";
            return Err(InvalidOption::new("out", problem).into());
        }
        let mut dataset = Dataset::open(&self.path)?;
        let network = self.changed(dataset.network().clone())?;
        let features_deleted = dataset.replace_network(network.clone())?;
        Ok(EditedNetwork { network, features_deleted })
    }

    fn changed(&self, network: Network) -> Result<Network> {
        let mut parts = network.parts().clone();
        if let Some(file) = &self.from {
            let other = read_network(file)?;
            same_links(&network, &other, file)?;
            let other = other.parts();
            parts.loops = other.loops.clone();
            parts.signals = other.signals.clone();
            parts.targets = other.targets.clone();
        }
        if let Some(file) = &self.net {
            let additional = self.additional.clone();
            let options = ImportOptions { additional, ..ImportOptions::default() };
            let other = import_net(file, &options)?.network;
            same_links(&network, &other, file)?;
            parts.signals = other.signals().to_vec();
            for detector in other.loops() {
                add_loop(&mut parts, detector.clone());
            }
        }
        self.edits.apply(Network::new(parts).context("the changed network")?)
    }
}

fn same_links(network: &Network, other: &Network, file: &Path) -> Result<()> {
    if network_hash(network) != network_hash(other) {
        bail!(
            "{}: found other links or turns, expected those of `{}` with their lengths, lanes, speeds and shapes",
            file.display(),
            network.name()
        );
    }
    Ok(())
}

/// The name of a loop on a link; numbered where the link has one already.
fn free_name(taken: &HashSet<String>, link: &str) -> String {
    let first = format!("loop-{link}");
    let mut numbered = (2..).map(|number| format!("{first}-{number}"));
    match taken.contains(&first) {
        true => numbered.find(|name| !taken.contains(name)).unwrap_or(first),
        false => first,
    }
}

/// Adds a loop unless there is one of its name.
fn add_loop(parts: &mut NetworkParts, detector: LoopDetector) {
    if parts.loops.iter().all(|one| one.name != detector.name) {
        parts.loops.push(detector);
    }
}

/// Reads a list whose items are parted by commas, where names of links may hold commas, too: the
/// longest item that can be read is taken.
fn listed<T>(
    network: &Network,
    text: &str,
    read: impl Fn(&Network, &str) -> Result<T, InvalidOption>,
) -> Result<Vec<T>, InvalidOption> {
    let parts: Vec<&str> = text.split(',').collect();
    let commas = network.links().iter().map(|link| link.name.matches(',').count()).max();
    let most = commas.unwrap_or_default() + 1;
    let (mut items, mut at) = (Vec::new(), 0);
    while at < parts.len() {
        let longest = parts.len().min(at + most);
        let found = (at + 1..=longest)
            .rev()
            .find_map(|end| Some((end, read(network, &parts[at..end].join(",")).ok()?)));
        let Some((end, item)) = found else {
            // Why the shortest is none.
            items.push(read(network, parts[at])?);
            break;
        };
        items.push(item);
        at = end;
    }
    Ok(items)
}

/// Where the loops of one item lie.
fn places(network: &Network, text: &str) -> Result<Vec<(LinkId, Metres)>, InvalidOption> {
    let middle = |link| Metres::new(network.link(link).length.get() / 2.0);
    // A link's own name may hold an @ or end in a %.
    if let Some(link) = network.link_named(text) {
        return Ok(vec![(link, middle(link))]);
    }
    if let Some(percent) = text.strip_suffix('%') {
        let percent = percent.trim().parse().ok().filter(|p: &f64| *p > 0.0 && *p <= 100.0);
        let Some(percent) = percent else {
            let problem = format!("found `{text}`, expected a share above 0% and at most 100%");
            return Err(InvalidOption::new("loops", problem));
        };
        // Evenly over the list of links, whose neighbours are near each other in most files.
        let links = network.links().len();
        let count = ((links as f64 * percent / 100.0).round() as usize).max(1);
        let chosen = (0..count).map(|at| LinkId(((2 * at + 1) * links / (2 * count)) as u32));
        return Ok(chosen.map(|link| (link, middle(link))).collect());
    }
    let Some((name, metres)) = text.rsplit_once('@') else {
        return named(network, "loops", text).map(|link| vec![(link, middle(link))]);
    };
    let link = named(network, "loops", name)?;
    let length = network.link(link).length.get();
    match metres.trim().parse() {
        Ok(metres) if (0.0..=length).contains(&metres) => Ok(vec![(link, Metres::new(metres))]),
        _ => {
            let expected = format!("expected metres along the link, from 0 to {length}");
            Err(InvalidOption::new("loops", format!("found `{text}`, {expected}")))
        }
    }
}

fn named(network: &Network, option: &'static str, name: &str) -> Result<LinkId, InvalidOption> {
    network.link_named(name).ok_or_else(|| {
        let first = &network.links()[0].name;
        let expected = format!("expected a link of `{}`, such as `{first}`", network.name());
        InvalidOption::new(option, format!("found `{name}`, {expected}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edited(loops: &[&str], targets: &[&str]) -> Result<Network> {
        let owned = |list: &[&str]| list.iter().map(ToString::to_string).collect();
        let edits = NetworkEdits { loops: owned(loops), targets: owned(targets) };
        let mut parts = traffic::corridor()?.parts().clone();
        parts.loops.clear();
        edits.apply(Network::new(parts)?)
    }

    #[test]
    fn names_with_commas_are_found_in_lists() {
        let mut parts = traffic::corridor().unwrap().parts().clone();
        parts.links[1].name = "a,b".into();
        parts.links[2].name = "b".into();
        let network = Network::new(parts).unwrap();
        let owned = |list: &[&str]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
        let target = |texts: &[&str]| {
            let edits = NetworkEdits { targets: owned(texts), ..NetworkEdits::default() };
            edits.apply(network.clone()).map(|network| network.targets())
        };
        let (ab, b) = (LinkId(1), LinkId(2));
        assert_eq!(target(&["a,b"]).unwrap(), [ab]);
        assert_eq!(target(&["b,a,b"]).unwrap(), [b, ab]);
        assert_eq!(target(&["a,b,b"]).unwrap(), [ab, b]);
        assert_eq!(target(&["b", "a,b"]).unwrap(), [b, ab]);
        let error = target(&["b,a"]).unwrap_err().to_string();
        assert!(error.contains("found `a`"), "{error}");
        let edits = NetworkEdits { loops: owned(&["a,b@5,b"]), ..NetworkEdits::default() };
        let edited = edits.apply(network.clone()).unwrap();
        assert!(edited.loops().iter().any(|one| (one.link, one.position.get()) == (ab, 5.0)));
        assert!(edited.loops().iter().any(|one| one.name == "loop-b"));
    }

    #[test]
    fn loops_and_targets_are_added() {
        let network = edited(&["E2", "E3@5"], &["E4"]).unwrap();
        let loops: Vec<(&str, f64)> =
            network.loops().iter().map(|one| (one.name.as_str(), one.position.get())).collect();
        let half = network.link(network.link_named("E2").unwrap()).length.get() / 2.0;
        assert_eq!(loops, [("loop-E2", half), ("loop-E3", 5.0)]);
        assert_eq!(network.targets(), [network.link_named("E4").unwrap()]);
        // A quarter of 17 links is 4 links, in the middles of four equal parts of the list.
        let network = edited(&["25%"], &[]).unwrap();
        let links: Vec<u32> = network.loops().iter().map(|one| one.link.0).collect();
        assert_eq!(links, [2, 6, 10, 14]);
        assert_eq!(edited(&["100%", "E1"], &[]).unwrap().loops().len(), 17);
        // Several on one link, and the same place twice.
        let network = edited(&["E2@5,E2@50", "E2@5", "E2"], &[]).unwrap();
        let names: Vec<&str> = network.loops().iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["loop-E2", "loop-E2-2", "loop-E2-3"]);
    }

    #[test]
    fn unknown_links_and_places_are_refused() {
        for (loops, targets, expected) in [
            (&["no"][..], &[][..], "loops: found `no`, expected a link of"),
            (&["E1@-1"], &[], "loops: found `E1@-1`, expected metres along the link, from 0 to"),
            (&["0%"], &[], "loops: found `0%`, expected a share above 0%"),
            (&[], &["no"], "targets: found `no`, expected a link of"),
        ] {
            let error = edited(loops, targets).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}

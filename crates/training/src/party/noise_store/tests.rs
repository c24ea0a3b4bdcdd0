use tempfile::TempDir;

use super::*;

const LINKS: usize = 3;

fn header() -> NoiseHeader {
    let terms = NoiseTerms::default();
    NoiseHeader::new(("fleet", "hash"), (10.0, LINKS, 2), terms).unwrap()
}

fn shape(_: &NoiseHeader) -> Result<NoiseShape> {
    let (sigma, most) = (3.0, 50.0);
    Ok(NoiseShape { grid: NoisedVector::grid(0.0, most, sigma, 1 << 14)?, sigma, most })
}

fn open(folder: &TempDir) -> Result<NoiseStore> {
    NoiseStore::open(&folder.path().join("noise"), header(), shape)
}

/// Totals of some steps, all different.
fn day(steps: std::ops::Range<i64>) -> Vec<(Step, NoisedKind, Vec<f64>)> {
    let of_step = |step| (0..2 * LINKS as i64).map(|at| (step + at) as f64 % 50.0).collect();
    steps.map(|step| (Step(step), NoisedKind::Totals, of_step(step))).collect()
}

fn numbers(store: &mut NoiseStore, steps: std::ops::Range<i64>) -> Vec<Vec<f64>> {
    let of_step = |step| store.values(Step(step), NoisedKind::Totals).unwrap().unwrap();
    steps.map(of_step).collect()
}

/// A second day is added to the first, whose numbers stay; so do those of both when the file is read again, and while
/// another process has it open.
#[test]
fn noise_is_drawn_once_and_a_new_day_extends_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(&folder).unwrap();
    store.draw_missing(day(0..20)).unwrap();
    let first = numbers(&mut store, 0..20);
    let mut other = open(&folder).unwrap();
    other.draw_missing(day(10..40)).unwrap();
    assert_eq!(numbers(&mut other, 0..20), first);
    // The first learns of the second day before it would draw it.
    store.draw_missing(day(0..40)).unwrap();
    assert_eq!(numbers(&mut store, 0..40), numbers(&mut other, 0..40));
    assert_eq!(numbers(&mut open(&folder).unwrap(), 0..40), numbers(&mut other, 0..40));
    assert!(store.values(Step(40), NoisedKind::Totals).unwrap().is_none());
    assert!(store.values(Step(0), NoisedKind::Queues).unwrap().is_none());
    // Each number has noise of its own: those of 240 with less than a grid step are few.
    let raw = day(0..40).into_iter().flat_map(|(_, _, raw)| raw);
    let noised = numbers(&mut store, 0..40).into_iter().flatten();
    let same = raw.zip(noised).filter(|(raw, noised)| (raw - noised).abs() < 1e-9).count();
    // σ is hundreds of steps of the grid.
    assert!(same <= 5, "{same}");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&file_of(&folder.path().join("noise"), "fleet")), 0o600);
    }
}

#[test]
fn noise_of_other_data_or_terms_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    open(&folder).unwrap().draw_missing(day(0..3)).unwrap();
    let error = |header| {
        let store = NoiseStore::open(&folder.path().join("noise"), header, shape);
        store.err().unwrap().to_string()
    };
    let mut other = day(2..3);
    other[0].2[0] += 1.0;
    let found = open(&folder).unwrap().draw_missing(other).unwrap_err().to_string();
    assert!(found.contains("noise of other data in step 2"), "{found}");
    let terms = NoiseTerms { epsilon: 1.0, ..NoiseTerms::default() };
    let found = error(NoiseHeader { terms, ..header() });
    assert!(found.contains("drawn for ε = 8") && found.contains("expected ε = 1"), "{found}");
    let found = error(NoiseHeader { numbers: 3, ..header() });
    assert!(found.contains("2 numbers of each link, expected 3"), "{found}");
    assert!(error(NoiseHeader { links: 4, ..header() }).contains("another network"));
    // Enough noise for more numbers is enough for fewer.
    let folder = tempfile::tempdir().unwrap();
    let more = NoiseHeader { numbers: 3, ..header() };
    NoiseStore::open(&folder.path().join("noise"), more, shape).unwrap();
    open(&folder).unwrap();
}

/// A file that was there and is missing is an error, whether or not its folder is gone, too.
#[test]
fn noise_that_is_missing_is_not_drawn_again() {
    for folder_too in [false, true] {
        let folder = tempfile::tempdir().unwrap();
        open(&folder).unwrap();
        let noise = folder.path().join("noise");
        match folder_too {
            true => std::fs::remove_dir_all(&noise).unwrap(),
            false => std::fs::remove_file(file_of(&noise, "fleet")).unwrap(),
        }
        let found = open(&folder).err().unwrap().to_string();
        assert!(found.contains("noise drawn again would average out"), "{found}");
        // Another fleet's is begun.
        let other = NoiseHeader { fleet: "other".into(), ..header() };
        NoiseStore::open(&noise, other, shape).unwrap();
        let missing = NoiseStore::existing(&noise, &header(), shape).err().unwrap().to_string();
        assert!(missing.contains("fleet.noise"), "{missing}");
    }
}

/// Whatever length of the last record a crash leaves, and zeros behind it, are cut off, and all before stays. Damage to
/// what was whole is an error.
#[test]
fn a_torn_record_is_cut_off_and_a_damaged_one_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = open(&folder).unwrap();
    store.draw_missing(day(0..2)).unwrap();
    let kept = numbers(&mut store, 0..2);
    let path = file_of(&folder.path().join("noise"), "fleet");
    let two = std::fs::read(&path).unwrap();
    store.draw_missing(day(2..3)).unwrap();
    let three = std::fs::read(&path).unwrap();
    for length in two.len() + 1..three.len() {
        std::fs::write(&path, &three[..length]).unwrap();
        let mut store = open(&folder).unwrap();
        assert_eq!(numbers(&mut store, 0..2), kept);
        assert!(store.values(Step(2), NoisedKind::Totals).unwrap().is_none());
        assert_eq!(std::fs::read(&path).unwrap(), two);
    }
    std::fs::write(&path, [&two[..], &[0; 1000]].concat()).unwrap();
    assert_eq!(numbers(&mut open(&folder).unwrap(), 0..2), kept);
    let header = two.iter().position(|byte| *byte == b'\n').unwrap();
    for at in header + 1..two.len() {
        let mut damaged = three.clone();
        damaged[at] ^= 1;
        std::fs::write(&path, damaged).unwrap();
        let found = open(&folder).err().map(|error| error.to_string());
        // A changed kind may ask for a longer record than is left; then nothing before it is lost.
        let found = found.unwrap_or_default();
        assert!(found.contains("found a damaged record"), "{at}: {found}");
    }
}

#[test]
fn files_of_other_formats_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    open(&folder).unwrap();
    let path = file_of(&folder.path().join("noise"), "fleet");
    std::fs::write(&path, "{\"format\":2,\"fingerprint\":\"\"}\n").unwrap();
    let found = open(&folder).err().unwrap().to_string();
    assert!(found.contains("found noise of format 2, expected 3"), "{found}");
    std::fs::write(&path, vec![b'x'; 10_000]).unwrap();
    let found = open(&folder).err().unwrap();
    assert!(found.to_string().contains("expected a line that says what was noised"), "{found}");
}

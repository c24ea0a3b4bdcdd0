use super::*;
use crate::{Adam, Decay, Layer, Linear, Sgd};

fn example() -> (Layout, Checkpoint) {
    let layout = Linear::new(1, 2, 3).layout();
    let mut checkpoint = Checkpoint::new("test");
    checkpoint.put_parameters("model", &layout, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]);
    (layout, checkpoint)
}

fn bytes_of(checkpoint: &Checkpoint) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.safetensors");
    checkpoint.save(&path).unwrap();
    // Nothing but the file itself is left behind.
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    std::fs::read(path).unwrap()
}

fn parse(bytes: &[u8], kind: &str) -> Result<Checkpoint, CheckpointError> {
    Checkpoint::parse(bytes, Path::new("x"), kind)
}

#[test]
fn optimiser_goes_on_where_it_was() {
    let mut adam = Adam::new(2, Decay::InGradient(0.1));
    let mut parameters = [1.0, 2.0];
    adam.update(0.1, &mut parameters, &[0.5, -0.5]);
    let mut checkpoint = Checkpoint::new("test");
    checkpoint.put_optimiser("adam", &adam);
    let read = parse(&bytes_of(&checkpoint), "test").unwrap();
    let mut restored = Adam::new(2, Decay::InGradient(0.1));
    read.restore_optimiser("adam", &mut restored).unwrap();
    let mut again = parameters;
    adam.update(0.1, &mut parameters, &[1.0, 1.0]);
    restored.update(0.1, &mut again, &[1.0, 1.0]);
    assert_eq!(parameters, again);

    // Another sort, or another size: refused.
    let error = read.restore_optimiser("adam", &mut Sgd::new(2, 0.9, Decay::None)).unwrap_err();
    assert_eq!(error.to_string(), "x: no tensor adam.velocity");
    let error = read.restore_optimiser("adam", &mut Adam::new(3, Decay::None)).unwrap_err();
    assert_eq!(error.to_string(), "x: tensor adam.mean has shape [2], expected [3]");
    let error = read.restore_optimiser("sgd", &mut restored).unwrap_err();
    assert_eq!(
        error.to_string(),
        "x: metadata entry sgd.steps is missing, expected a whole number"
    );
}

#[test]
fn same_contents_give_the_same_bytes() {
    let (_, mut checkpoint) = example();
    checkpoint.set("b", 1);
    checkpoint.set("a", "two");
    assert_eq!(bytes_of(&checkpoint), bytes_of(&checkpoint.clone()));
}

#[test]
fn every_mismatch_has_its_message() {
    let (layout, checkpoint) = example();
    let bytes = bytes_of(&checkpoint);
    let read = parse(&bytes, "test").unwrap();
    assert!(read.parameters("model", &layout).is_ok());
    let message = |result: Result<Vec<f32>, CheckpointError>| result.unwrap_err().to_string();
    assert_eq!(
        message(read.parameters("model", &Linear::new(1, 3, 2).layout())),
        "x: tensor model.weight has shape [2, 3], expected [3, 2]"
    );
    assert_eq!(message(read.parameters("other", &layout)), "x: no tensor other.weight");
    let mut smaller = Layout::default();
    smaller.add("weight", &[2, 3]);
    assert_eq!(
        message(read.parameters("model", &smaller)),
        "x: tensor model.bias does not belong to this model"
    );
    let error = parse(&bytes, "live").unwrap_err();
    assert_eq!(error.to_string(), "x: kind is \"test\", expected \"live\"");

    let mut newer = checkpoint.clone();
    newer.set("version", 2);
    let error = parse(&bytes_of(&newer), "test").unwrap_err();
    assert_eq!(error.to_string(), "x: version is 2, expected 1");

    let foreign = safetensors::serialize(Vec::<(&str, TensorView<'_>)>::new(), None).unwrap();
    let error = parse(&foreign, "test").unwrap_err();
    assert_eq!(error.to_string(), "x: format is missing, expected \"fedtse-checkpoint\"");
}

#[test]
fn files_cut_off_anywhere_are_refused() {
    let bytes = bytes_of(&example().1);
    for length in 0..bytes.len() {
        let error = parse(&bytes[..length], "test").unwrap_err();
        assert!(matches!(error, CheckpointError::Broken { .. }), "{length}: {error}");
    }
}

#[test]
fn numbers_that_are_none_are_neither_written_nor_read() {
    let mut checkpoint = Checkpoint::new("test");
    checkpoint.put("a", &[2], &[0.0, f32::NAN]);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x");
    let error = checkpoint.save(&path).unwrap_err();
    assert!(error.to_string().ends_with("a holds a value that is not finite, at place 1"));
    assert!(!path.exists());

    let mut bytes = bytes_of(&{
        let mut fine = Checkpoint::new("test");
        fine.put("a", &[2], &[0.0, 1.0]);
        fine
    });
    let end = bytes.len();
    bytes[end - 4..].copy_from_slice(&f32::INFINITY.to_le_bytes());
    let error = parse(&bytes, "test").unwrap_err();
    assert!(matches!(error, CheckpointError::NotFinite { place: 1, .. }), "{error}");
}

#[test]
fn a_folder_that_is_not_there_is_named() {
    let error = example().1.save(Path::new("/nowhere/at/all")).unwrap_err();
    assert!(error.to_string().starts_with("/nowhere/at/all: "), "{error}");
}

proptest::proptest! {
    /// Whatever happens to the bytes: an error or a checkpoint, never a panic.
    #[test]
    fn damaged_files_are_refused_or_read(
        damage in proptest::collection::vec((0usize..4096, 0u8..=255), 1..6),
    ) {
        // Written once: flushing a file to disk for each case takes seconds.
        static WHOLE: std::sync::LazyLock<Vec<u8>> =
            std::sync::LazyLock::new(|| bytes_of(&example().1));
        let mut bytes = WHOLE.clone();
        let len = bytes.len();
        for (place, value) in damage {
            bytes[place % len] = value;
        }
        if let Ok(read) = parse(&bytes, "test") {
            for (shape, values) in read.tensors.values() {
                proptest::prop_assert_eq!(shape.iter().product::<usize>(), values.len());
            }
        }
    }
}

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
    let whole: Vec<f32> = (1..=9).map(|value| value as f32).collect();
    assert_eq!(read.parameters("model", &layout).unwrap(), whole);
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
fn entries_and_tensors_are_replaced_and_looked_up_by_name() {
    let mut checkpoint = Checkpoint::new("test");
    assert_eq!(checkpoint.get("links"), None);
    checkpoint.set("links", 3);
    checkpoint.set("links", 17);
    assert_eq!(checkpoint.count("links").unwrap(), 17);
    checkpoint.put("a", &[2], &[1.0, 2.0]);
    checkpoint.put("a", &[1, 3], &[4.0, 5.0, 6.0]);
    let read = parse(&bytes_of(&checkpoint), "test").unwrap();
    assert_eq!(read.tensor("a", &[1, 3]).unwrap(), [4.0, 5.0, 6.0]);
    let error = read.tensor("a", &[3]).unwrap_err().to_string();
    assert_eq!(error, "x: tensor a has shape [1, 3], expected [3]");
    assert_eq!(read.tensor("b", &[3]).unwrap_err().to_string(), "x: no tensor b");
    assert_eq!(
        read.broken(&"seven links").to_string(),
        "x: not a whole safetensors file: seven links"
    );
}

#[test]
fn counts_are_whole_numbers_from_zero_on() {
    let mut checkpoint = Checkpoint::new("test");
    for (value, found) in [
        (Value::from(-1), "-1"),
        (Value::from(1.5), "1.5"),
        (Value::from("17"), "\"17\""),
        (Value::Null, "null"),
    ] {
        checkpoint.set("links", value);
        let error = checkpoint.count("links").unwrap_err().to_string();
        let expected = format!(": metadata entry links is {found}, expected a whole number");
        assert_eq!(error, expected);
    }
    checkpoint.set("links", u64::MAX);
    let read = parse(&bytes_of(&checkpoint), "test").unwrap();
    assert_eq!(read.count("links").unwrap(), u64::MAX);
}

#[test]
fn tensors_of_other_numbers_and_broken_metadata_are_refused() {
    let entries = |text: &str| Some(HashMap::from([(KEY.to_owned(), text.to_owned())]));
    let sound = r#"{"format":"fedtse-checkpoint","version":1,"kind":"test"}"#;
    let view = TensorView::new(Dtype::F64, vec![1], &[0; 8]).unwrap();
    let bytes = safetensors::serialize([("a", view)], entries(sound)).unwrap();
    let error = parse(&bytes, "test").unwrap_err().to_string();
    assert_eq!(error, "x: not a whole safetensors file: tensor a is F64, expected F32");
    let none = || Vec::<(&str, TensorView<'_>)>::new();
    for text in ["", "[1]", "{\"format\":"] {
        let bytes = safetensors::serialize(none(), entries(text)).unwrap();
        let error = parse(&bytes, "test").unwrap_err().to_string();
        assert!(error.starts_with("x: not a whole safetensors file: metadata neural: "), "{error}");
    }
    let other = safetensors::serialize(none(), entries("{\"format\":7}")).unwrap();
    let error = parse(&other, "test").unwrap_err().to_string();
    assert_eq!(error, "x: format is 7, expected \"fedtse-checkpoint\"");
}

#[test]
fn an_optimiser_that_does_not_fit_is_left_as_it_was() {
    let mut adam = Adam::new(2, Decay::None);
    adam.update(0.1, &mut [0.0; 2], &[1.0, 2.0]);
    let mut checkpoint = Checkpoint::new("test");
    checkpoint.put_optimiser("adam", &adam);
    // The first of both vectors is there and fits, the second does not.
    checkpoint.put("adam.square", &[3], &[0.0; 3]);
    let mut other = Adam::new(2, Decay::None);
    let error = checkpoint.restore_optimiser("adam", &mut other).unwrap_err().to_string();
    assert_eq!(error, ": tensor adam.square has shape [3], expected [2]");
    assert_eq!(other.steps(), 0);
    assert!(other.state().iter().all(|(_, values)| *values == [0.0; 2]));
}

#[test]
fn a_file_is_replaced_as_a_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model");
    let (layout, first) = example();
    first.save(&path).unwrap();
    let mut second = Checkpoint::new("test");
    second.put("other", &[1], &[1.0]);
    second.save(&path).unwrap();
    let read = Checkpoint::load(&path, "test").unwrap();
    assert_eq!(read.tensor("other", &[1]).unwrap(), [1.0]);
    let error = read.parameters("model", &layout).unwrap_err();
    assert!(
        matches!(error, CheckpointError::Missing { .. }),
        "nothing of the first is left: {error}"
    );
    let error = Checkpoint::load(&folder.path().join("none"), "test").unwrap_err();
    assert!(matches!(error, CheckpointError::Io { .. }), "{error}");
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

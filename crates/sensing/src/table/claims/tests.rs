use std::sync::Arc;

use parquet::basic::{Encoding, ZstdLevel};
use parquet::data_type::ByteArrayType;
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder, WriterVersion};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use super::*;
use crate::table::{Column, ColumnKind, TableReader};

/// Writes a column `name` of texts.
fn texts(values: &[&str], optional: bool, properties: WriterPropertiesBuilder) -> Vec<u8> {
    let repetition = if optional { "optional" } else { "required" };
    let schema = format!("message m {{ {repetition} binary name (STRING); }}");
    let schema = Arc::new(parse_message_type(&schema).expect("a schema"));
    let values: Vec<ByteArray> = values.iter().map(|&text| ByteArray::from(text)).collect();
    let levels = optional.then(|| vec![1; values.len()]);
    let mut bytes = Vec::new();
    let mut writer =
        SerializedFileWriter::new(&mut bytes, schema, Arc::new(properties.build())).expect("room");
    let mut group = writer.next_row_group().expect("a row group");
    let mut column = group.next_column().expect("a column").expect("one more");
    let typed = column.typed::<ByteArrayType>();
    typed.write_batch(&values, levels.as_deref(), None).expect("room");
    column.close().expect("room");
    group.close().expect("room");
    writer.close().expect("room");
    bytes
}

/// Reads the first column as text, and goes through the others.
fn read(bytes: &[u8]) -> Result<Vec<String>, String> {
    let file = tempfile::Builder::new().prefix("table").tempfile().expect("a file");
    std::fs::write(file.path(), bytes).expect("room");
    let all = || {
        let mut reader = TableReader::open(file.path())?;
        for name in reader.columns() {
            reader
                .want(&name, ColumnKind::Text)
                .or_else(|_| reader.want(&name, ColumnKind::F64))?;
        }
        let (mut all, mut batch) = (Vec::new(), Vec::new());
        while reader.next_batch(1000, &mut batch)? > 0 {
            if let [Column::Text(texts), ..] = &mut batch[..] {
                all.append(texts);
            }
        }
        Ok(all)
    };
    all().map_err(|error: TableError| error.to_string())
}

fn refusal(bytes: &[u8], part: &str) {
    let error = read(bytes).expect_err(part);
    assert!(error.contains(part), "found \"{error}\", expected \"{part}\"");
}

fn plain() -> WriterPropertiesBuilder {
    WriterProperties::builder().set_dictionary_enabled(false)
}

/// Puts `to` in the place of `from`, which is there once.
fn patched(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let places: Vec<usize> =
        (0..bytes.len() - from.len()).filter(|&at| bytes[at..].starts_with(from)).collect();
    assert_eq!(places.len(), 1, "{from:x?} in {bytes:x?}");
    let at = places[0];
    [&bytes[..at], to, &bytes[at + from.len()..]].concat()
}

/// The inputs that fuzzing found, or that were made after what it found: the first two made the
/// decoder ask for 2 GiB and 64 GiB, the third kept it busy for more than a minute.
#[test]
fn claims_that_would_take_all_memory_or_time_are_refused() {
    refusal(
        include_bytes!("../../../../../fuzz/seeds/parquet_trajectories/page_of_2_gib.parquet"),
        "column `vehicle`: found a page size of 2147483647, expected 0 to 418",
    );
    refusal(
        include_bytes!("../../../../../fuzz/seeds/parquet_trajectories/dictionary_of_2_g.parquet"),
        "column `vehicle`: found a dictionary size of 2147483647, expected 0 to 2",
    );
    refusal(
        include_bytes!(
            "../../../../../fuzz/seeds/parquet_trajectories/list_of_246_million.parquet"
        ),
        "column `lat`: found a list of 245904763, expected at most 82",
    );
}

#[test]
fn every_codec_page_version_and_encoding_of_honest_files_is_read() {
    let names: Vec<String> = (0..5000).map(|row| format!("vehicle {}", row % 1700)).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let zstd = Compression::ZSTD(ZstdLevel::default());
    for codec in [Compression::UNCOMPRESSED, Compression::SNAPPY, zstd] {
        for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
            for optional in [false, true] {
                let small = plain().set_compression(codec).set_writer_version(version);
                let small = small.set_data_page_row_count_limit(700).set_write_batch_size(100);
                for properties in [
                    small.clone().set_encoding(Encoding::PLAIN),
                    small.clone().set_encoding(Encoding::DELTA_LENGTH_BYTE_ARRAY),
                    small.clone().set_dictionary_enabled(true).set_encoding(Encoding::PLAIN),
                ] {
                    assert_eq!(read(&texts(&names, optional, properties)).unwrap(), names);
                }
            }
        }
    }
}

/// The densest that the codecs can: one text of one letter. The page sizes that are honest there
/// must not be taken for lies.
#[test]
fn repetitive_pages_are_within_what_codecs_can_do() {
    let text = "a".repeat(1024);
    for codec in [Compression::SNAPPY, Compression::ZSTD(ZstdLevel::default())] {
        let bytes = texts(&vec![text.as_str(); 2000], false, plain().set_compression(codec));
        assert_eq!(read(&bytes).unwrap().len(), 2000, "{codec:?}");
    }
}

#[test]
fn texts_that_claim_to_be_more_than_the_page_has_are_refused() {
    let delta = || plain().set_encoding(Encoding::DELTA_LENGTH_BYTE_ARRAY);
    for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
        for optional in [false, true] {
            let bytes = texts(&["ab", "cd", "ef"], optional, delta().set_writer_version(version));
            // Blocks of 128, 4 miniblocks, 3 values, the first of length 2.
            let lying = patched(&bytes, &[0x80, 1, 4, 3, 4], &[0x80, 1, 4, 4, 4]);
            refusal(
                &lying,
                "column `name`: Parquet error: found 4 texts in a page, expected at most 3",
            );
        }
    }
}

/// One long text in a dictionary, or in front of short ones, could fill memory from every row.
#[test]
fn texts_that_could_be_repeated_without_end_are_refused() {
    let long = "x".repeat(1025);
    let bytes = texts(&[&long, &long], false, WriterProperties::builder());
    refusal(
        &bytes,
        "column `name`: Parquet error: found a text of 1025 bytes, expected at most 1024",
    );
    let prefixes = plain().set_encoding(Encoding::DELTA_BYTE_ARRAY);
    refusal(
        &texts(&["abc", "abd"], false, prefixes),
        "column `name`: found encoding DELTA_BYTE_ARRAY, expected PLAIN, RLE_DICTIONARY",
    );
}

/// A million rows of the same text have less than two kilobytes.
#[test]
fn rows_made_of_nothing_are_refused() {
    let bytes = texts(&vec!["a"; 1_000_000], false, WriterProperties::builder());
    assert!(bytes.len() < 3000, "{}", bytes.len());
    refusal(&bytes, "rows: found 1000000 in a row group, expected 0 to ");
}

#[test]
fn footers_that_are_longer_than_the_file_are_refused() {
    let mut bytes = texts(&["a"], false, plain());
    let (length, at) = (bytes.len(), bytes.len() - 8);
    bytes[at..at + 4].copy_from_slice(&(length as u32).to_le_bytes());
    let expected = format!("footer: found {length} bytes, expected at most {}", length - 12);
    refusal(&bytes, &expected);
}

#[test]
fn schemas_are_trees_of_bounded_depth() {
    let checked = |children: &[i64]| {
        check_schema(children).map_err(|wrong| format!("{}, {}", wrong.found, wrong.expected))
    };
    assert_eq!(checked(&[3, 0, 0, 0]), Ok(()));
    assert_eq!(checked(&[2, 2, 0, 0, 0]), Ok(()));
    assert_eq!(checked(&[4, 0, 0, 0]), Err("a group of 4 columns, 0 to 3".into()));
    assert_eq!(checked(&[-1, 0]), Err("a group of -1 columns, 0 to 1".into()));
    let chain = |groups: usize| [vec![1; groups], vec![0]].concat();
    assert_eq!(checked(&chain(MAX_NESTING)), Ok(()));
    let expected =
        format!("columns in more groups, at most {MAX_NESTING} groups within each other");
    assert_eq!(checked(&chain(MAX_NESTING + 1)), Err(expected));
    // Groups side by side are not within each other.
    let flat: Vec<i64> = std::iter::once(100).chain([1, 0].repeat(100)).collect();
    assert_eq!(checked(&flat), Ok(()));
    assert_eq!(checked(&[]), Ok(()));
}

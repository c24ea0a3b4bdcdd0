use super::*;

fn columns() -> Vec<Column> {
    vec![
        Column::I64(vec![-3, 0, 7]),
        Column::F64(vec![0.5, -1e300, 2.0]),
        Column::OptionalF64(vec![Some(1.0), None, Some(3.0)]),
        Column::Text(vec!["E1".into(), "Σταδίου".into(), String::new()]),
        Column::I32(vec![1, 2, 3]),
        Column::F32(vec![0.25, 0.5, 0.75]),
    ]
}

const SCHEMA: [(&str, ColumnKind); 6] = [
    ("step", ColumnKind::I64),
    ("time", ColumnKind::F64),
    ("speed", ColumnKind::OptionalF64),
    ("name", ColumnKind::Text),
    ("link", ColumnKind::I32),
    ("share", ColumnKind::F32),
];

fn written(folder: &Path) -> PathBuf {
    let path = folder.join("table.parquet");
    let mut writer = TableWriter::create(&path, &SCHEMA).unwrap();
    writer.write(&columns()).unwrap();
    writer.write(&columns()).unwrap();
    writer.finish().unwrap();
    path
}

#[test]
fn a_table_reads_back_as_written_in_any_batch_size() {
    let folder = tempfile::tempdir().unwrap();
    let path = written(folder.path());
    for batch in [1, 2, 100] {
        let mut reader = TableReader::open(&path).unwrap();
        assert_eq!(reader.rows(), 6);
        for (name, kind) in SCHEMA {
            reader.want(name, kind).unwrap();
        }
        let (mut columns_read, mut rows) = (Vec::new(), 0);
        let mut steps = Vec::new();
        loop {
            let got = reader.next_batch(batch, &mut columns_read).unwrap();
            if got == 0 {
                break;
            }
            rows += got;
            let Column::I64(step) = &columns_read[0] else { panic!() };
            steps.extend_from_slice(step);
            if batch == 100 {
                assert_eq!(columns_read, columns());
            }
        }
        assert_eq!(rows, 6);
        assert_eq!(steps, [-3, 0, 7, -3, 0, 7]);
    }
}

#[test]
fn numbers_and_names_are_converted_where_nothing_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let mut reader = TableReader::open(&written(folder.path())).unwrap();
    reader.want("link", ColumnKind::Text).unwrap();
    reader.want("link", ColumnKind::F64).unwrap();
    reader.want("share", ColumnKind::F64).unwrap();
    let mut read = Vec::new();
    reader.next_batch(10, &mut read).unwrap();
    assert_eq!(read[0], Column::Text(vec!["1".into(), "2".into(), "3".into()]));
    assert_eq!(read[1], Column::F64(vec![1.0, 2.0, 3.0]));
    assert_eq!(read[2], Column::F64(vec![0.25, 0.5, 0.75]));
}

#[test]
fn what_cannot_be_read_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = written(folder.path());
    let mut reader = TableReader::open(&path).unwrap();
    let missing = reader.want("lane", ColumnKind::I32).unwrap_err().to_string();
    assert!(
        missing.contains("table.parquet: column `lane`: not found, expected one of: step, time")
    );
    let wrong = reader.want("name", ColumnKind::F64).unwrap_err().to_string();
    assert!(wrong.contains("column `name`: found type BYTE_ARRAY, expected a number"), "{wrong}");
    reader.want("speed", ColumnKind::F64).unwrap();
    let null = reader.next_batch(10, &mut Vec::new()).unwrap_err().to_string();
    assert!(null.contains("row 2, column `speed`: found no value, expected one"), "{null}");
}

/// A file cut off anywhere, or with a byte changed anywhere, is read or refused, never a panic.
#[test]
fn damaged_files_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = written(folder.path());
    let whole = std::fs::read(&path).unwrap();
    let broken = folder.path().join("broken.parquet");
    let read = |bytes: &[u8]| -> Result<usize, TableError> {
        std::fs::write(&broken, bytes).unwrap();
        let mut reader = TableReader::open(&broken)?;
        for (name, kind) in SCHEMA {
            reader.want(name, kind)?;
        }
        let (mut rows, mut columns) = (0, Vec::new());
        loop {
            match reader.next_batch(2, &mut columns)? {
                0 => return Ok(rows),
                got => rows += got,
            }
        }
    };
    for length in (0..whole.len()).step_by(7) {
        assert!(read(&whole[..length]).is_err(), "cut at {length}");
    }
    for at in (0..whole.len()).step_by(3) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x55;
        let _ = read(&bytes);
    }
}

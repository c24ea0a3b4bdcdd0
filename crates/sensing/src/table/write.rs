//! Writing tables.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use durable::PendingFile;
use parquet::basic::{Compression, Repetition, Type as Physical, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, FloatType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{ColumnPath, Type};

use super::{Column, ColumnKind, TableError, damaged};

/// What matters more about a table: its size or the time it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// By Zstandard: for records, which are kept.
    Small,
    /// By Snappy: for what can be made again.
    Fast,
}

/// Writes a table under a temporary name, and gives it its own when it is whole.
pub struct TableWriter {
    path: PathBuf,
    kinds: Vec<ColumnKind>,
    writer: SerializedFileWriter<PendingFile>,
}

impl TableWriter {
    /// Starts a small table with the given columns.
    pub fn create(path: &Path, columns: &[(&str, ColumnKind)]) -> Result<Self, TableError> {
        Self::create_packed(path, columns, Packing::Small)
    }

    /// Starts a table with the given columns.
    pub(crate) fn create_packed(
        path: &Path,
        columns: &[(&str, ColumnKind)],
        packing: Packing,
    ) -> Result<Self, TableError> {
        let file = PendingFile::create(path)?;
        let damaged = |error: ParquetError| failed(path, error);
        let fields = columns.iter().map(|&(name, kind)| field(name, kind).map(Arc::new));
        let schema = Type::group_type_builder("fedtse")
            .with_fields(fields.collect::<Result<_, _>>().map_err(damaged)?)
            .build()
            .map_err(damaged)?;
        let compression = match packing {
            Packing::Small => Compression::ZSTD(ZstdLevel::try_new(1).map_err(damaged)?),
            Packing::Fast => Compression::SNAPPY,
        };
        // Smallest and largest values help those who look for a few rows in a large file.
        let statistics = match packing {
            Packing::Small => EnabledStatistics::Page,
            Packing::Fast => EnabledStatistics::None,
        };
        let mut properties = WriterProperties::builder()
            .set_compression(compression)
            .set_statistics_enabled(statistics)
            .set_dictionary_enabled(false);
        for &(name, _) in columns.iter().filter(|&&(_, kind)| kind == ColumnKind::Text) {
            // Of numbers, compression alone makes less, and faster.
            properties = properties.set_column_dictionary_enabled(ColumnPath::from(name), true);
        }
        let properties = properties.build();
        let writer = SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties))
            .map_err(damaged)?;
        let kinds = columns.iter().map(|&(_, kind)| kind).collect();
        Ok(Self { path: path.to_owned(), kinds, writer })
    }

    /// Appends rows as one row group; a few hundred thousand rows at a time serve readers best.
    pub fn write(&mut self, columns: &[Column]) -> Result<(), TableError> {
        debug_assert_eq!(columns.iter().map(Column::kind).collect::<Vec<_>>(), self.kinds);
        let failed = |error: ParquetError| failed(&self.path, error);
        let mut group = self.writer.next_row_group().map_err(failed)?;
        for column in columns {
            write_column(&mut group, column).map_err(failed)?;
        }
        group.close().map_err(failed)?;
        Ok(())
    }

    /// Completes the file.
    pub fn finish(self) -> Result<(), TableError> {
        let file = self.writer.into_inner().map_err(|error| failed(&self.path, error))?;
        Ok(file.commit()?)
    }
}

/// An error of the file system, such as a full disk, is not one of the format.
fn failed(path: &Path, error: ParquetError) -> TableError {
    match error {
        ParquetError::External(cause) if cause.is::<io::Error>() => {
            let source = cause.downcast().map_or_else(io::Error::other, |source| *source);
            TableError::Io { path: path.to_owned(), source }
        }
        error => damaged(path, &error),
    }
}

fn field(name: &str, kind: ColumnKind) -> Result<Type, ParquetError> {
    let (physical, repetition) = match kind {
        ColumnKind::I32 => (Physical::INT32, Repetition::REQUIRED),
        ColumnKind::I64 => (Physical::INT64, Repetition::REQUIRED),
        ColumnKind::F32 => (Physical::FLOAT, Repetition::REQUIRED),
        ColumnKind::F64 => (Physical::DOUBLE, Repetition::REQUIRED),
        ColumnKind::OptionalF64 => (Physical::DOUBLE, Repetition::OPTIONAL),
        ColumnKind::Text => (Physical::BYTE_ARRAY, Repetition::REQUIRED),
    };
    let mut builder = Type::primitive_type_builder(name, physical).with_repetition(repetition);
    if kind == ColumnKind::Text {
        builder = builder.with_logical_type(Some(parquet::basic::LogicalType::String));
    }
    builder.build()
}

fn write_column(
    group: &mut SerializedRowGroupWriter<'_, PendingFile>,
    column: &Column,
) -> Result<(), ParquetError> {
    let Some(mut writer) = group.next_column()? else {
        return Err(ParquetError::General("more columns than the schema has".into()));
    };
    match column {
        Column::I32(values) => writer.typed::<Int32Type>().write_batch(values, None, None)?,
        Column::I64(values) => writer.typed::<Int64Type>().write_batch(values, None, None)?,
        Column::F32(values) => writer.typed::<FloatType>().write_batch(values, None, None)?,
        Column::F64(values) => writer.typed::<DoubleType>().write_batch(values, None, None)?,
        Column::OptionalF64(values) => {
            let levels: Vec<i16> = values.iter().map(|value| i16::from(value.is_some())).collect();
            let present: Vec<f64> = values.iter().flatten().copied().collect();
            writer.typed::<DoubleType>().write_batch(&present, Some(&levels), None)?
        }
        Column::Text(values) => {
            let bytes: Vec<ByteArray> =
                values.iter().map(|text| ByteArray::from(text.as_bytes().to_vec())).collect();
            writer.typed::<ByteArrayType>().write_batch(&bytes, None, None)?
        }
    };
    writer.close()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_that_is_not_finished_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("table.parquet");
        let mut writer = TableWriter::create(&path, &[("step", ColumnKind::I64)]).unwrap();
        writer.write(&[Column::I64(vec![1, 2, 3])]).unwrap();
        drop(writer);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_full_disk_is_no_damaged_file() {
        let full = io::Error::from(io::ErrorKind::StorageFull);
        let error = failed(Path::new("t.parquet"), ParquetError::from(full));
        let TableError::Io { source, .. } = error else { panic!("{error}") };
        assert_eq!(source.kind(), io::ErrorKind::StorageFull);
        let other = failed(Path::new("t.parquet"), ParquetError::General("odd".into()));
        assert!(matches!(other, TableError::Damaged { .. }), "{other}");
    }
}

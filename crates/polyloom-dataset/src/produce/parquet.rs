//! Rows as Parquet: row groups of a size that viewers like, with a page index.
//!
//! Rows are taken apart as Dremel does: each leaf of the schema is a column of values, and of levels that say how much
//! of the path to the leaf is there and where lists begin anew (Melnik and others, "Dremel: interactive analysis of
//! web-scale datasets", 2010).

use crate::row::all_columns;
use parquet::basic::{Compression, Repetition, Type as Physical};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::reader::SerializedFileReader;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::{Type, TypePtr};
use serde_json::Value;
use std::fs::File;
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

/// Rows of a row group, since one is shown by a viewer at a time, and in memory while it is written.
const ROWS_PER_GROUP: usize = 1000;

/// The columns' types. What is `metadata` follows [`crate::RowMetadata`].
fn schema(columns: &[String]) -> io::Result<TypePtr> {
    let mut text = String::from("message row {\n");
    for name in all_columns().filter(|name| columns.iter().any(|column| column == name)) {
        text.push_str(&match name {
            "id" | "kernel_name" | "category" | "python_source" | "device" => {
                format!("  required binary {name} (STRING);\n")
            }
            "metadata" => METADATA.to_owned(),
            _ => format!("  optional binary {name} (STRING);\n"),
        });
    }
    text.push('}');
    parse_message_type(&text).map(Arc::new).map_err(failure)
}

const METADATA: &str = "
  optional group metadata {
    required binary device (STRING);
    required boolean has_backward;
    required int64 forward_lines;
    required int64 backward_lines;
    optional double generation_time_ms;
    required boolean codegen_only;
    optional boolean cuda_available_at_generation;
    optional binary cuda_compiler (STRING);
    required binary verified (STRING);
    required binary arch (STRING);
    required group inputs (LIST) { repeated group list { required group element {
      required binary name (STRING);
      required binary dtype (STRING);
      required group shape (LIST) { repeated group list { required binary element (STRING); } }
      required group values {
        required binary kind (STRING);
        optional double low;
        optional double high;
      }
    } } }
    required group launch (LIST) { repeated group list { required binary element (STRING); } }
    required group ops (LIST) { repeated group list { required binary element (STRING); } }
    required int64 depth;
    required int64 difficulty;
    required group hashes {
      required binary exact (STRING);
      required binary alpha (STRING);
      required binary structure (STRING);
    }
    optional binary origin (STRING);
    required int64 seed (INTEGER(64, false));
    required int64 index (INTEGER(64, false));
    required group versions {
      required binary polyloom (STRING);
      required int64 generator;
    }
    required binary license (STRING);
  }
";

fn failure(error: ParquetError) -> io::Error {
    match error {
        // The error inside is taken out, so that a full disk is called that.
        ParquetError::External(source) => match source.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(source) => io::Error::other(source),
        },
        error => io::Error::other(error),
    }
}

/// Values and levels of a leaf.
#[derive(Default)]
struct ParquetLeaf {
    values: Vec<Value>,
    definition: Vec<i16>,
    repetition: Vec<i16>,
}

/// A file of rows.
pub(crate) struct ParquetWriter<W: Write + Send> {
    writer: SerializedFileWriter<W>,
    schema: TypePtr,
    leaves: Vec<ParquetLeaf>,
    n_rows: usize,
}

impl<W: Write + Send> ParquetWriter<W> {
    pub(super) fn new(file: W, columns: &[String]) -> io::Result<ParquetWriter<W>> {
        let schema = schema(columns)?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_statistics_enabled(EnabledStatistics::Page)
            .set_created_by(concat!("polyloom ", env!("CARGO_PKG_VERSION")).to_owned())
            .build();
        let writer = SerializedFileWriter::new(file, schema.clone(), Arc::new(properties)).map_err(failure)?;
        let leaves = (0..n_leaves(&schema)).map(|_| ParquetLeaf::default()).collect();
        Ok(ParquetWriter { writer, schema, leaves, n_rows: 0 })
    }

    /// Adds a row, which is what JSON makes of it.
    pub(super) fn row(&mut self, row: &Value) -> io::Result<()> {
        let mut leaf = 0;
        for field in self.schema.clone().get_fields() {
            take_apart(field, row.get(field.name()), PathLevels::default(), &mut self.leaves, &mut leaf)?;
        }
        self.n_rows += 1;
        if self.n_rows == ROWS_PER_GROUP { self.write_group() } else { Ok(()) }
    }

    fn write_group(&mut self) -> io::Result<()> {
        if self.n_rows == 0 {
            return Ok(());
        }
        self.n_rows = 0;
        let mut group = self.writer.next_row_group().map_err(failure)?;
        for leaf in &mut self.leaves {
            let ParquetLeaf { values, definition, repetition } = std::mem::take(leaf);
            let Some(mut column) = group.next_column().map_err(failure)? else { break };
            let (definition, repetition) = (Some(&definition[..]), Some(&repetition[..]));
            match column.untyped() {
                ColumnWriter::ByteArrayColumnWriter(writer) => {
                    let texts = values.iter().map(|value| ByteArray::from(value.as_str().unwrap_or_default()));
                    writer.write_batch(&texts.collect::<Vec<_>>(), definition, repetition)
                }
                ColumnWriter::BoolColumnWriter(writer) => {
                    let bools: Vec<bool> = values.iter().map(|value| value.as_bool().unwrap_or_default()).collect();
                    writer.write_batch(&bools, definition, repetition)
                }
                ColumnWriter::Int64ColumnWriter(writer) => {
                    // A seed has no sign, because the column's annotation says so.
                    let ints: Vec<i64> = values.iter().map(|value| value.as_u64().unwrap_or_default() as i64).collect();
                    writer.write_batch(&ints, definition, repetition)
                }
                ColumnWriter::DoubleColumnWriter(writer) => {
                    let floats: Vec<f64> = values.iter().map(|value| value.as_f64().unwrap_or_default()).collect();
                    writer.write_batch(&floats, definition, repetition)
                }
                _ => return Err(io::Error::other("a column of a type that rows do not have")),
            }
            .map_err(failure)?;
            column.close().map_err(failure)?;
        }
        group.close().map_err(failure)?;
        Ok(())
    }

    /// Writes what is left, and gives the file back.
    pub(super) fn finish(mut self) -> io::Result<W> {
        self.write_group()?;
        self.writer.into_inner().map_err(failure)
    }
}

fn n_leaves(ty: &Type) -> usize {
    if ty.is_primitive() { 1 } else { ty.get_fields().iter().map(|field| n_leaves(field)).sum() }
}

/// Describes how much of the path is there, how many lists it goes through, and at which of them it begins anew.
#[derive(Clone, Copy, Default)]
struct PathLevels {
    definition: i16,
    lists: i16,
    repetition: i16,
}

/// Adds a value to the leaves below a type, of which `leaf` is the next.
fn take_apart(
    ty: &Type,
    value: Option<&Value>,
    mut levels: PathLevels,
    leaves: &mut [ParquetLeaf],
    leaf: &mut usize,
) -> io::Result<()> {
    let value = value.filter(|value| !value.is_null());
    if ty.get_basic_info().repetition() == Repetition::OPTIONAL {
        levels.definition += i16::from(value.is_some());
    } else if value.is_none() {
        return Err(io::Error::other(format!("a row has no `{}`", ty.name())));
    }
    let Some(value) = value else {
        for leaf_below in &mut leaves[*leaf..*leaf + n_leaves(ty)] {
            leaf_below.definition.push(levels.definition);
            leaf_below.repetition.push(levels.repetition);
        }
        *leaf += n_leaves(ty);
        return Ok(());
    };
    if ty.is_primitive() {
        debug_assert!(ty.get_physical_type() != Physical::INT96);
        let own = &mut leaves[*leaf];
        own.values.push(value.clone());
        own.definition.push(levels.definition);
        own.repetition.push(levels.repetition);
        *leaf += 1;
        return Ok(());
    }
    match (ty.get_fields(), value) {
        // `group name (LIST) { repeated group list { element } }`
        ([list], Value::Array(elements)) if list.get_basic_info().repetition() == Repetition::REPEATED => {
            let (element, first) = (&list.get_fields()[0], *leaf);
            if elements.is_empty() {
                for leaf_below in &mut leaves[first..first + n_leaves(ty)] {
                    leaf_below.definition.push(levels.definition);
                    leaf_below.repetition.push(levels.repetition);
                }
                *leaf += n_leaves(ty);
                return Ok(());
            }
            let mut inner = PathLevels { definition: levels.definition + 1, lists: levels.lists + 1, ..levels };
            for value in elements {
                *leaf = first;
                take_apart(element, Some(value), inner, leaves, leaf)?;
                inner.repetition = inner.lists;
            }
            Ok(())
        }
        (fields, value) => {
            fields.iter().try_for_each(|field| take_apart(field, value.get(field.name()), levels, leaves, leaf))
        }
    }
}

/// The rows of a file, as JSON, of which a group is in memory at a time.
pub(crate) fn read(path: &Path) -> io::Result<impl Iterator<Item = io::Result<Value>> + use<>> {
    let file = File::open(path)?;
    let mut rows = guarded(|| Ok(SerializedFileReader::new(file).map_err(failure)?.into_iter()))?;
    let mut is_over = false;
    Ok(std::iter::from_fn(move || {
        if is_over {
            return None;
        }
        let next = guarded(|| rows.next().map(|row| Ok(row.map_err(failure)?.to_json_value())).transpose());
        is_over = next.is_err();
        next.transpose()
    }))
}

/// Reads something, because the library panics at some files that are damaged.
fn guarded<T>(read: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let read = catch_unwind(AssertUnwindSafe(read));
    read.unwrap_or_else(|_| Err(io::Error::other("it is damaged")))
}

//! Files of rows, in whatever format.

use super::manifest::{FileRecord, TemporaryFile};
use super::parquet::{self, ParquetWriter};
use super::settings::Format;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::Path;

/// The level of compression: what more would save is little.
const ZSTD_LEVEL: i32 = 6;

/// A file of rows that is being written.
pub(super) struct Sink {
    kind: Kind,
    rows: u64,
}

enum Kind {
    Jsonl(Box<TemporaryFile>),
    JsonlZstd(Box<zstd::Encoder<'static, TemporaryFile>>),
    Parquet(Box<ParquetWriter<TemporaryFile>>),
}

impl Sink {
    /// A file of this format with these columns.
    pub(super) fn create(folder: &Path, path: &str, format: Format, columns: &[String]) -> io::Result<Sink> {
        let file = TemporaryFile::create(folder, path)?;
        let kind = match format {
            Format::Jsonl => Kind::Jsonl(Box::new(file)),
            Format::JsonlZstd => Kind::JsonlZstd(Box::new(zstd::Encoder::new(file, ZSTD_LEVEL)?)),
            Format::Parquet => Kind::Parquet(Box::new(ParquetWriter::new(file, columns)?)),
        };
        Ok(Sink { kind, rows: 0 })
    }

    /// Adds a line of JSON.
    pub(super) fn line(&mut self, line: &[u8]) -> io::Result<()> {
        self.rows += 1;
        match &mut self.kind {
            Kind::Jsonl(file) => file.write_all(line).and_then(|()| file.write_all(b"\n")),
            Kind::JsonlZstd(encoder) => encoder.write_all(line).and_then(|()| encoder.write_all(b"\n")),
            Kind::Parquet(writer) => writer.row(&serde_json::from_slice(line)?),
        }
    }

    /// Gives the file its name.
    pub(super) fn finish(self) -> io::Result<FileRecord> {
        let file = match self.kind {
            Kind::Jsonl(file) => *file,
            Kind::JsonlZstd(encoder) => encoder.finish()?,
            Kind::Parquet(writer) => writer.finish()?,
        };
        Ok(FileRecord { rows: self.rows, ..file.finish()? })
    }
}

/// Lines without their ends.
pub(crate) type Lines = Box<dyn Iterator<Item = io::Result<Vec<u8>>>>;

/// The rows of a file, as lines of JSON.
pub(crate) fn read_lines(path: &Path, format: Format) -> io::Result<Lines> {
    let file = File::open(path)?;
    Ok(match format {
        Format::Jsonl => Box::new(BufReader::new(file).split(b'\n')),
        Format::JsonlZstd => Box::new(BufReader::new(zstd::Decoder::new(file)?).split(b'\n')),
        Format::Parquet => {
            Box::new(parquet::read(path)?.map(|row| serde_json::to_vec(&row?).map_err(io::Error::other)))
        }
    })
}

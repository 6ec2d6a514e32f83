//! Files of rows, in whatever format.

use super::manifest::{FileRecord, TemporaryFile};
use super::parquet::{self, ParquetWriter};
use super::settings::Format;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _, Write as _};
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
        Format::Jsonl => Box::new(lines(BufReader::new(file))),
        Format::JsonlZstd => Box::new(lines(BufReader::new(zstd::Decoder::new(file)?))),
        Format::Parquet => {
            Box::new(parquet::read(path)?.map(|row| serde_json::to_vec(&row?).map_err(io::Error::other)))
        }
    })
}

/// The longest line: a row is a hundredth of that. What is compressed may be far longer than its file.
const LONGEST_LINE: u64 = 1 << 26;

fn lines(mut reader: impl BufRead) -> impl Iterator<Item = io::Result<Vec<u8>>> {
    let mut is_over = false;
    std::iter::from_fn(move || {
        let mut line = Vec::new();
        let read = if is_over { Ok(0) } else { (&mut reader).take(LONGEST_LINE).read_until(b'\n', &mut line) };
        let ended = line.pop_if(|byte| *byte == b'\n').is_some();
        match read {
            Ok(0) => None,
            Ok(n) if n as u64 == LONGEST_LINE && !ended => {
                is_over = true;
                Some(Err(io::Error::other("a line is longer than any row")))
            }
            Ok(_) => Some(Ok(line)),
            Err(error) => {
                is_over = true;
                Some(Err(error))
            }
        }
    })
}

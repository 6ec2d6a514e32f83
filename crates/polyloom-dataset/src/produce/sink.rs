//! Files of rows, in whatever format.

use super::manifest::{FileRecord, TemporaryFile};
use super::parquet::{self, ParquetWriter};
use super::settings::FileFormat;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _, Write};
use std::path::Path;

/// The level of compression: what more would save is little.
const ZSTD_LEVEL: i32 = 6;

/// Rows on their way to bytes.
pub(crate) enum RowEncoder<W: Write + Send> {
    Jsonl(W),
    JsonlZstd(Box<zstd::Encoder<'static, W>>),
    Parquet(Box<ParquetWriter<W>>),
}

impl<W: Write + Send> RowEncoder<W> {
    /// Writes rows with these columns in a format.
    pub(crate) fn new(to: W, format: FileFormat, columns: &[String]) -> io::Result<RowEncoder<W>> {
        Ok(match format {
            FileFormat::Jsonl => RowEncoder::Jsonl(to),
            FileFormat::JsonlZstd => RowEncoder::JsonlZstd(Box::new(zstd::Encoder::new(to, ZSTD_LEVEL)?)),
            FileFormat::Parquet => RowEncoder::Parquet(Box::new(ParquetWriter::new(to, columns)?)),
        })
    }

    /// Adds a line of JSON.
    pub(crate) fn line(&mut self, line: &[u8]) -> io::Result<()> {
        match self {
            RowEncoder::Jsonl(to) => to.write_all(line).and_then(|()| to.write_all(b"\n")),
            RowEncoder::JsonlZstd(encoder) => encoder.write_all(line).and_then(|()| encoder.write_all(b"\n")),
            RowEncoder::Parquet(writer) => writer.row(&serde_json::from_slice(line)?),
        }
    }

    /// Writes what is left.
    pub(crate) fn finish(self) -> io::Result<W> {
        match self {
            RowEncoder::Jsonl(to) => Ok(to),
            RowEncoder::JsonlZstd(encoder) => encoder.finish(),
            RowEncoder::Parquet(writer) => writer.finish(),
        }
    }
}

/// A file of rows that is being written.
pub(super) struct RowSink {
    encoder: RowEncoder<TemporaryFile>,
    rows: u64,
}

impl RowSink {
    /// A file of this format with these columns.
    pub(super) fn create(folder: &Path, path: &str, format: FileFormat, columns: &[String]) -> io::Result<RowSink> {
        let encoder = RowEncoder::new(TemporaryFile::create(folder, path)?, format, columns)?;
        Ok(RowSink { encoder, rows: 0 })
    }

    /// Adds a line of JSON.
    pub(super) fn line(&mut self, line: &[u8]) -> io::Result<()> {
        self.rows += 1;
        self.encoder.line(line)
    }

    /// Gives the file its name.
    pub(super) fn finish(self) -> io::Result<FileRecord> {
        Ok(FileRecord { rows: self.rows, ..self.encoder.finish()?.finish()? })
    }
}

/// Lines without their ends.
pub(crate) type Lines = Box<dyn Iterator<Item = io::Result<Vec<u8>>>>;

/// The rows of a file, as lines of JSON.
pub(crate) fn read_lines(path: &Path, format: FileFormat) -> io::Result<Lines> {
    let file = File::open(path)?;
    Ok(match format {
        FileFormat::Jsonl => Box::new(lines(BufReader::new(file))),
        FileFormat::JsonlZstd => Box::new(lines(BufReader::new(zstd::Decoder::new(file)?))),
        FileFormat::Parquet => {
            Box::new(parquet::read(path)?.map(|row| serde_json::to_vec(&row?).map_err(io::Error::other)))
        }
    })
}

/// The longest line, since a row is a hundredth of that. What is compressed may be far longer than its file.
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

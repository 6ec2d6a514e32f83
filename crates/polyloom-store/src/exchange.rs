//! Lines of JSON that carry records between databases. The first line names the format; each other one is a record,
//! after those it refers to. Reading a file twice, or two files with the same records, changes nothing.

use crate::{PutCounts, Store, StoreError, StoreRecord};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, Write};

/// The name in the first line.
const FORMAT: &str = "polyloom-benchmarks";
/// The version in the first line. Fields may be added to records under it, and none may change its meaning.
const VERSION: u32 = 1;
/// Records that are put in one transaction.
const BATCH_RECORDS: usize = 512;
/// A line may have so many bytes: a measurement of a hundred million samples has fewer.
const MAX_LINE_BYTES: u64 = 1 << 30;

#[derive(Serialize, Deserialize)]
struct ExchangeHeader {
    format: String,
    version: u32,
}

fn write_error(source: std::io::Error) -> StoreError {
    StoreError::Io { context: "cannot write the records".to_owned(), source }
}

/// Writes all records of a database, and returns how many. The callback gets the number after each.
///
/// # Errors
///
/// If the database cannot be read, or the output not be written.
pub fn export_jsonl(
    store: &mut dyn Store,
    out: &mut dyn Write,
    progress: &mut dyn FnMut(u64),
) -> Result<u64, StoreError> {
    let header = ExchangeHeader { format: FORMAT.to_owned(), version: VERSION };
    write_line(out, &header)?;
    let mut n_records = 0;
    store.for_each_record(&mut |record| {
        n_records += 1;
        progress(n_records);
        write_line(out, &record)
    })?;
    out.flush().map_err(write_error)?;
    Ok(n_records)
}

fn write_line(out: &mut dyn Write, line: &impl Serialize) -> Result<(), StoreError> {
    serde_json::to_writer(&mut *out, line).map_err(|error| write_error(error.into()))?;
    out.write_all(b"\n").map_err(write_error)
}

/// Puts the records of lines into a database. Each few hundred are a transaction: when a line is wrong, those before
/// it are kept, and the whole may be read again. The callback gets how many bytes have been read.
///
/// # Errors
///
/// If a line is no record, names a newer format, or refers to what is neither in the database nor before it; if the
/// database fails.
pub fn import_jsonl(
    store: &mut dyn Store,
    input: &mut dyn BufRead,
    progress: &mut dyn FnMut(u64),
) -> Result<PutCounts, StoreError> {
    let (mut counts, mut batch, mut lines) = (PutCounts::default(), Vec::new(), Vec::new());
    let (mut line, mut number, mut n_bytes) = (String::new(), 0, 0);
    loop {
        line.clear();
        // Otherwise a file that is one endless line would fill the memory.
        let mut limited = std::io::Read::take(&mut *input, MAX_LINE_BYTES);
        let read = limited.read_line(&mut line);
        let wrong = |line: usize, reason: String| StoreError::InvalidLine { line, reason };
        let n = read.map_err(|error| wrong(number + 1, error.to_string()))?;
        if n > 0 {
            (number, n_bytes) = (number + 1, n_bytes + n as u64);
            progress(n_bytes);
            if number == 1 {
                read_header(&line).map_err(|reason| wrong(1, reason))?;
                continue;
            }
            if !line.trim().is_empty() {
                let record = serde_json::from_str(&line).map_err(|error| wrong(number, error.to_string()))?;
                batch.push(record);
                lines.push(number);
            }
        } else if number == 0 {
            return Err(wrong(1, format!("the file is empty, and not lines of the format {FORMAT}")));
        }
        if batch.len() == BATCH_RECORDS || n == 0 {
            let put = put(store, &batch, &lines)?;
            counts.n_new += put.n_new;
            counts.n_known += put.n_known;
            batch.clear();
            lines.clear();
        }
        if n == 0 {
            return Ok(counts);
        }
    }
}

/// Puts a batch, and says of a record that cannot be put in which line it stands.
fn put(store: &mut dyn Store, batch: &[StoreRecord], lines: &[usize]) -> Result<PutCounts, StoreError> {
    let is_of_record = |error: &StoreError| {
        use StoreError::{HashCollision, InvalidRecord, MissingReference};
        matches!(error, InvalidRecord { .. } | MissingReference { .. } | HashCollision { .. })
    };
    match (store.put(batch), lines) {
        (Err(error), &[line]) if is_of_record(&error) => {
            Err(StoreError::InvalidLine { line, reason: error.to_string() })
        }
        (Err(error), _) if is_of_record(&error) => {
            // Halves find the line, and put what is before it.
            let middle = batch.len() / 2;
            let front = put(store, &batch[..middle], &lines[..middle])?;
            let back = put(store, &batch[middle..], &lines[middle..])?;
            Ok(PutCounts { n_new: front.n_new + back.n_new, n_known: front.n_known + back.n_known })
        }
        (outcome, _) => outcome,
    }
}

fn read_header(line: &str) -> Result<(), String> {
    let header: ExchangeHeader = serde_json::from_str(line)
        .map_err(|_| format!("the file does not begin with the line of the format {FORMAT}"))?;
    match header {
        ExchangeHeader { format, .. } if format != FORMAT => Err(format!("the format is `{format}`, not {FORMAT}")),
        ExchangeHeader { version, .. } if version > VERSION => {
            Err(format!("the file has version {version}, and this program reads {VERSION}: install a newer Polyloom"))
        }
        _ => Ok(()),
    }
}

//! SQLite, built in. Many processes read and write one file: the log is written ahead, so that readers never wait for a
//! writer; every write begins with the writer's lock, because a reader that becomes a writer can be refused; and whoever
//! meets a lock waits, readers too.

use super::engine::{SqlEngine, SqlRow, SqlValue};
use crate::StoreError;
use crate::migration::{Migration, SQLITE_MIGRATIONS};
use rusqlite::types::{ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, ErrorCode, OpenFlags};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// A lock is waited for so long.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// Statements that stay prepared: all that the store has.
const N_STATEMENTS: usize = 64;

/// Says what may be done with a file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileAccess {
    /// It may be made.
    Create,
    /// It must be there.
    ReadWrite,
    /// It must be there, and is not changed.
    ReadOnly,
}

pub(crate) struct SqliteEngine {
    /// None only while it is opened again.
    connection: Option<Connection>,
    path: PathBuf,
    access: FileAccess,
    /// The process that opened the connection.
    process: u32,
    n_statements: u64,
}

impl SqliteEngine {
    pub(crate) fn open(path: &Path, access: FileAccess) -> Result<SqliteEngine, StoreError> {
        let connection = Some(connect(path, access)?);
        Ok(SqliteEngine { connection, path: path.to_owned(), access, process: std::process::id(), n_statements: 0 })
    }

    fn connection(&mut self) -> Result<&Connection, StoreError> {
        if self.process != std::process::id() {
            // After a fork the parent has the same descriptors. Closing them here would drop the parent's locks on the
            // file, so that the connection is neither used nor closed.
            std::mem::forget(self.connection.take());
            self.connection = Some(connect(&self.path, self.access)?);
            self.process = std::process::id();
        }
        // None if connecting again failed in an earlier call.
        if self.connection.is_none() {
            self.connection = Some(connect(&self.path, self.access)?);
        }
        self.connection.as_ref().ok_or_else(|| StoreError::Missing { location: self.path.display().to_string() })
    }
}

impl Drop for SqliteEngine {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            std::mem::forget(self.connection.take());
        }
    }
}

fn connect(path: &Path, access: FileAccess) -> Result<Connection, StoreError> {
    let location = path.display().to_string();
    if access == FileAccess::Create {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let made = folder.map_or(Ok(()), std::fs::create_dir_all);
        made.map_err(|error| StoreError::CannotOpen { location: location.clone(), reason: error.to_string() })?;
    } else if !path.exists() {
        return Err(StoreError::Missing { location });
    }
    let error = |error| store_error(&location, error);
    let mode = match access {
        FileAccess::Create => OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE,
        FileAccess::ReadWrite => OpenFlags::SQLITE_OPEN_READ_WRITE,
        FileAccess::ReadOnly => OpenFlags::SQLITE_OPEN_READ_ONLY,
    };
    // A connection is used by one thread at a time: the store takes `&mut self`.
    let connection = Connection::open_with_flags(path, mode | OpenFlags::SQLITE_OPEN_NO_MUTEX).map_err(error)?;
    connection.busy_timeout(BUSY_TIMEOUT).map_err(error)?;
    connection.set_prepared_statement_cache_capacity(N_STATEMENTS);
    // With a log written ahead, `normal` loses nothing when processes die. When the machine does, the last
    // transactions may be missing, and the file is still consistent.
    // Hashes are spread over whole indexes, so that pages of a large database are used again only by a large cache. The
    // file is not mapped: a file that another program cuts would end this process.
    let settings = "PRAGMA foreign_keys = ON; PRAGMA synchronous = NORMAL; PRAGMA cache_size = -32768;";
    connection.execute_batch(settings).map_err(error)?;
    if access == FileAccess::Create {
        write_ahead(&connection, &location)?;
    }
    Ok(connection)
}

/// Makes the file one with a log written ahead. Of several processes that do so at once, some are refused without
/// having waited, and try again.
fn write_ahead(connection: &Connection, location: &str) -> Result<(), StoreError> {
    let begin = Instant::now();
    loop {
        let mode = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get::<_, String>(0));
        match mode.map_err(|error| store_error(location, error)) {
            Ok(_) => return Ok(()),
            Err(StoreError::Locked { .. }) if begin.elapsed() < BUSY_TIMEOUT => {
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(error) => return Err(error),
        }
    }
}

fn store_error(location: &str, error: rusqlite::Error) -> StoreError {
    let location = location.to_owned();
    let reason = error.to_string();
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Locked { location, reason },
        Some(ErrorCode::ReadOnly) => StoreError::ReadOnly { location },
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => StoreError::Damaged { location, reason },
        Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied | ErrorCode::SystemIoFailure) => {
            StoreError::CannotOpen { location, reason }
        }
        Some(ErrorCode::DiskFull) => StoreError::Full { location, reason },
        _ => StoreError::Statement { location, reason },
    }
}

impl ToSql for SqlValue<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match *self {
            SqlValue::Null => ValueRef::Null,
            SqlValue::Integer(value) => ValueRef::Integer(value),
            SqlValue::Real(value) => ValueRef::Real(value),
            SqlValue::Text(value) => ValueRef::Text(value.as_bytes()),
            SqlValue::Blob(value) => ValueRef::Blob(value),
        }))
    }
}

struct SqliteRow<'a> {
    row: &'a rusqlite::Row<'a>,
    location: &'a str,
}

impl SqliteRow<'_> {
    fn value(&self, column: usize) -> Result<ValueRef<'_>, StoreError> {
        self.row.get_ref(column).map_err(|error| store_error(self.location, error))
    }
}

impl SqlRow for SqliteRow<'_> {
    fn integer_or_null(&self, column: usize) -> Result<Option<i64>, StoreError> {
        self.value(column)?.as_i64_or_null().map_err(|_| self.wrong(column, "is no integer"))
    }

    fn real_or_null(&self, column: usize) -> Result<Option<f64>, StoreError> {
        self.value(column)?.as_f64_or_null().map_err(|_| self.wrong(column, "is no number"))
    }

    fn text_or_null(&self, column: usize) -> Result<Option<&str>, StoreError> {
        self.value(column)?.as_str_or_null().map_err(|_| self.wrong(column, "is no text"))
    }

    fn blob_or_null(&self, column: usize) -> Result<Option<&[u8]>, StoreError> {
        self.value(column)?.as_blob_or_null().map_err(|_| self.wrong(column, "is no blob"))
    }

    fn wrong(&self, column: usize, what: &str) -> StoreError {
        let name = self.row.as_ref().column_name(column).unwrap_or("a column").to_owned();
        StoreError::Damaged { location: self.location.to_owned(), reason: format!("{name} {what}") }
    }
}

impl SqlEngine for SqliteEngine {
    const LOCKS_ROWS: bool = false;

    fn execute(&mut self, sql: &'static str, parameters: &[SqlValue<'_>]) -> Result<u64, StoreError> {
        self.n_statements += 1;
        let changed = self.connection()?.prepare_cached(sql).and_then(|mut statement| {
            let n = statement.execute(rusqlite::params_from_iter(parameters))?;
            Ok(n as u64)
        });
        changed.map_err(|error| store_error(&self.location(), error))
    }

    fn query(
        &mut self,
        sql: &'static str,
        parameters: &[SqlValue<'_>],
        each: &mut dyn FnMut(&dyn SqlRow) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        self.n_statements += 1;
        self.connection()?;
        let location = self.path.to_string_lossy();
        let error = |error| store_error(&location, error);
        let Some(connection) = &self.connection else { return Ok(()) };
        let mut statement = connection.prepare_cached(sql).map_err(error)?;
        let mut rows = statement.query(rusqlite::params_from_iter(parameters)).map_err(error)?;
        while let Some(row) = rows.next().map_err(error)? {
            each(&SqliteRow { row, location: &location })?;
        }
        Ok(())
    }

    fn run_script(&mut self, sql: &str) -> Result<(), StoreError> {
        self.n_statements += 1;
        let outcome = self.connection()?.execute_batch(sql);
        outcome.map_err(|error| store_error(&self.location(), error))
    }

    fn begin_write(&mut self) -> Result<(), StoreError> {
        self.execute("BEGIN IMMEDIATE", &[]).map(|_| ())
    }

    fn begin_read(&mut self) -> Result<(), StoreError> {
        self.execute("BEGIN DEFERRED", &[]).map(|_| ())
    }

    fn commit(&mut self) -> Result<(), StoreError> {
        self.execute("COMMIT", &[]).map(|_| ())
    }

    fn roll_back(&mut self) {
        if let Some(connection) = self.connection.as_ref().filter(|connection| !connection.is_autocommit()) {
            // It fails where SQLite has rolled back by itself.
            let _ = connection.execute_batch("ROLLBACK");
        }
    }

    fn is_to_be_retried(&self, _: &StoreError) -> bool {
        // A transaction that has the writer's lock is never broken off.
        false
    }

    fn now(&mut self) -> Result<i64, StoreError> {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Ok(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
    }

    fn change_mark(&mut self) -> Result<i64, StoreError> {
        // SQLite counts what other connections have committed; no table is read.
        let mut mark = 0;
        self.query("PRAGMA data_version", &[], &mut |row| {
            mark = row.integer(0)?;
            Ok(())
        })?;
        Ok(mark)
    }

    fn n_statements(&self) -> u64 {
        self.n_statements
    }

    fn migrations(&self) -> &'static [Migration] {
        SQLITE_MIGRATIONS
    }

    fn lock_for_migration(&mut self) -> Result<(), StoreError> {
        // The transaction has the writer's lock.
        Ok(())
    }

    fn location(&self) -> String {
        self.path.display().to_string()
    }

    fn integrity_problems(&mut self, max: usize) -> Result<Vec<String>, StoreError> {
        let mut problems = Vec::new();
        self.query("PRAGMA integrity_check", &[], &mut |row| {
            let finding = row.text(0)?;
            if finding != "ok" && problems.len() < max {
                problems.push(finding.to_owned());
            }
            Ok(())
        })?;
        self.query("PRAGMA foreign_key_check", &[], &mut |row| {
            if problems.len() < max {
                problems.push(format!(
                    "a row of {} refers to a row of {} that there is not",
                    row.text(0)?,
                    row.text(2)?
                ));
            }
            Ok(())
        })?;
        Ok(problems)
    }
}

#[cfg(test)]
mod tests {
    use super::{FileAccess, SqliteEngine};
    use crate::migration::{SQLITE_MIGRATIONS, migrate};
    use crate::sql::{queue, read};

    #[test]
    fn look_ups_use_indexes() {
        let folder = tempfile::tempdir().unwrap();
        let mut engine = SqliteEngine::open(&folder.path().join("x.db"), FileAccess::Create).unwrap();
        migrate(&mut engine, SQLITE_MIGRATIONS.len() as i64).unwrap();
        let (take_over, take) = queue::LEASE_STATEMENTS;
        let mut plan = |sql: &str| -> Vec<String> {
            let connection = engine.connection().unwrap();
            let mut explain = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
            let nothing = vec![None::<i64>; explain.parameter_count()];
            let rows = explain.query_map(rusqlite::params_from_iter(nothing), |row| row.get(3)).unwrap();
            rows.map(Result::unwrap).collect()
        };
        // The index that each must find its rows by.
        let statements = [
            (read::MEASURED, "benchmark_traces_by_key (workload_id=? AND environment_id=? AND policy=?)"),
            (read::MEASURED, "benchmark_traces_wrong (implementation_id=? AND code_hash=? AND workload_id=?)"),
            (read::MEASURED_WORKLOADS, "benchmark_traces_by_key (workload_id=? AND environment_id=? AND policy=?)"),
            (read::MEASURED_ENVIRONMENTS, "benchmark_traces_by_key (workload_id=?)"),
            (read::TRACE_PAGE, "INTEGER PRIMARY KEY (rowid>?)"),
            (read::TRACES_OF_GRAPH, "benchmark_traces_by_key (workload_id=?)"),
            (read::TRACES_OF_WORKLOAD, "benchmark_traces_by_key (workload_id=?)"),
            (read::TRACES_IN_ENVIRONMENT, "benchmark_traces_by_key (workload_id=? AND environment_id=?)"),
            (read::TRACES_OF_WORKLOAD_IN_ENVIRONMENT, "benchmark_traces_by_key (workload_id=? AND environment_id=?)"),
            (take_over, "leases_expiring (environment_id=? AND leased_until<?)"),
            (take, "leases_waiting (environment_id=?)"),
        ];
        for (sql, index) in statements {
            let plan = plan(sql);
            assert!(plan.iter().any(|line| line.contains(index)), "{index} is not used: {plan:#?}");
            let scans: Vec<_> =
                plan.iter().filter(|line| line.starts_with("SCAN ") && !line.contains("picked")).collect();
            assert!(scans.is_empty(), "{sql} reads whole tables: {plan:#?}");
        }
        // Measurements come in the order of the index.
        let plan = plan(read::MEASURED);
        assert!(!plan.iter().any(|line| line.contains("TEMP B-TREE")), "{plan:#?}");
    }
}

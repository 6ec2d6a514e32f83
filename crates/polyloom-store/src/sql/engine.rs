//! An engine runs statements for the store. Statements are written with `?1`, `?2`, …; a dialect that
//! spells parameters otherwise rewrites them when it prepares.

use crate::migration::Migration;
use crate::{ContentHash, StoreError};

/// A parameter of a statement.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SqlValue<'a> {
    Null,
    Integer(i64),
    Real(f64),
    Text(&'a str),
    Blob(&'a [u8]),
}

impl From<i64> for SqlValue<'_> {
    fn from(value: i64) -> Self {
        SqlValue::Integer(value)
    }
}

impl From<u64> for SqlValue<'_> {
    fn from(value: u64) -> Self {
        // Records are verified to have no larger ones.
        SqlValue::Integer(i64::try_from(value).unwrap_or(i64::MAX))
    }
}

impl From<bool> for SqlValue<'_> {
    fn from(value: bool) -> Self {
        SqlValue::Integer(i64::from(value))
    }
}

impl From<f64> for SqlValue<'_> {
    fn from(value: f64) -> Self {
        SqlValue::Real(value)
    }
}

impl<'a> From<&'a str> for SqlValue<'a> {
    fn from(value: &'a str) -> Self {
        SqlValue::Text(value)
    }
}

impl<'a> From<&'a [u8]> for SqlValue<'a> {
    fn from(value: &'a [u8]) -> Self {
        SqlValue::Blob(value)
    }
}

impl<'a> From<&'a ContentHash> for SqlValue<'a> {
    fn from(value: &'a ContentHash) -> Self {
        SqlValue::Blob(&value.0)
    }
}

impl<'a, T: Into<SqlValue<'a>>> From<Option<T>> for SqlValue<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(SqlValue::Null, Into::into)
    }
}

/// A row of a result. Columns have numbers from 0.
pub(crate) trait SqlRow {
    fn integer_or_null(&self, column: usize) -> Result<Option<i64>, StoreError>;
    fn real_or_null(&self, column: usize) -> Result<Option<f64>, StoreError>;
    fn text_or_null(&self, column: usize) -> Result<Option<&str>, StoreError>;
    fn blob_or_null(&self, column: usize) -> Result<Option<&[u8]>, StoreError>;
    /// Says that a column holds what it may not.
    fn wrong(&self, column: usize, what: &str) -> StoreError;
}

impl dyn SqlRow + '_ {
    pub(crate) fn integer(&self, column: usize) -> Result<i64, StoreError> {
        self.integer_or_null(column)?.ok_or_else(|| self.wrong(column, "is NULL"))
    }

    pub(crate) fn count(&self, column: usize) -> Result<u64, StoreError> {
        u64::try_from(self.integer(column)?).map_err(|_| self.wrong(column, "is negative"))
    }

    pub(crate) fn text(&self, column: usize) -> Result<&str, StoreError> {
        self.text_or_null(column)?.ok_or_else(|| self.wrong(column, "is NULL"))
    }

    pub(crate) fn blob(&self, column: usize) -> Result<&[u8], StoreError> {
        self.blob_or_null(column)?.ok_or_else(|| self.wrong(column, "is NULL"))
    }

    pub(crate) fn hash(&self, column: usize) -> Result<ContentHash, StoreError> {
        let bytes = self.blob(column)?.try_into().map_err(|_| self.wrong(column, "has not the 32 bytes of a hash"))?;
        Ok(ContentHash(bytes))
    }
}

/// A connection of one process and one thread.
pub(crate) trait SqlEngine: Send {
    /// True if rows have locks of their own, so that those which another transaction is taking can be skipped.
    const LOCKS_ROWS: bool;

    /// Runs a statement and returns how many rows it changed.
    fn execute(&mut self, sql: &'static str, parameters: &[SqlValue<'_>]) -> Result<u64, StoreError>;

    /// Runs a query, and reads its rows one by one.
    fn query(
        &mut self,
        sql: &'static str,
        parameters: &[SqlValue<'_>],
        each: &mut dyn FnMut(&dyn SqlRow) -> Result<(), StoreError>,
    ) -> Result<(), StoreError>;

    /// Runs the statements of a text.
    fn run_script(&mut self, sql: &str) -> Result<(), StoreError>;

    /// Begins a transaction that holds what it needs to write from the start.
    fn begin_write(&mut self) -> Result<(), StoreError>;

    /// Begins a transaction that sees one state of the database.
    fn begin_read(&mut self) -> Result<(), StoreError>;

    fn commit(&mut self) -> Result<(), StoreError>;

    /// Ends a transaction without effect, if there is one. A connection that is lost has none.
    fn roll_back(&mut self);

    /// Returns true if the transaction was broken off and may succeed when it runs again.
    fn is_to_be_retried(&self, error: &StoreError) -> bool;

    /// The time in microseconds since 1970, by the clock that all users of the database share.
    fn now(&mut self) -> Result<i64, StoreError>;

    /// Returns a number that is another one after another connection has written measurements.
    fn change_mark(&mut self) -> Result<i64, StoreError>;

    /// Counts the statements that have been run.
    fn n_statements(&self) -> u64;

    fn migrations(&self) -> &'static [Migration];

    /// Holds other processes off while migrations run, within a transaction to write.
    fn lock_for_migration(&mut self) -> Result<(), StoreError>;

    fn location(&self) -> String;

    /// Returns what the database itself finds wrong with its files, at most so many findings.
    fn integrity_problems(&mut self, max: usize) -> Result<Vec<String>, StoreError>;
}

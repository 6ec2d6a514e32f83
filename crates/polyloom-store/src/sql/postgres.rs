//! PostgreSQL, for teams, through a connection that is made again when the server was lost.

use super::engine::{SqlEngine, SqlRow, SqlValue};
use crate::migration::{Migration, POSTGRES_MIGRATIONS};
use crate::{DatabaseLocation, StoreError};
use postgres::error::SqlState;
use postgres::types::{IsNull, ToSql, Type, private::BytesMut};
use postgres::{Client, Config, NoTls, Statement};
use rustc_hash::FxHashMap;
use std::error::Error;
use std::time::Duration;

/// A server that does not answer is waited for so long, unless the URL says otherwise.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Locks are waited for so long, as with SQLite.
const LOCK_TIMEOUT: &str = "SET lock_timeout = '5s'";
/// Migrations of several processes follow each other by this advisory lock.
const MIGRATION_LOCK: i64 = 0x706f_6c79_6c6f_6f6d;

pub(crate) struct PostgresEngine {
    connection: Option<PostgresConnection>,
    config: Config,
    location: String,
    is_read_only: bool,
    /// True between the begin of a transaction and its end: it cannot go on over another connection.
    is_in_transaction: bool,
    /// True if the server has broken the last transaction off, because two would have waited for each other.
    is_broken_off: bool,
    /// The process that opened the connection.
    process: u32,
    n_statements: u64,
}

struct PostgresConnection {
    client: Client,
    statements: FxHashMap<&'static str, Statement>,
}

impl PostgresEngine {
    pub(crate) fn open(url: &str, is_read_only: bool) -> Result<PostgresEngine, StoreError> {
        let location = DatabaseLocation::Postgres(url.to_owned()).to_string();
        let mut config: Config = url.parse().map_err(|error: postgres::Error| StoreError::CannotOpen {
            location: location.clone(),
            reason: reason(&error),
        })?;
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_TIMEOUT);
        }
        if config.get_application_name().is_none() {
            config.application_name("polyloom");
        }
        let process = std::process::id();
        let connection = None;
        let (is_in_transaction, is_broken_off) = (false, false);
        let mut engine = PostgresEngine {
            connection,
            config,
            location,
            is_read_only,
            is_in_transaction,
            is_broken_off,
            process,
            n_statements: 0,
        };
        engine.connection()?;
        Ok(engine)
    }

    fn connection(&mut self) -> Result<&mut PostgresConnection, StoreError> {
        if self.process != std::process::id() {
            // The parent uses the same socket, and closing it here would tell the server that the parent goes.
            std::mem::forget(self.connection.take());
            self.process = std::process::id();
        }
        if self.connection.as_ref().is_some_and(|connection| connection.client.is_closed()) {
            self.connection = None;
        }
        if self.connection.is_none() && self.is_in_transaction {
            let reason = "the connection ended within a transaction".to_owned();
            return Err(StoreError::ServerLost { location: self.location.clone(), reason });
        }
        if self.connection.is_none() {
            let mut client = self.config.connect(NoTls).map_err(|error| self.error(&error))?;
            client.batch_execute(LOCK_TIMEOUT).map_err(|error| self.error(&error))?;
            if self.is_read_only {
                let read_only = "SET default_transaction_read_only = on";
                client.batch_execute(read_only).map_err(|error| self.error(&error))?;
            }
            self.connection = Some(PostgresConnection { client, statements: FxHashMap::default() });
        }
        self.connection.as_mut().ok_or_else(|| StoreError::Missing { location: self.location.clone() })
    }

    fn error(&self, error: &postgres::Error) -> StoreError {
        let (location, reason) = (self.location.clone(), reason(error));
        let Some(state) = error.code() else {
            // Without a code of the server it is the connection that failed.
            return StoreError::ServerLost { location, reason };
        };
        match state {
            &SqlState::READ_ONLY_SQL_TRANSACTION => StoreError::ReadOnly { location },
            &SqlState::INVALID_CATALOG_NAME => StoreError::Missing { location },
            &SqlState::DATA_CORRUPTED | &SqlState::INDEX_CORRUPTED => StoreError::Damaged { location, reason },
            &SqlState::T_R_DEADLOCK_DETECTED | &SqlState::T_R_SERIALIZATION_FAILURE | &SqlState::LOCK_NOT_AVAILABLE => {
                StoreError::Locked { location, reason }
            }
            &SqlState::DISK_FULL => StoreError::Full { location, reason },
            &SqlState::INSUFFICIENT_PRIVILEGE => StoreError::Refused { location, reason },
            // SQLSTATE, PostgreSQL's manual, appendix A: 08 connections, 57P shut-downs, 53 resources, 28 authorisation.
            state if ["08", "57P", "53"].iter().any(|class| state.code().starts_with(class)) => {
                StoreError::ServerLost { location, reason }
            }
            state if state.code().starts_with("28") => StoreError::Refused { location, reason },
            _ => StoreError::Statement { location, reason },
        }
    }

    /// Makes an error of a statement one of the store. The driver may not have noticed yet that the server is lost, so
    /// that the connection is given up here.
    fn fail(&mut self, error: &postgres::Error) -> StoreError {
        let broken_off = [&SqlState::T_R_DEADLOCK_DETECTED, &SqlState::T_R_SERIALIZATION_FAILURE];
        self.is_broken_off = error.code().is_some_and(|code| broken_off.contains(&code));
        let error = self.error(error);
        if matches!(error, StoreError::ServerLost { .. }) {
            self.connection = None;
        }
        error
    }

    /// Runs a statement over its prepared form.
    fn with_statement<T>(
        &mut self,
        sql: &'static str,
        run: impl FnOnce(&mut Client, &Statement) -> Result<T, postgres::Error>,
    ) -> Result<T, StoreError> {
        self.n_statements += 1;
        let connection = self.connection()?;
        let statement = match connection.statements.get(sql) {
            Some(statement) => Ok(statement.clone()),
            None => connection.client.prepare(&sql.replace('?', "$")).inspect(|statement| {
                connection.statements.insert(sql, statement.clone());
            }),
        };
        let outcome = statement.and_then(|statement| run(&mut connection.client, &statement));
        outcome.map_err(|error| self.fail(&error))
    }
}

/// Says what the server says; of the driver's own errors, what caused them.
fn reason(error: &postgres::Error) -> String {
    match (error.as_db_error(), error.source()) {
        (Some(error), _) => error.message().to_owned(),
        (None, Some(source)) => format!("{error}: {source}"),
        (None, None) => error.to_string(),
    }
}

impl Drop for PostgresEngine {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            std::mem::forget(self.connection.take());
        }
    }
}

impl ToSql for SqlValue<'_> {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        match *self {
            SqlValue::Null => Ok(IsNull::Yes),
            SqlValue::Integer(value) if *ty == Type::INT8 => value.to_sql(ty, out),
            SqlValue::Real(value) if *ty == Type::FLOAT8 => value.to_sql(ty, out),
            SqlValue::Text(value) if <&str as ToSql>::accepts(ty) => value.to_sql(ty, out),
            SqlValue::Blob(value) if *ty == Type::BYTEA => value.to_sql(ty, out),
            value => Err(format!("{value:?} is no {ty}").into()),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    postgres::types::to_sql_checked!();
}

struct PostgresRow<'a> {
    row: &'a postgres::Row,
    location: &'a str,
}

impl SqlRow for PostgresRow<'_> {
    fn integer_or_null(&self, column: usize) -> Result<Option<i64>, StoreError> {
        self.row.try_get(column).map_err(|error| self.wrong(column, &reason(&error)))
    }

    fn real_or_null(&self, column: usize) -> Result<Option<f64>, StoreError> {
        self.row.try_get(column).map_err(|error| self.wrong(column, &reason(&error)))
    }

    fn text_or_null(&self, column: usize) -> Result<Option<&str>, StoreError> {
        self.row.try_get(column).map_err(|error| self.wrong(column, &reason(&error)))
    }

    fn blob_or_null(&self, column: usize) -> Result<Option<&[u8]>, StoreError> {
        self.row.try_get(column).map_err(|error| self.wrong(column, &reason(&error)))
    }

    fn wrong(&self, column: usize, what: &str) -> StoreError {
        let name = self.row.columns().get(column).map_or("a column", |column| column.name());
        StoreError::Damaged { location: self.location.to_owned(), reason: format!("{name} {what}") }
    }
}

impl SqlEngine for PostgresEngine {
    const LOCKS_ROWS: bool = true;

    fn execute(&mut self, sql: &'static str, parameters: &[SqlValue<'_>]) -> Result<u64, StoreError> {
        let parameters: Vec<&(dyn ToSql + Sync)> = parameters.iter().map(|value| value as _).collect();
        self.with_statement(sql, |client, statement| client.execute(statement, &parameters))
    }

    fn query(
        &mut self,
        sql: &'static str,
        parameters: &[SqlValue<'_>],
        each: &mut dyn FnMut(&dyn SqlRow) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let parameters: Vec<&(dyn ToSql + Sync)> = parameters.iter().map(|value| value as _).collect();
        let rows = self.with_statement(sql, |client, statement| client.query(statement, &parameters))?;
        let location = &self.location;
        rows.iter().try_for_each(|row| each(&PostgresRow { row, location }))
    }

    fn run_script(&mut self, sql: &str) -> Result<(), StoreError> {
        self.n_statements += 1;
        let outcome = self.connection()?.client.batch_execute(sql);
        outcome.map_err(|error| self.fail(&error))
    }

    fn begin_write(&mut self) -> Result<(), StoreError> {
        self.run_script("BEGIN")?;
        self.is_in_transaction = true;
        Ok(())
    }

    fn begin_read(&mut self) -> Result<(), StoreError> {
        self.run_script("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")?;
        self.is_in_transaction = true;
        Ok(())
    }

    fn commit(&mut self) -> Result<(), StoreError> {
        self.run_script("COMMIT")?;
        self.is_in_transaction = false;
        Ok(())
    }

    fn roll_back(&mut self) {
        self.is_in_transaction = false;
        if let Some(connection) = &mut self.connection {
            // It fails where the connection is lost, and the transaction with it.
            let _ = connection.client.batch_execute("ROLLBACK");
        }
    }

    fn is_to_be_retried(&self, error: &StoreError) -> bool {
        // Transactions that put the same new records in different orders wait for each other.
        self.is_broken_off && matches!(error, StoreError::Locked { .. })
    }

    fn now(&mut self) -> Result<i64, StoreError> {
        let sql = "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS BIGINT)";
        let mut now = 0;
        self.query(sql, &[], &mut |row| {
            now = row.integer(0)?;
            Ok(())
        })?;
        Ok(now)
    }

    fn change_mark(&mut self) -> Result<i64, StoreError> {
        // Numbers are given before transactions end, so that the newest one alone would miss those that end later.
        let sql = "SELECT CAST(coalesce(sum(id), 0) AS BIGINT) \
                   FROM (SELECT id FROM benchmark_traces ORDER BY id DESC LIMIT 1000) AS newest";
        let mut mark = 0;
        self.query(sql, &[], &mut |row| {
            mark = row.integer(0)?;
            Ok(())
        })?;
        Ok(mark)
    }

    fn n_statements(&self) -> u64 {
        self.n_statements
    }

    fn migrations(&self) -> &'static [Migration] {
        POSTGRES_MIGRATIONS
    }

    fn lock_for_migration(&mut self) -> Result<(), StoreError> {
        // The lock ends with the transaction.
        self.query("SELECT 1 FROM pg_advisory_xact_lock(?1)", &[MIGRATION_LOCK.into()], &mut |_| Ok(()))
    }

    fn location(&self) -> String {
        self.location.clone()
    }

    fn integrity_problems(&mut self, _: usize) -> Result<Vec<String>, StoreError> {
        // The server keeps its constraints, and has tools of its own for its files.
        Ok(Vec::new())
    }
}

//! Migrations: numbered texts of SQL in two dialects, each of which runs once, in a transaction of its own.
//!
//! A migration that has been released is never edited: its checksum stands in every database that has had it, and in
//! `migrations/checksums.txt`.

use crate::sql::engine::SqlEngine;
use crate::{ContentHash, StoreError};
use serde::Serialize;

/// A migration in one dialect. The first has number 1.
pub(crate) struct Migration {
    pub(crate) name: &'static str,
    pub(crate) sql: &'static str,
}

macro_rules! migrations {
    ($dialect:literal: $($name:literal),*) => {
        &[$(Migration { name: $name, sql: include_str!(concat!("../migrations/", $dialect, "/", $name, ".sql")) }),*]
    };
}

pub(crate) const SQLITE_MIGRATIONS: &[Migration] = migrations!["sqlite": "0001_benchmarks", "0002_leases"];
pub(crate) const POSTGRES_MIGRATIONS: &[Migration] = migrations!["postgres": "0001_benchmarks", "0002_leases"];

impl Migration {
    fn checksum(&self) -> ContentHash {
        ContentHash::of(self.sql.as_bytes())
    }
}

/// Says which migrations a database has had.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct SchemaState {
    /// Counts the migrations that the database has had, 0 for an empty one.
    pub version: i64,
    /// Counts the migrations that this program has.
    pub known: i64,
}

const CREATE_VERSIONS: &str = "CREATE TABLE IF NOT EXISTS schema_version (version BIGINT PRIMARY KEY, name TEXT NOT \
                               NULL, checksum TEXT NOT NULL, applied_at BIGINT NOT NULL)";

/// Reads the state, and compares the migrations that the database has had with those of this program.
pub(crate) fn state(engine: &mut impl SqlEngine) -> Result<SchemaState, StoreError> {
    let migrations = engine.migrations();
    let known = migrations.len() as i64;
    let location = engine.location();
    let mut had = Vec::new();
    let outcome =
        engine.query("SELECT version, name, checksum FROM schema_version ORDER BY version", &[], &mut |row| {
            had.push((row.integer(0)?, row.text(1)?.to_owned(), row.text(2)?.to_owned()));
            Ok(())
        });
    match outcome {
        Ok(()) => {}
        // There is no such table.
        Err(StoreError::Statement { .. }) => return Ok(SchemaState { version: 0, known }),
        Err(error) => return Err(error),
    }
    let version = had.last().map_or(0, |(version, ..)| *version);
    if version > known {
        return Err(StoreError::NewerSchema { location, found: version, known });
    }
    for ((version, name, checksum), (expected, migration)) in had.iter().zip((1..).zip(migrations)) {
        let differs =
            |reason: String| StoreError::MigrationDiffers { location: location.clone(), version: *version, reason };
        if *version != expected {
            return Err(differs(format!("{expected} is missing before it")));
        }
        if *checksum != migration.checksum().to_string() {
            return Err(differs(format!("the database has had `{name}` of another text than `{}`", migration.name)));
        }
    }
    Ok(SchemaState { version, known })
}

/// Checks that a database has had all migrations, and no others.
pub(crate) fn verify(engine: &mut impl SqlEngine) -> Result<(), StoreError> {
    let location = engine.location();
    match state(engine)? {
        SchemaState { version: 0, .. } => Err(StoreError::Missing { location }),
        SchemaState { version, known } if version < known => {
            Err(StoreError::OlderSchema { location, found: version, known })
        }
        _ => Ok(()),
    }
}

/// Runs the migrations that a database has not had, up to a number, and returns how many.
pub(crate) fn migrate(engine: &mut impl SqlEngine, to: i64) -> Result<i64, StoreError> {
    let mut n_run = 0;
    loop {
        engine.begin_write()?;
        // Another process may have run the next one in the meantime: each looks again when it has the lock.
        match step(engine, to).and_then(|has_run| engine.commit().map(|()| has_run)) {
            Ok(true) => n_run += 1,
            Ok(false) => return Ok(n_run),
            Err(error) => {
                engine.roll_back();
                return Err(error);
            }
        }
    }
}

fn step(engine: &mut impl SqlEngine, to: i64) -> Result<bool, StoreError> {
    engine.lock_for_migration()?;
    engine.run_script(CREATE_VERSIONS)?;
    let SchemaState { version, .. } = state(engine)?;
    let next = usize::try_from(version).unwrap_or(usize::MAX);
    let Some(migration) = engine.migrations().get(next).filter(|_| version < to) else { return Ok(false) };
    engine.run_script(migration.sql)?;
    let now = engine.now()?;
    let checksum = migration.checksum().to_string();
    let values = [(version + 1).into(), migration.name.into(), checksum.as_str().into(), now.into()];
    engine
        .execute("INSERT INTO schema_version (version, name, checksum, applied_at) VALUES (?1, ?2, ?3, ?4)", &values)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::{POSTGRES_MIGRATIONS, SQLITE_MIGRATIONS};

    /// A new migration is a new line of the file; a changed line is a database that nobody can open any more.
    #[test]
    fn migrations_have_the_checksums_that_are_committed() {
        let mut text = String::new();
        for (dialect, migrations) in [("sqlite", SQLITE_MIGRATIONS), ("postgres", POSTGRES_MIGRATIONS)] {
            for migration in migrations {
                text += &format!("{dialect}/{} {}\n", migration.name, migration.checksum());
            }
        }
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/migrations/checksums.txt");
        if std::env::var_os("POLYLOOM_BLESS").is_some() {
            std::fs::write(path, &text).unwrap();
        }
        assert_eq!(std::fs::read_to_string(path).unwrap(), text);
    }

    #[test]
    fn both_dialects_have_the_same_tables_and_indexes() {
        let names = |migration: &super::Migration| -> Vec<String> {
            let words: Vec<&str> = migration.sql.split_whitespace().collect();
            words.windows(3).filter(|w| w[0] == "CREATE").map(|w| format!("{} {}", w[1], w[2])).collect()
        };
        for (sqlite, postgres) in SQLITE_MIGRATIONS.iter().zip(POSTGRES_MIGRATIONS) {
            assert_eq!((sqlite.name, names(sqlite)), (postgres.name, names(postgres)));
        }
        assert_eq!(SQLITE_MIGRATIONS.len(), POSTGRES_MIGRATIONS.len());
    }
}

//! What each database does when its file or server fails: a typed error, and no panic.

use crate::database::TestDatabase;
use crate::records::{trace, with_traces, world};
use polyloom_store::{DatabaseLocation, StoreError, create, open, open_read_only};
use std::path::PathBuf;

fn file(database: &TestDatabase) -> PathBuf {
    match database.location() {
        DatabaseLocation::Sqlite(path) => path,
        DatabaseLocation::Postgres(url) => panic!("{url}"),
    }
}

#[test]
fn a_file_that_is_no_database_is_damaged() {
    let database = TestDatabase::sqlite();
    std::fs::write(file(&database), "Not a database at all, but a text of some length. ".repeat(200)).unwrap();
    for outcome in [open(&database.location()), create(&database.location()), open_read_only(&database.location())] {
        let error = outcome.map(|_| ()).unwrap_err();
        assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
    }
}

/// Every page of a file is damaged in turn: what reads it says so, or does not need the page.
#[test]
fn damaged_pages_are_errors_and_no_panics() {
    let database = TestDatabase::sqlite();
    let traces = (0..40).map(|i| polyloom_store::TraceRecord { measured_at: i, ..trace(8, 512, "fast", 50) });
    database.create().put(&with_traces(traces)).unwrap();
    let path = file(&database);
    let good = std::fs::read(&path).unwrap();
    let n_pages = good.len() / 4096;
    assert!(n_pages > 10, "{n_pages}");
    let mut n_found = 0;
    for page in 0..n_pages {
        let mut bad = good.clone();
        for (index, byte) in bad[page * 4096..][..4096].iter_mut().enumerate().filter(|(index, _)| index % 3 == 0) {
            *byte = (index * 31 % 251) as u8;
        }
        std::fs::write(&path, &bad).unwrap();
        let is_found = match open(&database.location()) {
            Err(_) => true,
            Ok(mut store) => {
                let _ = store.put(&[crate::records::graph("new").into()]);
                let _ = store.for_each_record(&mut |_| Ok(()));
                store.check(&mut |_, _| {}).map_or(true, |report| !report.problems.is_empty())
            }
        };
        n_found += usize::from(is_found);
        for suffix in ["-wal", "-shm"] {
            let _ = std::fs::remove_file(format!("{}{suffix}", path.display()));
        }
    }
    assert_eq!(n_found, n_pages);
}

#[test]
fn a_lock_that_is_not_given_up_is_an_error() {
    let database = TestDatabase::sqlite();
    let mut store = database.create();
    let holder = rusqlite::Connection::open(file(&database)).unwrap();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    // Readers do not wait for a writer.
    assert_eq!(store.counts().unwrap()["canonical_graphs"], 0);
    let error = store.put(&world()).unwrap_err();
    assert!(matches!(error, StoreError::Locked { .. }), "{error}");
    holder.execute_batch("ROLLBACK").unwrap();
    store.put(&world()).unwrap();
}

#[test]
fn folders_that_cannot_be_made_are_named() {
    let database = TestDatabase::sqlite();
    std::fs::write(file(&database), "").unwrap();
    let below = DatabaseLocation::Sqlite(file(&database).join("x.db"));
    let error = create(&below).map(|_| ()).unwrap_err();
    assert!(matches!(&error, StoreError::CannotOpen { location, .. } if location.ends_with("x.db")), "{error}");
    // An empty file is a database without tables.
    assert!(matches!(open(&database.location()), Err(StoreError::Missing { .. })));
}

#[test]
fn a_server_that_is_not_there_is_lost() {
    let nowhere = tempfile::tempdir().unwrap();
    let url = format!("postgres:///x?host={}&user=a&password=secret", nowhere.path().display());
    let error = open(&DatabaseLocation::parse(&url)).map(|_| ()).unwrap_err();
    assert!(matches!(error, StoreError::ServerLost { .. }), "{error}");
    assert!(!error.to_string().contains("secret"), "{error}");
    let error = open(&DatabaseLocation::parse("postgres://a:99999/x")).map(|_| ()).unwrap_err();
    assert!(matches!(error, StoreError::CannotOpen { .. }), "{error}");
}

#[test]
fn a_connection_that_breaks_is_made_again() {
    let Some(database) = TestDatabase::postgres() else { return };
    let break_others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                        WHERE datname = current_database() AND pid <> pg_backend_pid()";
    let mut store = database.create();
    store.put(&world()).unwrap();
    database.run(break_others);
    let error = store.put(&with_traces([trace(0, 512, "fast", 1)])).unwrap_err();
    assert!(matches!(error, StoreError::ServerLost { .. }), "{error}");
    assert_eq!(store.put(&with_traces([trace(0, 512, "fast", 1)])).unwrap().n_new, 1);
    // A transaction does not go on over another connection.
    let mut is_broken = false;
    let outcome = store.for_each_record(&mut |_| {
        if !std::mem::replace(&mut is_broken, true) {
            database.run(break_others);
        }
        Ok(())
    });
    assert!(matches!(outcome, Err(StoreError::ServerLost { .. })), "{outcome:?}");
    assert_eq!(store.counts().unwrap()["benchmark_traces"], 1);
}

#[test]
fn a_server_without_the_database_or_the_user_says_so() {
    let Some(TestDatabase::Postgres { server, .. }) = &TestDatabase::postgres() else { return };
    let error = open(&DatabaseLocation::Postgres(server.url("not_there"))).map(|_| ()).unwrap_err();
    assert!(matches!(error, StoreError::Missing { .. }), "{error}");
    let url = server.url("postgres").replace("user=postgres", "user=nobody_there");
    if url.contains("nobody_there") {
        let error = open(&DatabaseLocation::Postgres(url)).map(|_| ()).unwrap_err();
        assert!(matches!(error, StoreError::Refused { .. }), "{error}");
    }
}

//! Processes that write at once and are killed in the middle; a process that forks.

use crate::database::TestDatabase;
use crate::records::{hash, trace, world};
use polyloom_store::{ContentHash, DatabaseLocation, StoreRecord, TraceRecord, open};
use std::collections::HashSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const N_PROCESSES: usize = 8;

/// Traces that each process writes: few, or as many as `POLYLOOM_STORE_TRACES` says.
fn n_traces() -> usize {
    std::env::var("POLYLOOM_STORE_TRACES").map_or(40, |text| text.parse().unwrap())
}

/// The trace of a writer's call.
fn written(writer: usize, index: usize) -> TraceRecord {
    let session = format!("writer {writer}");
    TraceRecord { session, measured_at: index as i64, ..trace(8, 512, "fast", 50 + index as u64 % 7) }
}

fn location_text(location: &DatabaseLocation) -> String {
    match location {
        DatabaseLocation::Sqlite(path) => path.to_str().unwrap().to_owned(),
        DatabaseLocation::Postgres(url) => url.clone(),
    }
}

/// Runs a test of this binary in a process of its own.
fn spawn(test: &str, location: &DatabaseLocation, variables: &[(&str, String)]) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--ignored", "--nocapture", "--test-threads=1"])
        .env("POLYLOOM_STORE_CHILD", location_text(location))
        .envs(variables.iter().map(|(name, value)| (name, value)))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Where a process that a test has started finds its database; none in a run of all ignored tests.
fn given() -> Option<DatabaseLocation> {
    Some(DatabaseLocation::parse(&std::env::var("POLYLOOM_STORE_CHILD").ok()?))
}

#[test]
#[ignore = "it is run by other tests in a process of its own"]
fn child_writes() {
    let Some(location) = given() else { return };
    let number = |name: &str| std::env::var(name).unwrap().parse::<usize>().unwrap();
    let (writer, begin) = (number("WRITER"), number("BEGIN"));
    let mut store = open(&location).unwrap();
    let mut out = std::io::stdout();
    for index in begin..n_traces() {
        store.put(&[written(writer, index).into()]).unwrap();
        // What is printed has been acknowledged.
        writeln!(out, "\nwritten {index}").unwrap();
        out.flush().unwrap();
    }
}

fn killed_writers_lose_nothing(database: &TestDatabase) {
    let mut store = database.create();
    store.put(&world()).unwrap();
    let location = database.location();
    let writers: Vec<_> = (0..N_PROCESSES)
        .map(|writer| {
            let location = location.clone();
            std::thread::spawn(move || {
                let mut random = 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(writer as u64 + 1);
                let (mut n_acknowledged, mut n_killed) = (0, 0);
                while n_acknowledged < n_traces() {
                    let variables = [("WRITER", writer.to_string()), ("BEGIN", n_acknowledged.to_string())];
                    let mut child = spawn("concurrency::child_writes", &location, &variables);
                    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
                    let mut n_left = None;
                    random ^= random << 13;
                    random ^= random >> 7;
                    random ^= random << 17;
                    for line in lines {
                        let line = line.unwrap();
                        let Some(index) = line.strip_prefix("written ") else { continue };
                        n_acknowledged = index.parse::<usize>().unwrap() + 1;
                        // It is killed after some of its writes, at any place in the next.
                        let left = n_left.get_or_insert(random as usize % (n_traces() / 2 + 1));
                        if *left == 0 {
                            std::thread::sleep(Duration::from_micros(random % 3_000));
                            let _ = child.kill();
                            n_killed += 1;
                        }
                        *left = left.wrapping_sub(1);
                    }
                    child.wait().unwrap();
                }
                n_killed
            })
        })
        .collect();
    let n_killed: usize = writers.into_iter().map(|writer| writer.join().unwrap()).sum();
    assert!(n_killed >= N_PROCESSES, "only {n_killed} were killed");
    let report = store.check(&mut |_, _| {}).unwrap();
    assert_eq!(report.problems, Vec::<String>::new());
    let mut found = HashSet::<ContentHash>::new();
    let each = &mut |record: StoreRecord| {
        if let StoreRecord::Trace(trace) = record {
            found.insert(trace.hash());
        }
        Ok(())
    };
    store.for_each_record(each).unwrap();
    let expected = (0..N_PROCESSES).flat_map(|writer| (0..n_traces()).map(move |index| written(writer, index).hash()));
    assert_eq!(expected.filter(|trace| !found.contains(trace)).count(), 0);
    assert_eq!(found.len(), N_PROCESSES * n_traces());
}

#[test]
fn killed_writers_of_sqlite_lose_nothing() {
    killed_writers_lose_nothing(&TestDatabase::sqlite());
}

#[test]
fn killed_writers_of_postgres_lose_nothing() {
    if let Some(database) = TestDatabase::postgres() {
        killed_writers_lose_nothing(&database);
    }
}

#[test]
#[ignore = "it is run by other tests in a process of its own"]
fn child_forks() {
    let Some(location) = given() else { return };
    let mut store = open(&location).unwrap();
    store.put(&[written(0, 0).into()]).unwrap();
    // SAFETY: this process has no other thread that holds a lock of the allocator for long: it runs one test, and the
    // child allocates, writes and exits.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let is_put = store.put(&[written(1, 0).into()]).is_ok();
        drop(store);
        // SAFETY: it ends the child without the parent's exit handlers.
        unsafe { libc::_exit(if is_put { 0 } else { 1 }) };
    }
    let mut status = 0;
    // SAFETY: `status` lives through the call.
    unsafe { libc::waitpid(child, &mut status, 0) };
    assert_eq!(status, 0);
    // The parent's connection is still its own.
    store.put(&[written(0, 1).into()]).unwrap();
    println!("\nforked");
}

fn a_forked_process_has_a_connection_of_its_own(database: &TestDatabase) {
    let mut store = database.create();
    store.put(&world()).unwrap();
    let out = spawn("concurrency::child_forks", &database.location(), &[]).wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success() && text.contains("forked"), "{text}");
    let filter = polyloom_store::TraceFilter { graph: hash("matmul"), workload: None, environment: None, limit: None };
    assert_eq!(store.traces(&filter).unwrap().len(), 3);
}

#[test]
fn a_forked_process_has_a_connection_of_its_own_to_sqlite() {
    a_forked_process_has_a_connection_of_its_own(&TestDatabase::sqlite());
}

#[test]
fn a_forked_process_has_a_connection_of_its_own_to_postgres() {
    if let Some(database) = TestDatabase::postgres() {
        a_forked_process_has_a_connection_of_its_own(&database);
    }
}

//! `polyloom db`, as a user runs it.

use crate::{Folder, polyloom, polyloom_with, text};
use polyloom_store::{ContentHash, DatabaseLocation, GraphRecord, open};

fn graph(name: &str) -> GraphRecord {
    let bits = ContentHash::of(name.as_bytes());
    GraphRecord { bits, mathematics: bits, text: name.to_owned(), mathematics_text: name.to_owned() }
}

fn json(bytes: &[u8]) -> serde_json::Value {
    serde_json::from_slice(bytes).unwrap_or_else(|error| panic!("{error}: {}", text(bytes)))
}

#[test]
fn a_database_is_made_filled_checked_and_merged() {
    let folder = Folder::new();
    let (here, there) = (folder.path("data/here.db"), folder.path("there.db"));
    let out = polyloom(&["db", "check", "--database", &here]);
    assert_eq!((out.status.code(), text(&out.stdout)), (Some(1), String::new()));
    assert!(text(&out.stderr).contains("`polyloom db init` makes one"), "{}", text(&out.stderr));
    for place in [&here, &there] {
        // Making one that is there changes nothing.
        for _ in 0..2 {
            let out = polyloom(&["db", "init", "--database", place]);
            assert_eq!((out.status.code(), text(&out.stdout)), (Some(0), format!("{place}, schema 2\n")));
        }
    }
    let put = |place: &str, names: &[&str]| {
        let records: Vec<_> = names.iter().map(|name| graph(name).into()).collect();
        open(&DatabaseLocation::parse(place)).unwrap().put(&records).unwrap();
    };
    put(&here, &["a", "b"]);
    put(&there, &["b", "c"]);
    let file = folder.path("records.jsonl");
    let out = polyloom(&["db", "export", "--database", &there, "-o", &file, "--json"]);
    assert_eq!(json(&out.stdout)["n_records"], 2, "{}", text(&out.stderr));
    let out = polyloom(&["db", "import", "--database", &here, &file, "--json"]);
    assert_eq!(json(&out.stdout), serde_json::json!({"n_new": 1, "n_known": 1}), "{}", text(&out.stderr));
    // The place may be a variable, and an export may go to another program.
    let exported = polyloom_with(&[("POLYLOOM_DATABASE", &here)], &["db", "export"]);
    assert_eq!(text(&exported.stdout).lines().count(), 4);
    let out = polyloom(&["db", "check", "--database", &here, "--json"]);
    let found = json(&out.stdout);
    assert_eq!((out.status.code(), &found["counts"]["canonical_graphs"]), (Some(0), &3.into()));
    assert_eq!((&found["problems"], &found["schema"]["version"]), (&serde_json::json!([]), &2.into()));
    let out = polyloom(&["db", "migrate", "--database", &here, "--json"]);
    assert_eq!(json(&out.stdout)["n_migrations"], 0);
    let out = polyloom_with(&[("POLYLOOM_DATABASE", &here)], &["doctor"]);
    assert!(text(&out.stdout).contains(&format!("database     {here}, 0 measurements")), "{}", text(&out.stdout));
}

#[test]
fn what_goes_wrong_with_a_database_is_said() {
    let folder = Folder::new();
    let place = folder.path("x.db");
    std::fs::write(&place, "no database ".repeat(1000)).unwrap();
    let out = polyloom(&["db", "check", "--database", &place]);
    assert_eq!(out.status.code(), Some(1));
    assert!(text(&out.stderr).contains("x.db is damaged: "), "{}", text(&out.stderr));
    let place = folder.path("y.db");
    polyloom(&["db", "init", "--database", &place]);
    let file = folder.file("wrong.jsonl", "{\"format\":\"polyloom-benchmarks\",\"version\":1}\n{\"table\":3}\n");
    let out = polyloom(&["db", "import", "--database", &place, &file]);
    assert_eq!(out.status.code(), Some(1));
    assert!(text(&out.stderr).contains("wrong.jsonl: line 2: "), "{}", text(&out.stderr));
    let out = polyloom(&["db", "export", "--database", &place, "--format", "t4"]);
    assert_eq!(out.status.code(), Some(2));
    let out = polyloom(&["db", "init", "--database", "postgres://user:secret@localhost:1/x"]);
    assert_eq!(out.status.code(), Some(1));
    let errors = text(&out.stderr);
    assert!(errors.contains("postgres://user:***@localhost:1/x is lost") && !errors.contains("secret"), "{errors}");
}

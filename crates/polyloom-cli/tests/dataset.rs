//! `polyloom dataset`: no row is lost, repeated or torn, and what was tampered with is found.

use super::{Folder, polyloom};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// Without the code that takes longest to make.
const QUICK: [&str; 6] = ["--verify", "run", "--columns", ROW, "--indices-per-file", "24"];
const ROW: &str = "id,kernel_name,category,python_source,cuda_forward,cpp_backward,hir,device,metadata";

fn folder(name: &str) -> (Folder, String) {
    let folder = Folder::new(name);
    let path = folder.path("set");
    let _ = fs::remove_dir_all(&path);
    (folder, path)
}

fn produce(path: &str, more: &[&str]) -> Output {
    polyloom(&[&["dataset", "produce", "--output", path][..], &QUICK, more].concat())
}

fn validate(path: &str) -> Output {
    polyloom(&["dataset", "validate", "--input", path])
}

fn assert_success(output: &Output) {
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Both folders hold the same, but for how long it took to make.
fn assert_same(one: &str, other: &str) {
    let (one, other) = (files(one), files(other));
    assert!(one.keys().eq(other.keys()), "{:?} and {:?}", one.keys(), other.keys());
    for (name, bytes) in one.iter().filter(|(name, _)| name.as_path() != Path::new("stats.json")) {
        assert!(*bytes == other[name], "{} differs", name.display());
    }
}

/// All files of a folder with their bytes.
fn files(path: &str) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![PathBuf::from(path)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("the folder is there") {
            let inner = entry.expect("it can be read").path();
            if inner.is_dir() {
                folders.push(inner);
            } else {
                let name = inner.strip_prefix(path).expect("it is in the folder").to_owned();
                found.insert(name, fs::read(&inner).expect("the file is there"));
            }
        }
    }
    found
}

#[test]
fn the_number_of_threads_makes_no_difference() {
    let (_keep, one) = folder("dataset-one-thread");
    assert_success(&produce(&one, &["--count", "90", "--seed", "5", "--jobs", "1"]));
    let (_keep, three) = folder("dataset-three-threads");
    assert_success(&produce(&three, &["--count", "90", "--seed", "5", "--jobs", "3"]));
    assert_same(&one, &three);
}

#[test]
fn a_run_that_is_killed_fifty_times_ends_with_the_same_bytes() {
    let (_keep, unbroken) = folder("dataset-unbroken");
    let more = ["--count", "240", "--jobs", "2"];
    assert_success(&produce(&unbroken, &more));
    let (_keep, killed) = folder("dataset-killed");
    let mut n_killed = 0;
    let mut wait = 7;
    while n_killed < 50 {
        let mut run = Command::new(env!("CARGO_BIN_EXE_polyloom"))
            .args(["dataset", "produce", "--output", &killed, "--resume"])
            .args(QUICK)
            .args(more)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the command runs");
        wait = (wait * 31 + 17) % 97;
        std::thread::sleep(Duration::from_millis(wait));
        // A run that is done before is none that is killed.
        match run.try_wait().expect("the command is there") {
            Some(_) => {
                let _ = fs::remove_dir_all(&killed);
            }
            None => {
                run.kill().expect("it can be killed");
                run.wait().expect("it ends");
                n_killed += 1;
            }
        }
    }
    assert_success(&produce(&killed, &[&more[..], &["--resume"]].concat()));
    assert_same(&unbroken, &killed);
}

#[test]
fn shards_make_together_what_one_run_makes() {
    let (_keep, whole) = folder("dataset-one-run");
    assert_success(&produce(&whole, &["--count", "150"]));
    let shards: Vec<_> = (0..3).map(|number| folder(&format!("dataset-shard-{number}"))).collect();
    for (number, (_, shard)) in shards.iter().enumerate() {
        assert_success(&produce(shard, &["--count", "150", "--shard", &format!("{number}/3")]));
    }
    let (_keep, merged) = folder("dataset-merged");
    let paths: Vec<&str> = shards.iter().map(|(_, shard)| shard.as_str()).collect();
    assert_success(&polyloom(&[&["dataset", "merge", "--output", &merged, "--count", "150"][..], &paths].concat()));
    assert_same(&whole, &merged);
    let (_keep, torn) = folder("dataset-merged-torn");
    let missing = polyloom(&["dataset", "merge", "--output", &torn, paths[0], paths[2]]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(text(&missing.stderr).contains("indices 24 to 47 are missing"), "{}", text(&missing.stderr));
}

#[test]
fn kernels_like_those_to_leave_out_are_left_out() {
    let (_keep, first) = folder("dataset-all");
    assert_success(&produce(&first, &["--count", "20"]));
    let rows = fs::read_to_string(Path::new(&first).join("data/train-00000.jsonl")).expect("there are rows");
    let (keep, second) = folder("dataset-without");
    let row: Value = serde_json::from_str(rows.lines().nth(1).expect("there are two rows")).expect("it is JSON");
    let jsonl = keep.file("those.jsonl", rows.lines().next().expect("there is a row"));
    let python = keep.file("that.py", row["python_source"].as_str().expect("a text"));
    assert_success(&produce(&second, &["--count", "20", "--exclude", &jsonl, "--exclude", &python]));
    let manifest = fs::read_to_string(Path::new(&second).join("manifest.json")).expect("there is a manifest");
    assert!(manifest.contains("\"excluded\": 2"), "{manifest}");
}

#[test]
fn going_on_with_other_settings_is_refused() {
    let (_keep, path) = folder("dataset-other-settings");
    assert_success(&produce(&path, &["--count", "20"]));
    let before = files(&path);
    let again = produce(&path, &["--count", "20"]);
    assert_eq!(again.status.code(), Some(1));
    assert!(text(&again.stderr).contains("holds 20 rows of a data set already"), "{}", text(&again.stderr));
    let other = produce(&path, &["--count", "20", "--seed", "9", "--resume"]);
    assert_eq!(other.status.code(), Some(1));
    assert!(text(&other.stderr).contains("seed: 0 there, 9 here"), "{}", text(&other.stderr));
    assert!(files(&path) == before);
}

#[test]
fn a_folder_that_cannot_be_written_is_one_error() {
    let (keep, _) = folder("dataset-unwritable");
    let file = keep.file("file", "");
    let output = produce(&format!("{file}/set"), &["--count", "20"]);
    assert_eq!(output.status.code(), Some(1));
    let message = text(&output.stderr);
    assert!(message.lines().count() == 1 && message.contains("file/set"), "{message}");
}

#[test]
fn what_is_produced_is_valid() {
    let (_keep, path) = folder("dataset-valid");
    assert_success(&produce(&path, &["--count", "60"]));
    let output = validate(&path);
    assert_success(&output);
    assert!(text(&output.stdout).starts_with("60 rows"), "{}", text(&output.stdout));
}

/// A data set whose first file of rows is changed, and the manifest with it, so that checksums are right again.
fn tampered(path: &str, change: &dyn Fn(&mut Vec<Value>)) {
    let manifest_path = Path::new(path).join("manifest.json");
    let read = fs::read(&manifest_path).expect("there is a manifest");
    let mut manifest: Value = serde_json::from_slice(&read).expect("it is JSON");
    let file = &mut manifest["chunks"][0]["files"][0];
    let rows_path = Path::new(path).join(file["path"].as_str().expect("a path"));
    let rows = fs::read_to_string(&rows_path).expect("there are rows");
    let mut rows: Vec<Value> = rows.lines().map(|line| serde_json::from_str(line).expect("a row")).collect();
    change(&mut rows);
    let bytes: String = rows.iter().map(|row| format!("{row}\n")).collect();
    file["bytes"] = json!(bytes.len());
    file["blake3"] = json!(blake3::hash(bytes.as_bytes()).to_hex().as_str());
    fs::write(&rows_path, bytes).expect("rows can be written");
    fs::write(&manifest_path, manifest.to_string()).expect("the manifest can be written");
}

fn fields(row: &mut Value) -> &mut Map<String, Value> {
    row.as_object_mut().expect("a row is an object")
}

fn edit(row: &mut Value, column: &str, change: impl Fn(&str) -> String) {
    let before = row[column].as_str().expect("a text").to_owned();
    let after = change(&before);
    assert_ne!(before, after, "{column}");
    row[column] = json!(after);
}

#[test]
fn what_was_tampered_with_is_found() {
    let (_keep, whole) = folder("dataset-whole");
    assert_success(&produce(&whole, &["--count", "40"]));
    // The first row in which an edit finds something to change.
    let with = |rows: &[Value], column: &str, pattern: &str| {
        let has = |row: &Value| row[column].as_str().is_some_and(|text| text.contains(pattern));
        rows.iter().position(has).unwrap_or_else(|| panic!("a row with {pattern} in {column}"))
    };
    type Change<'a> = Box<dyn Fn(&mut Vec<Value>) + 'a>;
    let replace = |column: &'static str, from: &'static str, to: &'static str| -> Change<'_> {
        Box::new(move |rows| {
            let at = with(rows, column, from);
            edit(&mut rows[at], column, |text| text.replacen(from, to, 1));
        })
    };
    let metadata = |field: &'static str, value: Value| -> Change<'_> {
        Box::new(move |rows| {
            assert_ne!(rows[0]["metadata"][field], value);
            rows[0]["metadata"][field] = value.clone();
        })
    };
    let changes: Vec<(&str, Change<'_>)> = vec![
        (
            "columns of code swapped",
            Box::new(|rows| {
                let row = fields(&mut rows[0]);
                let (cuda, cpp) = (row["cuda_forward"].clone(), row["cpp_backward"].clone());
                row.insert("cuda_forward".to_owned(), cpp);
                row.insert("cpp_backward".to_owned(), cuda);
            }),
        ),
        (
            "texts of two rows swapped",
            Box::new(|rows| {
                let (first, second) = (rows[0]["python_source"].clone(), rows[1]["python_source"].clone());
                rows[0]["python_source"] = second;
                rows[1]["python_source"] = first;
            }),
        ),
        (
            "code of two rows swapped",
            Box::new(|rows| {
                let (first, second) = (rows[0]["cuda_forward"].clone(), rows[1]["cuda_forward"].clone());
                rows[0]["cuda_forward"] = second;
                rows[1]["cuda_forward"] = first;
            }),
        ),
        ("an off-by-one in CUDA", replace("cuda_forward", "dim.index(thread, 0)", "dim.index(thread, 1)")),
        ("an off-by-one in Python", replace("python_source", "tid()", "tid() + 1")),
        ("a changed sign in Python", replace("python_source", " + ", " - ")),
        ("a changed sign in CUDA", replace("cuda_forward", " + threadIdx.x", " - threadIdx.x")),
        ("a changed constant", replace("python_source", "0.5", "0.25")),
        ("CUDA cut off", Box::new(|rows| edit(&mut rows[0], "cuda_forward", |text| text[..text.len() / 2].to_owned()))),
        ("a last line cut off", Box::new(|rows| edit(&mut rows[0], "hir", |text| text.trim_end().to_owned()))),
        (
            "Python cut off",
            Box::new(|rows| edit(&mut rows[0], "python_source", |text| text[..text.len() - 9].to_owned())),
        ),
        ("an empty text", Box::new(|rows| edit(&mut rows[0], "cpp_backward", |_| String::new()))),
        ("a space more", Box::new(|rows| edit(&mut rows[0], "cuda_forward", |text| format!("{text} ")))),
        ("another name", Box::new(|rows| edit(&mut rows[0], "kernel_name", |name| format!("{name}_2")))),
        ("another category", Box::new(|rows| edit(&mut rows[0], "category", |_| "poetry".to_owned()))),
        (
            "another category that there is",
            Box::new(|rows| {
                edit(&mut rows[0], "category", |name| if name == "math" { "vector" } else { "math" }.to_owned());
            }),
        ),
        ("another id", Box::new(|rows| edit(&mut rows[0], "id", |id| format!("{id}0")))),
        ("another device", Box::new(|rows| edit(&mut rows[0], "device", |_| "cuda".to_owned()))),
        ("a backward kernel denied", metadata("has_backward", json!(false))),
        ("a wrong number of lines", metadata("forward_lines", json!(3))),
        ("a wrong list of ops", metadata("ops", json!(["add"]))),
        ("a wrong depth", metadata("depth", json!(77))),
        ("a wrong difficulty", metadata("difficulty", json!(9))),
        ("another seed", metadata("seed", json!(123))),
        ("another index", metadata("index", json!(123_456))),
        ("another licence", metadata("license", json!("Beerware"))),
        ("a lower level", metadata("verified", json!("parse"))),
        ("a level that is none", metadata("verified", json!("sworn"))),
        ("no inputs", metadata("inputs", json!([]))),
        (
            "a wider range of an input",
            Box::new(|rows| {
                let values = &mut rows[0]["metadata"]["inputs"][0]["values"];
                assert_ne!(values["low"], json!(-1e9));
                values["low"] = json!(-1e9);
            }),
        ),
        (
            "a wrong hash of the structure",
            Box::new(|rows| rows[0]["metadata"]["hashes"]["structure"] = json!("00112233445566778899aabbccddeeff")),
        ),
        (
            "a wrong hash of the text",
            Box::new(|rows| rows[0]["metadata"]["hashes"]["exact"] = json!("00112233445566778899aabbccddeeff")),
        ),
        ("a column left out", Box::new(|rows| drop(fields(&mut rows[0]).remove("cuda_forward")))),
        ("a column too many", Box::new(|rows| drop(fields(&mut rows[0]).insert("score".to_owned(), json!(1))))),
        ("no metadata", Box::new(|rows| rows[0]["metadata"] = Value::Null)),
        ("a row twice", Box::new(|rows| rows[1] = rows[0].clone())),
        ("a row left out", Box::new(|rows| drop(rows.pop()))),
        ("a row too many", Box::new(|rows| rows.push(json!({ "id": "x" })))),
    ];
    assert!(changes.len() >= 20);
    for (what, change) in changes {
        let (_keep, path) = folder("dataset-tampered");
        for (name, bytes) in files(&whole) {
            let to = Path::new(&path).join(name);
            fs::create_dir_all(to.parent().expect("it is in a folder")).expect("a folder");
            fs::write(to, bytes).expect("a file");
        }
        tampered(&path, &*change);
        let output = validate(&path);
        assert_eq!(output.status.code(), Some(1), "{what}: {}", text(&output.stdout));
        println!(
            "{what}:\n{}",
            text(&output.stdout).lines().filter(|line| line.starts_with("data")).collect::<Vec<_>>().join("\n")
        );
    }
}

#[test]
fn a_changed_byte_is_found_by_the_checksum() {
    let (_keep, path) = folder("dataset-checksum");
    assert_success(&produce(&path, &["--count", "20"]));
    let file = Path::new(&path).join("keys/00000.bin");
    let mut bytes = fs::read(&file).expect("there are keys");
    bytes[3] ^= 1;
    fs::write(&file, bytes).expect("the file can be written");
    let output = validate(&path);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).contains("keys/00000.bin: is not the file that the manifest lists"));
}

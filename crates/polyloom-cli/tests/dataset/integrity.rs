//! A data set's files go together, or it is said which do not.

use super::{ROW, ROWS, assert_success, copy, files, folder, mended, produce, text, validate};
use crate::polyloom;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

#[test]
fn what_says_of_a_data_set_what_it_is_not_is_found() {
    let (_keep, path) = folder();
    assert_success(&produce(&path, &["--count", "30"]));
    let good = files(&path);
    let in_json = |name: &str, change: &dyn Fn(&mut Value)| {
        let mut value: Value = serde_json::from_slice(&good[Path::new(name)]).expect("it is JSON");
        change(&mut value);
        (name.to_owned(), value.to_string())
    };
    let row = good[Path::new("data/train-00000.jsonl")].clone();
    let cases = [
        (
            in_json("stats.json", &|stats| stats["total_pairs"] = json!(9000)),
            "stats.json: is not what the manifest gives",
        ),
        (in_json("manifest.json", &|it| it["is_finished"] = json!(false)), "is not finished"),
        (
            in_json("manifest.json", &|it| it["chunks"][0]["files"][1] = it["chunks"][0]["files"][0].clone()),
            "`data/train-00000.jsonl` is in it twice",
        ),
        (
            in_json("manifest.json", &|it| drop(it["chunks"].as_array_mut().expect("chunks").pop())),
            "manifest.json: ends before all that is asked for is there",
        ),
        (
            in_json("manifest.json", &|it| drop(it["chunks"].as_array_mut().expect("chunks").remove(0))),
            "manifest.json: indices 24 to ",
        ),
        (
            in_json("manifest.json", &|it| it["chunks"][0]["files"][0]["path"] = json!("data/../../../dev/zero")),
            "`data/../../../dev/zero` is no file of a data set",
        ),
        (in_json("manifest.json", &|it| it["chunks"] = json!([])), "data/train-00000.jsonl: is not in the manifest"),
        (
            in_json("manifest.json", &|it| it["settings"]["arch"] = json!("sm_90")),
            "arch is sm_80, the manifest says sm_90",
        ),
        (("README.md".to_owned(), "# Mine".to_owned()), "README.md: is not what the manifest gives"),
        (("data/train-99999.jsonl".to_owned(), text(&row)), "data/train-99999.jsonl: is not in the manifest"),
    ];
    for ((name, changed), expected) in cases {
        fs::write(Path::new(&path).join(&name), changed).expect("it can be written");
        let output = validate(&path);
        let found = text(&output.stdout) + &text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{name}: {found}");
        assert!(found.contains(expected), "{name}: {found}");
        match good.get(Path::new(&name)) {
            Some(bytes) => fs::write(Path::new(&path).join(&name), bytes).expect("it can be written"),
            None => fs::remove_file(Path::new(&path).join(&name)).expect("it can be removed"),
        }
    }
    assert_success(&validate(&path));
}

/// The bytes of a row's key.
const KEY: usize = 88;

#[test]
fn files_that_do_not_go_together_are_found() {
    let one_chunk = |path: &str, more: &[&str]| {
        let of_all = ["dataset", "produce", "--verify", "run", "--columns", ROW, "--output", path, "--count"];
        assert_success(&polyloom(&[&of_all[..], more].concat()));
    };
    let (_keep, known) = folder();
    one_chunk(&known, &["3"]);
    let (_keep, whole) = folder();
    let known = Path::new(&known).join(ROWS);
    one_chunk(&whole, &["60", "--exclude", known.to_str().expect("a path of ASCII")]);
    let fewer = |number: &mut Value| *number = json!(number.as_u64().expect("a number") - 1);
    let last_of_train = |keys: &[u8]| {
        let is_train = |key: &&[u8]| u128::from_le_bytes(key[32..48].try_into().expect("16 bytes")) % 100 < 90;
        keys.chunks(KEY).rposition(|key| is_train(&key)).expect("a row of it") * KEY
    };
    let keys_without = |mut keys: Vec<u8>| {
        let at = last_of_train(&keys);
        keys.drain(at..at + KEY);
        keys
    };
    let nothing = |_: &mut Value| {};
    type Case<'a> = (&'a str, &'a dyn Fn(Vec<u8>) -> Vec<u8>, &'a dyn Fn(&mut Value), &'a str);
    let cases: [Case<'_>; 13] = [
        (
            "rejects/00000.jsonl",
            &|bytes| text(&bytes).replacen("\"excluded\"", "\"panic\"", 1).into_bytes(),
            &nothing,
            "rejects of indices 0 to",
        ),
        (
            "rejects/00000.jsonl",
            &|bytes| [&bytes[..], b"{\"index\":4,\"reason\":\"duplicate\"}\n"].concat(),
            &nothing,
            "index 4 has a row and a reason for having none",
        ),
        (
            "rejects/00000.jsonl",
            &|bytes| text(&bytes).split_inclusive('\n').skip(1).collect::<String>().into_bytes(),
            &nothing,
            " rejected kernels, and the row is of kernel ",
        ),
        ("rejects/00000.jsonl", &|_| b"{}\n".to_vec(), &nothing, "rejects/00000.jsonl: cannot be read: missing field"),
        (
            "keys/00000.bin",
            &|mut bytes| {
                bytes[50] ^= 1;
                bytes
            },
            &nothing,
            "is not the row whose key stands in its place",
        ),
        (
            "keys/00000.bin",
            &|bytes| bytes[KEY..].to_vec(),
            &nothing,
            "keys/00000.bin: does not have a key for each row",
        ),
        (
            ROWS,
            &|bytes| bytes,
            &|it| it["statistics"]["histograms"]["ops"]["add"] = json!(1),
            "the statistics are not those of the rows",
        ),
        (ROWS, &|bytes| bytes, &|it| it["settings"]["count"] = json!(7), "lists more rows than are asked for"),
        (ROWS, &|bytes| bytes, &|it| it["chunks"][0]["first"] = json!(3), "are not what comes next"),
        (
            ROWS,
            &|bytes| bytes,
            &|it| {
                let end = it["chunks"][0]["end"].as_u64().expect("a number");
                it["chunks"][0]["end"] = json!(end + 2);
            },
            "and 1 more have neither a row nor a reason for having none",
        ),
        (ROWS, &|bytes| bytes, &|it| it["chunks"][0]["rows"] = json!(u64::MAX), "and there are 60"),
        (
            ROWS,
            &|bytes| bytes,
            &|it| {
                let all = u64::MAX;
                it["chunks"][0]["end"] = json!(all);
                it["settings"]["indices_per_chunk"] = json!(all);
            },
            "more have neither a row nor a reason for having none",
        ),
        (ROWS, &|bytes| bytes, &|it| it["settings"]["seed"] = json!(1), "is not what seed 1 and index"),
    ];
    for (file, change, mend, expected) in cases {
        let (_keep, path) = folder();
        copy(&whole, &path);
        mended(&path, file, change, mend);
        let output = validate(&path);
        assert_eq!(output.status.code(), Some(1), "{expected}");
        assert!(text(&output.stdout).contains(expected), "{expected}: {}", text(&output.stdout));
    }
    // A row that is left out everywhere.
    let (_keep, path) = folder();
    copy(&whole, &path);
    let rows = |bytes: Vec<u8>| {
        let text = text(&bytes);
        let end = text.trim_end().rfind('\n').expect("several rows") + 1;
        text.as_bytes()[..end].to_vec()
    };
    mended(&path, ROWS, &rows, &|it| {
        fewer(&mut it["chunks"][0]["rows"]);
        for file in it["chunks"][0]["files"].as_array_mut().expect("files") {
            if file["path"] == ROWS || file["path"] == "keys/00000.bin" {
                fewer(&mut file["rows"]);
            }
        }
    });
    mended(&path, "keys/00000.bin", &keys_without, &nothing);
    let output = validate(&path);
    let found: Vec<String> =
        text(&output.stdout).lines().filter(|line| line.contains(": ")).map(str::to_owned).collect();
    assert!(found[0].ends_with("has neither a row nor a reason for having none"), "{found:?}");
}

#[test]
fn a_changed_byte_is_found_by_the_checksum() {
    let (_keep, path) = folder();
    assert_success(&produce(&path, &["--count", "20"]));
    let file = Path::new(&path).join("keys/00000.bin");
    let mut bytes = fs::read(&file).expect("there are keys");
    bytes[3] ^= 1;
    fs::write(&file, bytes).expect("the file can be written");
    let output = validate(&path);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).contains("keys/00000.bin: is not the file that the manifest lists"));
}

/// A checksum that was mended says nothing of bytes that hold the same rows.
#[test]
fn files_that_no_run_writes_are_found() {
    let check = |more: &[&str], name: &str, change: &dyn Fn(Vec<u8>) -> Vec<u8>, expected: &str| {
        let (_keep, path) = folder();
        assert_success(&produce(&path, &[&["--count", "40"], more].concat()));
        mended(&path, name, change, &|_| {});
        let output = validate(&path);
        let found = text(&output.stdout);
        assert_eq!(output.status.code(), Some(1), "{name}: {found}");
        assert!(found.contains(&format!("{name}: {expected}")), "{name}: {found}");
    };
    let written = "is not what a run writes of these lines";
    let without_last = |mut bytes: Vec<u8>| {
        bytes.pop();
        bytes
    };
    check(&[], "data/train-00000.jsonl", &without_last, written);
    check(&[], "rejects/00000.jsonl", &without_last, written);
    // A frame that decompressors skip.
    let skipped = |bytes: Vec<u8>| [&bytes[..], b"\x50\x2a\x4d\x18\x04\0\0\0more"].concat();
    check(&["--zstd"], "data/train-00000.jsonl.zst", &skipped, written);
    let by_another = |bytes: Vec<u8>| {
        let at = bytes.windows(9).rposition(|window| window == b"polyloom ").expect("who has written it");
        [&bytes[..at], b"somebody ", &bytes[at + 9..]].concat()
    };
    check(&["--format", "parquet"], "data/train-00000.parquet", &by_another, written);
    // The kernels that are no rows are those of their indices, too.
    let changed = |from: &'static str, to: &'static str| {
        move |bytes: Vec<u8>| {
            let lines = text(&bytes);
            assert!(lines.contains(from), "{lines}");
            lines.replacen(from, to, 1).into_bytes()
        }
    };
    check(&[], "rejects/00000.jsonl", &changed("import ", "import  "), "line 1 is not of what seed 0 and index ");
    check(&[], "rejects/00000.jsonl", &changed("\"category\":", "\"category\": "), "line 1 is not what a run writes");
}

/// The library that reads Parquet panics at some files.
#[test]
fn damaged_files_of_rows_are_one_error() {
    let (keep, path) = folder();
    assert_success(&produce(&path, &["--count", "3", "--format", "parquet"]));
    let good = fs::read(Path::new(&path).join("data/train-00000.parquet")).expect("it is there");
    let (damaged, other) = (keep.path("damaged.parquet"), keep.path("other"));
    let footer = good.len() - 2000;
    for at in (0..2000).step_by(40) {
        let mut bytes = good.clone();
        bytes[footer + at] ^= 1 << (at / 40 % 8);
        fs::write(&damaged, bytes).expect("it can be written");
        let output = produce(&other, &["--count", "1", "--exclude", &damaged, "--resume"]);
        assert!(matches!(output.status.code(), Some(0 | 1)), "{at}: {}", text(&output.stderr));
    }
}

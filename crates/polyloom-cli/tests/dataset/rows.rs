//! Rows are valid as they are written, and what was tampered with is found.

use super::{ROWS, assert_success, copy, folder, mended, produce, tampered, text, validate};
use crate::polyloom;
use polyloom::Arch;
use polyloom_dataset::{
    Category, DatasetManifest, DatasetProgram, GpuCode, KernelVerifier, ProduceSettings, ProofLevel, Row,
};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Output;

#[test]
fn what_is_produced_is_valid() {
    for format in [&["--format", "jsonl"][..], &["--zstd"], &["--format", "parquet"]] {
        let (_keep, path) = folder();
        assert_success(&produce(&path, &[&["--count", "60"], format].concat()));
        let output = validate(&path);
        assert_success(&output);
        assert!(text(&output.stdout).starts_with("60 rows"), "{}", text(&output.stdout));
    }
}

#[test]
fn what_programs_read_is_json() {
    let (_keep, path) = folder();
    let json = |output: Output| -> Value {
        assert_success(&output);
        serde_json::from_slice(&output.stdout).expect("it is JSON")
    };
    assert_eq!(json(produce(&path, &["--index-range", "0..12", "--json"]))["verified"], json!("run"));
    assert_eq!(json(polyloom(&["dataset", "validate", "--input", &path, "--json"]))["findings"], json!([]));
    let row = json(polyloom(&["dataset", "show", "--input", &path, "--json"]));
    assert!(row["python_source"].is_string() && row["metadata"]["index"] == json!(0), "{row}");
    let (_keep, merged) = folder();
    let stats = json(polyloom(&["dataset", "merge", "--output", &merged, &path, "--json"]));
    let of_shard: Value = json(polyloom(&["dataset", "stats", "--input", &path, "--json"]));
    // Merging makes no rows: what was made took what it took.
    assert_eq!(stats, of_shard);
}

#[test]
fn a_data_set_without_what_rows_are_proved_by_is_one_error() {
    let (_keep, set) = folder();
    let of = |columns: &str| {
        let _ = fs::remove_dir_all(&set);
        let more = ["--count", "20", "--verify", "parse", "--columns", columns];
        assert_success(&polyloom(&[&["dataset", "produce", "--output", &set][..], &more].concat()));
        // No file of rows is looked at.
        fs::remove_dir_all(Path::new(&set).join("data")).expect("it is there");
        let output = validate(&set);
        assert_eq!(output.status.code(), Some(2));
        (text(&output.stdout), text(&output.stderr))
    };
    let (out, message) = of("id,kernel_name,category,python_source,hir,metadata");
    let wanted = "polyloom: the data set cannot be validated without the column device\n";
    assert_eq!((out.as_str(), message.as_str()), ("", wanted));
    let (out, message) = of("kernel_name,category,python_source,metadata");
    let wanted = "polyloom: the data set cannot be validated without the columns id and device\n";
    assert_eq!((out.as_str(), message.as_str()), ("", wanted));
}

/// The sample is of this generator; the compiler's code may be another by now: what its rows say of themselves has to hold.
#[test]
fn rows_of_the_sample_are_right() {
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/dataset");
    let rows: Vec<Row> = polyloom_dataset::rows(&sample).expect("it is there").map(|row| row.expect("a row")).collect();
    assert_eq!(rows.len(), 100);
    let manifest = DatasetManifest::read(&sample).expect("it can be read").expect("it is there");
    assert_eq!(manifest.settings.generator, ProduceSettings::new(1, 0).generator, "make dataset-sample");
    let mut n_corrupted = 0;
    let categories: BTreeSet<&str> = rows.iter().map(|row| row.category.as_str()).collect();
    assert_eq!(categories, Category::ALL.iter().map(|category| category.name()).collect());
    let verifier = KernelVerifier::new(Arch::DEFAULT).expect("the back ends work here");
    for row in rows.iter().step_by(5) {
        let metadata = row.metadata.clone().expect("it has metadata");
        assert_eq!(metadata.verified, ProofLevel::Full);
        let program = DatasetProgram {
            name: row.kernel_name.clone(),
            category: row.category.clone().into(),
            difficulty: metadata.difficulty,
            source: row.python_source.clone(),
            inputs: metadata.inputs,
            dim: metadata.launch,
        };
        let verified = verifier.compile(&program.name, &program.source).and_then(|kernel| {
            verifier.verify(&program, &kernel, ProofLevel::Grad, || Ok(GpuCode::default()))?;
            verifier.simulate(&program, &kernel, row.ptx_forward.as_deref().unwrap_or_default())?;
            let Some(ptx) = &row.ptx_backward else { return Ok(()) };
            verifier.simulate_backward(&program, &kernel, ptx)?;
            let wrong = ptx.replacen("mul.rn.f32", "add.rn.f32", 1);
            if wrong != *ptx && verifier.simulate_backward(&program, &kernel, &wrong).is_err() {
                n_corrupted += 1;
            }
            Ok(())
        });
        assert!(verified.is_ok(), "{}: {verified:?}", row.id);
        for code in [&row.cuda_forward, &row.cpp_forward, &row.ptx_forward, &row.llvm_ir_forward, &row.hir] {
            assert!(code.as_ref().is_some_and(|code| code.contains(&row.kernel_name)), "{}", row.id);
        }
        assert_eq!(metadata.has_backward, row.cuda_backward.is_some() && row.ptx_backward.is_some());
    }
    // Not every product has a part in a derivative.
    assert!(n_corrupted >= 5, "{n_corrupted} wrong backward kernels are found");
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
    let (_keep, whole) = folder();
    // The first row has a backward kernel.
    assert_success(&produce(&whole, &["--count", "40", "--seed", "3"]));
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
    let swap = |column: &'static str| -> Change<'_> {
        Box::new(move |rows| {
            let (first, second) = (rows[0][column].clone(), rows[1][column].clone());
            (rows[0][column], rows[1][column]) = (second, first);
        })
    };
    // What is done to the rows, and what is found.
    let changes: Vec<(&str, Change<'_>, &str)> = vec![
        (
            "columns of code swapped",
            Box::new(|rows| {
                let row = fields(&mut rows[0]);
                let (cuda, cpp) = (row["cuda_forward"].clone(), row["cpp_backward"].clone());
                row.insert("cuda_forward".to_owned(), cpp);
                row.insert("cpp_backward".to_owned(), cuda);
            }),
            " cuda_forward, line ",
        ),
        ("texts of two rows swapped", swap("python_source"), " is not what seed "),
        ("code of two rows swapped", swap("cuda_forward"), " cuda_forward, line "),
        (
            "an off-by-one in CUDA",
            replace("cuda_forward", "dim.index(thread, 0)", "dim.index(thread, 1)"),
            "dim.index(thread, 1);`, and the text compiles to `",
        ),
        ("an off-by-one in Python", replace("python_source", "tid()", "tid() + 1"), " is not what seed "),
        ("a changed sign in Python", replace("python_source", " + ", " - "), " is not what seed "),
        ("a changed sign in CUDA", replace("cuda_forward", " + threadIdx.x", " - threadIdx.x"), " cuda_forward, line "),
        ("a changed constant", replace("python_source", "0.5", "0.25"), " is not what seed "),
        (
            "CUDA cut off",
            Box::new(|rows| edit(&mut rows[0], "cuda_forward", |text| text[..text.len() / 2].to_owned())),
            " cuda_forward, line ",
        ),
        (
            "a last line cut off",
            Box::new(|rows| edit(&mut rows[0], "hir", |text| text.trim_end().to_owned())),
            " hir, line ",
        ),
        (
            "Python cut off",
            Box::new(|rows| edit(&mut rows[0], "python_source", |text| text[..text.len() - 9].to_owned())),
            " is not what seed ",
        ),
        (
            "an empty text",
            Box::new(|rows| edit(&mut rows[0], "cpp_backward", |_| String::new())),
            " cpp_backward, line 1: the end of it",
        ),
        (
            "a space more",
            Box::new(|rows| edit(&mut rows[0], "cuda_forward", |text| format!("{text} "))),
            " cuda_forward, line ",
        ),
        (
            "another name",
            Box::new(|rows| edit(&mut rows[0], "kernel_name", |name| format!("{name}_2"))),
            " is not what seed ",
        ),
        ("another category", Box::new(|rows| edit(&mut rows[0], "category", |_| "poetry".to_owned())), "poetry"),
        (
            "another category that there is",
            Box::new(|rows| {
                edit(&mut rows[0], "category", |name| if name == "math" { "vector" } else { "math" }.to_owned());
            }),
            " is not what seed ",
        ),
        ("another id", Box::new(|rows| edit(&mut rows[0], "id", |id| format!("{id}0"))), " id, line 1: "),
        ("another device", Box::new(|rows| edit(&mut rows[0], "device", |_| "cuda".to_owned())), " device is cuda"),
        ("a backward kernel denied", metadata("has_backward", json!(false)), " metadata: has_backward is false"),
        ("a wrong number of lines", metadata("forward_lines", json!(3)), " metadata: forward_lines is 3"),
        ("a wrong list of ops", metadata("ops", json!(["add"])), " metadata: ops is [\"add\"]"),
        ("a wrong depth", metadata("depth", json!(77)), " metadata: depth is 77"),
        ("a wrong difficulty", metadata("difficulty", json!(9)), " is not what seed "),
        ("another seed", metadata("seed", json!(123)), "and the text compiles to `polyloom-123-0`"),
        ("another index", metadata("index", json!(123_456)), " and index 123456 give"),
        ("another licence", metadata("license", json!("Beerware")), " metadata: license is \"Beerware\""),
        ("a lower level", metadata("verified", json!("parse")), " is verified to `parse`"),
        ("a level that is none", metadata("verified", json!("sworn")), " is no row: unknown variant `sworn`"),
        ("no inputs", metadata("inputs", json!([])), " is not what seed "),
        (
            "a wider range of an input",
            Box::new(|rows| {
                let values = &mut rows[0]["metadata"]["inputs"][0]["values"];
                assert_ne!(values["low"], json!(-1e9));
                values["low"] = json!(-1e9);
            }),
            " is not what seed ",
        ),
        (
            "a wrong hash of the structure",
            Box::new(|rows| rows[0]["metadata"]["hashes"]["structure"] = json!("00112233445566778899aabbccddeeff")),
            " metadata: hashes is {",
        ),
        (
            "a wrong hash of the text",
            Box::new(|rows| rows[0]["metadata"]["hashes"]["exact"] = json!("00112233445566778899aabbccddeeff")),
            " metadata: hashes is {",
        ),
        (
            "a column left out",
            Box::new(|rows| drop(fields(&mut rows[0]).remove("cuda_forward"))),
            " cuda_forward is missing",
        ),
        (
            "a column too many",
            Box::new(|rows| drop(fields(&mut rows[0]).insert("score".to_owned(), json!(1)))),
            " is no row: unknown field `score`",
        ),
        ("no metadata", Box::new(|rows| rows[0]["metadata"] = Value::Null), " has no metadata"),
        ("a row twice", Box::new(|rows| rows[1] = rows[0].clone()), " is not the only row of index "),
        ("a row left out", Box::new(|rows| drop(rows.pop())), ": has "),
        ("a row too many", Box::new(|rows| rows.push(json!({ "id": "x" }))), " x has no metadata"),
    ];
    assert!(changes.len() >= 20);
    for (what, change, found) in changes {
        let (_keep, path) = folder();
        copy(&whole, &path);
        tampered(&path, &*change);
        let output = validate(&path);
        let out = text(&output.stdout);
        assert_eq!(output.status.code(), Some(1), "{what}: {out}");
        let in_rows: Vec<&str> = out.lines().filter(|line| line.starts_with(ROWS)).collect();
        assert!(in_rows.iter().any(|line| line.contains(found)), "{what}: {}", in_rows.join("\n"));
    }
}

/// Whatever is found in rows that were tampered with is not found in what is merely written anew.
#[test]
fn rows_that_are_written_anew_are_valid() {
    let (_keep, path) = folder();
    assert_success(&produce(&path, &["--count", "20"]));
    let before = fs::read(Path::new(&path).join(ROWS)).expect("it is there");
    tampered(&path, &|_| {});
    assert!(fs::read(Path::new(&path).join(ROWS)).expect("it is there") == before, "they are other bytes");
    assert_success(&validate(&path));
}

#[test]
fn a_row_that_is_like_another_is_found() {
    let (keep, path) = folder();
    let kernel = |name: &str, factor: &str| {
        format!(
            "import warp as wp\n\n\n@wp.kernel\ndef {name}(x: wp.array(dtype=float), y: wp.array(dtype=float)):\n    \
             i = wp.tid()\n    y[i] = {factor} * x[i]\n"
        )
    };
    let (one, other) = (keep.file("one.py", &kernel("scale", "2.0")), keep.file("other.py", &kernel("stretch", "3.0")));
    assert_success(&produce(&path, &["--from", &one, "--from", &other, "--dedup", "exact"]));
    assert_success(&validate(&path));
    mended(&path, "keys/00000.bin", &|bytes| bytes, &|it| it["settings"]["dedup"] = json!("structure"));
    let output = validate(&path);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stdout));
    assert!(text(&output.stdout).contains(":2: is the same as row 1 of data/"), "{}", text(&output.stdout));
}

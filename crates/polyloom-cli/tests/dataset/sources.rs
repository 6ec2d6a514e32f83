//! Kernels that people have written become rows, or are left out with the reason.

use super::{assert_success, files, folder, lines, produce, tampered, text, validate, write_sources};
use crate::polyloom;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

/// Kernels that write one number or nothing, even to arrays that are longer than the launch, and one that writes a mask.
#[test]
fn constant_kernels_of_files_are_no_rows() {
    let (keep, set) = folder();
    let head = "import polyloom as loom\n\n\n";
    let kernel = |name: &str, body: &str| {
        format!(
            "@loom.kernel\ndef {name}(x: loom.array(dtype=float), y: loom.array(dtype=float)):\n    i = loom.tid()\n    {body}\n\n\n"
        )
    };
    let text = [
        head.to_owned(),
        kernel("five", "y[i] = 5.0 + 0.0 * x[i]"),
        kernel("mask", "y[i] = loom.where(x[i] > 0.5, 1.0, 0.0)"),
        kernel("nothing", "z = x[i] + y[i]"),
        // A parameter that a launch has as three numbers, before the array that is written.
        "@loom.kernel\ndef behind(v: loom.vec3, y: loom.array(dtype=float)):\n    i = loom.tid()\n    \
         y[i] = 5.0 + 0.0 * v[0]\n\n\n"
            .to_owned(),
        "@loom.kernel\ndef empty():\n    pass\n".to_owned(),
    ];
    let file = keep.file("constant.py", &text.concat());
    assert_success(&produce(&set, &["--from", &file]));
    let names: Vec<_> = lines(&set, "data").iter().map(|row| row["kernel_name"].clone()).collect();
    assert_eq!(names, ["mask"]);
    assert!(lines(&set, "rejects").iter().all(|reject| reject["reason"] == "constant"), "{:?}", lines(&set, "rejects"));
}

/// What kernels print is no part of what the command prints.
#[test]
fn kernels_that_print_are_silent() {
    let (keep, set) = folder();
    let source = "import polyloom as loom\n\n\n@loom.kernel\ndef f(x: loom.array(dtype=float)):\n    i = loom.tid()\n    \
                  x[i] = 2.0 * x[i]\n    print(12345)\n";
    let file = keep.file("prints.py", source);
    let output = polyloom(&["dataset", "produce", "--output", &set, "--from", &file]);
    assert_success(&output);
    assert!(!text(&output.stdout).contains("12345"), "{}", text(&output.stdout));
    let output = validate(&set);
    assert_success(&output);
    assert!(!text(&output.stdout).contains("12345"), "{}", text(&output.stdout));
}

#[test]
fn kernels_like_those_to_leave_out_are_left_out() {
    let (_keep, first) = folder();
    assert_success(&produce(&first, &["--count", "20"]));
    let rows = fs::read_to_string(Path::new(&first).join("data/train-00000.jsonl")).expect("there are rows");
    let (keep, second) = folder();
    let row: Value = serde_json::from_str(rows.lines().nth(1).expect("there are two rows")).expect("it is JSON");
    let jsonl = keep.file("those.jsonl", rows.lines().next().expect("there is a row"));
    let python = keep.file("that.py", row["python_source"].as_str().expect("a text"));
    assert_success(&produce(&second, &["--count", "20", "--exclude", &jsonl, "--exclude", &python]));
    let manifest = fs::read_to_string(Path::new(&second).join("manifest.json")).expect("there is a manifest");
    assert!(manifest.contains("\"excluded\": 2"), "{manifest}");
    // Other objects that have a kernel's text, and files that have none.
    let (_keep, third) = folder();
    let other = keep.file("others.jsonl", &json!({"prompt": 1, "python_source": row["python_source"]}).to_string());
    assert_success(&produce(&third, &["--count", "20", "--exclude", &other]));
    // Rows in the other formats.
    for more in [&["--zstd"][..], &["--format", "parquet"]] {
        let (_keep, all) = folder();
        assert_success(&produce(&all, &[&["--count", "20"], more].concat()));
        let mut excluding = vec!["--count".to_owned(), "20".to_owned()];
        for entry in fs::read_dir(Path::new(&all).join("data")).expect("there are rows") {
            let path = entry.expect("it can be read").path().display().to_string();
            excluding.extend(["--exclude".to_owned(), path]);
        }
        let (_keep, without) = folder();
        assert_success(&produce(&without, &excluding.iter().map(String::as_str).collect::<Vec<_>>()));
        let manifest = fs::read_to_string(Path::new(&without).join("manifest.json")).expect("there is a manifest");
        assert!(manifest.contains("\"excluded\": 20"), "{manifest}");
    }
    for (name, text_of, message) in [
        ("none.py", "x = 1\n", "has no kernel to leave out"),
        ("rows.txt", "{}", "files of .py, .jsonl, .jsonl.zst or .parquet"),
        ("empty.jsonl", "\n", "has no kernel to leave out"),
        ("no_source.jsonl", "{}", "line 1: missing field `python_source`"),
    ] {
        let (_keep, fourth) = folder();
        let output = produce(&fourth, &["--count", "20", "--exclude", &keep.file(name, text_of)]);
        assert!(!output.status.success() && text(&output.stderr).contains(message), "{}", text(&output.stderr));
    }
}

#[test]
fn kernels_of_files_are_taken_or_rejected_with_the_reason() {
    let (keep, set) = folder();
    let root = write_sources(&keep);
    let run = |path: &str, more: &[&str]| {
        let from = ["dataset", "produce", "--output", path, "--from", &root, "--indices-per-file", "3"];
        polyloom(&[&from[..], &["--verify", "full", "--license", "MIT"], more].concat())
    };
    assert_success(&run(&set, &["--jobs", "2"]));
    let mut rows = lines(&set, "data");
    rows.sort_by_key(|row| row["metadata"]["index"].as_u64());
    let taken: Vec<_> =
        rows.iter().map(|row| (row["kernel_name"].as_str(), row["metadata"]["origin"].as_str())).collect();
    let expected =
        [("energy", "deep/bodies.py:14"), ("product", "deep/bodies.py:23"), ("renamed", "deep/bodies.py:56")];
    assert_eq!(taken, expected.map(|(name, origin)| (Some(name), Some(origin))));
    for row in &rows {
        assert_eq!((&row["category"], &row["metadata"]["license"]), (&json!("user"), &json!("MIT")));
        assert_eq!(row["metadata"]["verified"], "full");
    }
    let energy = rows[0]["python_source"].as_str().expect("a text");
    assert!(energy.starts_with("import polyloom as loom\n\n\n@loom.struct\nclass Body:\n"), "{energy}");
    assert!(energy.contains("\nhalf = 0.5\n\n\n@loom.kernel\ndef energy(") && !energy.contains("make"), "{energy}");
    let mut rejects: Vec<_> = lines(&set, "rejects")
        .iter()
        .map(|reject| {
            format!("{} {}", reject["reason"].as_str().unwrap_or(""), reject["origin"].as_str().unwrap_or(""))
        })
        .collect();
    rejects.sort();
    // `saxpy` is what `renamed` is, but for names and a constant.
    let expected = [
        "duplicate ",
        "endless deep/bodies.py:38",
        "rejected broken.py",
        "rejected deep/bodies.py:45",
        "trap deep/bodies.py:32",
    ];
    assert_eq!(rejects, expected);
    let of_refused = lines(&set, "rejects").into_iter().find(|reject| reject["origin"] == "deep/bodies.py:45");
    assert!(of_refused.expect("it is there")["detail"].as_str().expect("a text").contains("missing"));
    assert_success(&validate(&set));

    let (_keep, shard_0) = folder();
    let (_keep, shard_1) = folder();
    assert_success(&run(&shard_0, &["--shard", "0/2"]));
    assert_success(&run(&shard_1, &["--shard", "1/2"]));
    let (_keep, merged) = folder();
    assert_success(&polyloom(&["dataset", "merge", "--output", &merged, &shard_0, &shard_1]));
    let (one, other) = (files(&set), files(&merged));
    assert!(one.keys().eq(other.keys()));
    let differs = |name: &&PathBuf| one[*name] != other[*name] && name.as_path() != Path::new("stats.json");
    assert_eq!(one.keys().find(differs), None);

    fs::write(Path::new(&root).join("plain.py"), "print('other text')\n").expect("a file");
    let again = run(&set, &["--resume"]);
    assert_eq!(again.status.code(), Some(1));
    assert!(text(&again.stderr).contains("source: "), "{}", text(&again.stderr));
}

#[test]
fn kernels_of_blocks_are_launched_with_whole_blocks() {
    let (keep, set) = folder();
    let file = Path::new(&keep.path("sources")).join("blocks.py");
    fs::create_dir_all(file.parent().expect("it is in a folder")).expect("a folder");
    let source = "import polyloom as loom


@loom.kernel(block_dim=64)
def sums(x: loom.array(dtype=float), out: loom.array(dtype=float)):
    i = loom.tid()
    t = loom.thread_idx()
    tile = loom.shared_array(shape=64, dtype=float)
    tile[t] = x[i]
    loom.sync_threads()
    stride = int(32)
    while stride > 0:
        if t < stride:
            tile[t] = tile[t] + tile[t + stride]
        loom.sync_threads()
        stride = stride // 2
    if t == 0:
        out[loom.block_idx()] = tile[0]


@loom.kernel(block_dim=32)
def product(a: loom.array2d(dtype=loom.float16), b: loom.array2d(dtype=loom.float16), c: loom.array2d(dtype=float)):
    row = loom.block_idx() * 16
    total = loom.mma_load_c(c, row, 0)
    for k in range(a.shape[1] // 16):
        total = loom.mma(loom.mma_load_a(a, row, k * 16), loom.mma_load_b(b, k * 16, 0), total)
    loom.mma_store(c, row, 0, total)


@loom.kernel
def reversed_in_block(x: loom.array2d(dtype=float), y: loom.array2d(dtype=float)):
    i, j = loom.tid()
    t = loom.thread_idx()
    tile = loom.shared_array(shape=256, dtype=float)
    tile[t] = x[i, j]
    loom.sync_threads()
    y[i, j] = tile[255 - t]


@loom.kernel(block_dim=96)
def neighbours(x: loom.array(dtype=float), y: loom.array(dtype=float)):
    i = loom.tid()
    y[i] = loom.shuffle_xor(x[i + 1], 1) - x[i]
";
    fs::write(&file, source).expect("a file");
    let from = file.to_string_lossy();
    assert_success(&polyloom(&["dataset", "produce", "--output", &set, "--from", &from, "--verify", "full"]));
    let mut names: Vec<_> =
        lines(&set, "data").iter().map(|row| row["kernel_name"].as_str().unwrap_or("").to_owned()).collect();
    names.sort();
    assert_eq!(names, ["neighbours", "product", "reversed_in_block", "sums"], "{:?}", lines(&set, "rejects"));
    assert_success(&validate(&set));
}

#[test]
fn inputs_that_no_run_would_give_are_found_in_rows_of_files() {
    let (keep, set) = folder();
    let root = write_sources(&keep);
    let from = ["dataset", "produce", "--output", &set, "--from", &root, "--verify", "run"];
    assert_success(&polyloom(&from));
    tampered(&set, &|rows| rows[0]["metadata"]["inputs"][0]["shape"] = json!(["n0", "4000000000"]));
    let output = validate(&set);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).contains("one of the inputs"), "{}", text(&output.stdout));
}

#[test]
fn files_without_kernels_are_one_error() {
    let (keep, set) = folder();
    let file = keep.file("plain.py", "print(1)\n");
    let output = polyloom(&["dataset", "produce", "--output", &set, "--from", &file]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("no kernel is in"), "{}", text(&output.stderr));
    let output = polyloom(&["dataset", "produce", "--output", &set, "--from", "/dev/null"]);
    assert!(text(&output.stderr).contains("/dev/null: is neither a file nor a folder"), "{}", text(&output.stderr));
}

//! `polyloom dataset`: no row is lost, repeated or torn, and what was tampered with is found.

use super::{Folder, polyloom};
use polyloom::Arch;
use polyloom_dataset::{Category, GpuCode, Level, Manifest, Program, Row, Settings, Verifier};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

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
    assert!(output.status.success(), "{}: {}{}", output.status, text(&output.stdout), text(&output.stderr));
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
    let started = Instant::now();
    assert_success(&produce(&unbroken, &more));
    // A chunk takes a tenth of a run: some are killed before their first is finished, and some after.
    let longest = started.elapsed().mul_f64(0.3);
    let (_keep, killed) = folder("dataset-killed");
    let (mut n_killed, mut n_with_rows) = (0, 0);
    let mut wait = 7_u32;
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
        std::thread::sleep(longest.mul_f64(f64::from(wait) / 97.0));
        // A run that is done before is none that is killed.
        match run.try_wait().expect("the command is there") {
            Some(_) => {
                let _ = fs::remove_dir_all(&killed);
            }
            None => {
                run.kill().expect("it can be killed");
                run.wait().expect("it ends");
                n_killed += 1;
                n_with_rows += u32::from(Path::new(&killed).join("data/train-00000.jsonl").exists());
            }
        }
    }
    assert!(n_with_rows >= 10, "{n_with_rows} of 50 runs were killed with rows on the disk");
    assert_success(&produce(&killed, &[&more[..], &["--resume"]].concat()));
    assert_same(&unbroken, &killed);
}

/// Where files may not grow, as on a full disk, a write fails in the middle of a run.
#[test]
fn a_write_that_fails_is_one_error_that_loses_nothing() {
    let (_keep, unbroken) = folder("dataset-whole");
    let more = ["--count", "120", "--seed", "9", "--jobs", "2"];
    assert_success(&produce(&unbroken, &more));
    let (_keep, full) = folder("dataset-full");
    // Files of 24 indices are less than half as long as those of 120.
    let longest =
        files(&unbroken).iter().filter(|(name, _)| name.starts_with("data")).map(|(_, bytes)| bytes.len()).max();
    let blocks = longest.expect("there are rows") / 512 - 1;
    let limited = format!("ulimit -f {blocks}; trap '' XFSZ; exec \"$@\"");
    let arguments = ["dataset", "produce", "--output", &full].into_iter().chain(QUICK).chain(more);
    let output = Command::new("sh")
        .args(["-c", &limited, "sh", env!("CARGO_BIN_EXE_polyloom")])
        .args(arguments)
        .output()
        .expect("the command runs");
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert_eq!(message.lines().count(), 1, "{message}");
    assert!(message.ends_with("--resume goes on with it\n"), "{message}");
    assert_success(&produce(&full, &[&more[..], &["--resume"]].concat()));
    assert_same(&unbroken, &full);
}

#[test]
fn ctrl_c_ends_a_run_that_can_be_gone_on_with() {
    let (_keep, unbroken) = folder("dataset-uninterrupted");
    let more = ["--count", "2000", "--verify", "compile", "--columns", ROW, "--indices-per-file", "100"];
    let run =
        |path: &str, last: &[&str]| polyloom(&[&["dataset", "produce", "--output", path][..], &more, last].concat());
    assert_success(&run(&unbroken, &[]));
    let (_keep, interrupted) = folder("dataset-interrupted");
    let mut command = Command::new(env!("CARGO_BIN_EXE_polyloom"));
    command.args(["dataset", "produce", "--output", &interrupted]).args(more);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the command runs");
    while !Path::new(&interrupted).join("data/train-00000.jsonl").exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let asked = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill runs");
    assert!(asked.success());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    assert!(text(&output.stderr).ends_with("--resume goes on with it\n"), "{}", text(&output.stderr));
    assert_success(&run(&interrupted, &["--resume"]));
    assert_same(&unbroken, &interrupted);
}

#[test]
fn what_makes_no_sense_is_one_error() {
    let (keep, set) = folder("dataset-no-sense");
    let bad = keep
        .file("bad.py", "import polyloom as loom\n\n\n@loom.kernel\ndef f(x: loom.array(dtype=float)):\n    g(x)\n");
    for (arguments, message) in [
        (&["--count", "1", "--jobs", "0"][..], "'0' for '--jobs <J>': it is a number from 1"),
        (&["--from", &bad, "--category", "a\nb"], "the category \"a\\nb\" is no name"),
        (&["--from", &bad, "--license", " "], "the licence \" \" is no name"),
        (&["--from", &bad], "none of the kernels became a row"),
    ] {
        let output = produce(&set, arguments);
        assert!(!output.status.success() && text(&output.stderr).contains(message), "{}", text(&output.stderr));
    }
}

/// Kernels that write one number or nothing, even to arrays that are longer than the launch, and one that writes a mask.
#[test]
fn constant_kernels_of_files_are_no_rows() {
    let (keep, set) = folder("dataset-constant");
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
    let (keep, set) = folder("dataset-prints");
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
    assert!(text(&missing.stderr).contains("shard 1/3 is missing"), "{}", text(&missing.stderr));
    let missing = polyloom(&["dataset", "merge", "--output", &torn, paths[1], paths[0]]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(text(&missing.stderr).contains("shard 2/3 is missing"), "{}", text(&missing.stderr));
}

#[test]
fn ranges_of_indices_make_together_what_one_run_makes() {
    let ranges = ["0..35", "35..50", "50..70"];
    let parts = ranges.map(|range| {
        let (keep, path) = folder(&format!("dataset-range-{range}"));
        assert_success(&produce(&path, &["--index-range", range]));
        (keep, path)
    });
    let (_keep, merged) = folder("dataset-ranges");
    // In whatever order they are given.
    let paths: Vec<&str> = parts.iter().rev().map(|(_, path)| path.as_str()).collect();
    assert_success(&polyloom(&[&["dataset", "merge", "--output", &merged][..], &paths].concat()));
    let (_keep, whole) = folder("dataset-range-whole");
    assert_success(&produce(&whole, &["--index-range", "0..70"]));
    assert_same(&merged, &whole);
    assert_success(&validate(&merged));
}

#[test]
fn ranges_of_kernels_of_files_are_put_together() {
    let (keep, whole) = folder("dataset-range-of-files");
    let source = write_sources(&keep);
    assert_success(&produce(&whole, &["--from", &source]));
    let n = lines(&whole, "data").len() + lines(&whole, "rejects").len();
    let ranges = [format!("0..{}", n / 2), format!("{}..{n}", n / 2)];
    let parts = ranges.map(|range| {
        let (keep, path) = folder(&format!("dataset-files-{range}"));
        assert_success(&produce(&path, &["--from", &source, "--index-range", &range]));
        (keep, path)
    });
    let (_keep, merged) = folder("dataset-files-merged");
    assert_success(&polyloom(&["dataset", "merge", "--output", &merged, &parts[1].1, &parts[0].1]));
    assert_same(&merged, &whole);
    assert_success(&validate(&merged));
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
    // Other objects that have a kernel's text, and files that have none.
    let (_keep, third) = folder("dataset-without-others");
    let other = keep.file("others.jsonl", &json!({"prompt": 1, "python_source": row["python_source"]}).to_string());
    assert_success(&produce(&third, &["--count", "20", "--exclude", &other]));
    // Rows in the other formats.
    for (name, more) in [("dataset-zstd", &["--zstd"][..]), ("dataset-parquet", &["--format", "parquet"])] {
        let (_keep, all) = folder(name);
        assert_success(&produce(&all, &[&["--count", "20"], more].concat()));
        let mut excluding = vec!["--count".to_owned(), "20".to_owned()];
        for entry in fs::read_dir(Path::new(&all).join("data")).expect("there are rows") {
            let path = entry.expect("it can be read").path().display().to_string();
            excluding.extend(["--exclude".to_owned(), path]);
        }
        let (_keep, without) = folder("dataset-without-all");
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
        let (_keep, fourth) = folder("dataset-without-nothing");
        let output = produce(&fourth, &["--count", "20", "--exclude", &keep.file(name, text_of)]);
        assert!(!output.status.success() && text(&output.stderr).contains(message), "{}", text(&output.stderr));
    }
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
fn what_is_in_the_way_stays_what_it_is() {
    let (keep, path) = folder("dataset-in-the-way");
    for inner in ["data", "keys", "rejects"] {
        fs::create_dir_all(Path::new(&path).join(inner)).expect("a folder for the test");
    }
    for (name, is_in_the_way) in [
        ("data/notes.txt", true),
        ("keys/id", true),
        ("rejects/.hidden", true),
        ("README.md", true),
        ("other.txt", false),
    ] {
        let file = keep.file(&format!("set/{name}"), "mine");
        let output = produce(&path, &["--count", "5", "--resume"]);
        if is_in_the_way {
            assert_eq!(output.status.code(), Some(1), "{name}");
            let message = text(&output.stderr);
            assert!(message.contains(&format!("`{name}` is in the way: write to another folder")), "{message}");
        } else {
            assert_success(&output);
        }
        assert_eq!(fs::read_to_string(&file).expect("it is there"), "mine");
        fs::remove_file(&file).expect("it can be removed");
    }
    // Nor is anything removed that has no name of a run's files, once there is a data set.
    let notes = keep.file("set/data/notes.txt", "mine");
    let left = [keep.file("set/data/train-00009.jsonl", "left"), keep.file("set/keys/00009.bin.tmp", "left")];
    assert_success(&produce(&path, &["--count", "5", "--resume"]));
    assert!(Path::new(&notes).exists() && left.iter().all(|left| !Path::new(left).exists()));
    let output = validate(&path);
    assert!(text(&output.stdout).contains("data/notes.txt: is not in the manifest"), "{}", text(&output.stdout));
}

#[test]
fn one_run_writes_to_a_folder() {
    let (_keep, path) = folder("dataset-two-runs");
    let run = |seed: &str| {
        let more = ["--count", "100000", "--seed", seed, "--resume"];
        let mut command = Command::new(env!("CARGO_BIN_EXE_polyloom"));
        command.args(["dataset", "produce", "--output", &path]).args(QUICK).args(more);
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the command runs")
    };
    let mut first = run("1");
    while !Path::new(&path).join("data/train-00000.jsonl").exists() {
        std::thread::sleep(Duration::from_millis(10));
    }
    for seed in ["1", "2"] {
        let second = run(seed).wait_with_output().expect("it ends");
        assert_eq!(second.status.code(), Some(1));
        assert!(text(&second.stderr).contains("another run is writing to it"), "{}", text(&second.stderr));
    }
    first.kill().expect("it can be killed");
    first.wait().expect("it ends");
}

#[test]
fn files_that_are_gone_or_changed_are_one_error() {
    let (_keep, path) = folder("dataset-changed");
    assert_success(&produce(&path, &["--count", "60"]));
    let file = Path::new(&path).join("data/train-00001.jsonl");
    let bytes = fs::read(&file).expect("it is there");
    let (_keep, merged) = folder("dataset-changed-merged");
    let message = |output: Output| {
        assert_eq!(output.status.code(), Some(1));
        text(&output.stderr)
    };
    // As many bytes, and fewer, and none.
    fs::write(&file, [&bytes[..9], b"X", &bytes[10..]].concat()).expect("it can be written");
    let found = message(polyloom(&["dataset", "merge", "--output", &merged, &path]));
    assert!(found.contains("data/train-00001.jsonl is not what the manifest says: put back"), "{found}");
    fs::write(&file, &bytes[1..]).expect("it can be written");
    let found = message(produce(&path, &["--count", "60", "--resume"]));
    assert!(found.contains("data/train-00001.jsonl is not what the manifest says: put back"), "{found}");
    fs::remove_file(&file).expect("it can be removed");
    let found = message(produce(&path, &["--count", "60", "--resume"]));
    assert!(found.contains("data/train-00001.jsonl is gone: put it back"), "{found}");
    // What was interrupted begins anew.
    fs::write(&file, &bytes).expect("it can be written");
    assert_success(&polyloom(&["dataset", "merge", "--output", &merged, &path]));
    let whole = files(&merged);
    let found = message(polyloom(&["dataset", "merge", "--output", &merged, &path]));
    assert!(found.contains("a data set of 60 rows is in the way"), "{found}");
    let manifest = Path::new(&merged).join("manifest.json");
    let mut begun: Value = serde_json::from_slice(&whole[Path::new("manifest.json")]).expect("it is JSON");
    begun["is_finished"] = json!(false);
    begun["chunks"].as_array_mut().expect("a list").truncate(1);
    fs::write(&manifest, begun.to_string()).expect("it can be written");
    assert_success(&polyloom(&["dataset", "merge", "--output", &merged, &path]));
    assert!(files(&merged).into_iter().all(|(name, bytes)| name == Path::new("stats.json") || whole[&name] == bytes));
}

#[test]
fn a_data_set_has_a_row() {
    let (_keep, path) = folder("dataset-no-row");
    let output = produce(&path, &["--count", "0"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("the count is 0"), "{}", text(&output.stderr));
    assert!(!Path::new(&path).exists());
}

#[test]
fn what_says_of_a_data_set_what_it_is_not_is_found() {
    let (_keep, path) = folder("dataset-description");
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

#[test]
fn what_is_produced_is_valid() {
    let (_keep, path) = folder("dataset-valid");
    assert_success(&produce(&path, &["--count", "60"]));
    let output = validate(&path);
    assert_success(&output);
    assert!(text(&output.stdout).starts_with("60 rows"), "{}", text(&output.stdout));
}

#[test]
fn shards_without_what_rows_are_counted_by_are_not_put_together() {
    let (_keep, shard) = folder("dataset-few-columns");
    let few =
        ["dataset", "produce", "--output", &shard, "--index-range", "0..5", "--verify", "parse", "--columns", "id"];
    assert_success(&polyloom(&few));
    let (_keep, merged) = folder("dataset-few-columns-merged");
    let output = polyloom(&["dataset", "merge", "--output", &merged, &shard]);
    assert_eq!(output.status.code(), Some(1));
    let message = text(&output.stderr);
    assert!(message.contains("without the columns kernel_name, category, python_source, metadata"), "{message}");
}

/// Kernels as people write them, in several files.
fn write_sources(folder: &Folder) -> String {
    let root = folder.path("sources");
    let files: [(&str, &str); 5] = [
        (
            "saxpy.py",
            "import numpy as np\nimport warp as wp\n\nSCALE = wp.constant(2.0)\nUNUSED = np.zeros(3)\n\n\n\
             @wp.func\ndef scaled(x: float):\n    return SCALE * x\n\n\n\
             @wp.kernel\ndef saxpy(a: float, x: wp.array(dtype=float), y: wp.array(dtype=float)):\n    \
             i = wp.tid()\n    y[i] = a * scaled(x[i]) + y[i]\n",
        ),
        (
            "deep/bodies.py",
            "import polyloom as loom\n\n\n@loom.struct\nclass Body:\n    position: loom.vec3\n    mass: float\n\n\n\
             def make(unused):\n    half = 0.5\n\n    @loom.kernel\n    \
             def energy(bodies: loom.array(dtype=Body), out: loom.array(dtype=float)):\n        i = loom.tid()\n        \
             p = bodies[i].position\n        out[i] = half * bodies[i].mass * loom.dot(p, p)\n\n    return energy\n\n\n\
             @loom.kernel\ndef product(a: loom.array(dtype=float, ndim=2), b: loom.array(dtype=float, ndim=2), \
             c: loom.array(dtype=float, ndim=2)):\n    i, j = loom.tid()\n    s = float(0.0)\n    \
             for k in range(a.shape[1]):\n        s += a[i, k] * b[k, j]\n    c[i, j] = s\n\n\n\
             @loom.kernel\ndef beyond(x: loom.array(dtype=float), y: loom.array(dtype=float)):\n    i = loom.tid()\n    \
             y[i] = x[i + 1000]\n\n\n\
             @loom.kernel\ndef endless(x: loom.array(dtype=float)):\n    i = loom.tid()\n    \
             while x[i] * 0.0 == 0.0:\n        x[i] = x[i] * 0.5\n\n\n\
             @loom.kernel\ndef refused(x: loom.array(dtype=float)):\n    i = loom.tid()\n    x[i] = missing(x[i])\n\n\n\
             @loom.func\ndef tripled(u: float):\n    return 3.0 * u\n\n\n\
             @loom.kernel\ndef renamed(b: float, u: loom.array(dtype=float), v: loom.array(dtype=float)):\n    \
             k = loom.tid()\n    v[k] = b * tripled(u[k]) + v[k]\n",
        ),
        ("broken.py", "def f(:\n"),
        ("plain.py", "print('no kernels here')\n"),
        (".hidden/more.py", "def f(:\n"),
    ];
    for (name, text) in files {
        let path = Path::new(&root).join(name);
        fs::create_dir_all(path.parent().expect("it is in a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    }
    root
}

fn lines(path: &str, inner: &str) -> Vec<Value> {
    let mut found = Vec::new();
    for (name, bytes) in files(path) {
        if name.starts_with(inner) {
            found.extend(text(&bytes).lines().map(|line| serde_json::from_str::<Value>(line).expect("a line of JSON")));
        }
    }
    found
}

#[test]
fn kernels_of_files_are_taken_or_rejected_with_the_reason() {
    let (keep, set) = folder("dataset-from");
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

    let (_keep, shard_0) = folder("dataset-from-shard-0");
    let (_keep, shard_1) = folder("dataset-from-shard-1");
    assert_success(&run(&shard_0, &["--shard", "0/2"]));
    assert_success(&run(&shard_1, &["--shard", "1/2"]));
    let (_keep, merged) = folder("dataset-from-merged");
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
    let (keep, set) = folder("dataset-from-blocks");
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
    let (keep, set) = folder("dataset-from-tampered");
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
    let (keep, set) = folder("dataset-from-nothing");
    let file = keep.file("plain.py", "print(1)\n");
    let output = polyloom(&["dataset", "produce", "--output", &set, "--from", &file]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("no kernel is in"), "{}", text(&output.stderr));
    let output = polyloom(&["dataset", "produce", "--output", &set, "--from", "/dev/null"]);
    assert!(text(&output.stderr).contains("/dev/null: is neither a file nor a folder"), "{}", text(&output.stderr));
}

#[test]
fn a_column_whose_tool_is_missing_is_one_error() {
    let (_keep, set) = folder("dataset-no-tool");
    let mut command = Command::new(env!("CARGO_BIN_EXE_polyloom"));
    command.args(["dataset", "produce", "--count", "1", "--output", &set, "--columns", "id,nvrtc_ptx_forward"]);
    for name in ["VIRTUAL_ENV", "CONDA_PREFIX", "CUDA_HOME", "CUDA_PATH"] {
        command.env_remove(name);
    }
    let output = command.output().expect("the command runs");
    if output.status.success() {
        return eprintln!("skipped: NVRTC is where the system keeps libraries");
    }
    let message = text(&output.stderr);
    assert!(message.lines().count() == 1, "{message}");
    assert!(message.contains("pip install nvidia-cuda-nvrtc") || message.contains("cargo feature"), "{message}");
}

#[test]
fn a_data_set_without_what_rows_are_proved_by_is_one_error() {
    let (_keep, set) = folder("dataset-missing-columns");
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
    assert_eq!(rows.len(), 200);
    let manifest = Manifest::read(&sample).expect("it can be read").expect("it is there");
    assert_eq!(manifest.settings.generator, Settings::new(1, 0).generator, "make dataset-sample");
    let mut n_corrupted = 0;
    let categories: BTreeSet<&str> = rows.iter().map(|row| row.category.as_str()).collect();
    assert_eq!(categories, Category::ALL.iter().map(|category| category.name()).collect());
    let verifier = Verifier::new(Arch::DEFAULT).expect("the back ends work here");
    for row in rows.iter().step_by(10) {
        let metadata = row.metadata.clone().expect("it has metadata");
        assert_eq!(metadata.verified, Level::Full);
        let program = Program {
            name: row.kernel_name.clone(),
            category: row.category.clone().into(),
            difficulty: metadata.difficulty,
            source: row.python_source.clone(),
            inputs: metadata.inputs,
            dim: metadata.launch,
        };
        let verified = verifier.compile(&program.name, &program.source).and_then(|kernel| {
            verifier.verify(&program, &kernel, Level::Grad, || Ok(GpuCode::default()))?;
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

/// A data set in which a file is changed, and the manifest with it, so that checksums are right again.
fn mended(path: &str, file: &str, change: &dyn Fn(Vec<u8>) -> Vec<u8>, mend: &dyn Fn(&mut Value)) {
    let manifest_path = Path::new(path).join("manifest.json");
    let read = fs::read(&manifest_path).expect("there is a manifest");
    let mut manifest: Value = serde_json::from_slice(&read).expect("it is JSON");
    let files = manifest["chunks"][0]["files"].as_array_mut().expect("files");
    let record = files.iter_mut().find(|record| record["path"] == file).expect("it is listed");
    let file = Path::new(path).join(file);
    let bytes = change(fs::read(&file).expect("it can be read"));
    record["bytes"] = json!(bytes.len());
    record["blake3"] = json!(blake3::hash(&bytes).to_hex().as_str());
    mend(&mut manifest);
    fs::write(&file, bytes).expect("it can be written");
    fs::write(&manifest_path, manifest.to_string()).expect("the manifest can be written");
}

const ROWS: &str = "data/train-00000.jsonl";

/// A data set whose first file of rows is changed, and the manifest with it.
fn tampered(path: &str, change: &dyn Fn(&mut Vec<Value>)) {
    let in_rows = |bytes: Vec<u8>| {
        let lines = text(&bytes);
        let mut rows: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).expect("a row")).collect();
        change(&mut rows);
        rows.iter().map(|row| format!("{row}\n")).collect::<String>().into_bytes()
    };
    mended(path, ROWS, &in_rows, &|_| {});
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
        copy(&whole, &path);
        tampered(&path, &*change);
        let output = validate(&path);
        assert_eq!(output.status.code(), Some(1), "{what}: {}", text(&output.stdout));
        println!(
            "{what}:\n{}",
            text(&output.stdout).lines().filter(|line| line.starts_with("data")).collect::<Vec<_>>().join("\n")
        );
    }
}

fn copy(whole: &str, path: &str) {
    for (name, bytes) in files(whole) {
        let to = Path::new(path).join(name);
        fs::create_dir_all(to.parent().expect("it is in a folder")).expect("a folder");
        fs::write(to, bytes).expect("a file");
    }
}

/// The bytes of a row's key.
const KEY: usize = 88;

#[test]
fn files_that_do_not_go_together_are_found() {
    let one_chunk = |path: &str, more: &[&str]| {
        let of_all = ["dataset", "produce", "--verify", "run", "--columns", ROW, "--output", path, "--count"];
        assert_success(&polyloom(&[&of_all[..], more].concat()));
    };
    let (_keep, known) = folder("dataset-known");
    one_chunk(&known, &["3"]);
    let (_keep, whole) = folder("dataset-together");
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
            "has 0 rejected kernels, and the row is of kernel 1",
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
            &|it| it["statistics"]["ops"]["add"] = json!(1),
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
        let (_keep, path) = folder("dataset-not-together");
        copy(&whole, &path);
        mended(&path, file, change, mend);
        let output = validate(&path);
        assert_eq!(output.status.code(), Some(1), "{expected}");
        assert!(text(&output.stdout).contains(expected), "{expected}: {}", text(&output.stdout));
    }
    // A row that is left out everywhere.
    let (_keep, path) = folder("dataset-without");
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
fn a_row_that_is_like_another_is_found() {
    let (keep, path) = folder("dataset-twice");
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

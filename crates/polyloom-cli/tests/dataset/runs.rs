//! No row is lost, repeated or torn, however a run ends, and what cannot be done is one error.

use super::{QUICK, ROW, assert_same, assert_success, files, folder, produce, text, validate};
use crate::polyloom;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::ffi::OsStringExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

#[test]
fn the_number_of_threads_makes_no_difference() {
    let (_keep, one) = folder();
    assert_success(&produce(&one, &["--count", "90", "--seed", "5", "--jobs", "1"]));
    let (_keep, three) = folder();
    assert_success(&produce(&three, &["--count", "90", "--seed", "5", "--jobs", "3"]));
    assert_same(&one, &three);
}

#[test]
fn a_run_that_is_killed_fifty_times_ends_with_the_same_bytes() {
    let (_keep, unbroken) = folder();
    let more = ["--count", "240", "--jobs", "2"];
    let started = Instant::now();
    assert_success(&produce(&unbroken, &more));
    // A chunk takes a tenth of a run: some are killed before their first is finished, and some after.
    let longest = started.elapsed().mul_f64(0.3);
    let (_keep, killed) = folder();
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
    let (_keep, unbroken) = folder();
    let more = ["--count", "120", "--seed", "9", "--jobs", "2"];
    assert_success(&produce(&unbroken, &more));
    let (_keep, full) = folder();
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
    let (_keep, unbroken) = folder();
    let more = ["--count", "2000", "--verify", "compile", "--columns", ROW, "--indices-per-file", "100"];
    let run =
        |path: &str, last: &[&str]| polyloom(&[&["dataset", "produce", "--output", path][..], &more, last].concat());
    assert_success(&run(&unbroken, &[]));
    let (_keep, interrupted) = folder();
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

/// The files of a chunk are finished together; what of it was made before the end is in its journal.
#[test]
fn a_run_that_is_ended_within_its_first_files_keeps_its_rows() {
    let (_keep, unbroken) = folder();
    let more = ["--count", "4000", "--verify", "compile", "--columns", ROW, "--zstd"];
    let run =
        |path: &str, last: &[&str]| polyloom(&[&["dataset", "produce", "--output", path][..], &more, last].concat());
    assert_success(&run(&unbroken, &[]));
    let (_keep, ended) = folder();
    let journal = Path::new(&ended).join("keys/00000.journal.tmp");
    // Twice, so that a journal is gone on with, too.
    let mut lengths = vec![0];
    for _ in 0..2 {
        let mut command = Command::new(env!("CARGO_BIN_EXE_polyloom"));
        command.args(["dataset", "produce", "--output", &ended, "--resume"]).args(more);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the command runs");
        std::thread::sleep(Duration::from_millis(400));
        let asked = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill runs");
        assert!(asked.success());
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
        assert!(!Path::new(&ended).join("keys/00000.bin").exists());
        lengths.push(fs::metadata(&journal).expect("it has a journal").len());
    }
    assert!(lengths.is_sorted_by(|before, after| before < after), "{lengths:?}");
    // A torn end is as good as none.
    let whole = fs::read(&journal).expect("it has a journal");
    fs::write(&journal, [&whole[..], b"torn"].concat()).expect("it can be written");
    assert_success(&run(&ended, &["--resume"]));
    assert!(!journal.exists());
    assert_same(&unbroken, &ended);
}

#[test]
fn what_makes_no_sense_is_one_error() {
    let (keep, set) = folder();
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

#[test]
fn going_on_with_other_settings_is_refused() {
    let (_keep, path) = folder();
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
    let (keep, _) = folder();
    let file = keep.file("file", "");
    let output = produce(&format!("{file}/set"), &["--count", "20"]);
    assert_eq!(output.status.code(), Some(1));
    let message = text(&output.stderr);
    assert!(message.lines().count() == 1 && message.contains("file/set"), "{message}");
}

#[test]
fn what_is_in_the_way_stays_what_it_is() {
    let (keep, path) = folder();
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
    let (_keep, path) = folder();
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
    let (_keep, path) = folder();
    assert_success(&produce(&path, &["--count", "60"]));
    let file = Path::new(&path).join("data/train-00001.jsonl");
    let bytes = fs::read(&file).expect("it is there");
    let (_keep, merged) = folder();
    let message = |output: Output| {
        assert_eq!(output.status.code(), Some(1));
        text(&output.stderr)
    };
    // As many bytes, and fewer, and none.
    fs::write(&file, [&bytes[..9], b"X", &bytes[10..]].concat()).expect("it can be written");
    let found = message(polyloom(&["dataset", "merge", "--output", &merged, &path]));
    assert!(found.contains("data/train-00001.jsonl is not what the manifest says: put back"), "{found}");
    let found = message(produce(&path, &["--count", "60", "--resume"]));
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
    let (_keep, path) = folder();
    let output = produce(&path, &["--count", "0"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("the count is 0"), "{}", text(&output.stderr));
    assert!(!Path::new(&path).exists());
}

/// Settings that make no sense, and arguments that are no text.
#[test]
fn wrong_usage_ends_with_2() {
    let (_keep, path) = folder();
    for arguments in [&["--device", "gpu"][..], &["--indices-per-file", "2000000"], &["--columns", "poem"]] {
        let output = produce(&path, &[&["--count", "5"], arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    }
    assert_eq!(produce("", &["--count", "5"]).status.code(), Some(2));
    let no_text = std::ffi::OsString::from_vec(b"nowhere\xff".to_vec());
    let mut command = Command::new(env!("CARGO_BIN_EXE_polyloom"));
    let output = command.args(["dataset", "stats", "--input"]).arg(no_text).output().expect("the command runs");
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert!(text(&output.stderr).starts_with("polyloom: cannot read nowhere"), "{}", text(&output.stderr));
}

#[test]
fn no_data_set_is_written_into_the_files_of_another() {
    let (_keep, path) = folder();
    assert_success(&produce(&path, &["--count", "5"]));
    let before = files(&path);
    for inner in ["data", "keys/more"] {
        let output = produce(&format!("{path}/{inner}"), &["--count", "5"]);
        assert_eq!(output.status.code(), Some(1));
        assert!(text(&output.stderr).contains("of which it is a part, is in the way"), "{}", text(&output.stderr));
    }
    assert!(files(&path) == before);
}

/// Of a manifest that somebody has changed, nothing follows about what may be removed.
#[test]
fn a_manifest_with_gaps_is_not_gone_on_with() {
    let (_keep, path) = folder();
    assert_success(&produce(&path, &["--count", "60"]));
    let manifest = Path::new(&path).join("manifest.json");
    let good: Value = serde_json::from_slice(&fs::read(&manifest).expect("it is there")).expect("it is JSON");
    let refused = |change: &dyn Fn(&mut Value), message: &str| {
        let mut changed = good.clone();
        changed["is_finished"] = json!(false);
        change(&mut changed);
        fs::write(&manifest, changed.to_string()).expect("it can be written");
        let before = files(&path);
        let output = produce(&path, &["--count", "60", "--resume"]);
        assert_eq!(output.status.code(), Some(1), "{}", text(&output.stdout));
        assert!(text(&output.stderr).contains(message), "{}", text(&output.stderr));
        assert!(files(&path) == before);
    };
    let first = |it: &mut Value| drop(it["chunks"].as_array_mut().expect("chunks").remove(0));
    refused(&first, "lists index 24 after 0: put back what was written");
    refused(&|it| it["statistics"]["rows"] = json!(7), "lists 60 rows and has statistics of 7");
}

#[test]
fn a_column_whose_tool_is_missing_is_one_error() {
    let (_keep, set) = folder();
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

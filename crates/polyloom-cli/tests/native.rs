//! `polyloom latency` and `polyloom build`: native functions, called one by one and as libraries.

use crate::{Folder, SOURCE, polyloom, text};

#[cfg(feature = "llvm")]
const ADDED: &str = "\
import polyloom as loom

@loom.kernel(critical_path=True, target_latency_ns=TARGET)
def added(x: loom.array(dtype=float), n: int, y: loom.array(dtype=float)):
    s = 0.0
    for i in range(n):
        s += x[i]
    y[0] = s

@loom.kernel
def by_thread(x: loom.array(dtype=float)):
    x[loom.tid()] = 1.0
";

#[test]
#[cfg(feature = "llvm")]
fn latency_counts_every_call_and_holds_the_times_against_the_promise() {
    let folder = Folder::new();
    let file = folder.file("k.py", &ADDED.replace("TARGET", "4000000000"));
    let picture = folder.path("k.svg");
    let call =
        ["latency", &file, "--kernel", "added", "--calls", "12000", "--arg=x=ones:8", "--arg=n=8", "--arg=y=zeros:1"];
    let out = polyloom(&[&call[..], &["--json", "--svg", &picture]].concat());
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
    let report: serde_json::Value = serde_json::from_slice(&out.stdout).expect("it is JSON");
    let functions = report["functions"].as_array().expect("there are functions");
    assert_eq!(functions.iter().map(|f| &f["name"]).collect::<Vec<_>>(), ["added", "an empty function"]);
    for function in functions {
        assert_eq!(function["n_calls"], 12000);
        let time = |name: &str| function["quantiles_ns"][name].as_f64().expect("a time");
        assert!(time("p50") <= time("p90") && time("p90") <= time("p99") && time("p99") <= time("p99.9"));
        assert!(time("p99.9") <= function["most_ns"].as_f64().expect("a time"));
    }
    let drawn = std::fs::read_to_string(&picture).expect("it is drawn");
    assert!(drawn.starts_with("<svg") && drawn.contains("added: ") && drawn.ends_with("</svg>\n"), "{drawn}");
    let out = polyloom(&call);
    let shown = text(&out.stdout);
    for part in ["12000 calls of each", "99.9 %", "an empty function", "`target_latency_ns=4000000000` holds"] {
        assert!(shown.contains(part), "{shown}");
    }
    // No call is that fast.
    let file = folder.file("k.py", &ADDED.replace("TARGET", "1"));
    let out = polyloom(&[
        "latency",
        &file,
        "--kernel",
        "added",
        "--calls",
        "100",
        "--arg=x=ones:8",
        "--arg=n=8",
        "--arg=y=zeros:1",
    ]);
    assert_eq!(out.status.code(), Some(1));
    assert!(text(&out.stderr).contains("`added` promises 1 ns (`target_latency_ns`)"), "{}", text(&out.stderr));
}

#[test]
#[cfg(feature = "llvm")]
fn latency_refuses_what_it_cannot_call() {
    let folder = Folder::new();
    let file = folder.file("k.py", &ADDED.replace("TARGET", "500"));
    for (arguments, message) in [
        (&["--kernel", "by_thread", "--arg=x=ones:8"][..], "asks for its thread along 1 axes"),
        (&["--kernel", "added", "--dim", "8", "--arg=x=ones:8", "--arg=n=8", "--arg=y=zeros:1"], "leave --dim out"),
        (&["--kernel", "added", "--arg=x=ones:8", "--arg=n=8"], "parameter `y` has no value"),
        (&["--kernel", "added", "--arg=x=ones:8", "--arg=n=9", "--arg=y=zeros:1"], "would access `x[8]`"),
        (
            &["--kernel", "by_thread", "--dim", "8", "--arg=x=ones:8", "--against", "/nowhere.so"],
            "cannot find /nowhere.so",
        ),
    ] {
        let out = polyloom(&[&["latency", &file][..], arguments].concat());
        assert_ne!(out.status.code(), Some(0));
        assert!(text(&out.stderr).contains(message), "{}", text(&out.stderr));
    }
    let out = polyloom(&["latency", &file, "--kernel", "by_thread", "--dim", "8", "--arg=x=ones:8", "--calls", "100"]);
    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
}

#[test]
fn build_writes_a_library_and_its_manifest() {
    let folder = Folder::new();
    let source = folder.file("k.py", SOURCE);
    let loom = folder
        .file("s.loom", "kernel half(x: array<f32, n>) -> y: array<f32, n> { for i in 0..n { y[i] = 0.5 * x[i] } }\n");
    let out = folder.path("sample");
    let built = polyloom(&["build", &source, &loom, "-o", &out, "--no-shared", "--json", "--prefix", "my_"]);
    if !polyloom::has_llvm() {
        assert_eq!(built.status.code(), Some(1));
        assert!(text(&built.stderr).contains("needs the feature `llvm`"), "{}", text(&built.stderr));
        return;
    }
    assert_eq!(built.status.code(), Some(0), "{}", text(&built.stderr));
    let manifest: serde_json::Value = serde_json::from_slice(&built.stdout).expect("the manifest is JSON");
    let names: Vec<&str> =
        manifest["entries"].as_array().expect("entries").iter().filter_map(|e| e["name"].as_str()).collect();
    assert_eq!(names, ["my_scaled", "my_half"]);
    for file in ["libsample.a", "sample.h", "sample.rs", "sample.json"] {
        assert!(std::path::Path::new(&out).join(file).is_file(), "{file}");
    }
    let missing = polyloom(&["build", &source, "-o", &out, "--kernel", "other"]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(text(&missing.stderr).contains("no file has a kernel `other`"), "{}", text(&missing.stderr));
    let odd = polyloom(&["build", &source, "-o", &out, "--name", "two words"]);
    assert_eq!(odd.status.code(), Some(2));
}

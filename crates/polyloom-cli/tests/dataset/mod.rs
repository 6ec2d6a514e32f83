//! `polyloom dataset`: what it writes, and what it finds in what others have written.

mod integrity;
mod rows;
mod runs;
mod shards;
mod sources;

use super::{Folder, polyloom};
use polyloom_dataset::{Row, all_columns};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

/// Without the code that takes longest to make.
const QUICK: [&str; 6] = ["--verify", "run", "--columns", ROW, "--indices-per-file", "24"];

const ROW: &str = "id,kernel_name,category,python_source,cuda_forward,cpp_backward,hir,device,metadata";

/// A folder for the test, and the path of a data set in it.
fn folder() -> (Folder, String) {
    let folder = Folder::new();
    let path = folder.path("set");
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

/// A row as a run writes it, columns and metadata in their order; what is no row, somehow.
fn as_written(value: &Value) -> String {
    let Ok(row) = serde_json::from_value::<Row>(value.clone()) else { return value.to_string() };
    let field = |name: &'static str| {
        let text = match name {
            "metadata" => serde_json::to_string(&row.metadata).expect("it can be written"),
            name => value.get(name)?.to_string(),
        };
        Some(format!("\"{name}\":{text}"))
    };
    let is_there = |name: &&str| value.get(*name).is_some();
    format!("{{{}}}", all_columns().filter(is_there).filter_map(field).collect::<Vec<_>>().join(","))
}

/// A data set whose first file of rows is changed, and the manifest with it.
fn tampered(path: &str, change: &dyn Fn(&mut Vec<Value>)) {
    let in_rows = |bytes: Vec<u8>| {
        let lines = text(&bytes);
        let mut rows: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).expect("a row")).collect();
        change(&mut rows);
        rows.iter().map(|row| as_written(row) + "\n").collect::<String>().into_bytes()
    };
    mended(path, ROWS, &in_rows, &|_| {});
}

/// The same data set in another folder.
fn copy(whole: &str, path: &str) {
    for (name, bytes) in files(whole) {
        let to = Path::new(path).join(name);
        fs::create_dir_all(to.parent().expect("it is in a folder")).expect("a folder");
        fs::write(to, bytes).expect("a file");
    }
}

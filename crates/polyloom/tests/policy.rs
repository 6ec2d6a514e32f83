//! The workspace's own rules, checked on `cargo metadata`: which crate may depend on which, what licences come in, and
//! which crates come in twice.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// Edges between crates of the workspace that may exist; everything else is forbidden.
const ALLOWED: &[(&str, &[&str])] = &[
    ("polyloom-ir", &[]),
    ("polyloom-frontend", &["polyloom-ir"]),
    ("polyloom-graph", &["polyloom-ir"]),
    ("polyloom-passes", &["polyloom-ir"]),
    ("polyloom-codegen", &["polyloom-ir"]),
    ("polyloom-ptx", &["polyloom-ir"]),
    // Nobody depends on it: it is loaded as NVIDIA's driver is.
    ("polyloom-cuda-sim", &["polyloom-ir", "polyloom-ptx"]),
    // The planner and the store do not know each other: the facade stands between them.
    ("polyloom-store", &[]),
    ("polyloom-llvm", &["polyloom-codegen", "polyloom-ir"]),
    ("polyloom-runtime", &["polyloom-codegen", "polyloom-ir", "polyloom-ptx"]),
    (
        "polyloom",
        &[
            "polyloom-codegen",
            "polyloom-frontend",
            "polyloom-graph",
            "polyloom-ir",
            "polyloom-llvm",
            "polyloom-passes",
            "polyloom-ptx",
            "polyloom-runtime",
            // Behind the feature `planner`.
            "polyloom-store",
        ],
    ),
    ("polyloom-dataset", &["polyloom"]),
    ("polyloom-cli", &["polyloom", "polyloom-dataset", "polyloom-store"]),
    ("polyloom-py", &["polyloom", "polyloom-cli", "polyloom-dataset"]),
    ("polyloom-filetests", &["polyloom", "polyloom-codegen", "polyloom-frontend", "polyloom-ir", "polyloom-passes"]),
];

/// Crates from elsewhere that only these crates of ours may use.
const CONFINED: &[(&str, &[&str])] = &[
    ("pyo3", &["polyloom-py"]),
    ("numpy", &["polyloom-py"]),
    ("clap", &["polyloom-cli"]),
    ("ruff_python_ast", &["polyloom-frontend"]),
    ("ruff_python_parser", &["polyloom-frontend"]),
    ("ruff_text_size", &["polyloom-frontend"]),
    ("inkwell", &["polyloom-llvm"]),
    ("llvm-sys", &["polyloom-llvm"]),
    ("cranelift-codegen", &["polyloom-codegen"]),
    ("cranelift-frontend", &["polyloom-codegen"]),
    ("cranelift-module", &["polyloom-codegen"]),
    ("cranelift-native", &["polyloom-codegen"]),
    ("cranelift-object", &["polyloom-codegen"]),
    ("rustc_apfloat", &["polyloom-ptx"]),
    ("cudarc", &["polyloom-runtime"]),
    ("egg", &["polyloom-graph"]),
    ("httparse", &["polyloom-cli"]),
    ("libloading", &["polyloom-runtime"]),
    ("postgres", &["polyloom-store"]),
    ("rusqlite", &["polyloom-store"]),
    ("libc", &["polyloom-codegen", "polyloom-cuda-sim", "polyloom-runtime"]),
];

const LICENCES: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unicode-DFS-2016",
    "Unlicense",
    "Zlib",
];

/// Direct dependencies that come in a second version too, and the crate whose release holds it back.
const HELD_BACK: &[(&str, &str)] = &[("hashbrown", "egg"), ("thiserror", "egg")];

fn metadata() -> Value {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml");
    let out = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--offline", "--locked", "--manifest-path", manifest])
        .output()
        .expect("cargo runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).expect("cargo metadata is JSON")
}

fn packages(metadata: &Value) -> &[Value] {
    metadata["packages"].as_array().expect("metadata has packages")
}

fn ours(package: &Value) -> bool {
    package["source"].is_null()
}

fn name(package: &Value) -> &str {
    package["name"].as_str().expect("packages have names")
}

/// Normal dependencies: tests may use what they like.
fn dependencies(package: &Value) -> impl Iterator<Item = &str> {
    let all = package["dependencies"].as_array().expect("packages have dependencies").iter();
    all.filter(|d| d["kind"].is_null()).map(name)
}

#[test]
fn crates_depend_only_on_layers_below_them() {
    let metadata = metadata();
    let workspace: BTreeSet<&str> = packages(&metadata).iter().filter(|p| ours(p)).map(name).collect();
    for package in packages(&metadata).iter().filter(|p| ours(p)) {
        let allowed = ALLOWED.iter().find(|(krate, _)| *krate == name(package));
        let (_, allowed) = allowed.unwrap_or_else(|| panic!("{} is not in the table of layers", name(package)));
        for dependency in dependencies(package).filter(|d| workspace.contains(d)) {
            assert!(allowed.contains(&dependency), "{} may not depend on {dependency}", name(package));
        }
        for (krate, users) in CONFINED {
            let uses = dependencies(package).any(|d| d == *krate);
            assert!(!uses || users.contains(&name(package)), "{} may not depend on {krate}", name(package));
        }
    }
}

#[test]
fn licences_of_all_dependencies_are_permissive() {
    let metadata = metadata();
    for package in packages(&metadata) {
        let licence = package["license"].as_str().unwrap_or("none").replace('/', " OR ");
        // `(A OR B) AND C`: every conjunct needs one alternative on the list.
        let fine = licence.split(" AND ").all(|conjunct| {
            let conjunct = conjunct.trim_matches(['(', ')', ' ']);
            conjunct.split(" OR ").any(|one| LICENCES.contains(&one.trim_matches(['(', ')', ' '])))
        });
        assert!(fine, "{} has licence {licence}", name(package));
    }
}

#[test]
fn direct_dependencies_come_in_one_version() {
    let metadata = metadata();
    let direct: BTreeSet<&str> = packages(&metadata).iter().filter(|p| ours(p)).flat_map(dependencies).collect();
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for package in packages(&metadata).iter().filter(|p| direct.contains(name(p))) {
        versions.entry(name(package)).or_default().insert(package["version"].as_str().unwrap_or(""));
    }
    let twice: Vec<&str> = versions.iter().filter(|(_, versions)| versions.len() > 1).map(|(name, _)| *name).collect();
    let known: Vec<&str> = HELD_BACK.iter().map(|(name, _)| *name).collect();
    assert_eq!(twice, known, "in several versions, and those that are known to be");
    for (held, holder) in HELD_BACK {
        let holder =
            packages(&metadata).iter().find(|p| name(p) == *holder).expect("the crate that holds it back is used");
        assert!(dependencies(holder).any(|d| d == *held), "{} does not use {held}", name(holder));
    }
}

#[test]
fn the_entry_that_contributing_shows_is_in_the_op_table() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = |path: &str| std::fs::read_to_string(root.join(path)).unwrap();
    let lines = |text: &str| text.lines().map(str::trim).collect::<Vec<_>>().join("\n");
    let contributing = text("CONTRIBUTING.md");
    let entry = contributing.split("```rust\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    assert!(lines(&text("crates/polyloom-ir/src/op/table.rs")).contains(lines(entry).trim()), "{entry}");
    let named = contributing.split('`').skip(1).step_by(2).filter(|name| name.starts_with("crates/"));
    let absent: Vec<&str> = named.filter(|name| !root.join(name).exists()).collect();
    assert!(absent.is_empty(), "CONTRIBUTING.md names files that there are not: {absent:?}");
}

#[test]
fn files_that_the_architecture_names_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = std::fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    let walks = &text[text.find("## Where is").unwrap()..];
    // A path goes from the crate on, or from the folder of the path before it.
    let mut folder = std::path::PathBuf::new();
    let mut absent = Vec::new();
    for name in walks.split('`').skip(1).step_by(2).filter(|name| name.ends_with(".rs")) {
        let from_crate = root.join("crates").join(name);
        let from_before = folder.ancestors().map(|folder| folder.join(name)).find(|path| path.exists());
        match from_before {
            _ if from_crate.exists() => folder = from_crate.parent().unwrap().to_owned(),
            Some(_) => {}
            None => absent.push(name.to_owned()),
        }
    }
    assert!(absent.is_empty(), "ARCHITECTURE.md names files that there are not: {absent:?}");
}

#[test]
fn design_pages_are_linked_from_the_code_and_exist() {
    fn files(folder: &Path, found: &mut Vec<std::path::PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.extension().and_then(|extension| extension.to_str()) {
                _ if path.is_dir() => files(&path, found),
                Some("rs" | "py") => found.push(path),
                _ => {}
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut sources = Vec::new();
    ["crates", "python/polyloom"].iter().for_each(|folder| files(&root.join(folder), &mut sources));
    let mut named = BTreeSet::new();
    for source in sources {
        let text = std::fs::read_to_string(&source).unwrap_or_default();
        let pages = text.split("Design: `docs/design/").skip(1).filter_map(|rest| rest.split_once(".md`"));
        named.extend(pages.map(|(name, _)| name.to_owned()).filter(|name| !name.contains('"')));
    }
    let pages = std::fs::read_dir(root.join("docs/design")).unwrap();
    let pages: BTreeSet<String> = pages
        .map(|page| page.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
        .filter(|name| name != "index")
        .collect();
    assert_eq!(named, pages, "pages that the code names, and pages that there are");
}

//! Printing and parsing.

use polyloom_ptx::Module;
use std::path::PathBuf;

/// Every PTX file of the tests, with its name.
pub(crate) fn files() -> Vec<(String, String)> {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/ptx"));
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .expect("the folder is there")
        .map(|entry| entry.expect("readable").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "ptx"))
        .map(|path| {
            let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
            (name, std::fs::read_to_string(path).expect("text"))
        })
        .collect();
    files.sort();
    files
}

#[test]
fn printing_and_parsing_again_changes_nothing() {
    for (name, text) in files() {
        let module = Module::parse(&text).unwrap_or_else(|errors| panic!("{name}: {errors:#?}"));
        let printed = module.to_string();
        let again = Module::parse(&printed).unwrap_or_else(|errors| panic!("{name} printed: {errors:#?}\n{printed}"));
        assert_eq!(again.to_string(), printed, "{name}");
        if let Ok(folder) = std::env::var("POLYLOOM_PTX_DUMP") {
            std::fs::write(format!("{folder}/printed_{name}.ptx"), &printed).expect("the folder is writable");
        }
    }
}

fn errors(text: &str) -> Vec<String> {
    let errors = Module::parse(text).expect_err("something is wrong");
    errors.iter().map(ToString::to_string).collect()
}

#[test]
fn errors_have_places_and_come_together() {
    let text =
        ".version 8.0\n.target sm_80\n.entry k() {\n  add.s32 %r1 %r2;\n  mov.u32 %r1, 12x;\n  ret;\n}\n.entry (";
    assert_eq!(
        errors(text),
        [
            "5:16: `12x` is no number",
            "4:15: expected `;`, found `%r2`",
            "8:9: expected a state space, found the end of the text",
        ]
    );
    assert_eq!(errors(""), ["1:1: a PTX module begins with `.version`"]);
    assert_eq!(errors(".version 8.0\n}"), ["2:1: expected a directive such as `.visible` or `.func`, found `}`"]);
}

#[test]
fn deep_nesting_is_refused() {
    let text = format!(".version 8.0\n.entry k() {}", "{".repeat(100_000));
    assert_eq!(errors(&text), ["2:78: nested more than 64 deep"]);
    let text = format!(".version 8.0\n.global .u32 x = {}1;", "(".repeat(100_000));
    assert!(errors(&text)[0].ends_with("nested more than 64 deep"));
}

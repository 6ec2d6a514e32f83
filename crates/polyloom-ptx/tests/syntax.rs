//! Printing and parsing.

use polyloom_ptx::syntax::ast::ModuleItem;
use polyloom_ptx::{Module, Simulator};
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
    assert_eq!(
        errors(".version 8.0\n.target sm_80\n}"),
        ["3:1: expected a directive such as `.visible` or `.func`, found `}`"]
    );
}

#[test]
fn deep_nesting_is_refused() {
    let text = format!(".version 8.0\n.target sm_80\n.entry k() {}", "{".repeat(100_000));
    assert_eq!(errors(&text), ["3:78: nested more than 64 deep"]);
    let text = format!(".version 8.0\n.target sm_80\n.global .u32 x = {}1;", "(".repeat(100_000));
    assert!(errors(&text)[0].ends_with("nested more than 64 deep"));
}

const HEAD: &str = ".version 8.8\n.target sm_100\n.address_size 64\n";

/// What stands before everything else does so, as in ptxas.
#[test]
fn a_module_begins_with_its_version() {
    let kernel = ".entry k() { ret; }\n";
    assert_eq!(errors(&format!(".target sm_80\n{kernel}.version 8.0\n")), ["1:1: a PTX module begins with `.version`"]);
    let no_target = ["2:1: behind the `.version` of a PTX module comes its `.target`"];
    assert_eq!(errors(&format!(".version 8.0\n{kernel}")), no_target);
    assert_eq!(errors(&format!(".version 8.0\n.address_size 64\n.target sm_80\n{kernel}")), no_target);
    for late in [".version 8.0", ".target sm_80", ".address_size 64"] {
        let found = errors(&format!(".version 8.0\n.target sm_80\n{kernel}{late}\n"));
        assert!(found[0].starts_with("4:1: `.") && found[0].contains("stands in its place"), "{found:?}");
    }
}

#[test]
fn numbers() {
    let number = |text: &str| errors(&format!("{HEAD}.entry k() {{ mov.u32 %r1, {text}; }}")).remove(0);
    assert_eq!(number("089"), "4:27: `089` is no octal number, as which a first `0` marks it");
    assert_eq!(number("18446744073709551616"), "4:27: `18446744073709551616` does not fit 64 bits");
    assert_eq!(number("0x10000000000000000"), "4:27: `0x10000000000000000` does not fit 64 bits");
    assert_eq!(number("0b2"), "4:27: `0b2` is no number");
    assert_eq!(number("5u"), "4:27: `5u` is no number");
    assert_eq!(number("1.5e"), "4:27: `1.5e` is no number");
    assert_eq!(number("-0f3f800000"), "4:27: `0f…` stands alone, not after `-`");
}

/// Strings mean what C's escapes say, once, and are printed so that they mean it again.
#[test]
fn names_of_files() {
    let text = format!("{HEAD}.file 1 \"gr\\303\\266\\303\\237e \\\"a\\\\b\\t\\q\"\n.pragma \"a\", \"b\";\n");
    let module = Module::parse(&text).expect("it parses");
    let ModuleItem::File(1, name) = &module.ast().items[0] else { panic!("a file") };
    assert_eq!(name, "größe \"a\\b\t\\q");
    let printed = module.to_string();
    assert!(printed.contains(r#".file 1 "gr\303\266\303\237e \042a\134b\011\134q""#), "{printed}");
    assert!(printed.contains(r#".pragma "a", "b";"#), "{printed}");
    assert_eq!(Module::parse(&printed).expect("it parses").ast().items, module.ast().items);
}

#[test]
fn what_preprocessors_leave_is_blank() {
    let text = format!("{HEAD}#line 5 \"a.cu\"\n# 7 \"b.cu\" 3\n.entry k() {{ ret; }}");
    assert!(Module::parse(&text).is_ok());
    assert_eq!(errors(&format!("{HEAD}#pragma once\n.entry k() {{ ret; }}"))[0], "4:1: `#` begins no token of PTX");
}

/// Each is refused at the second place, as ptxas refuses it.
#[test]
fn names_are_defined_once() {
    let found = errors(&format!("{HEAD}.entry k() {{ ret; }}\n.entry k() {{ ret; }}"));
    assert_eq!(found, ["5:8: the kernel `k` is defined twice, first at 4:8"]);
    let found = errors(&format!("{HEAD}.global .u32 k;\n.func k() {{ ret; }}\n.const .u64 x;\n.global .u32 x;"));
    assert_eq!(
        found,
        ["5:7: `k` is a variable and a function", "7:14: the variable `x` is defined twice, first at 6:13"]
    );
    let found = errors(&format!("{HEAD}.visible .func f() {{ ret; }}\n.visible .func f();"));
    assert_eq!(found, ["5:16: the function `f` is declared after its definition at 4:16"]);
    for declared in [".func f();\n.func f() { ret; }", ".extern .global .u32 x;\n.visible .global .u32 x = 5;"] {
        assert!(Module::parse(&format!("{HEAD}{declared}")).is_ok(), "{declared}");
    }
    let twice = |body: &str| {
        let text = format!("{HEAD}.entry k(.param .u64 out) {{\n{body}\nret;\n}}");
        let module = Module::parse(&text).expect("it parses");
        let loaded = Simulator::default().load(&module).expect("it loads");
        loaded.kernel("k").err().map(|errors| errors[0].to_string())
    };
    for body in [
        ".reg .u32 a; .reg .u64 a;",
        ".reg .u32 out;",
        ".reg .u32 r<4>, r2;",
        ".reg .u32 a; .shared .u32 a;",
        "a: .reg .u32 a;",
        ".reg .u32 a; a: ret;",
        "a: a: ret;",
    ] {
        let found = twice(body).expect(body);
        assert!(found.starts_with("5:") && found.ends_with("is declared twice in one scope"), "{found} {body}");
    }
    let family = "5:24: registers `r<…>` are declared twice in one scope";
    assert_eq!(twice(".reg .u32 r2; .reg .u32 r<4>;").as_deref(), Some(&family.replace("24", "25")[..]));
    assert_eq!(twice(".reg .u32 r<4>; .reg .u32 r<8>;").as_deref(), Some(&family.replace("24", "27")[..]));
    for body in [".reg .u32 r<4>, r7, r;", ".reg .u32 a; { .reg .u64 a; }", ".reg .u32 k;", ".reg .u32 r<12>, r1<2>;"] {
        assert_eq!(twice(body), None, "{body}");
    }
}

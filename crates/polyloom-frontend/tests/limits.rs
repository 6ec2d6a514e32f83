//! Whatever the input, the front end answers: deep and long programs are compiled or rejected with a diagnostic.

use polyloom_frontend::{CompileError, Options, SourceUnit, check_file};
use polyloom_ir::{Code, SourceFile};

/// The codes of what is wrong with the file.
fn codes(text: &str) -> Vec<Code> {
    let file = SourceFile::new("limits.py", text, 1);
    match SourceUnit::parse(file).and_then(|unit| check_file(&unit, &Options::default())) {
        Ok(_) => Vec::new(),
        Err(CompileError { diagnostics, .. }) => diagnostics.iter().map(|d| d.code).collect(),
    }
}

/// The codes of a kernel with this body.
fn kernel(body: &str) -> Vec<Code> {
    codes(&format!(
        "import polyloom as loom\n@loom.kernel\ndef k(n: int, b: bool, a: loom.array(dtype=int)):\n{body}\n"
    ))
}

#[test]
fn expressions_of_reasonable_depth_are_compiled() {
    assert_eq!(kernel(&format!("    a[0] = {}n{}", "(".repeat(150), ")".repeat(150))), []);
    assert_eq!(kernel(&format!("    a[0] = n{}", " + n".repeat(150))), []);
    assert_eq!(kernel(&format!("    b = b{}", " and a[0] > 0".repeat(60))), []);
    assert_eq!(kernel(&format!("    if b:\n        pass\n{}", "    elif n > 1:\n        n = 2\n".repeat(90))), []);
}

#[test]
fn expressions_too_deep_are_rejected() {
    for n in [300, 900, 5000, 100_000] {
        for expression in [
            format!("{}n", "-".repeat(n)),
            format!("n{}", " + n".repeat(n)),
            format!("{}n{}", "a[".repeat(n), "]".repeat(n)),
            format!("{}b", "not ".repeat(n)),
            format!("{}n", "n if b else ".repeat(n)),
            format!("{}n{}", "abs(".repeat(n), ")".repeat(n)),
            format!("n{}", " ** n".repeat(n)),
            format!("n{}", ".x".repeat(n)),
            format!("n{}", "()".repeat(n)),
            format!("n{}", "[0]".repeat(n)),
            format!("{}n", "lambda: ".repeat(n)),
        ] {
            let found = kernel(&format!("    a[0] = {expression}"));
            assert!(!found.is_empty(), "{n} levels of {}", &expression[..20]);
        }
    }
}

#[test]
fn statements_too_deep_are_rejected() {
    // Python itself allows 100 levels of indentation.
    for (n, accepted) in [(90, true), (400, false), (2000, false)] {
        let mut body = String::new();
        for level in 1..=n {
            body.push_str(&format!("{}if b:\n", " ".repeat(level)));
        }
        body.push_str(&format!("{}n = 1", " ".repeat(n + 1)));
        assert_eq!(kernel(&body).is_empty(), accepted, "{n} levels");
    }
    for n in [1000, 20_000] {
        let elif = "    elif n > 1:\n        n = 2\n".repeat(n);
        assert_eq!(kernel(&format!("    if b:\n        pass\n{elif}")), [Code::Limit], "{n} branches");
    }
}

#[test]
fn long_programs_that_are_not_deep_are_compiled() {
    assert_eq!(kernel(&"    a[0] = a[1] + n * 2\n".repeat(5000)), []);
    let numbers = "1, ".repeat(50_000);
    assert_eq!(codes(&format!("import polyloom as loom\nTABLE = [{numbers}]\n")), []);
    assert_eq!(kernel(&format!("    b = b{}", " or a[0] > 0".repeat(500))), [Code::Limit]);
    assert_eq!(kernel(&format!("    b = n{}", " < n".repeat(500))), [Code::Limit]);
}

#[test]
fn endless_instances_are_cut_off() {
    // Each function calls the next twice, with either type: the instances double with the depth.
    let mut text =
        "import polyloom as loom\nfrom typing import Any\n@loom.func\ndef f0(x: Any):\n    return x\n".to_owned();
    for i in 1..100 {
        text.push_str(&format!("@loom.func\ndef f{i}(x: Any):\n    return f{}(x)\n", i - 1));
    }
    text.push_str("@loom.kernel\ndef k(a: loom.array(dtype=float)):\n    a[0] = f99(a[0])\n");
    assert!(codes(&text).contains(&Code::Limit));
}

#[test]
fn strange_texts_are_rejected() {
    for text in [
        "\0",
        "\u{feff}",
        "def",
        "@",
        "def f(",
        "\"\"\"",
        "if True:\n\tx\n        y",
        "\r\r\n",
        "f'{",
        "x = '\\N{bad}'",
    ] {
        codes(text);
    }
    assert!(kernel("    a[0] = 0x").contains(&Code::Syntax));
    assert_eq!(kernel(&format!("    a[0] = {}", "9".repeat(10_000))), [Code::ConstantRange]);
    assert_eq!(kernel(&format!("    a[0] = 1{}", " << 100".repeat(50))), [Code::ConstantRange]);
}

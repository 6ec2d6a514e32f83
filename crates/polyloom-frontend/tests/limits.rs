//! Whatever the input, the front end answers: deep and long programs are compiled or rejected with a diagnostic.

use polyloom_frontend::{CompileError, FrontendOptions, SourceUnit, check_file};
use polyloom_ir::{Code, SourceFile};

/// The codes of what is wrong with the file.
fn codes(text: &str) -> Vec<Code> {
    let file = SourceFile::new("limits.py", text, 1);
    match SourceUnit::parse(file).and_then(|unit| check_file(&unit, &FrontendOptions::default())) {
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
            format!("{}n{}", "n + (".repeat(n), ")".repeat(n)),
            format!("{}n{}", "a[".repeat(n), "]".repeat(n)),
            format!("{}b", "not ".repeat(n)),
            format!("{}n", "n if b else ".repeat(n)),
            format!("{}n{}", "abs(".repeat(n), ")".repeat(n)),
            format!("n{}", " ** n".repeat(n)),
        ] {
            let found = kernel(&format!("    a[0] = {expression}"));
            assert_eq!(found, [Code::Limit], "{n} levels of {}", &expression[..20]);
        }
        // These are errors whatever their depth; the parser must not be given those that are too deep for it.
        for (expression, code) in [
            (format!("n{}", ".x".repeat(n)), Code::Unsupported),
            (format!("n{}", "()".repeat(n)), Code::Unsupported),
            (format!("n{}", "[0]".repeat(n)), Code::TypeMismatch),
            (format!("{}n", "lambda: ".repeat(n)), Code::Unsupported),
            (format!("{}0{}", "lambda x,y=".repeat(n), ":0,z=0".repeat(n - 1) + ":0"), Code::Unsupported),
        ] {
            let found = kernel(&format!("    a[0] = {expression}"));
            let wanted = if n >= 5000 { Code::Limit } else { code };
            assert!(found == [wanted] || found == [Code::Limit], "{n} levels of {}: {found:?}", &expression[..20]);
        }
        for statement in ["yield n, ", "yield n, (yield), n, "] {
            assert!(!kernel(&format!("    {}n", statement.repeat(n))).is_empty(), "{n} times {statement}");
        }
    }
}

#[test]
fn operators_in_a_row_are_no_nesting() {
    for (row, n) in
        [(" + n", 4900), (" + n * a[0]", 2400), (" - -n ** 2 + a[n - 1]", 1200), (" + (n - 1) // 2 * abs(n)", 1200)]
    {
        assert_eq!(kernel(&format!("    a[0] = n{}", row.repeat(n))), [], "{n} of {row}");
    }
    // A row whose first operand is a row in brackets is as long as both.
    let nested = (0..30).fold("n".to_owned(), |inner, _| format!("({inner}{})", " + n".repeat(400)));
    assert_eq!(kernel(&format!("    a[0] = {nested}")), [Code::Limit]);
    let nested = (0..900).fold("n".to_owned(), |inner, _| format!("({inner}{})", " + n".repeat(900)));
    assert_eq!(kernel(&format!("    a[0] = {nested}")), [Code::Limit]);
    for row in [" + n", " * n", " | n", " and n", " < n"] {
        assert_eq!(kernel(&format!("    a[0] = n{}", row.repeat(100_000))).len(), 1, "{row}");
    }
}

#[test]
fn a_chain_of_branches_may_be_longer_than_blocks_are_deep() {
    for (n, codes) in [(240, &[][..]), (300, &[Code::Limit])] {
        let elif: String = (0..n).map(|i| format!("    elif n == {}:\n        a[0] = abs(n) + {i}\n", i + 2)).collect();
        assert_eq!(kernel(&format!("    if n == 1:\n        pass\n{elif}")), codes, "{n} branches");
    }
}

#[test]
fn chains_of_comparisons_are_as_deep_as_their_links() {
    let chain = |inner: &str| format!("({}{inner})", "a[0] == ".repeat(63));
    assert_eq!(kernel(&format!("    b = {}", chain("a[0]"))), []);
    let nested = (0..13).fold("b".to_owned(), |inner, _| chain(&format!("int({inner})")));
    assert_eq!(kernel(&format!("    b = {nested}")), [Code::Limit]);
}

/// Functions of which each calls the one before inside so many minus signs.
fn deep_calls(n_functions: usize, depth: usize) -> String {
    let mut text = "import polyloom as loom\n@loom.func\ndef f0(x: float):\n    return x\n".to_owned();
    for i in 1..n_functions {
        let (open, close) = ("-(".repeat(depth), ")".repeat(depth));
        text.push_str(&format!("@loom.func\ndef f{i}(x: float):\n    return {open}f{}(x){close}\n", i - 1));
    }
    // The innermost function is reached through all others, not checked on its own before.
    let (imports, functions) = text.split_once('\n').expect("there are lines");
    let last = n_functions - 1;
    format!("{imports}\n@loom.kernel\ndef k(a: loom.array(dtype=float)):\n    a[0] = f{last}(a[0])\n{functions}")
}

#[test]
fn nested_calls_share_one_depth() {
    assert_eq!(codes(&deep_calls(60, 1)), []);
    assert_eq!(codes(&deep_calls(3, 190)), []);
    assert_eq!(codes(&deep_calls(61, 95)), [Code::Limit]);
    assert_eq!(codes(&deep_calls(80, 1)), [Code::Limit]);
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
    for operator in ["and", "or"] {
        assert_eq!(kernel(&format!("    b = b{}", format!(" {operator} a[0] > 0").repeat(2500))), [], "{operator}");
    }
    assert_eq!(kernel(&format!("    b = n{}", " < n".repeat(500))), [Code::Limit]);
}

#[test]
fn many_functions_and_many_branches_are_compiled() {
    let functions = "def f():pass\n".repeat(100_000);
    let kernel_text = "import polyloom as loom\n@loom.kernel\ndef k(a: loom.array(dtype=int)):\n    a[0] = 1\n";
    assert_eq!(codes(&format!("{kernel_text}{functions}")), []);
    let branches: String =
        (0..15_000).map(|i| format!("    v{i} = {i}\n    if n > {i}:\n        v{i} = a[v{i}]\n")).collect();
    assert_eq!(kernel(&branches), []);
}

#[test]
fn programs_too_long_are_rejected() {
    assert_eq!(kernel(&"    a[0] = a[1] + n * 2\n".repeat(200_000)), [Code::Limit]);
    // Each of these functions is short.
    let mut text = "import polyloom as loom\n".to_owned();
    for i in 0..600 {
        let body = "    x = x + 1\n".repeat(500);
        text.push_str(&format!("@loom.func\ndef f{i}(x: int):\n{body}    return x\n"));
    }
    text.push_str("@loom.kernel\ndef k(a: loom.array(dtype=int)):\n");
    (0..600).for_each(|i| text.push_str(&format!("    a[{i}] = f{i}(a[{i}])\n")));
    // The functions are checked on their own as well, each with a budget of its own.
    assert_eq!(codes(&text), []);
    let kernel_first = text.split_once("@loom.kernel").map(|(functions, kernel)| {
        let functions = functions.strip_prefix("import polyloom as loom\n").unwrap_or(functions);
        format!("import polyloom as loom\n@loom.kernel{kernel}{functions}")
    });
    assert_eq!(codes(&kernel_first.expect("there is a kernel")), [Code::Limit]);
}

#[test]
fn long_names_and_many_unknown_names_are_reported() {
    let body = format!("    {} = n\n    a[0] = {}", "x".repeat(60_000), "y".repeat(60_000));
    assert_eq!(kernel(&body), [Code::UnknownName]);
    let body: String = (0..3000).map(|i| format!("    v{i} = n\n    a[0] = unknown_{i}\n")).collect();
    assert_eq!(kernel(&body), [Code::UnknownName; 3000]);
}

#[test]
fn limits_are_of_one_kernel_not_of_its_file() {
    let kernels: String =
        (0..1500).map(|i| format!("@loom.kernel\ndef k{i}(a: loom.array(dtype=int)):\n    a[0] = {i}\n")).collect();
    assert_eq!(codes(&format!("import polyloom as loom\n{kernels}")), []);
}

#[test]
fn endless_instances_are_cut_off() {
    // Each function calls the next with another of its arguments as either type: the instances double with the depth.
    let parameters: Vec<String> = (0..12).map(|i| format!("x{i}: Any")).collect();
    let parameters = parameters.join(", ");
    let mut text = "import polyloom as loom\nfrom typing import Any\n".to_owned();
    text.push_str(&format!("@loom.func\ndef f0({parameters}):\n    return 1\n"));
    for i in 1..12 {
        let call = |ty: &str| {
            let args: Vec<String> =
                (0..12).map(|j| if i == j { format!("{ty}(x{j})") } else { format!("x{j}") }).collect();
            format!("f{}({})", i - 1, args.join(", "))
        };
        let (int, float) = (call("int"), call("float"));
        text.push_str(&format!("@loom.func\ndef f{i}({parameters}):\n    return {int} + {float}\n"));
    }
    let args = ["a[0]"; 12].join(", ");
    text.push_str(&format!("@loom.kernel\ndef k(a: loom.array(dtype=int)):\n    a[0] = f11({args})\n"));
    assert_eq!(codes(&text), [Code::Limit]);
}

#[test]
fn strange_texts_are_rejected() {
    for text in ["\0", "def", "@", "def f(", "\"\"\"", "if True:\n\tx\n        y", "f'{", "x = '\\N{bad}'"] {
        let found = codes(text);
        assert!(!found.is_empty() && found.iter().all(|code| *code == Code::Syntax), "{text:?}: {found:?}");
    }
    for text in ["", "\u{feff}", "\r\r\n", "\\\n\n"] {
        assert_eq!(codes(text), [], "{text:?}");
    }
    assert!(kernel("    a[0] = 0x").contains(&Code::Syntax));
    assert_eq!(kernel(&format!("    a[0] = {}", "9".repeat(10_000))), [Code::ConstantRange]);
    assert_eq!(kernel(&format!("    a[0] = 1{}", " << 100".repeat(50))), [Code::ConstantRange]);
}

//! Capture of tensor functions: the cases of `tests/cases`, each a function with the groups that are right.

use polyloom_frontend::SourceUnit;
use polyloom_frontend::capture::{
    CaptureGuard, CapturedFunction, FileCaptureEnvironment, OpCatalogue, TensorOpFacts, capture as capture_function,
};
use polyloom_ir::SourceFile;
use serde_json::Value;

/// Ops of the cases: all are pure but a few.
struct CaseOps;

impl OpCatalogue for CaseOps {
    fn op(&self, path: &str) -> Option<TensorOpFacts> {
        Some(match path.strip_prefix("polyloom.ops.")? {
            "reshape" | "transpose" | "permute" | "slice" | "broadcast_to" | "dropout" => TensorOpFacts::VIEW,
            "split" => TensorOpFacts { n_results: 2, ..TensorOpFacts::VIEW },
            "moments" => TensorOpFacts { n_results: 2, ..TensorOpFacts::PURE },
            "seed" => TensorOpFacts { is_pure: false, ..TensorOpFacts::PURE },
            "nothing" => return None,
            _ => TensorOpFacts::PURE,
        })
    }
}

fn capture_named(text: &str, name: &str) -> CapturedFunction {
    let unit =
        SourceUnit::parse(SourceFile::new("example.py", text, 1)).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let function = unit.find(name).unwrap_or_else(|| panic!("there is no `{name}` in\n{text}"));
    let environment = FileCaptureEnvironment::new(&unit, function);
    capture_function(&unit, function, environment, &CaseOps).expect("the function is there")
}

/// Captures the function `f` of a text.
pub(crate) fn capture(text: &str) -> CapturedFunction {
    capture_named(text, "f")
}

/// Describes what a captured function has wrong of a case.
fn failure(case: &Value) -> Option<String> {
    let report = capture(case["source"].as_str().unwrap_or_default()).report();
    let report = serde_json::to_value(&report).expect("a report is JSON");
    let fail = |what: &str| {
        Some(format!(
            "{}: {what}\n{}\ngroups {} at {}, not {} at {}\nbreaks {:#}",
            case["id"],
            case["source"].as_str()?,
            report["groups"],
            report["exec_at"],
            case["expected_groups"],
            case["exec_at"],
            report["breaks"]
        ))
    };
    if report["calls"] != case["calls"] {
        return fail(&format!("the calls are {}", report["calls"]));
    }
    let groups = report["groups"].as_array()?;
    if *groups != *case["expected_groups"].as_array()? {
        // A finer partition is accepted where the case is one of policy.
        let is_subset = |group: &Value, of: &Value| {
            let of = of.as_array().cloned().unwrap_or_default();
            group.as_array().is_some_and(|group| group.iter().all(|call| of.contains(call)))
        };
        let is_finer = |expected: &Value| {
            let expected = expected.as_array().cloned().unwrap_or_default();
            groups.iter().all(|group| expected.iter().any(|of| is_subset(group, of)))
        };
        let is_alternative = case.get("alt_groups").is_some_and(|alternative| *alternative == report["groups"]);
        if case["kind"] != "policy" || !(is_finer(&case["expected_groups"]) || is_alternative) {
            return fail("the groups are wrong");
        }
        return None;
    }
    // Each group of several calls runs at one moment at least, and at none that is not legal.
    for (group, (found, allowed)) in
        groups.iter().zip(report["exec_at"].as_array()?.iter().zip(case["exec_at"].as_array()?))
    {
        let (found, allowed) = (found.as_array(), allowed.as_array());
        let is_right = match (found, allowed) {
            (None, _) => group.as_array()?.len() == 1,
            (Some(found), Some(allowed)) => !found.is_empty() && found.iter().all(|moment| allowed.contains(moment)),
            (Some(_), None) => false,
        };
        if !is_right {
            return fail("the moments are wrong");
        }
    }
    None
}

fn check_cases(text: &str, least: usize) {
    let cases: Vec<Value> = serde_json::from_str(text).expect("the cases are JSON");
    assert!(cases.len() >= least, "there are {} cases", cases.len());
    let failures: Vec<String> = cases.iter().filter_map(failure).collect();
    assert!(failures.is_empty(), "{} of {} cases fail\n\n{}", failures.len(), cases.len(), failures.join("\n\n"));
}

#[test]
fn capture_gives_the_groups_of_the_mutation_cases() {
    check_cases(include_str!("../../../tests/cases/mutation_cases.json"), 76);
}

#[test]
fn capture_gives_the_groups_of_cases_of_other_kinds() {
    check_cases(include_str!("../../../tests/cases/capture_cases.json"), 120);
}

/// Captures every function of the Python files of a folder, and returns how many there are.
fn capture_folder(folder: &std::path::Path, n_functions: &mut usize) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        if path.is_dir() {
            capture_folder(&path, n_functions);
        }
        if path.extension().is_none_or(|extension| extension != "py") {
            continue;
        }
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        let Ok(unit) = SourceUnit::parse(SourceFile::new("any.py", text, 1)) else { continue };
        for index in 0..unit.functions().len() {
            let environment = FileCaptureEnvironment::new(&unit, index);
            let start = std::time::Instant::now();
            let captured = capture_function(&unit, index, environment, &AnyOps).expect("the function is there");
            if std::env::var_os("POLYLOOM_CAPTURE_SLOW").is_some()
                && (start.elapsed().as_millis() > 50 || captured.is_incomplete)
            {
                let name = &unit.functions()[index].name;
                println!("{}:{name} {:?} incomplete {}", path.display(), start.elapsed(), captured.is_incomplete);
            }
            let n_grouped: usize = captured.groups.iter().map(|group| group.calls.len()).sum();
            assert_eq!(n_grouped, captured.calls.len(), "{}", path.display());
            assert!(captured.groups.iter().all(|group| group.calls.len() == 1 || !group.exec_at.is_empty()));
            captured.report();
            *n_functions += 1;
        }
    }
}

/// Takes any function of any module for an op, so that any program has calls to group.
struct AnyOps;

impl OpCatalogue for AnyOps {
    fn op(&self, path: &str) -> Option<TensorOpFacts> {
        Some(if path.len().is_multiple_of(3) { TensorOpFacts::VIEW } else { TensorOpFacts::PURE })
    }
}

#[test]
fn capture_takes_any_function() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut n_functions = 0;
    for folder in ["tests/python", "python/polyloom", "scripts", "examples"] {
        capture_folder(&root.join(folder), &mut n_functions);
    }
    // Any other folder may be named, that of Python's own library for one.
    if let Some(folder) = std::env::var_os("POLYLOOM_CAPTURE_FOLDER") {
        capture_folder(std::path::Path::new(&folder), &mut n_functions);
        println!("{n_functions} functions");
    }
    assert!(n_functions > 1000, "{n_functions}");
}

#[test]
fn functions_beyond_limits_are_left_as_they_are() {
    let deep_sum = format!("    return ops.add({}a{}, b)\n", "(".repeat(400), ", 1)".repeat(400));
    let long: String = (0..60_000).map(|index| format!("    a = ops.add(a, {index})\n")).collect();
    for text in [deep_sum, long] {
        let captured = capture(&format!("def f(a, b):\n{text}"));
        let start = text.get(..80);
        assert!(captured.is_incomplete && captured.calls.is_empty() && captured.groups.is_empty(), "{start:?}");
    }
    // Loops inside of one another are walked as often as they change something, which is not often.
    let nested_loops: String = (1..90).map(|depth| format!("{}for i{depth} in a:\n", "    ".repeat(depth))).collect();
    let body = format!("{}x = ops.add(a, b)\n", "    ".repeat(90));
    assert_eq!(capture(&format!("def f(a, b):\n{nested_loops}{body}")).calls.len(), 1);
    // A sum of many terms is no nesting, and a chain of a thousand calls is no limit.
    let sum = format!("    return ops.add(a, b{})\n", " + 1".repeat(2000));
    assert_eq!(capture(&format!("def f(a, b):\n{sum}")).calls.len(), 1);
    let chain: String = (0..1000).map(|index| format!("    a = ops.add(a, {index})\n")).collect();
    let captured = capture(&format!("def f(a, b):\n{chain}    return a\n"));
    assert_eq!((captured.calls.len(), captured.groups.len()), (1000, 1));
}

/// Checks the line and the cause of the first break of a function.
fn check_break(body: &str, line: u32, cause: &str) {
    let text = format!("from polyloom import ops\ndef f(a, b, c, flag):\n    x = ops.add(a, b)\n{body}");
    let captured = capture(&text);
    let rendered: Vec<String> = captured.breaks.iter().map(|each| each.reason.clone()).collect();
    let report = captured.report();
    let first = report.breaks.first().unwrap_or_else(|| panic!("nothing breaks the chain in\n{text}"));
    assert_eq!((first.line, first.cause), (line, cause), "{text}\n{rendered:?}");
    assert!(captured.breaks.iter().all(|each| !each.help.is_empty() && !each.span.is_none()));
}

#[test]
fn breaks_name_the_statement_that_ends_the_chain() {
    check_break("    x = x + 1\n    y = ops.relu(x)\n", 4, "python_value");
    check_break("    x += 1\n    y = ops.relu(x)\n", 4, "written");
    check_break("    t = x\n    t[0] = 1\n    y = ops.relu(x)\n", 5, "written");
    check_break("    y = ops.relu(x[0:2])\n", 4, "python_value");
    check_break("    foo(x)\n    y = ops.relu(x)\n", 4, "unknown_call");
    check_break("    t = foo(x)\n    y = ops.relu(t)\n", 4, "unknown_call");
    check_break("    exec('x += 1')\n    y = ops.relu(x)\n", 4, "unknown_call");
    check_break("    yield x\n    y = ops.relu(x)\n", 4, "unknown_call");
    check_break("    if flag:\n        y = ops.relu(x)\n", 5, "control_flow");
    check_break("    if flag:\n        x = c\n    y = ops.relu(x)\n", 6, "control_flow");
    check_break("    foo()\n    y = ops.multiply(x, c)\n", 4, "no_moment");
    check_break("    c += 1\n    y = ops.multiply(x, c)\n", 4, "no_moment");
    check_break("    c.h = x\n    y = ops.relu(c.h)\n", 5, "escaped");
    check_break("    y = ops.relu(x, out=c)\n", 4, "unfusable");
    check_break(
        "    try:\n        y = ops.relu(c)\n        z = ops.tanh(y)\n    finally:\n        foo(y)\n",
        4,
        "handler",
    );
}

#[test]
fn captured_calls_say_where_their_operands_come_from() {
    let text = "from polyloom import ops\ndef helper(t):\n    return ops.relu(t)\n\
                def f(a, b):\n    return ops.multiply(helper(ops.add(a, b)), a, scale=2)\n";
    let captured = capture(text);
    let [add, relu, multiply] = &captured.calls[..] else { panic!("{:?}", captured.calls) };
    assert_eq!((&*add.op, add.inlined_at.len(), relu.inlined_at.len()), ("add", 0, 1));
    assert_eq!((relu.operands[0].producer, multiply.operands[0].producer), (Some(0), Some(1)));
    assert_eq!(multiply.operands[1].name_at_first.as_deref(), Some("a"));
    assert!(multiply.operands[2].is_constant && multiply.operands[2].keyword.as_deref() == Some("scale"));
    let (start, end) = (multiply.span.start as usize, multiply.span.end as usize);
    assert_eq!(&text[start..end], "ops.multiply(helper(ops.add(a, b)), a, scale=2)");
    assert!(captured.guards.contains(&CaptureGuard::Identity { name: "helper".into(), target: "helper".into() }));
    assert!(captured.guards.contains(&CaptureGuard::Identity { name: "ops".into(), target: "polyloom.ops".into() }));
}

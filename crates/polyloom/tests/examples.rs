//! The examples of the op table give what they say, on every engine.

use super::stubs::functions::FUNCTIONS;
use polyloom::op::{ExampleLine, OpGroup, OpInfo, OpSpelling};
use polyloom::{
    ArgBlock, CodeCache, LaunchOptions, Op, PrintSink, Session, SourceFile, SourceUnit, Tier, TierPolicy,
    set_print_sink,
};
use std::sync::{Arc, Mutex, Once, PoisonError};

static PRINTED: Mutex<String> = Mutex::new(String::new());

/// Keeps what the examples print.
struct Kept;

impl PrintSink for Kept {
    fn write(&self, text: &str) {
        PRINTED.lock().unwrap_or_else(PoisonError::into_inner).push_str(text);
    }
}

#[test]
fn every_builtin_has_an_example() {
    let names = |info: &OpInfo, text: &str| match info.spelling {
        OpSpelling::Operator(operator) => text.contains(operator) || text.contains(info.name),
        _ => text.contains(&format!("loom.{}(", info.name)),
    };
    let is_shown = |info: &OpInfo| {
        info.example.iter().any(|line| names(info, line.text)) && info.example.iter().any(|line| line.shown.is_some())
    };
    let builtins = Op::all().filter(|info| info.is_builtin());
    let without: Vec<&str> = builtins.filter(|info| !is_shown(info)).map(|info| info.name).collect();
    assert!(without.is_empty(), "no example shows {without:?}");
}

#[test]
fn examples_give_what_they_say() {
    static INSTALL: Once = Once::new();
    INSTALL.call_once(|| set_print_sink(Arc::new(Kept)));
    let mut wrong = Vec::new();
    for tier in [Tier::Interpreter, Tier::Quick, Tier::Optimized] {
        if tier == Tier::Optimized && !polyloom::has_llvm() {
            continue;
        }
        let device = Session::default_device().unwrap().with_policy(TierPolicy::Always(tier)).unwrap();
        let session = Session::on(device.with_cache(CodeCache::in_memory())).unwrap();
        for info in Op::all().filter(|info| info.is_builtin()) {
            let prints = (!has_value(info)).then_some(info.name);
            wrong.extend(differs(&session, &info.example, prints).map(|how| format!("{tier:?}: {}\n{how}", info.name)));
        }
        for function in FUNCTIONS {
            let prints = matches!(function.name, "printf" | "print" | "range").then_some(function.name);
            let differs = differs(&session, function.example, prints);
            wrong.extend(differs.map(|how| format!("{tier:?}: {}\n{how}", function.name)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// Returns how what an example prints differs from what it says.
fn differs(session: &Session, example: &[ExampleLine], prints: Option<&str>) -> Option<String> {
    let expected: Vec<&str> = example.iter().filter_map(|line| line.shown).collect();
    let expected = expected.join("\n");
    let printed = run(session, example, prints);
    let differs = !agree(printed.trim_end(), &expected);
    differs.then(|| format!("{printed}\nbut the example says\n{expected}"))
}

/// Returns what a kernel of the example's lines prints. Lines with this name are statements that print themselves, or
/// do not.
fn run(session: &Session, example: &[ExampleLine], prints: Option<&str>) -> String {
    let mut arrays: Vec<(&str, Vec<f32>, bool)> = Vec::new();
    let mut body = String::new();
    for &ExampleLine { text, shown } in example {
        if let Some((name, list)) = text.split_once(" = [")
            && let Some(list) = list.strip_suffix(']')
        {
            let elements = list.split(", ").map(|element| element.parse().unwrap()).collect();
            arrays.push((name, elements, list.contains('.')));
            continue;
        }
        let array = arrays.iter().find(|(name, ..)| *name == text);
        body += &match (shown, array) {
            (Some(_), Some((name, elements, _))) => {
                let elements: Vec<String> = (0..elements.len()).map(|index| format!("{name}[{index}]")).collect();
                format!("    print(loom.vector({}))\n", elements.join(", "))
            }
            (Some(_), None) if !prints.is_some_and(|name| text.contains(name)) => format!("    print({text})\n"),
            _ => format!("    {text}\n"),
        };
    }
    let params: Vec<String> = arrays
        .iter()
        .map(|(name, _, float)| format!("{name}: loom.array(dtype={})", if *float { "float" } else { "int" }))
        .collect();
    let text = format!("import polyloom as loom\n\n@loom.kernel\ndef example({}):\n{body}", params.join(", "));
    let unit = SourceUnit::parse(SourceFile::new("example.py", text.as_str(), 1)).unwrap();
    let kernel = session.compile_file_kernel(&unit, "example").unwrap_or_else(|error| panic!("{text}\n{error}"));
    let mut args = ArgBlock::new();
    let mut integers: Vec<Vec<i32>> =
        arrays.iter().map(|(_, elements, _)| elements.iter().map(|&x| x as i32).collect()).collect();
    for ((_, elements, float), integers) in arrays.iter_mut().zip(&mut integers) {
        let shape = [elements.len() as u64];
        match float {
            true => args.slice(kernel.params(), elements, &shape).unwrap(),
            false => args.slice(kernel.params(), integers, &shape).unwrap(),
        };
    }
    PRINTED.lock().unwrap_or_else(PoisonError::into_inner).clear();
    // SAFETY: the arrays outlive the launch, and examples stay within them.
    unsafe { kernel.launch(&[1], &args, &LaunchOptions::default()) }.unwrap();
    std::mem::take(&mut *PRINTED.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Returns true if what is shown is printed; the examples of calls that are no expressions show what they print
/// themselves, but for those of blocks.
fn has_value(info: &OpInfo) -> bool {
    let of_blocks = info.group == OpGroup::Gpu;
    of_blocks
        || info
            .signatures
            .iter()
            .any(|signature| !signature.results.is_empty() || signature.params.iter().any(|p| p.inout))
}

/// Returns true if two texts are the same but for numbers that differ after six digits.
fn agree(printed: &str, expected: &str) -> bool {
    let words = |text: &str| -> Vec<String> {
        text.split([' ', '\n', '\t', '[', ']', ',']).filter(|word| !word.is_empty()).map(str::to_owned).collect()
    };
    let brackets = |text: &str| -> String { text.chars().filter(|c| "[],\n".contains(*c)).collect() };
    let (a, b) = (words(printed), words(expected));
    let same = |(a, b): (&String, &String)| match (a.parse::<f64>(), b.parse::<f64>()) {
        // A number with a point is a float in both.
        (Ok(x), Ok(y)) => a.contains('.') == b.contains('.') && ((x - y).abs() <= 1e-6 * y.abs() + 2e-7 || a == b),
        _ => a == b,
    };
    brackets(printed) == brackets(expected) && a.len() == b.len() && a.iter().zip(&b).all(same)
}

//! Finds what machine code calls: the proof of promises that rule such calls out.
//!
//! The proof reads the assembly text of the very module that becomes the object ([`crate::emit`]), because code generation
//! makes calls that no earlier form shows: of `memcpy` in place of a loop, of the system's mathematics where the processor lacks an
//! instruction. Lines of the text are tied to places in the source by their numbers ([`SpanNumbers`]).

use crate::lower::SpanNumbers;
use polyloom_codegen::SiteTable;
use polyloom_ir::{Code, Diagnostic, ExecutionConstraints, Function, Span};
use std::collections::HashSet;

/// Functions of the C library that code under promises may call: they allocate nothing, call no system, and take a time
/// that is proportional to the bytes that they are given.
const MEMORY_FUNCTIONS: [&str; 4] = ["memcpy", "memmove", "memset", "bcmp"];

/// Functions of the mathematical library that take the place of an instruction which the processor lacks. They allocate
/// nothing and call no system, but are calls, so that the critical path does without them.
const MATHEMATICS: [&str; 12] =
    ["ceil", "ceilf", "floor", "floorf", "fma", "fmaf", "rint", "rintf", "roundeven", "roundevenf", "trunc", "truncf"];

/// A call that leaves a kernel's code.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct OutsideCall {
    /// The function; none if the address comes from a register or from memory.
    pub(crate) callee: Option<String>,
    /// True if the function is part of the same code, where its own calls are seen as well.
    pub(crate) is_internal: bool,
    /// The place in the source, if the code is for one.
    pub(crate) span: Span,
}

impl OutsideCall {
    /// The error that the call is, if a promise rules it out.
    pub(crate) fn diagnostic(&self, constraints: &ExecutionConstraints) -> Option<Diagnostic> {
        let promise = self.broken_promise(constraints)?;
        let message = format!("{} in a kernel under `{promise}`", self.describe());
        let help = match self.callee.as_deref() {
            Some(callee) if MATHEMATICS.contains(&callee) => {
                "this processor has no instruction for it: compute it in another way, or leave the promise out"
            }
            _ => "compute it in another way, or leave the promise out",
        };
        Some(Diagnostic::error(Code::BrokenPromise, self.span, message).help(help))
    }

    /// Returns the promise that rules the call out, if one does.
    fn broken_promise(&self, constraints: &ExecutionConstraints) -> Option<&'static str> {
        let is_of = |list: &[&str]| self.callee.as_deref().is_some_and(|callee| list.contains(&callee));
        let is_unknown = !self.is_internal && !is_of(&MATHEMATICS);
        if is_of(&MEMORY_FUNCTIONS) {
            return None;
        }
        let promises = [
            ("critical_path", constraints.critical_path),
            ("inline_always", constraints.inline_always && self.is_internal),
            ("no_syscalls", constraints.no_syscalls && is_unknown),
            ("no_allocation", constraints.no_allocation && is_unknown),
            ("target_latency_ns", constraints.target_latency_ns.is_some() && is_unknown),
        ];
        promises.into_iter().find(|(_, holds)| *holds).map(|(promise, _)| promise)
    }

    /// Names what is called, in words.
    fn describe(&self) -> String {
        match &self.callee {
            Some(callee) => format!("the machine code calls `{callee}`"),
            None => "the machine code calls through a pointer".to_owned(),
        }
    }
}

/// The calls of a kernel's machine code in words.
pub(crate) fn describe(calls: &[OutsideCall]) -> String {
    let mut callees: Vec<&str> = calls.iter().map(|call| call.callee.as_deref().unwrap_or("a pointer")).collect();
    callees.sort_unstable();
    callees.dedup();
    match callees.is_empty() {
        true => "the machine code calls nothing\n".to_owned(),
        false => format!("the machine code calls {}\n", callees.join(", ")),
    }
}

/// Returns what a kernel promises of its calls, if it promises something. Code with checks reports what fails, which whoever turns
/// checks on for a while asks for: of such code, `inline_always` is left, since a report is no function of the kernel's.
pub(crate) fn promises_of_calls(kernel: &Function) -> Option<ExecutionConstraints> {
    let constraints = match SiteTable::of(kernel).sites.is_empty() {
        true => kernel.constraints.clone(),
        false => {
            let inline_always = kernel.constraints.inline_always;
            ExecutionConstraints { inline_always, ..ExecutionConstraints::default() }
        }
    };
    rules_out_calls(&constraints).then_some(constraints)
}

/// True if something is promised of what a kernel calls.
pub(crate) fn rules_out_calls(constraints: &ExecutionConstraints) -> bool {
    let ExecutionConstraints { no_allocation, no_syscalls, inline_always, critical_path, target_latency_ns, .. } =
        constraints;
    *no_allocation || *no_syscalls || *inline_always || *critical_path || target_latency_ns.is_some()
}

/// The calls in assembly text of the host, each callee once for each place. Calls of functions of the same text are of
/// functions that were not inlined.
pub(crate) fn find_calls(assembly: &str, places: &SpanNumbers) -> Vec<OutsideCall> {
    let places = places.borrow();
    let labels: HashSet<&str> =
        assembly.lines().filter_map(|line| line.split_once(':')).map(|(label, _)| label).collect();
    let mut found = Vec::new();
    let mut seen: HashSet<(Option<&str>, usize)> = HashSet::new();
    let mut place = 0;
    for line in assembly.lines() {
        let mut words = line.split_whitespace();
        match (words.next(), words.next()) {
            // `.loc file line column`.
            (Some(".loc"), Some(_)) => place = words.next().and_then(|line| line.parse().ok()).unwrap_or(0),
            (Some(mnemonic), Some(target)) => {
                let Some(callee) = callee_of(mnemonic, target) else { continue };
                if seen.insert((callee, place)) {
                    let span = place.checked_sub(1).and_then(|at| places.get(at)).copied().unwrap_or(Span::NONE);
                    let is_internal = callee.is_some_and(|callee| labels.contains(callee));
                    found.push(OutsideCall { callee: callee.map(str::to_owned), is_internal, span });
                }
            }
            _ => {}
        }
    }
    found
}

/// The function that an instruction goes to, none if it is in a register; `None` if it stays in the function.
fn callee_of<'a>(mnemonic: &str, target: &'a str) -> Option<Option<&'a str>> {
    let is_call = matches!(mnemonic, "call" | "callq" | "bl" | "blr");
    // A function that ends in a call may jump there. Other jumps have targets of the function's own.
    let is_jump = matches!(mnemonic, "jmp" | "jmpq" | "b");
    let symbol = target.split(['@', '+']).next().unwrap_or(target);
    let is_symbol = symbol.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    match () {
        () if is_call && mnemonic != "blr" && is_symbol => Some(Some(symbol)),
        () if is_call => Some(None),
        () if is_jump && is_symbol => Some(Some(symbol)),
        () => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use polyloom_ir::FileId;
    use std::cell::RefCell;

    #[test]
    fn calls_and_jumps_that_leave_the_code_are_found_with_their_places() {
        let text = "polyloom_kernel:\n\t.loc\t1 2 1\n\tjne\t.LBB0_2\n\tjmpq\t*%rax\n\tjmp\t.LBB0_1\n\
                    \tcallq\tfmaf@PLT\n\tcallq\tfmaf@PLT\n\t.loc\t1 1 1\n\tcallq\t*24(%rdi)\n\tjmp\tmemset@PLT # TAILCALL\n";
        let span = |start| Span::new(FileId::from_u32(0), start, start + 1);
        let places = RefCell::new(vec![span(3), span(8)]);
        let callees: Vec<_> =
            find_calls(text, &places).into_iter().map(|call| (call.callee, call.span.start)).collect();
        assert_eq!(callees, [(Some("fmaf".to_owned()), 8), (None, 3), (Some("memset".to_owned()), 3)]);
        let calls = find_calls("k:\n\tcallq\tsine\n\tretq\nsine:\n\tretq\n", &places);
        assert_eq!(calls.iter().map(|call| call.is_internal).collect::<Vec<_>>(), [true]);
    }

    #[test]
    fn the_critical_path_does_without_the_mathematical_library() {
        let call = |callee: &str| OutsideCall { callee: Some(callee.to_owned()), is_internal: false, span: Span::NONE };
        let critical = ExecutionConstraints { critical_path: true, ..ExecutionConstraints::default() };
        let silent = ExecutionConstraints { no_syscalls: true, ..ExecutionConstraints::default() };
        assert_eq!(call("fmaf").broken_promise(&critical), Some("critical_path"));
        assert_eq!(call("fmaf").broken_promise(&silent), None);
        assert_eq!(call("memset").broken_promise(&critical), None);
        assert_eq!(call("malloc").broken_promise(&silent), Some("no_syscalls"));
        assert_eq!(call("malloc").broken_promise(&ExecutionConstraints::default()), None);
    }
}

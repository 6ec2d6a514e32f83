//! What a kernel's decorator promises of it, held against its code: a rule of the kernel language, since promises are
//! the author's, and passes keep what they need of them.

mod bound;
mod kind;

pub use bound::{LoopBound, loop_bounds};

use crate::diagnostic::{Code, Diagnostic};
use crate::entity::FuncId;
use crate::function::{Function, FunctionKind, InstData, Module};
use crate::metadata::ExecutionConstraints;
use crate::op::{Op, OpGroup};
use crate::span::Span;
use std::collections::HashSet;

/// Errors where kernels do what their decorators rule out, and warnings where that cannot be told.
pub fn check_promises(module: &Module) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    for (id, function) in module.functions.iter().filter(|(_, function)| function.kind == FunctionKind::Kernel) {
        check_host_calls(module, id, &mut found);
        check_time(module, id, &mut found);
        found.extend(kind::check_kind(module, id, function));
    }
    found
}

/// The argument of a kernel's decorator that rules out calls into the host, if there is one.
fn silent_promise(constraints: &ExecutionConstraints) -> Option<&'static str> {
    let promises = [
        ("no_syscalls", constraints.no_syscalls),
        ("no_allocation", constraints.no_allocation),
        ("critical_path", constraints.critical_path),
    ];
    promises.into_iter().find(|(_, holds)| *holds).map(|(promise, _)| promise)
}

/// The argument that rules out work of which nothing says how long it takes, if there is one.
pub fn timed_promise(constraints: &ExecutionConstraints) -> Option<&'static str> {
    let promises =
        [("critical_path", constraints.critical_path), ("target_latency_ns", constraints.target_latency_ns.is_some())];
    promises.into_iter().find(|(_, holds)| *holds).map(|(promise, _)| promise)
}

/// Printing allocates memory and calls the system, and so does the report of a check that fails; sleeping calls it.
fn check_host_calls(module: &Module, kernel: FuncId, found: &mut Vec<Diagnostic>) {
    let constraints = &module.functions[kernel].constraints;
    let (silent, timed) = (silent_promise(constraints), timed_promise(constraints));
    let mut seen: HashSet<Span> = HashSet::new();
    walk_with_callees(module, kernel, &mut |_, data| {
        let (what, promise) = match data.op {
            Op::Print => ("printing", silent.or(timed)),
            Op::Nanosleep => ("sleeping", Some("no_syscalls").filter(|_| constraints.no_syscalls).or(timed)),
            op if op.info().group == OpGroup::Debug => ("a check that may end the launch", silent.or(timed)),
            _ => return,
        };
        if let Some(promise) = promise
            && seen.insert(data.span)
        {
            found.push(refused(
                what,
                promise,
                data.span,
                &format!("take it out, or {} out of the decorator", written(promise)),
            ));
        }
    });
}

/// Loops without a bound that can be stated, and what waits for other threads.
fn check_time(module: &Module, kernel: FuncId, found: &mut Vec<Diagnostic>) {
    let Some(promise) = timed_promise(&module.functions[kernel].constraints) else { return };
    let mut seen: HashSet<Span> = HashSet::new();
    for LoopBound { function, inst, most } in loop_bounds(module, kernel) {
        let func = &module.functions[function];
        let span = func.insts[inst].span;
        if most.is_none() && seen.insert(span) {
            let help = "write `for i in range(n)` where `n` is made of constants, parameters and extents of arrays; `min` \
                        limits a number that is read from memory";
            found.push(refused("a loop without a bound that the compiler can state", promise, span, help));
        }
    }
    walk_with_callees(module, kernel, &mut |func, data| {
        let (what, help) = match data.op {
            Op::Poisson => ("`poisson`, which repeats until a random number ends it,", "use a sampler with fixed work"),
            op if op.info().group == OpGroup::Atomic && repeats(func, data) => (
                "an atomic update that repeats until no other thread interferes",
                "store the element, or update an integer by `atomic_add`, `atomic_sub`, `atomic_exch` or `atomic_cas`",
            ),
            _ => return,
        };
        if seen.insert(data.span) {
            found.push(refused(what, promise, data.span, help));
        }
    });
}

/// True if processors do an atomic update by comparing and exchanging until that succeeds.
fn repeats(func: &Function, data: &InstData) -> bool {
    let is_int = data.operands.last().is_some_and(|&value| func.ty(value).as_scalar().is_some_and(|ty| ty.is_int()));
    let is_one = match data.op {
        Op::AtomicAdd | Op::AtomicSub => is_int,
        Op::AtomicExch | Op::AtomicCas => true,
        _ => false,
    };
    !is_one
}

fn refused(what: &str, promise: &str, span: Span, help: &str) -> Diagnostic {
    Diagnostic::error(Code::BrokenPromise, span, format!("{what} in a kernel under `{promise}`")).help(help)
}

/// A promise as a decorator has it.
fn written(promise: &str) -> String {
    if promise == "target_latency_ns" { format!("`{promise}`") } else { format!("`{promise}=True`") }
}

/// Walks the instructions of a function and of what it calls, each function once.
fn walk_with_callees(module: &Module, func: FuncId, look: &mut dyn FnMut(&Function, &InstData)) {
    let (mut seen, mut left) = (HashSet::from([func]), vec![func]);
    while let Some(id) = left.pop() {
        let function = &module.functions[id];
        function.walk(function.body, &mut |_, data| look(function, data));
        left.extend(function.callees().into_iter().filter(|callee| seen.insert(*callee)));
    }
}

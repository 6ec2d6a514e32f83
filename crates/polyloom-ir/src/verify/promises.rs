//! What a kernel's decorator promises of it, held against its code: a rule of the kernel language, since promises are
//! the author's, and passes keep what they need of them.

mod kind;

use crate::diagnostic::{Code, Diagnostic};
use crate::entity::FuncId;
use crate::function::{Function, FunctionKind, InstData, Module};
use crate::op::{Op, OpGroup};
use crate::span::Span;
use std::collections::HashSet;

/// Errors where kernels do what their decorators rule out, and warnings where that cannot be told.
pub fn check_promises(module: &Module) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    for (id, function) in module.functions.iter().filter(|(_, function)| function.kind == FunctionKind::Kernel) {
        check_system_calls(module, id, &mut found);
        found.extend(kind::check_kind(module, id, function));
    }
    found
}

/// Printing allocates memory and calls the system, and so does the report of a check that fails.
fn check_system_calls(module: &Module, kernel: FuncId, found: &mut Vec<Diagnostic>) {
    let constraints = &module.functions[kernel].constraints;
    let promise = match (constraints.no_syscalls, constraints.no_allocation) {
        (true, _) => "no_syscalls",
        (false, true) => "no_allocation",
        (false, false) => return,
    };
    let mut seen: HashSet<Span> = HashSet::new();
    walk_with_callees(module, kernel, &mut |_, data| {
        let what = match data.op {
            Op::Print => "printing",
            op if op.info().group == OpGroup::Debug => "a check that may end the launch",
            _ => return,
        };
        if seen.insert(data.span) {
            let message = format!("{what} in a kernel under `{promise}`");
            let help = format!("take it out, or `{promise}=True` out of the decorator");
            found.push(Diagnostic::error(Code::BrokenPromise, data.span, message).help(help));
        }
    });
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

//! Arrays that are read as ones nobody writes: a rule of the kernel language, since HIR that breaks it means what it does
//! on a GPU that reads memory anew.

use crate::analysis::effects::ArrayWrites;
use crate::diagnostic::{Code, Diagnostic};
use crate::function::Module;
use crate::op::Op;

/// The `load_readonly`s of a valid module from arrays that the same function, or one that it calls, writes. GPUs may have
/// read such an element before.
pub fn check_readonly(module: &Module) -> Vec<Diagnostic> {
    let mut errors = Vec::new();
    let writes = ArrayWrites::of_module(module);
    for (id, function) in &module.functions {
        function.walk(function.body, &mut |_, data| {
            let param = data.operands.first().filter(|_| data.op == Op::LoadReadonly);
            let param = param.and_then(|&array| function.param_index(array));
            if param.is_some_and(|param| writes.of_function(id)[param]) {
                let message = "`load_readonly` of an array that the kernel writes";
                errors.push(Diagnostic::error(Code::BadAssignment, data.span, message).help("read it as `a[i]`"));
            }
        });
    }
    errors
}

//! `test pass` and `test prepare`: HIR before and after transformations.

use crate::case::TestCase;
use polyloom_ir::{FuncId, FunctionKind, Module, verify_module};
use polyloom_passes::{FunctionPass, PassContext, PipelineOptions, prepared};

/// Runs the passes the header names, one after the other, each on every function that the input defines.
pub(super) fn pass(case: &TestCase) -> Result<String, String> {
    let mut module = case.module(true)?;
    if case.arguments.is_empty() {
        return Err("`test pass` names no pass".to_owned());
    }
    let functions: Vec<FuncId> = module.functions.keys().collect();
    let context = PassContext { checked: case.has_option("checked") };
    for name in &case.arguments {
        let pass = FunctionPass::find(name).ok_or_else(|| format!("there is no pass `{name}`"))?;
        for &id in &functions {
            if let Err(errors) = (pass.run)(&mut module, id, &context) {
                return Ok(case.render(&errors));
            }
            check(case, &module, &format!("`{name}` of @{}", module.functions[id].name))?;
        }
    }
    Ok(module.to_string())
}

/// Brings every kernel of the input into the form back ends take.
pub(super) fn prepare(case: &TestCase) -> Result<String, String> {
    let module = case.module(true)?;
    let options = PipelineOptions { checked: case.has_option("checked"), ..Default::default() };
    let mut texts = Vec::new();
    for (id, function) in &module.functions {
        if function.kind != FunctionKind::Kernel {
            continue;
        }
        match prepared(&module, id, &options) {
            Ok((prepared, _)) => {
                check(case, &prepared, &format!("preparing @{}", function.name))?;
                texts.push(prepared.to_string());
            }
            Err(errors) => texts.push(case.render(&errors)),
        }
    }
    Ok(texts.join("\n"))
}

/// The verifier's word on what a transformation left.
fn check(case: &TestCase, module: &Module, what: &str) -> Result<(), String> {
    verify_module(module).map_err(|errors| format!("invalid HIR after {what}:\n{}\n{module}", case.render(&errors)))
}

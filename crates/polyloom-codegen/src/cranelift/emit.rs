//! Readable and linkable forms of a kernel.

use super::host::{self, HostIsa};
use super::unit::{self, CodeTarget, CompileOptions, FunctionCode};
use crate::backend::{CodeVariant, CodegenError};
use cranelift_codegen::ir::Signature;
use cranelift_module::{FuncId as ObjectFuncId, Linkage, Module as _, ModuleReloc, ModuleRelocTarget};
use cranelift_object::{ObjectBuilder, ObjectModule};
use polyloom_ir::{FuncId, Function, Module};
use rustc_hash::FxHashMap;
use std::fmt::Write;

/// A kernel and the functions it calls, callers before callees.
struct EmittedProgram<'a> {
    kernel: (&'a Function, FunctionCode),
    functions: Vec<(FuncId, &'a Function, FunctionCode)>,
}

fn compile<'a>(
    module: &'a Module,
    kernel: &'a Function,
    variant: &CodeVariant,
    options: CompileOptions<'_>,
) -> Result<EmittedProgram<'a>, CodegenError> {
    let code = unit::compile_kernel(module, kernel, variant, options)?;
    let mut pending = code.callees.clone();
    let mut functions: Vec<(FuncId, &Function, FunctionCode)> = Vec::new();
    while let Some(id) = pending.pop() {
        if functions.iter().any(|(known, ..)| *known == id) {
            continue;
        }
        let Some(function) = module.functions.get(id) else {
            return Err(CodegenError::new("a call names a function that is not in the module"));
        };
        let code = unit::compile_function(module, function, options)?;
        pending.extend_from_slice(&code.callees);
        functions.push((id, function, code));
    }
    Ok(EmittedProgram { kernel: (kernel, code), functions })
}

/// Assembly text.
pub(super) fn assembly(
    host: &HostIsa,
    module: &Module,
    kernel: &Function,
    variant: &CodeVariant,
) -> Result<Vec<u8>, CodegenError> {
    let options = CompileOptions { isa: &*host.isa, colocated: false, assembly: true };
    let program = compile(module, kernel, variant, options)?;
    let mut text = String::new();
    let functions = program.functions.iter().map(|(_, function, code)| (*function, code));
    for (function, code) in [(program.kernel.0, &program.kernel.1)].into_iter().chain(functions) {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}:\n{}", function.name, code.assembly.as_deref().unwrap_or(""));
    }
    Ok(text.into_bytes())
}

/// A relocatable object file. The kernel is a global symbol of its own name with the type of
/// [`crate::abi::KernelEntry`]; functions of the C library it may need are undefined ones.
pub(super) fn object(
    host: &HostIsa,
    module: &Module,
    kernel: &Function,
    variant: &CodeVariant,
) -> Result<Vec<u8>, CodegenError> {
    let isa = host::build_isa(host.features, host.effort, true)?;
    let options = CompileOptions { isa: &*isa, colocated: true, assembly: false };
    let program = compile(module, kernel, variant, options)?;
    let failed = |error: &dyn std::fmt::Display| CodegenError::new(format!("cannot write an object file: {error}"));
    let builder = ObjectBuilder::new(isa.clone(), &*kernel.name, cranelift_module::default_libcall_names())
        .map_err(|e| failed(&e))?;
    let mut object = ObjectModule::new(builder);

    // Bodies are given as bytes, so the signatures in the object module's own tables play no part.
    let signature = Signature::new(isa.default_call_conv());
    let mut ids: FxHashMap<FuncId, ObjectFuncId> = FxHashMap::default();
    for (id, function, _) in &program.functions {
        let name = format!("polyloom.{}.{}", kernel.name, function.name);
        let declared = object.declare_function(&name, Linkage::Local, &signature).map_err(|e| failed(&e))?;
        ids.insert(*id, declared);
    }
    let entry = object.declare_function(&kernel.name, Linkage::Export, &signature).map_err(|e| failed(&e))?;

    let functions = program.functions.iter().map(|(id, _, code)| (ids[id], code));
    for (declared, code) in functions.chain([(entry, &program.kernel.1)]) {
        let mut relocations = Vec::with_capacity(code.relocations.len());
        for relocation in &code.relocations {
            let name = match relocation.target {
                CodeTarget::Function(id) => ModuleRelocTarget::user(0, ids[&id].as_u32()),
                CodeTarget::Host(function) => ModuleRelocTarget::LibCall(function.libcall()),
            };
            relocations.push(ModuleReloc {
                offset: relocation.offset,
                kind: relocation.kind,
                name,
                addend: relocation.addend,
            });
        }
        object
            .define_function_bytes(declared, u64::from(code.align), &code.bytes, &relocations)
            .map_err(|e| failed(&e))?;
    }
    object.finish().emit().map_err(|e| failed(&e))
}

//! Compiling one function: from HIR to bytes and what they refer to.
//!
//! Contexts are kept per thread and used again, so that compiling a small kernel allocates little.

use super::host::HostFunction;
use super::lower;
use crate::backend::{CodeVariant, CodegenError};
use cranelift_codegen::binemit::Reloc;
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::ir::{self, ExtFuncData, ExternalName, FuncRef, UserExternalName};
use cranelift_codegen::isa::TargetIsa;
use cranelift_codegen::{Context, FinalizedRelocTarget};
use cranelift_entity::EntityRef;
use cranelift_frontend::FunctionBuilderContext;
use polyloom_ir::{FuncId, Function, Module};
use rustc_hash::FxHashMap;
use std::cell::RefCell;

/// The one namespace of user external names: functions of the HIR module, by number.
const MODULE: u32 = 0;

/// Describes what code refers to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CodeTarget {
    /// A function of the HIR module it came from.
    Function(FuncId),
    /// A function of the host.
    Host(HostFunction),
}

/// A place in the code where an address goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct CodeRelocation {
    pub(super) kind: Reloc,
    pub(super) offset: u32,
    pub(super) addend: i64,
    pub(super) target: CodeTarget,
}

/// The code of one function.
pub(super) struct FunctionCode {
    pub(super) bytes: Vec<u8>,
    pub(super) align: u32,
    pub(super) relocations: Vec<CodeRelocation>,
    /// The module's functions it calls, each once.
    pub(super) callees: Vec<FuncId>,
    /// Assembly text, if asked for.
    pub(super) assembly: Option<String>,
}

/// Describes how to compile.
#[derive(Clone, Copy)]
pub(super) struct CompileOptions<'a> {
    pub(super) isa: &'a dyn TargetIsa,
    /// Callees are linked into the same object file, so that calls may be relative.
    pub(super) colocated: bool,
    /// Keep the assembly text.
    pub(super) assembly: bool,
}

/// Declares in a function being built what it calls.
pub(super) struct CallLinker {
    colocated: bool,
    functions: FxHashMap<FuncId, FuncRef>,
    callees: Vec<FuncId>,
}

impl CallLinker {
    /// A reference to a function of the module.
    pub(super) fn import(
        &mut self,
        clif: &mut ir::Function,
        id: FuncId,
        callee: &Function,
    ) -> Result<FuncRef, CodegenError> {
        if let Some(&known) = self.functions.get(&id) {
            return Ok(known);
        }
        let signature = clif.import_signature(lower::function_signature(callee)?);
        let name = UserExternalName { namespace: MODULE, index: id.index() as u32 };
        let name = ExternalName::User(clif.declare_imported_user_function(name));
        let reference =
            clif.import_function(ExtFuncData { name, signature, colocated: self.colocated, patchable: false });
        self.functions.insert(id, reference);
        self.callees.push(id);
        Ok(reference)
    }
}

/// Compiles the entry of a kernel.
pub(super) fn compile_kernel(
    module: &Module,
    kernel: &Function,
    variant: &CodeVariant,
    options: CompileOptions<'_>,
) -> Result<FunctionCode, CodegenError> {
    compile(options, |clif, context, linker| {
        lower::lower_kernel(module, kernel, variant, options.isa, clif, context, linker)
    })
}

/// Compiles a function of scalars.
pub(super) fn compile_function(
    module: &Module,
    function: &Function,
    options: CompileOptions<'_>,
) -> Result<FunctionCode, CodegenError> {
    compile(options, |clif, context, linker| {
        lower::lower_function(module, function, options.isa, clif, context, linker)
    })
}

thread_local! {
    static CONTEXTS: RefCell<(Context, FunctionBuilderContext)> =
        RefCell::new((Context::new(), FunctionBuilderContext::new()));
}

fn compile(
    options: CompileOptions<'_>,
    lower: impl FnOnce(&mut ir::Function, &mut FunctionBuilderContext, &mut CallLinker) -> Result<(), CodegenError>,
) -> Result<FunctionCode, CodegenError> {
    CONTEXTS.with_borrow_mut(|(context, builder)| {
        context.clear();
        let result = compile_in(context, builder, options, lower);
        if result.is_err() {
            // A builder that was not finished keeps state that its next use would trip over.
            *builder = FunctionBuilderContext::new();
        }
        result
    })
}

fn compile_in(
    context: &mut Context,
    builder: &mut FunctionBuilderContext,
    options: CompileOptions<'_>,
    lower: impl FnOnce(&mut ir::Function, &mut FunctionBuilderContext, &mut CallLinker) -> Result<(), CodegenError>,
) -> Result<FunctionCode, CodegenError> {
    let mut linker = CallLinker { colocated: options.colocated, functions: FxHashMap::default(), callees: Vec::new() };
    lower(&mut context.func, builder, &mut linker)?;
    context.set_disasm(options.assembly);
    let compiled = match context.compile(options.isa, &mut ControlPlane::default()) {
        Ok(_) => context.take_compiled_code(),
        Err(error) => return Err(cranelift_error(&error.inner)),
    };
    let Some(compiled) = compiled else { return Err(CodegenError::new("Cranelift made no code")) };
    let names = context.func.params.user_named_funcs();
    let mut relocations = Vec::with_capacity(compiled.buffer.relocs().len());
    for reloc in compiled.buffer.relocs() {
        let target = match &reloc.target {
            FinalizedRelocTarget::ExternalName(ExternalName::User(name)) => {
                Some(CodeTarget::Function(FuncId::new(names[*name].index as usize)))
            }
            FinalizedRelocTarget::ExternalName(ExternalName::LibCall(libcall)) => {
                HostFunction::of_libcall(*libcall).map(CodeTarget::Host)
            }
            _ => None,
        };
        let Some(target) = target else {
            return Err(CodegenError::new(format!("Cranelift refers to something unknown: {:?}", reloc.target)));
        };
        relocations.push(CodeRelocation { kind: reloc.kind, offset: reloc.offset, addend: reloc.addend, target });
    }
    Ok(FunctionCode {
        bytes: compiled.code_buffer().to_vec(),
        align: compiled.buffer.alignment,
        relocations,
        callees: linker.callees,
        assembly: compiled.vcode,
    })
}

fn cranelift_error(error: &cranelift_codegen::CodegenError) -> CodegenError {
    match error {
        cranelift_codegen::CodegenError::CodeTooLarge | cranelift_codegen::CodegenError::ImplLimitExceeded => {
            CodegenError::new("the kernel is too large for the Cranelift back end")
        }
        cranelift_codegen::CodegenError::Verifier(errors) => {
            CodegenError::new(format!("the Cranelift back end made invalid code: {errors}"))
        }
        other => CodegenError::new(format!("Cranelift: {other}")),
    }
}

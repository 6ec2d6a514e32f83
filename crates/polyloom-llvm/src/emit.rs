//! From a kernel to LLVM IR, assembly, object files and the back end's own object format.

use crate::fatal::{self, LlvmFailure};
use crate::ir::{IrEmitter, diagnostics};
use crate::target::{self, HostProcessor, OptimizationEffort, OptimizerMode};
use inkwell::context::Context;
use inkwell::llvm_sys::core::LLVMCloneModule;
use inkwell::module::Module as LlvmModule;
use polyloom_codegen::{CodeObject, CodegenError, Form};
use std::mem::ManuallyDrop;

/// The name of the entry in objects of [`crate::LlvmBackend`], whatever the kernel is called.
pub(crate) const ENTRY: &str = "polyloom_kernel";

/// Refuses assembly text of code that breaks what is promised of it. Lines of the text are tied to places of the source by
/// `.loc` directives, or are not.
pub(crate) type CodeProof<'a> = &'a dyn Fn(&str) -> Result<(), CodegenError>;

/// Readable or linkable forms of what `lower` puts into a module, code for `processor`, in the order of their making:
/// LLVM IR before what is generated of it. `lower` gives how hard LLVM is to try; it runs again for less effort, and for a
/// report. Where there is a proof, it is of the very code that the object has, and the forms have no places.
///
/// # Errors
///
/// Those of `lower` and of the proof, and LLVM's. If that was fatal with all effort and with less, the error is the first
/// and names a file with LLVM IR: as it came from `lower` if the optimiser met the error, as code generation has it otherwise.
pub(crate) fn emit(
    processor: &HostProcessor,
    name: &str,
    forms: &[Form],
    proof: Option<CodeProof<'_>>,
    lower: impl Fn(&IrEmitter<'_>) -> Result<OptimizerMode, CodegenError>,
) -> Result<Vec<Vec<u8>>, CodegenError> {
    let failure = match emit_with(processor, name, (forms, proof), &lower, OptimizationEffort::Full) {
        Ok(made) => return made,
        Err(failure) => failure,
    };
    // Most such errors are of combinations that the optimiser has made.
    match emit_with(processor, name, (forms, proof), &lower, OptimizationEffort::Linear) {
        Ok(made) => made,
        Err(_) => Err(fatal::describe(&failure.message, &failure.ir)),
    }
}

/// A fatal error of LLVM.
struct FatalFailure {
    message: String,
    /// The code that LLVM was at.
    ir: String,
}

/// Makes the forms with as much effort, or with less where the code is long.
fn emit_with(
    processor: &HostProcessor,
    name: &str,
    wanted: (&[Form], Option<CodeProof<'_>>),
    lower: &impl Fn(&IrEmitter<'_>) -> Result<OptimizerMode, CodegenError>,
    effort: OptimizationEffort,
) -> Result<Result<Vec<Vec<u8>>, CodegenError>, FatalFailure> {
    let context = Context::create();
    diagnostics::collect(&context);
    let llvm = context.create_module(name);
    let mut is_optimized = false;
    let message = match emit_module(processor, (&context, &llvm), wanted, lower, effort, &mut is_optimized) {
        Ok(made) => {
            return Ok(match diagnostics::error() {
                Some(error) => Err(CodegenError::new(format!("LLVM cannot compile this kernel: {error}"))),
                None => Ok(made),
            });
        }
        Err(LlvmFailure::Returned(error)) => return Ok(Err(error)),
        Err(LlvmFailure::Fatal(message)) => message,
    };
    let ir = match is_optimized {
        true => llvm.print_to_string().to_string(),
        // A pass may have stopped in the middle of a change.
        false => lowered_ir(processor, name, lower),
    };
    // LLVM may have left references to them behind.
    std::mem::forget(llvm);
    std::mem::forget(context);
    Err(FatalFailure { message, ir })
}

/// Makes the forms, with an empty module. Sets `is_optimized` once the optimiser is through.
fn emit_module<'ctx>(
    processor: &HostProcessor,
    (context, llvm): (&'ctx Context, &LlvmModule<'ctx>),
    (forms, proof): (&[Form], Option<CodeProof<'_>>),
    lower: &impl Fn(&IrEmitter<'_>) -> Result<OptimizerMode, CodegenError>,
    effort: OptimizationEffort,
    is_optimized: &mut bool,
) -> Result<Vec<Vec<u8>>, LlvmFailure> {
    target::prepare(processor, llvm)?;
    let mode = lower(&IrEmitter::new(context, llvm))?;
    verify(llvm)?;
    let effort = effort.for_module(llvm);
    let mut made = Vec::with_capacity(forms.len());
    let generate = |module: &LlvmModule<'ctx>, is_text| target::generate(processor, module, is_text, mode, effort);
    // Code generation changes the module that it is given.
    let generate_of_copy = |module: &LlvmModule<'ctx>, is_text| {
        let copy = ManuallyDrop::new(copy_of(module));
        let code = generate(&copy, is_text)?;
        // After a fatal error the copy is leaked.
        drop(ManuallyDrop::into_inner(copy));
        Ok::<Vec<u8>, LlvmFailure>(code)
    };
    for (index, form) in forms.iter().enumerate() {
        if !matches!(form, Form::LlvmIr | Form::GpuLlvmIr) && !*is_optimized {
            target::optimize(processor, llvm, mode, effort)?;
            *is_optimized = true;
            if let Some(proof) = proof {
                prove(llvm, proof, |module| generate_of_copy(module, true))?;
            }
        }
        made.push(match form {
            Form::Asm | Form::Ptx | Form::Obj if index + 1 < forms.len() => generate_of_copy(llvm, *form != Form::Obj)?,
            Form::Asm | Form::Ptx | Form::Obj => generate(llvm, *form != Form::Obj)?,
            _ => llvm.print_to_string().to_string().into_bytes(),
        });
    }
    Ok(made)
}

fn copy_of<'ctx>(llvm: &LlvmModule<'ctx>) -> LlvmModule<'ctx> {
    // SAFETY: the module is alive and valid, and whoever gets the copy owns it.
    unsafe { LlvmModule::new(LLVMCloneModule(llvm.as_mut_ptr())) }
}

/// Holds the optimised module against a proof and takes the numbers of places out of it, so that what is generated from it
/// is what has been proved. The places are generated for the error alone.
fn prove<'ctx>(
    llvm: &LlvmModule<'ctx>,
    proof: CodeProof<'_>,
    assembly_of: impl Fn(&LlvmModule<'ctx>) -> Result<Vec<u8>, LlvmFailure>,
) -> Result<(), LlvmFailure> {
    let with_places = copy_of(llvm);
    llvm.strip_debug_info();
    let holds = |text: Vec<u8>| proof(&String::from_utf8_lossy(&text));
    let Err(error) = holds(assembly_of(llvm)?) else { return Ok(()) };
    Err(holds(assembly_of(&with_places)?).err().unwrap_or(error).into())
}

/// The text of what `lower` makes, in a context of its own.
fn lowered_ir(
    processor: &HostProcessor,
    name: &str,
    lower: &impl Fn(&IrEmitter<'_>) -> Result<OptimizerMode, CodegenError>,
) -> String {
    let context = Context::create();
    let llvm = context.create_module(name);
    // It has been lowered once without an error.
    let _ = target::prepare(processor, &llvm);
    let _ = lower(&IrEmitter::new(&context, &llvm));
    llvm.print_to_string().to_string()
}

/// LLVM's own check of the lowering. Released code goes without, because it costs more than it finds there.
fn verify(llvm: &LlvmModule<'_>) -> Result<(), CodegenError> {
    if cfg!(debug_assertions) {
        llvm.verify().map_err(|e| {
            let text = llvm.print_to_string().to_string();
            CodegenError::new(format!("internal error: LLVM rejects the code made for this kernel: {e}\n{text}"))
        })?;
    }
    Ok(())
}

/// First bytes of every object: format and version.
const MAGIC: &[u8; 8] = b"PLLLVM\x00\x01";

/// Wraps an object file, so that magic, checksum, bytes. The loader hands nothing to LLVM that this back end did not
/// make.
pub(crate) fn wrap(elf: &[u8]) -> CodeObject {
    let mut bytes = Vec::with_capacity(16 + elf.len());
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&checksum(elf).to_le_bytes());
    bytes.extend_from_slice(elf);
    CodeObject { bytes }
}

/// The object file in an object.
pub(crate) fn unwrap(object: &CodeObject) -> Result<&[u8], CodegenError> {
    let damaged = || CodegenError::new("this is not an object of the LLVM back end, or it is damaged");
    let (magic, rest) = object.bytes.split_at_checked(8).ok_or_else(damaged)?;
    let (sum, elf) = rest.split_at_checked(8).ok_or_else(damaged)?;
    match magic == MAGIC && sum == checksum(elf).to_le_bytes() {
        true => Ok(elf),
        false => Err(damaged()),
    }
}

/// FNV-1a over 64 bits. It finds damage, not malice.
pub(crate) fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &b| (hash ^ u64::from(b)).wrapping_mul(0x100_0000_01b3))
}

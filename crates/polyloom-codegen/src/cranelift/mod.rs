//! The Cranelift back end: tier 0 of CPU execution.
//!
//! Kernels run first as Cranelift code, so what counts here is the time to compile, then the same bits as everybody
//! else, then the quality of the code. [`lower`] goes from HIR to Cranelift's IR, [`unit`] compiles one function,
//! [`library`] keeps functions that kernels share, [`object`] is the cacheable form, [`memory`] makes it callable,
//! [`emit`] makes it readable.
//!
//! Architecture invariant: compiled code refers to no symbol of the process by name and to no address that is not
//! patched in when it is loaded.

mod emit;
mod host;
mod library;
mod lower;
mod memory;
mod object;
mod unit;

use crate::abi::KernelEntry;
use crate::backend::{Backend, CodeObject, CodeVariant, CodegenError, LoadedCode};
use crate::form::{EmitRequest, Emitter, Form};
use crate::private::with_private_updates;
use host::{CompileEffort, HostFeatures, HostIsa};
use library::{FunctionLibrary, Key, LoadedFunction};
use polyloom_ir::{FuncId, Function, Module};
use rustc_hash::FxHashMap;
use std::sync::Arc;
use unit::CompileOptions;

/// The Cranelift back end for the machine the process runs on.
#[derive(Clone, Copy)]
pub struct CraneliftBackend {
    host: &'static HostIsa,
    /// Instructions of the longest kernel for which registers are allocated well. Longer ones get less effort, because
    /// the time that takes grows as the square of their number.
    longest: usize,
}

/// The longest kernel where this is all the code that it gets.
const LONGEST_ALONE: usize = 20_000;

/// The longest kernel where other code follows: those of 10,000 to 13,000 instructions took 60 to 98 ms, of which the
/// allocation of registers was half.
const LONGEST_BEFORE_ANOTHER: usize = 8_000;

impl CraneliftBackend {
    /// The back end.
    ///
    /// # Errors
    ///
    /// When Cranelift does not know the machine.
    pub fn new() -> Result<CraneliftBackend, CodegenError> {
        let host = host::host(HostFeatures::Native, CompileEffort::Usual)?;
        Ok(CraneliftBackend { host, longest: LONGEST_ALONE })
    }

    /// The back end restricted to instructions that every machine of this architecture has: for code that is to run
    /// elsewhere, and to test what stands in for the others.
    ///
    /// # Errors
    ///
    /// When Cranelift does not know the machine.
    pub fn baseline() -> Result<CraneliftBackend, CodegenError> {
        let host = host::host(HostFeatures::Baseline, CompileEffort::Usual)?;
        Ok(CraneliftBackend { host, longest: LONGEST_ALONE })
    }

    /// The back end with as little effort as may be, for code that is run once: it is made in half the time.
    ///
    /// # Errors
    ///
    /// When Cranelift does not know the machine.
    pub fn hasty(self) -> Result<CraneliftBackend, CodegenError> {
        Ok(CraneliftBackend { host: host::host(self.host.features, CompileEffort::Least)?, ..self })
    }

    /// The back end for the first code of kernels that get other code once they are hot: long ones do not wait for good
    /// code.
    pub fn followed_by_another(self) -> CraneliftBackend {
        CraneliftBackend { longest: LONGEST_BEFORE_ANOTHER, ..self }
    }

    /// The host, with the effort that a kernel of this length gets.
    fn host_for(&self, kernel: &Function) -> Result<&'static HostIsa, CodegenError> {
        match kernel.insts.len() > self.longest {
            true => host::host(self.host.features, CompileEffort::Least),
            false => Ok(self.host),
        }
    }
}

fn function(module: &Module, id: FuncId) -> Result<&Function, CodegenError> {
    module.functions.get(id).ok_or_else(|| CodegenError::new("the kernel is not in the module"))
}

impl Backend for CraneliftBackend {
    fn name(&self) -> &'static str {
        "cranelift"
    }

    fn description(&self) -> String {
        format!("{}, {}", cranelift_codegen::VERSION, self.host.isa.triple())
    }

    fn fingerprint(&self) -> String {
        self.host.fingerprint.clone()
    }

    fn compile(&self, module: &Module, kernel: FuncId, variant: &CodeVariant) -> Result<CodeObject, CodegenError> {
        let module = &*with_private_updates(module, kernel, variant);
        let kernel = function(module, kernel)?;
        let host = self.host_for(kernel)?;
        let options = CompileOptions { isa: &*host.isa, colocated: false, assembly: false };
        let code = unit::compile_kernel(module, kernel, variant, options)?;
        let mut library = FunctionLibrary::new(module, host, options);
        let linked = library.link(&kernel.name, Key::default(), code)?;
        Ok(CodeObject { bytes: object::encode(&self.host.identity, &library.functions, &linked) })
    }

    fn load(&self, object: &CodeObject) -> Result<Arc<dyn LoadedCode>, CodegenError> {
        let functions = object::decode(&self.host.identity, &object.bytes)?;
        let mut loaded = FxHashMap::default();
        let Some((kernel, library)) = functions.split_last() else {
            return Err(CodegenError::new("the compiled kernel is empty"));
        };
        for function in library {
            let function_code = library::load(function, &loaded)?;
            loaded.insert(function.key, function_code);
        }
        Ok(Arc::new(LoadedKernel { code: library::load_new(kernel, &loaded)? }))
    }
}

impl Emitter for CraneliftBackend {
    fn forms(&self) -> &'static [Form] {
        &[Form::Asm, Form::Obj]
    }

    fn emit_forms(&self, request: &EmitRequest<'_>, forms: &[Form]) -> Result<Vec<Vec<u8>>, CodegenError> {
        let EmitRequest { module, kernel, variant, .. } = *request;
        let module = &*with_private_updates(module, kernel, variant);
        let kernel = function(module, kernel)?;
        let emit = |form: &Form| match form {
            Form::Asm => emit::assembly(self.host_for(kernel)?, module, kernel, variant),
            Form::Obj => emit::object(self.host_for(kernel)?, module, kernel, variant),
            form => Err(CodegenError::new(format!(
                "{form} needs the LLVM back end: build Polyloom with the feature `llvm`"
            ))),
        };
        forms.iter().map(emit).collect()
    }
}

/// A kernel in executable memory.
struct LoadedKernel {
    code: LoadedFunction,
}

impl LoadedCode for LoadedKernel {
    fn entry(&self) -> KernelEntry {
        // SAFETY: the code was compiled by this back end with the signature of `KernelEntry`.
        unsafe { std::mem::transmute::<*const u8, KernelEntry>(self.code.memory.as_ptr()) }
    }
}

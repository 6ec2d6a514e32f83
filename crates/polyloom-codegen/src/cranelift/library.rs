//! Functions that kernels call, compiled and loaded once per process.
//!
//! A function such as `sin.f32` is the same in every module that has it, so its code is kept in a process-wide table
//! under a hash of its content: of the machine it is compiled for, its canonical form and the hashes of what it calls.
//! Kernels refer to it by that hash. The table is bounded; past the bound functions still work, each kernel keeping its
//! own.

use super::host::{HostFunction, HostIsa};
use super::memory::ExecutableMemory;
use super::unit::{self, CodeTarget, CompileOptions, FunctionCode};
use crate::backend::CodegenError;
use cranelift_codegen::binemit::Reloc;
use polyloom_ir::canonical::CanonicalForm;
use polyloom_ir::{FuncId, Function, Module};
use rustc_hash::FxHashMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

/// The hash of a function's content.
pub(super) type Key = [u8; 16];

/// The most functions the table keeps.
const MAX_KEPT: usize = 4096;

/// Describes what code refers to, independent of the module it came from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LibraryReference {
    /// A function of scalars.
    Function(Key),
    /// A function of the host.
    Host(HostFunction),
}

/// A place in the code where a 64-bit address goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct AddressPatch {
    pub(super) offset: u32,
    pub(super) addend: i64,
    pub(super) to: LibraryReference,
}

/// A function that can be written to an object and loaded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct CompiledFunction {
    /// For readers of objects; it means nothing to the loader.
    pub(super) name: String,
    /// All zero for kernels.
    pub(super) key: Key,
    pub(super) align: u32,
    pub(super) code: Vec<u8>,
    pub(super) patches: Vec<AddressPatch>,
}

/// A function in executable memory, with those it calls.
pub(super) struct LoadedFunction {
    pub(super) memory: ExecutableMemory,
    _callees: Vec<Arc<LoadedFunction>>,
}

#[derive(Default)]
struct ReferenceTable {
    compiled: FxHashMap<Key, Arc<CompiledFunction>>,
    loaded: FxHashMap<Key, Arc<LoadedFunction>>,
}

fn table() -> MutexGuard<'static, ReferenceTable> {
    static TABLE: LazyLock<Mutex<ReferenceTable>> = LazyLock::new(Mutex::default);
    // Entries are inserted whole, so that a panic elsewhere leaves the table in order.
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The functions of one module, as one compilation meets them.
pub(super) struct FunctionLibrary<'a> {
    module: &'a Module,
    host: &'a HostIsa,
    options: CompileOptions<'a>,
    /// `None` while the hash is being computed, to notice recursion.
    keys: FxHashMap<FuncId, Option<Key>>,
    /// Holds what the kernel needs so far, callees before callers.
    pub(super) functions: Vec<Arc<CompiledFunction>>,
}

impl<'a> FunctionLibrary<'a> {
    /// `options` are to compile for `host`.
    pub(super) fn new(module: &'a Module, host: &'a HostIsa, options: CompileOptions<'a>) -> FunctionLibrary<'a> {
        FunctionLibrary { module, host, options, keys: FxHashMap::default(), functions: Vec::new() }
    }

    /// Makes code independent of its module, compiling what it calls.
    pub(super) fn link(&mut self, name: &str, key: Key, code: FunctionCode) -> Result<CompiledFunction, CodegenError> {
        for &callee in &code.callees {
            self.require(callee)?;
        }
        let mut patches = Vec::with_capacity(code.relocations.len());
        for relocation in &code.relocations {
            if relocation.kind != Reloc::Abs8 {
                return Err(CodegenError::new(format!("Cranelift made a relocation of kind {}", relocation.kind)));
            }
            let to = match relocation.target {
                CodeTarget::Function(id) => LibraryReference::Function(self.key(id)?),
                CodeTarget::Host(function) => LibraryReference::Host(function),
            };
            patches.push(AddressPatch { offset: relocation.offset, addend: relocation.addend, to });
        }
        Ok(CompiledFunction { name: name.to_owned(), key, align: code.align, code: code.bytes, patches })
    }

    /// Adds a function and all it calls to [`FunctionLibrary::functions`].
    fn require(&mut self, id: FuncId) -> Result<(), CodegenError> {
        let key = self.key(id)?;
        if self.functions.iter().any(|f| f.key == key) {
            return Ok(());
        }
        let known = table().compiled.get(&key).cloned();
        let function = match known {
            Some(function) => {
                self.require_known_callees(&function)?;
                function
            }
            None => {
                let func = self.function(id)?;
                let code = unit::compile_function(self.module, func, self.options)?;
                let function = Arc::new(self.link(&func.name, key, code)?);
                let mut table = table();
                if table.compiled.len() < MAX_KEPT {
                    table.compiled.insert(key, function.clone());
                }
                function
            }
        };
        self.functions.push(function);
        Ok(())
    }

    fn require_known_callees(&mut self, function: &CompiledFunction) -> Result<(), CodegenError> {
        for patch in &function.patches {
            if let LibraryReference::Function(key) = patch.to {
                // The key is among those known, because hashing the caller hashed its callees.
                let id = self.keys.iter().find(|(_, known)| **known == Some(key)).map(|(id, _)| *id);
                match id {
                    Some(id) => self.require(id)?,
                    None => return Err(CodegenError::new(format!("`{}` calls a lost function", function.name))),
                }
            }
        }
        Ok(())
    }

    fn function(&self, id: FuncId) -> Result<&'a Function, CodegenError> {
        self.module
            .functions
            .get(id)
            .ok_or_else(|| CodegenError::new("a call names a function that is not in the module"))
    }

    fn key(&mut self, id: FuncId) -> Result<Key, CodegenError> {
        match self.keys.get(&id) {
            Some(Some(key)) => return Ok(*key),
            Some(None) => {
                let func = self.function(id)?;
                let message = format!("`{}` calls itself, which compiled code cannot do", func.name);
                return Err(CodegenError::at(func.span, message));
            }
            None => {}
        }
        self.keys.insert(id, None);
        let func = self.function(id)?;
        let mut form = CanonicalForm::default();
        form.bytes.extend_from_slice(&self.host.identity);
        form.add(func);
        let CanonicalForm { mut bytes, functions, .. } = form;
        for callee in functions {
            bytes.extend_from_slice(&self.key(callee)?);
        }
        let hash = blake3::hash(&bytes);
        let mut key = Key::default();
        key.copy_from_slice(&hash.as_bytes()[..16]);
        self.keys.insert(id, Some(key));
        Ok(key)
    }
}

/// The loaded form of a function, given those it calls.
pub(super) fn load(
    function: &CompiledFunction,
    loaded: &FxHashMap<Key, Arc<LoadedFunction>>,
) -> Result<Arc<LoadedFunction>, CodegenError> {
    if let Some(known) = table().loaded.get(&function.key) {
        return Ok(known.clone());
    }
    let loaded = Arc::new(load_new(function, loaded)?);
    let mut table = table();
    if table.loaded.len() < MAX_KEPT {
        table.loaded.insert(function.key, loaded.clone());
    }
    Ok(loaded)
}

/// Places a function in memory of its own.
pub(super) fn load_new(
    function: &CompiledFunction,
    loaded: &FxHashMap<Key, Arc<LoadedFunction>>,
) -> Result<LoadedFunction, CodegenError> {
    let mut patches = Vec::with_capacity(function.patches.len());
    let mut callees = Vec::new();
    for patch in &function.patches {
        let address = match patch.to {
            LibraryReference::Host(host) => host.address(),
            LibraryReference::Function(key) => {
                let callee = loaded
                    .get(&key)
                    .ok_or_else(|| CodegenError::new(format!("the object of `{}` lacks a callee", function.name)))?;
                callees.push(callee.clone());
                callee.memory.address()
            }
        };
        patches.push((patch.offset as usize, address.wrapping_add_signed(patch.addend)));
    }
    let memory = ExecutableMemory::new(&function.code, &patches)?;
    Ok(LoadedFunction { memory, _callees: callees })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cranelift::host::{CompileEffort, HostFeatures, host};
    use polyloom_ir::{FileId, parse_module};

    const MODULE: &str = "
        func @lowered(%x x: f32) -> (f32) {
          %y: f32 = floor %x
          return %y
        }
        kernel @k(%a a: array<f32, 1>) {
          %i: i32 = const 0
          %x: f32 = array_load %a, %i
          %y: f32 = call @lowered %x
          array_store %a, %i, %y
          return
        }";

    /// The code of `@lowered` for the machine with these features.
    fn lowered(features: HostFeatures) -> Arc<CompiledFunction> {
        let module = parse_module(MODULE, FileId::from_u32(0)).expect("the text is HIR");
        let host = host(features, CompileEffort::Usual).expect("Cranelift knows the machine");
        let options = CompileOptions { isa: &*host.isa, colocated: false, assembly: false };
        let mut library = FunctionLibrary::new(&module, host, options);
        library.require(module.find("lowered").expect("it is in the text")).expect("it compiles");
        library.functions.pop().expect("it is there")
    }

    #[test]
    fn functions_for_one_machine_are_not_used_for_another() {
        let (native, baseline) = (lowered(HostFeatures::Native), lowered(HostFeatures::Baseline));
        let identity = |features| host(features, CompileEffort::Usual).map(|host| host.identity);
        if identity(HostFeatures::Native) == identity(HostFeatures::Baseline) {
            println!("skipped: this machine has nothing beyond its architecture's baseline");
            return;
        }
        assert_ne!(native.key, baseline.key);
        if cfg!(target_arch = "x86_64") {
            // Rounding came with SSE 4.1, so that the baseline calls the host.
            assert_eq!(baseline.patches.len(), 1);
        }
    }
}

//! Object code into executable memory, through LLVM's ORC.
//!
//! One JIT serves the process. Every object gets a library to itself in it, so that names of different kernels never
//! meet, and dropping the loaded code frees its memory. ORC's C interface has no way to remove a library, so one that
//! has been emptied is used again.

use inkwell::llvm_sys::core::LLVMCreateMemoryBufferWithMemoryRangeCopy;
use inkwell::llvm_sys::error::{LLVMDisposeErrorMessage, LLVMErrorRef, LLVMGetErrorMessage};
use inkwell::llvm_sys::orc2::lljit::*;
use inkwell::llvm_sys::orc2::*;
use polyloom_codegen::{CodegenError, KernelEntry, LoadedCode, LoadedNative, NativeBlockEntry};
use std::ffi::{CStr, CString, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, OnceLock, PoisonError};

/// The process's JIT. It lives until the process ends.
struct ProcessJit(LLVMOrcLLJITRef);

// SAFETY: LLJIT and its execution session synchronise all operations on themselves.
unsafe impl Send for ProcessJit {}
// SAFETY: as above.
unsafe impl Sync for ProcessJit {}

fn check(error: LLVMErrorRef) -> Result<(), CodegenError> {
    if error.is_null() {
        return Ok(());
    }
    // SAFETY: reading the message consumes the error; the message is freed once, after it is copied.
    unsafe {
        let message = LLVMGetErrorMessage(error);
        let text = CStr::from_ptr(message).to_string_lossy().into_owned();
        LLVMDisposeErrorMessage(message);
        Err(CodegenError::new(format!("LLVM could not load a kernel: {text}")))
    }
}

fn jit() -> Result<&'static ProcessJit, CodegenError> {
    static JIT: OnceLock<Result<ProcessJit, CodegenError>> = OnceLock::new();
    let create = || {
        crate::target::HostProcessor::host()?;
        let mut jit = null_mut();
        // SAFETY: a null builder asks for the defaults, which are those of the host.
        check(unsafe { LLVMOrcCreateLLJIT(&mut jit, null_mut()) })?;
        Ok(ProcessJit(jit))
    };
    JIT.get_or_init(create).as_ref().map_err(Clone::clone)
}

/// A library of the JIT that is in nobody else's hands. Dropping it empties it and lets it be used again.
struct JitLibrary(LLVMOrcJITDylibRef);

// SAFETY: the session synchronises all operations on libraries, and libraries live as long as the session.
unsafe impl Send for JitLibrary {}
// SAFETY: as above.
unsafe impl Sync for JitLibrary {}

/// Libraries with nothing in them but the search of the process's symbols.
static EMPTY: Mutex<Vec<JitLibrary>> = Mutex::new(Vec::new());

impl JitLibrary {
    /// An empty library.
    fn take(jit: &ProcessJit) -> Result<JitLibrary, CodegenError> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        if let Some(library) = EMPTY.lock().unwrap_or_else(PoisonError::into_inner).pop() {
            return Ok(library);
        }
        let name = CString::new(format!("kernel{}", NEXT.fetch_add(1, Ordering::Relaxed)))
            .map_err(|e| CodegenError::new(e.to_string()))?;
        let mut generator = null_mut();
        // SAFETY: the session lives as long as the JIT, that is, for ever; ownership of the generator passes to the
        // library.
        unsafe {
            let prefix = LLVMOrcLLJITGetGlobalPrefix(jit.0);
            check(LLVMOrcCreateDynamicLibrarySearchGeneratorForProcess(&mut generator, prefix, None, null_mut()))?;
            let session = LLVMOrcLLJITGetExecutionSession(jit.0);
            let library = LLVMOrcExecutionSessionCreateBareJITDylib(session, name.as_ptr());
            LLVMOrcJITDylibAddGenerator(library, generator);
            Ok(JitLibrary(library))
        }
    }
}

impl Drop for JitLibrary {
    fn drop(&mut self) {
        // SAFETY: nobody calls into the code any more. A library that cannot be emptied is left as it is, which costs
        // its memory.
        if check(unsafe { LLVMOrcJITDylibClear(self.0) }).is_ok() {
            EMPTY.lock().unwrap_or_else(PoisonError::into_inner).push(JitLibrary(self.0));
        }
    }
}

/// A kernel in executable memory.
pub(crate) struct JitCode {
    entry: KernelEntry,
    _library: JitLibrary,
}

impl LoadedCode for JitCode {
    fn entry(&self) -> KernelEntry {
        self.entry
    }
}

/// Links an object file and finds its entry.
pub(crate) fn load(object: &[u8], entry: &str) -> Result<JitCode, CodegenError> {
    let (library, [entry]) = load_symbols(object, [entry])?;
    // SAFETY: the lowering gave the entry this type, and the caller has checked where the object comes from.
    let entry = unsafe { std::mem::transmute::<usize, KernelEntry>(entry) };
    Ok(JitCode { entry, _library: library })
}

/// A native function in executable memory.
pub(crate) struct NativeJitCode {
    function: usize,
    block_entry: NativeBlockEntry,
    _library: JitLibrary,
}

impl LoadedNative for NativeJitCode {
    fn function(&self) -> *const c_void {
        self.function as *const c_void
    }

    fn block_entry(&self) -> NativeBlockEntry {
        self.block_entry
    }
}

/// Links an object file with a native function and finds both of its entries.
pub(crate) fn load_native(object: &[u8], name: &str, block_entry: &str) -> Result<NativeJitCode, CodegenError> {
    let (library, [function, block_entry]) = load_symbols(object, [name, block_entry])?;
    // SAFETY: as in `load`.
    let block_entry = unsafe { std::mem::transmute::<usize, NativeBlockEntry>(block_entry) };
    Ok(NativeJitCode { function, block_entry, _library: library })
}

/// Links an object file into a library of its own and finds the addresses of symbols.
fn load_symbols<const N: usize>(object: &[u8], names: [&str; N]) -> Result<(JitLibrary, [usize; N]), CodegenError> {
    let jit = jit()?;
    let library = JitLibrary::take(jit)?;
    let mut addresses = [0; N];
    // SAFETY: the object's bytes are copied, and ownership of the buffer passes to the JIT.
    unsafe {
        let buffer =
            LLVMCreateMemoryBufferWithMemoryRangeCopy(object.as_ptr().cast(), object.len(), c"kernel".as_ptr());
        check(LLVMOrcLLJITAddObjectFile(jit.0, library.0, buffer))?;
        for (address, name) in addresses.iter_mut().zip(names) {
            let name = CString::new(name).map_err(|e| CodegenError::new(e.to_string()))?;
            *address = lookup(LLVMOrcLLJITGetExecutionSession(jit.0), library.0, &name, jit.0)?;
        }
    }
    Ok((library, addresses))
}

/// Describes what a lookup reports, and to whom.
type Report = Sender<Result<usize, CodegenError>>;

/// The session's callback at the end of a lookup, on whichever thread finished it.
extern "C" fn found(error: LLVMErrorRef, symbols: LLVMOrcCSymbolMapPairs, n_symbols: usize, context: *mut c_void) {
    // SAFETY: `context` is the box that `lookup` gave away, and the session calls back once, with `n_symbols` pairs.
    let (report, result) = unsafe {
        let report = Box::from_raw(context.cast::<Report>());
        let result = match check(error) {
            Err(error) => Err(error),
            Ok(()) if n_symbols == 1 => Ok((*symbols).Sym.Address as usize),
            Ok(()) => Err(CodegenError::new("a compiled kernel has no entry")),
        };
        (report, result)
    };
    // The receiver waits for this very message.
    let _ = report.send(result);
}

/// The address of a symbol of one library.
///
/// # Safety
///
/// Session, library and JIT belong together and are alive.
unsafe fn lookup(
    session: LLVMOrcExecutionSessionRef,
    library: LLVMOrcJITDylibRef,
    name: &CStr,
    jit: LLVMOrcLLJITRef,
) -> Result<usize, CodegenError> {
    let (report, answer) = channel::<Result<usize, CodegenError>>();
    // SAFETY: the symbol set's one name is interned here and ownership passes to the lookup, as does the box.
    unsafe {
        let mut order = LLVMOrcCJITDylibSearchOrderElement {
            JD: library,
            JDLookupFlags: LLVMOrcJITDylibLookupFlags::LLVMOrcJITDylibLookupFlagsMatchAllSymbols,
        };
        let mut symbol = LLVMOrcCLookupSetElement {
            Name: LLVMOrcLLJITMangleAndIntern(jit, name.as_ptr()),
            LookupFlags: LLVMOrcSymbolLookupFlags::LLVMOrcSymbolLookupFlagsRequiredSymbol,
        };
        LLVMOrcExecutionSessionLookup(
            session,
            LLVMOrcLookupKind::LLVMOrcLookupKindStatic,
            &mut order,
            1,
            &mut symbol,
            1,
            found,
            Box::into_raw(Box::new(report)).cast(),
        );
    }
    answer.recv().unwrap_or_else(|_| Err(CodegenError::new("LLVM did not finish loading a kernel")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LlvmBackend, emit};
    use polyloom_codegen::{ArgFacts, Backend, CodeVariant};
    use polyloom_ir::{FileId, parse_module};

    #[test]
    fn a_library_is_used_again_after_its_code_has_gone_and_after_a_failure() {
        let module = parse_module("kernel @k() {\n return\n }", FileId::from_u32(0)).expect("the text is HIR");
        let kernel = module.find("k").expect("it has a kernel `k`");
        let variant = CodeVariant::new(1, ArgFacts::default());
        let object = LlvmBackend::new().and_then(|llvm| llvm.compile(&module, kernel, &variant)).expect("it compiles");
        let object = emit::unwrap(&object).expect("it is an object of ours");
        let first = load(object, emit::ENTRY).expect("it loads")._library.0;
        assert!(load(object, "nowhere").is_err());
        for _ in 0..3 {
            let code = load(object, emit::ENTRY).expect("it loads");
            assert_eq!(code._library.0, first);
        }
    }
}

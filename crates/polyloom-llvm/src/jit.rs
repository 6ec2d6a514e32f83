//! Object code into executable memory, through LLVM's ORC.
//!
//! One JIT serves the process. Every object gets a library of its own in it, so that names of different kernels never
//! meet, and dropping the loaded code frees its memory.

use inkwell::llvm_sys::core::LLVMCreateMemoryBufferWithMemoryRangeCopy;
use inkwell::llvm_sys::error::{LLVMDisposeErrorMessage, LLVMErrorRef, LLVMGetErrorMessage};
use inkwell::llvm_sys::orc2::lljit::*;
use inkwell::llvm_sys::orc2::*;
use polyloom_codegen::{CodegenError, KernelEntry, LoadedCode};
use std::ffi::{CStr, CString, c_void};
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};

/// The process's JIT. It lives until the process ends.
struct Jit(LLVMOrcLLJITRef);

// SAFETY: LLJIT and its execution session synchronise all operations on themselves.
unsafe impl Send for Jit {}
// SAFETY: as above.
unsafe impl Sync for Jit {}

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

fn jit() -> Result<&'static Jit, CodegenError> {
    static JIT: OnceLock<Result<Jit, CodegenError>> = OnceLock::new();
    let create = || {
        crate::target::Host::get()?;
        let mut jit = null_mut();
        // SAFETY: a null builder asks for the defaults, which are those of the host.
        check(unsafe { LLVMOrcCreateLLJIT(&mut jit, null_mut()) })?;
        Ok(Jit(jit))
    };
    JIT.get_or_init(create).as_ref().map_err(Clone::clone)
}

/// A kernel in executable memory.
pub(crate) struct Code {
    entry: KernelEntry,
    library: LLVMOrcJITDylibRef,
}

// SAFETY: the code is immutable and the library is touched only when it is dropped.
unsafe impl Send for Code {}
// SAFETY: as above.
unsafe impl Sync for Code {}

impl LoadedCode for Code {
    fn entry(&self) -> KernelEntry {
        self.entry
    }
}

impl Drop for Code {
    fn drop(&mut self) {
        // SAFETY: nobody calls the entry any more. An error would leave the memory in place, which harms nothing.
        unsafe {
            let error = LLVMOrcJITDylibClear(self.library);
            let _ = check(error);
        }
    }
}

/// Links an object file and finds its entry.
pub(crate) fn load(object: &[u8], entry: &str) -> Result<Code, CodegenError> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let jit = jit()?;
    let name = CString::new(format!("kernel{}", NEXT.fetch_add(1, Ordering::Relaxed)))
        .map_err(|e| CodegenError::new(e.to_string()))?;
    let entry = CString::new(entry).map_err(|e| CodegenError::new(e.to_string()))?;
    // SAFETY: the session lives as long as the JIT, that is, for ever; the object's bytes are copied; ownership of the
    // buffer and the generator passes to the calls they are given to.
    unsafe {
        let session = LLVMOrcLLJITGetExecutionSession(jit.0);
        let library = LLVMOrcExecutionSessionCreateBareJITDylib(session, name.as_ptr());
        let mut generator = null_mut();
        let prefix = LLVMOrcLLJITGetGlobalPrefix(jit.0);
        check(LLVMOrcCreateDynamicLibrarySearchGeneratorForProcess(&mut generator, prefix, None, null_mut()))?;
        LLVMOrcJITDylibAddGenerator(library, generator);
        let buffer =
            LLVMCreateMemoryBufferWithMemoryRangeCopy(object.as_ptr().cast(), object.len(), c"kernel".as_ptr());
        check(LLVMOrcLLJITAddObjectFile(jit.0, library, buffer))?;
        let address = lookup(session, library, &entry, jit.0)?;
        // The lowering gave the entry this type, and the caller has checked where the object comes from.
        let entry = std::mem::transmute::<usize, KernelEntry>(address);
        Ok(Code { entry, library })
    }
}

/// What a lookup reports, and to whom.
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

//! Collects what LLVM reports while it compiles. By itself it would print, and end the process at errors.

use inkwell::context::{AsContextRef, Context};
use inkwell::llvm_sys::LLVMDiagnosticSeverity;
use inkwell::llvm_sys::core::*;
use inkwell::llvm_sys::prelude::LLVMDiagnosticInfoRef;
use std::cell::RefCell;
use std::ffi::{CStr, c_void};

thread_local! {
    /// The first error that the thread's compilation has met.
    static ERROR: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Keeps errors for [`error`] and drops the rest: that a loop was not vectorised is no news for anybody.
pub(crate) fn collect(context: &Context) {
    ERROR.take();
    // SAFETY: the context is alive, and the handler needs no data.
    unsafe { LLVMContextSetDiagnosticHandler(context.as_ctx_ref(), Some(handle), std::ptr::null_mut()) };
}

/// The first error since errors are collected.
pub(crate) fn error() -> Option<String> {
    ERROR.take()
}

extern "C" fn handle(info: LLVMDiagnosticInfoRef, _: *mut c_void) {
    // SAFETY: LLVM calls with what it has to say, whose text belongs to the caller of `LLVMGetDiagInfoDescription`.
    unsafe {
        if !matches!(LLVMGetDiagInfoSeverity(info), LLVMDiagnosticSeverity::LLVMDSError) {
            return;
        }
        let text = LLVMGetDiagInfoDescription(info);
        let error = CStr::from_ptr(text).to_string_lossy().into_owned();
        LLVMDisposeMessage(text);
        ERROR.with_borrow_mut(|first| {
            first.get_or_insert(error);
        });
    }
}

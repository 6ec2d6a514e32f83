//! LLVM's fatal errors, such as "Cannot select: …", as errors of one compilation. By themselves they end the process.
//!
//! LLVM calls the handler that is installed here, and ends the process when it returns. On a thread inside [`catch`] it
//! does not return but unwinds. LLVM's frames have unwind tables and, because LLVM is built without exceptions, nothing
//! that would run or stop the unwinding: no destructor of theirs is called. So what they own is leaked, and what the call
//! was given may still be referred to: callers leak that too. LLVM holds no lock of the process while it optimises or
//! generates code, because compilations share nothing. It leaves its list of what the thread is doing, which is printed
//! in crashes if somebody asks LLVM for that, with entries of frames that are gone; we never ask.

use inkwell::llvm_sys::error::LLVMErrorRef;
use inkwell::llvm_sys::prelude::{LLVMBool, LLVMMemoryBufferRef, LLVMModuleRef};
use inkwell::llvm_sys::target_machine::{LLVMCodeGenFileType, LLVMTargetMachineRef};
use inkwell::llvm_sys::transforms::pass_builder::LLVMPassBuilderOptionsRef;
use polyloom_codegen::CodegenError;
use std::cell::Cell;
use std::ffi::{CStr, c_char};
use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Write};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::sync::Once;

// llvm-sys declares these as functions that never unwind, so that unwinding out of them would abort.
unsafe extern "C-unwind" {
    fn LLVMInstallFatalErrorHandler(handler: Option<extern "C-unwind" fn(*const c_char)>);
    pub(crate) fn LLVMRunPasses(
        module: LLVMModuleRef,
        passes: *const c_char,
        machine: LLVMTargetMachineRef,
        options: LLVMPassBuilderOptionsRef,
    ) -> LLVMErrorRef;
    pub(crate) fn LLVMTargetMachineEmitToMemoryBuffer(
        machine: LLVMTargetMachineRef,
        module: LLVMModuleRef,
        kind: LLVMCodeGenFileType,
        message: *mut *mut c_char,
        buffer: *mut LLVMMemoryBufferRef,
    ) -> LLVMBool;
}

/// Says how LLVM failed.
#[derive(Debug)]
pub(crate) enum LlvmFailure {
    /// It returned an error.
    Returned(CodegenError),
    /// It met a fatal error, with this message. Module, context and target machine must be leaked.
    Fatal(String),
}

impl From<CodegenError> for LlvmFailure {
    fn from(error: CodegenError) -> LlvmFailure {
        LlvmFailure::Returned(error)
    }
}

thread_local! {
    /// True while the thread is inside [`catch`].
    static CATCHES: Cell<bool> = const { Cell::new(false) };
}

/// Carries the message of a fatal error through LLVM's frames.
struct FatalUnwind(String);

/// Runs `call`, which calls functions declared here, and turns a fatal error that LLVM meets in it into a failure.
///
/// # Errors
///
/// Those of `call`, and [`LlvmFailure::Fatal`].
pub(crate) fn catch<R>(call: impl FnOnce() -> Result<R, CodegenError>) -> Result<R, LlvmFailure> {
    static INSTALL: Once = Once::new();
    // SAFETY: the handler is a plain function of this library, which stays loaded.
    INSTALL.call_once(|| unsafe { LLVMInstallFatalErrorHandler(Some(handle)) });
    CATCHES.set(true);
    // Callers leak what the call has left in the middle of a change.
    let result = catch_unwind(AssertUnwindSafe(call));
    CATCHES.set(false);
    match result {
        Ok(result) => Ok(result?),
        Err(payload) => match payload.downcast::<FatalUnwind>() {
            Ok(fatal) => Err(LlvmFailure::Fatal(fatal.0)),
            Err(panic) => resume_unwind(panic),
        },
    }
}

/// LLVM's callback at a fatal error. When it returns, LLVM ends the process.
extern "C-unwind" fn handle(reason: *const c_char) {
    // SAFETY: LLVM calls with a string that lives as long as the call.
    let message = unsafe { CStr::from_ptr(reason) }.to_string_lossy();
    if CATCHES.get() {
        // This runs no panic hook, so that nothing is printed.
        resume_unwind(Box::new(FatalUnwind(message.into_owned())));
    }
    // Without a handler LLVM would print this itself. If it cannot be printed, there is nobody to tell.
    let _ = writeln!(io::stderr(), "LLVM ERROR: {message}");
}

/// The error of a compilation that ended in a fatal error of LLVM. It names the file that has the LLVM IR.
pub(crate) fn describe(message: &str, ir: &str) -> CodegenError {
    let message = message.trim_end();
    CodegenError::new(match write_ir(ir) {
        Ok(path) => {
            format!("LLVM cannot compile this kernel, whose LLVM IR is in `{}` for a report: {message}", path.display())
        }
        Err(error) => {
            format!("LLVM cannot compile this kernel, and its LLVM IR cannot be written ({error}): {message}")
        }
    })
}

/// Writes LLVM IR into the directory for temporary files. The file is named by a hash of the text, so that a kernel that
/// fails again and again leaves one file.
fn write_ir(ir: &str) -> io::Result<PathBuf> {
    let path = std::env::temp_dir().join(format!("polyloom-{:016x}.ll", crate::emit::checksum(ir.as_bytes())));
    // A new file is never one that somebody else has put or linked there.
    match OpenOptions::new().write(true).create_new(true).open(&path) {
        Ok(mut file) => file.write_all(ir.as_bytes())?,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LlvmBackend;
    use crate::emit::emit;
    use crate::ir::IrEmitter;
    use crate::target::{HostProcessor, OptimizerMode};
    use inkwell::context::Context;
    use inkwell::llvm_sys::core::{LLVMGetDataLayoutStr, LLVMGetTarget, LLVMSetDataLayout, LLVMSetTarget};
    use inkwell::llvm_sys::ir_reader::LLVMParseIRInContext2;
    use inkwell::llvm_sys::linker::LLVMLinkModules2;
    use inkwell::memory_buffer::MemoryBuffer;
    use inkwell::targets::{FileType, InitializationConfig, Target, TargetMachine, TargetMachineOptions};
    use polyloom_codegen::Form;
    use polyloom_codegen::conformance::launch::{compare, dense};
    use polyloom_codegen::conformance::{ConformanceEngine, EngineSubject};
    use polyloom_ir::interp::BufferMemory;
    use polyloom_ir::{FloatMode, FuncId, Module, Scalar};
    use polyloom_passes::pipeline::{PipelineOptions, prepared};
    use std::process::Command;
    use std::ptr::null_mut;

    /// A function with a call that no code generator for a CPU can select.
    const NOT_SELECTED: &str = "
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
define i32 @NAME() {
  %r = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  ret i32 %r
}";

    /// A coroutine whose prototype is missing, which LLVM's verifier accepts and a pass does not.
    const NOT_OPTIMIZED: &str = "
declare token @llvm.coro.id.retcon(i32, i32, ptr, ptr, ptr, ptr)
declare ptr @llvm.coro.begin(token, ptr)
declare ptr @allocate(i32)
declare void @free(ptr)
define ptr @NAME(ptr %buffer) {
  %id = call token @llvm.coro.id.retcon(i32 8, i32 4, ptr %buffer, ptr null, ptr @allocate, ptr @free)
  %frame = call ptr @llvm.coro.begin(token %id, ptr null)
  ret ptr %frame
}";

    /// Lowers to LLVM IR that is given as text.
    fn lower_text(ir: &IrEmitter<'_>, text: &str) -> Result<OptimizerMode, CodegenError> {
        let (mut parsed, mut message) = (null_mut(), null_mut());
        let buffer = MemoryBuffer::create_from_memory_range_copy(text.as_bytes(), "text");
        // SAFETY: all are alive, and the linker takes the module that the parser has made.
        unsafe {
            assert_eq!(
                LLVMParseIRInContext2(ir.context(), buffer.as_mut_ptr(), &mut parsed, &mut message),
                0,
                "{text}"
            );
            LLVMSetDataLayout(parsed, LLVMGetDataLayoutStr(ir.module()));
            LLVMSetTarget(parsed, LLVMGetTarget(ir.module()));
            assert_eq!(LLVMLinkModules2(ir.module(), parsed), 0);
        }
        Ok(OptimizerMode::default())
    }

    fn compile(text: &str) -> Result<Vec<Vec<u8>>, CodegenError> {
        let host = HostProcessor::host().expect("LLVM knows this machine");
        emit(host, "failing", &[Form::Obj], None, |ir| lower_text(ir, text))
    }

    fn prepare(module: &Module, kernel: FuncId, checked: bool) -> (Module, FuncId) {
        let options = PipelineOptions { checked, ..Default::default() };
        prepared(module, kernel, &options).unwrap_or_else(|errors| panic!("{errors:?}"))
    }

    /// Compiles a kernel, runs it and compares with the interpreter.
    fn run_a_kernel() {
        let text = "
kernel @k(%0 out: array<i32, 1>) {
  %1: i32 = tid 0
  %2: i32 = array_load %0, %1
  %3: i32 = mul %2, %1
  array_store %0, %1, %3
  return
}";
        let backend = LlvmBackend::new().expect("LLVM knows this machine");
        let engine = ConformanceEngine::Backend(&backend);
        let subject = EngineSubject { engine, prepare: &prepare, float_mode: FloatMode::Strict, lanes: None };
        let mut memory = BufferMemory::default();
        let out = dense(&mut memory, Scalar::I32, &[37], &(0..37).map(|i| i * 5 % 11).collect::<Vec<u64>>());
        compare(&subject, text, &[37], &[out], &memory);
    }

    /// Compiles what cannot be compiled 20 times, and another kernel after each. Returns the file with the IR.
    #[track_caller]
    fn fail_again_and_again(text: &str, expected: &str) -> PathBuf {
        let mut files = Vec::new();
        for _ in 0..20 {
            let error = compile(text).expect_err("it cannot be compiled");
            assert!(error.message.contains(expected), "{error}");
            files.push(PathBuf::from(error.message.split('`').nth(1).expect("the error names a file")));
            run_a_kernel();
        }
        files.dedup();
        let [file] = files.as_slice() else { panic!("{files:?}") };
        file.clone()
    }

    #[track_caller]
    fn check_ir(file: &PathBuf, function: &str) {
        let ir = std::fs::read_to_string(file).expect("the file can be read");
        assert!(ir.contains(&format!("@{function}(")), "{ir}");
        std::fs::remove_file(file).expect("the file can be removed");
    }

    #[test]
    fn what_cannot_be_selected_is_an_error_of_one_compilation() {
        let text = NOT_SELECTED.replace("NAME", "one_thread");
        let file = fail_again_and_again(&text, "Cannot select: intrinsic %llvm.nvvm.read.ptx.sreg.tid.x");
        check_ir(&file, "one_thread");
    }

    #[test]
    fn a_fatal_error_of_a_pass_leaves_the_ir_as_it_was_lowered() {
        let text = NOT_OPTIMIZED.replace("NAME", "a_coroutine");
        let file = fail_again_and_again(&text, "prototype not a Function");
        check_ir(&file, "a_coroutine");
    }

    #[test]
    fn what_all_effort_fails_at_is_tried_with_less() {
        let host = HostProcessor::host().expect("LLVM knows this machine");
        let attempts = Cell::new(0);
        // The first text stands for what the optimiser makes of the second.
        let texts = [NOT_SELECTED.replace("NAME", "optimized"), "define void @plain() { ret void }".to_owned()];
        let made = emit(host, "failing", &[Form::Obj], None, |ir| {
            lower_text(ir, &texts[attempts.replace(attempts.get() + 1)])
        });
        assert!(made.expect("the second attempt is good")[0].starts_with(b"\x7fELF"));
        assert_eq!(attempts.get(), 2);
        run_a_kernel();
    }

    #[test]
    fn two_threads_meet_fatal_errors_at_once() {
        let texts = ["left", "right"].map(|name| NOT_SELECTED.replace("NAME", name));
        let files = std::thread::scope(|scope| {
            let workers = texts.each_ref().map(|text| scope.spawn(|| fail_again_and_again(text, "Cannot select")));
            workers.map(|worker| worker.join().expect("the thread ends"))
        });
        check_ir(&files[0], "left");
        check_ir(&files[1], "right");
    }

    #[test]
    fn a_panic_inside_goes_on_as_a_panic() {
        let caught = catch_unwind(|| catch::<()>(|| resume_unwind(Box::new("ours"))));
        let payload = caught.expect_err("it panics");
        assert_eq!(payload.downcast_ref::<&str>(), Some(&"ours"));
        assert!(!CATCHES.get());
    }

    /// The test runs itself in a process of its own, which LLVM ends.
    #[test]
    fn a_fatal_error_elsewhere_is_printed_and_ends_the_process() {
        const CHILD: &str = "POLYLOOM_TEST_FATAL_CHILD";
        if std::env::var_os(CHILD).is_some() {
            assert!(catch(|| Ok(())).is_ok());
            Target::initialize_native(&InitializationConfig::default()).expect("LLVM knows this machine");
            let context = Context::create();
            let text = NOT_SELECTED.replace("NAME", "child");
            let buffer = MemoryBuffer::create_from_memory_range_copy(text.as_bytes(), "text");
            let module = context.create_module_from_ir(buffer).expect("the text is LLVM IR");
            let triple = TargetMachine::get_default_triple();
            let target = Target::from_triple(&triple).expect("LLVM knows this machine");
            let machine = target.create_target_machine_from_options(&triple, TargetMachineOptions::new());
            let written = machine.expect("a target machine").write_to_memory_buffer(&module, FileType::Object);
            panic!("LLVM returned: {}", written.is_ok());
        }
        let name = "fatal::tests::a_fatal_error_elsewhere_is_printed_and_ends_the_process";
        let program = std::env::current_exe().expect("the test is a program");
        let mut command = Command::new(program);
        let out = command.args(["--exact", name, "--nocapture"]).env(CHILD, "1").output().expect("it starts");
        let printed = String::from_utf8_lossy(&out.stderr);
        assert!(!out.status.success());
        assert!(printed.contains("LLVM ERROR: Cannot select"), "{printed}");
        assert!(!printed.contains("LLVM returned"), "{printed}");
    }
}

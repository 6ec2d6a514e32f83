//! Line information: `.loc` directives that tie PTX, and calls in code of the CPU, to lines of the kernel's source.
//!
//! Only the directives, no description of variables: code is optimised as without them.

use crate::ir::{IrEmitter, LlvmFunction};
use inkwell::llvm_sys::core::LLVMSetCurrentDebugLocation2;
use inkwell::llvm_sys::debuginfo::*;
use inkwell::llvm_sys::prelude::*;
use polyloom_ir::{FileId, SourceMap, Span};
use std::cell::RefCell;
use std::ffi::{c_char, c_int, c_uint};
use std::ptr::null_mut;

/// `DebugDirectivesOnly` of LLVM's `DICompileUnit`, which the C interface takes but has no name for.
const DIRECTIVES_ONLY: c_uint = 3;

unsafe extern "C" {
    /// As llvm-sys declares it, but with a number for the kind of emission: its enumeration lacks the one used here.
    #[link_name = "LLVMDIBuilderCreateCompileUnit"]
    fn create_compile_unit(
        builder: LLVMDIBuilderRef,
        language: LLVMDWARFSourceLanguage,
        file: LLVMMetadataRef,
        producer: *const c_char,
        producer_len: usize,
        is_optimized: LLVMBool,
        flags: *const c_char,
        flags_len: usize,
        runtime_version: c_uint,
        split_name: *const c_char,
        split_name_len: usize,
        kind: c_uint,
        dwo_id: c_uint,
        split_debug_inlining: LLVMBool,
        debug_info_for_profiling: LLVMBool,
        sys_root: *const c_char,
        sys_root_len: usize,
        sdk: *const c_char,
        sdk_len: usize,
    ) -> LLVMMetadataRef;
}

/// Places in the source by number, in place of lines: for code whose sources are not at hand.
pub(crate) type SpanNumbers = RefCell<Vec<Span>>;

/// Says what the lines of a table are.
enum LineSource<'a> {
    /// Lines of files.
    Files(&'a SourceMap),
    /// Numbers of places, from 1.
    Numbers(&'a SpanNumbers),
}

/// The line table of a kernel being lowered.
pub(crate) struct LineTable<'a> {
    builder: LLVMDIBuilderRef,
    source: LineSource<'a>,
    subprogram: LLVMMetadataRef,
    /// The place where lines of each file belong: inside the kernel.
    scopes: RefCell<Vec<(FileId, LLVMMetadataRef)>>,
}

fn file(builder: LLVMDIBuilderRef, name: &str) -> LLVMMetadataRef {
    // LLVM writes these into the directive as they are, which ends it there.
    let name = name.replace(['"', '\\', '\n'], "_");
    let (folder, name) = name.rsplit_once('/').unwrap_or(("", &name));
    // SAFETY: LLVM copies both strings.
    unsafe { LLVMDIBuilderCreateFile(builder, name.as_ptr().cast(), name.len(), folder.as_ptr().cast(), folder.len()) }
}

impl<'a> LineTable<'a> {
    /// The table of a kernel that stands at `span`; none if that is in no source, as of kernels that a program built.
    pub(crate) fn new(
        ir: &IrEmitter<'_>,
        sources: &'a SourceMap,
        function: LlvmFunction,
        name: &str,
        span: Span,
    ) -> Option<LineTable<'a>> {
        let (path, position) = sources.locate(span)?;
        let first = (path, position.line as c_uint, span.file);
        Some(LineTable::begin(ir, LineSource::Files(sources), function, name, first))
    }

    /// A table whose lines are numbers of places, to which it adds those that it meets.
    pub(crate) fn of_numbers(
        ir: &IrEmitter<'_>,
        numbers: &'a SpanNumbers,
        function: LlvmFunction,
        name: &str,
    ) -> LineTable<'a> {
        LineTable::begin(ir, LineSource::Numbers(numbers), function, name, ("places", 1, Span::NONE.file))
    }

    /// A table of a function that begins at this line.
    fn begin(
        ir: &IrEmitter<'_>,
        source: LineSource<'a>,
        function: LlvmFunction,
        name: &str,
        (path, line, file_id): (&str, c_uint, FileId),
    ) -> LineTable<'a> {
        // SAFETY: the builder is disposed of when the table is dropped, before the module; all strings are copied.
        unsafe {
            let builder = LLVMCreateDIBuilder(ir.module());
            let file = file(builder, path);
            let producer = concat!("polyloom ", env!("CARGO_PKG_VERSION"));
            let empty = c"".as_ptr();
            let python = LLVMDWARFSourceLanguage::LLVMDWARFSourceLanguagePython;
            create_compile_unit(
                builder,
                python,
                file,
                producer.as_ptr().cast(),
                producer.len(),
                1,
                empty,
                0,
                0,
                empty,
                0,
                DIRECTIVES_ONLY,
                0,
                0,
                0,
                empty,
                0,
                empty,
                0,
            );
            let ty = LLVMDIBuilderCreateSubroutineType(builder, file, null_mut(), 0, 0);
            let name = (name.as_ptr().cast::<c_char>(), name.len());
            let subprogram = LLVMDIBuilderCreateFunction(
                builder, file, name.0, name.1, name.0, name.1, file, line, ty, 0, 1, line, 0, 1 as c_int,
            );
            LLVMSetSubprogram(function.value(), subprogram);
            LineTable { builder, source, subprogram, scopes: RefCell::new(vec![(file_id, subprogram)]) }
        }
    }

    /// Says that the instructions to come are for this place.
    pub(crate) fn at(&self, ir: &IrEmitter<'_>, span: Span) {
        let sources = match self.source {
            LineSource::Files(sources) => sources,
            LineSource::Numbers(numbers) => return self.at_number(ir, numbers, span),
        };
        let Some((path, position)) = sources.locate(span) else { return };
        let mut scopes = self.scopes.borrow_mut();
        let known = scopes.iter().find(|(file, _)| *file == span.file).map(|&(_, scope)| scope);
        // SAFETY: the builder is alive, and so are the scopes, which it made.
        unsafe {
            let scope = known.unwrap_or_else(|| {
                let file = file(self.builder, path);
                let scope = LLVMDIBuilderCreateLexicalBlockFile(self.builder, self.subprogram, file, 0);
                scopes.push((span.file, scope));
                scope
            });
            let (line, column) = (position.line as c_uint, position.column as c_uint);
            let location = LLVMDIBuilderCreateDebugLocation(ir.context(), line, column, scope, null_mut());
            LLVMSetCurrentDebugLocation2(ir.builder(), location);
        }
    }

    /// Says that the instructions to come are for a place, by its number.
    fn at_number(&self, ir: &IrEmitter<'_>, numbers: &SpanNumbers, span: Span) {
        let mut numbers = numbers.borrow_mut();
        let at = numbers.iter().position(|known| *known == span).unwrap_or_else(|| {
            numbers.push(span);
            numbers.len() - 1
        });
        // SAFETY: builder and scope are alive.
        unsafe {
            let line = at as c_uint + 1;
            let location = LLVMDIBuilderCreateDebugLocation(ir.context(), line, 1, self.subprogram, null_mut());
            LLVMSetCurrentDebugLocation2(ir.builder(), location);
        }
    }

    /// Says that what is emitted next is no part of the kernel's code.
    pub(crate) fn finish(self, ir: &IrEmitter<'_>) {
        ir.debug_info_version();
        // SAFETY: the builder is alive.
        unsafe {
            LLVMSetCurrentDebugLocation2(ir.builder(), null_mut());
            LLVMDIBuilderFinalize(self.builder);
        }
    }
}

impl Drop for LineTable<'_> {
    fn drop(&mut self) {
        // SAFETY: the builder is alive, and nobody uses it afterwards.
        unsafe { LLVMDisposeDIBuilder(self.builder) };
    }
}

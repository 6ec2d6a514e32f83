//! The module that a library of native functions has beside its functions: which code runs, and the texts of checks.
//!
//! It is LLVM IR as text, since it has no kernel in it. Where there is code for several kinds of processors, each C
//! function jumps to where a pointer says. The pointer is that of the least kind until a constructor of the library,
//! which runs when the library is loaded, has asked the processor with `cpuid`; so code of other constructors may call
//! the functions before it has run, and no call has to ask.

use crate::fatal::LlvmFailure;
use crate::target::{self, HostProcessor, OptimizationEffort, OptimizerMode};
use inkwell::context::Context;
use inkwell::memory_buffer::MemoryBuffer;
use polyloom_codegen::{CodegenError, NATIVE_ABI, NativeArgument, NativeCpu, NativeLibrary, NativeReturn, cpu_symbol};
use polyloom_ir::Scalar;
use std::fmt::Write as _;

/// Compiles the module.
pub(crate) fn compile(processor: &HostProcessor, library: &NativeLibrary<'_>) -> Result<Vec<u8>, CodegenError> {
    if library.cpus.len() > 1 && library.cpus.iter().any(|&cpu| features_of(cpu).is_none()) {
        return Err(CodegenError::new("code is chosen at load among `baseline`, `avx2` and `avx512` alone"));
    }
    compile_text(processor, library.name, &module(library))
}

/// Compiles a module of text.
pub(crate) fn compile_text(processor: &HostProcessor, name: &str, text: &str) -> Result<Vec<u8>, CodegenError> {
    let context = Context::create();
    let buffer = MemoryBuffer::create_from_memory_range_copy(text.as_bytes(), name);
    let llvm = context.create_module_from_ir(buffer).map_err(|error| {
        CodegenError::new(format!("internal error: LLVM rejects a library's module: {error}\n{text}"))
    })?;
    let made = (|| {
        target::prepare(processor, &llvm)?;
        target::optimize(processor, &llvm, OptimizerMode::default(), OptimizationEffort::Full)?;
        target::generate(processor, &llvm, false, OptimizerMode::default(), OptimizationEffort::Full)
    })();
    made.map_err(|failure| match failure {
        LlvmFailure::Returned(error) => error,
        LlvmFailure::Fatal(message) => CodegenError::new(format!("LLVM cannot compile a library's module: {message}")),
    })
}

/// What `cpuid` and `xgetbv` say of a processor of a kind: bits of `ecx` of leaf 1, of `ebx` of leaf 7, of `ecx` of leaf
/// 0x8000_0001, and of the state that the system saves. Source: the x86-64 psABI's levels v3 and v4, and Intel's manual,
/// volume 2, `CPUID`.
fn features_of(cpu: NativeCpu) -> Option<[u32; 4]> {
    // FMA, MOVBE, OSXSAVE, AVX, F16C; BMI1, AVX2, BMI2; LZCNT; registers XMM and YMM.
    let v3 = [(1 << 12) | (1 << 22) | (1 << 27) | (1 << 28) | (1 << 29), (1 << 3) | (1 << 5) | (1 << 8), 1 << 5, 0b110];
    match cpu {
        NativeCpu::Baseline => Some([0; 4]),
        NativeCpu::Avx2 => Some(v3),
        // And AVX-512 F, DQ, CD, BW, VL; mask registers and ZMM.
        NativeCpu::Avx512 => {
            let avx512 = (1 << 16) | (1 << 17) | (1 << 28) | (1 << 30) | (1 << 31);
            Some([v3[0], v3[1] | avx512, v3[2], 0b1110_0110])
        }
        NativeCpu::Neon | NativeCpu::Native => None,
    }
}

/// The type of a scalar as an argument.
pub(crate) fn llvm_type(scalar: Scalar) -> String {
    match scalar {
        Scalar::F32 => "float".to_owned(),
        Scalar::F64 => "double".to_owned(),
        other => format!("i{}", other.bits()),
    }
}

/// A string constant's type and bytes, with a 0 at the end.
fn string(text: &str) -> String {
    let mut bytes = String::new();
    for byte in text.bytes().filter(|&byte| byte != 0) {
        match byte {
            b'"' | b'\\' | 0..0x20 | 0x7f.. => _ = write!(bytes, "\\{byte:02X}"),
            _ => bytes.push(char::from(byte)),
        }
    }
    format!("[{} x i8] c\"{bytes}\\00\"", text.bytes().filter(|&byte| byte != 0).count() + 1)
}

fn module(library: &NativeLibrary<'_>) -> String {
    let name = library.name;
    let mut text = String::new();
    let _ = writeln!(text, "define i32 @{name}_abi() nounwind {{\n  ret i32 {NATIVE_ABI}\n}}");
    for (index, cpu) in library.cpus.iter().enumerate() {
        let _ = writeln!(text, "@{name}.cpu{index} = private unnamed_addr constant {}", string(cpu.name()));
    }
    let _ = writeln!(text, "@{name}.cpu = internal global ptr @{name}.cpu0");
    let _ = writeln!(
        text,
        "define ptr @{name}_cpu() nounwind {{\n  %name = load ptr, ptr @{name}.cpu\n  ret ptr %name\n}}"
    );
    for (signature, checks) in library.functions {
        if !checks.is_empty() {
            sites(&mut text, &signature.name, checks);
        }
    }
    if library.cpus.len() > 1 {
        dispatch(&mut text, library);
    }
    text
}

/// The function that says which check a status names.
fn sites(text: &mut String, name: &str, checks: &[String]) {
    for (index, check) in checks.iter().enumerate() {
        let _ = writeln!(text, "@{name}.check{index} = private unnamed_addr constant {}", string(check));
    }
    let n = checks.len();
    let pointers: Vec<String> = (0..n).map(|index| format!("ptr @{name}.check{index}")).collect();
    let _ = write!(
        text,
        "@{name}.none = private unnamed_addr constant {}\n\
         @{name}.checks = internal constant [{n} x ptr] [{}]\n\
         define ptr @{name}_site(i32 %status) nounwind {{\n  %index = sub i32 %status, 1\n  \
         %known = icmp ult i32 %index, {n}\n  br i1 %known, label %some, label %none\nsome:\n  \
         %wide = zext i32 %index to i64\n  \
         %at = getelementptr ptr, ptr @{name}.checks, i64 %wide\n  \
         %found = load ptr, ptr %at\n  ret ptr %found\nnone:\n  ret ptr @{name}.none\n}}\n",
        string(""),
        pointers.join(", ")
    );
}

/// The C functions, which jump to the code for the processor, and the constructor that chooses it.
fn dispatch(text: &mut String, library: &NativeLibrary<'_>) {
    let name = library.name;
    let Some(&least) = library.cpus.first() else { return };
    for (signature, _) in library.functions {
        let types: Vec<String> = signature
            .arguments()
            .into_iter()
            .map(|argument| match argument {
                NativeArgument::Extent => "i64".to_owned(),
                NativeArgument::Scalar(scalar) => llvm_type(scalar),
                _ => "ptr".to_owned(),
            })
            .collect();
        let (attribute, result) = match signature.returns {
            NativeReturn::Status => ("", "i32".to_owned()),
            NativeReturn::Value(scalar) if scalar.bits() < 32 && scalar.is_signed_int() => {
                ("signext ", llvm_type(scalar))
            }
            NativeReturn::Value(scalar) if scalar.bits() < 32 => ("zeroext ", llvm_type(scalar)),
            NativeReturn::Value(scalar) => ("", llvm_type(scalar)),
        };
        for &cpu in library.cpus {
            let symbol = cpu_symbol(&signature.name, cpu);
            let _ = writeln!(text, "declare hidden {attribute}{result} @{symbol}({}) nounwind", types.join(", "));
        }
        let numbered: Vec<String> = types.iter().enumerate().map(|(index, ty)| format!("{ty} %{index}")).collect();
        let function = &signature.name;
        let _ = write!(
            text,
            "@{function}.chosen = internal global ptr @{}\n\
             define {attribute}{result} @{function}({params}) nounwind {{\n  \
             %chosen = load ptr, ptr @{function}.chosen\n  \
             %result = musttail call {attribute}{result} %chosen({params})\n  ret {result} %result\n}}\n",
            cpu_symbol(function, least),
            params = numbered.join(", ")
        );
    }
    let _ = write!(
        text,
        "@llvm.global_ctors = appending global [1 x {{ i32, ptr, ptr }}] [{{ i32, ptr, ptr }} {{ i32 101, ptr @{name}.choose, ptr null }}]\n\
         define internal void @{name}.choose() nounwind {{\n  \
         %least = call {{ i32, i32, i32, i32 }} asm \"cpuid\", \"={{ax}},={{bx}},={{cx}},={{dx}},0,2\"(i32 0, i32 0)\n  \
         %last = extractvalue {{ i32, i32, i32, i32 }} %least, 0\n  \
         %has7 = icmp uge i32 %last, 7\n  br i1 %has7, label %more, label %done\nmore:\n  \
         %extended = call {{ i32, i32, i32, i32 }} asm \"cpuid\", \"={{ax}},={{bx}},={{cx}},={{dx}},0,2\"(i32 -2147483648, i32 0)\n  \
         %last_extended = extractvalue {{ i32, i32, i32, i32 }} %extended, 0\n  \
         %has_extended = icmp uge i32 %last_extended, -2147483647\n  br i1 %has_extended, label %ask, label %done\nask:\n  \
         %one = call {{ i32, i32, i32, i32 }} asm \"cpuid\", \"={{ax}},={{bx}},={{cx}},={{dx}},0,2\"(i32 1, i32 0)\n  \
         %word0 = extractvalue {{ i32, i32, i32, i32 }} %one, 2\n  \
         %seven = call {{ i32, i32, i32, i32 }} asm \"cpuid\", \"={{ax}},={{bx}},={{cx}},={{dx}},0,2\"(i32 7, i32 0)\n  \
         %word1 = extractvalue {{ i32, i32, i32, i32 }} %seven, 1\n  \
         %ext = call {{ i32, i32, i32, i32 }} asm \"cpuid\", \"={{ax}},={{bx}},={{cx}},={{dx}},0,2\"(i32 -2147483647, i32 0)\n  \
         %word2 = extractvalue {{ i32, i32, i32, i32 }} %ext, 2\n  \
         %xsave = and i32 %word0, 134217728\n  %saves = icmp ne i32 %xsave, 0\n  \
         br i1 %saves, label %state, label %done\nstate:\n  \
         %xcr0 = call {{ i32, i32 }} asm \"xgetbv\", \"={{ax}},={{dx}},{{cx}}\"(i32 0)\n  \
         %word3 = extractvalue {{ i32, i32 }} %xcr0, 0\n  br label %try1\n"
    );
    let n = library.cpus.len();
    for (index, &cpu) in library.cpus.iter().enumerate().skip(1) {
        let wanted = features_of(cpu).unwrap_or_default();
        let next = if index + 1 == n { "done".to_owned() } else { format!("try{}", index + 1) };
        let _ = writeln!(text, "try{index}:");
        for (word, bits) in wanted.iter().enumerate() {
            let bits = bits.cast_signed();
            let _ = writeln!(text, "  %m{index}_{word} = and i32 %word{word}, {bits}");
            let _ = writeln!(text, "  %e{index}_{word} = icmp eq i32 %m{index}_{word}, {bits}");
        }
        let _ = writeln!(
            text,
            "  %a{index} = and i1 %e{index}_0, %e{index}_1\n  %b{index} = and i1 %e{index}_2, %e{index}_3"
        );
        // A processor without this kind's features has not those of later ones.
        let _ = writeln!(
            text,
            "  %has{index}_all = and i1 %a{index}, %b{index}\n  br i1 %has{index}_all, label %use{index}, label %done"
        );
        let _ = writeln!(text, "use{index}:\n  store ptr @{name}.cpu{index}, ptr @{name}.cpu");
        for (signature, _) in library.functions {
            let function = &signature.name;
            let _ = writeln!(text, "  store ptr @{}, ptr @{function}.chosen", cpu_symbol(function, cpu));
        }
        let _ = writeln!(text, "  br label %{next}");
    }
    text.push_str("done:\n  ret void\n}\n");
}

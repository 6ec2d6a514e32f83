//! The ABI of native functions: kernels and functions as plain C functions.
//!
//! A native function needs nothing of Polyloom when it runs: no context, no runtime, no thread of its own. Its
//! [`NativeSignature`] is the ABI: back ends emit it, headers declare it, and callers compare their function types with
//! it. `docs/design/native-functions.md` states it in words.
//!
//! Parameters, in order:
//!
//! 1. For a kernel whose threads have coordinates, the extents of the launch, an `int64_t` each.
//! 2. Those of the kernel. Scalars come by value (the 16-bit floats as their bits, in a `uint16_t`), the components of
//!    composites by pointer, and arrays as a pointer to a [`NativeArray`].
//! 3. Where the function does not return its value, a pointer to memory for each result.
//! 4. Of a kernel that runs in blocks of threads, a pointer to the workspace, memory for one block after another.
//!
//! The result is an `int32_t`: 0, or one more than the number of the check that failed. A function of one scalar in
//! which nothing can fail returns its value.

use crate::abi::{ArgLayout, SiteKind, SiteTable};
use crate::backend::ArgFacts;
use polyloom_ir::block_plan::{BlockLaunch, BlockMemory, BlockParam, BlockPlan};
use polyloom_ir::{Code, Composite, Diagnostic, FuncId, Function, LaunchConfig, MAX_DIMS, Module, Op, Scalar, Type};
use std::ffi::c_void;
use std::sync::Arc;

/// The version of the ABI that this module describes.
pub const NATIVE_ABI: u32 = 1;

/// An array argument of a native function, `struct polyloom_arrayN` in C: the layout of an array in [`ArgLayout`]. The
/// elements are numbers, of vectors and matrices their components; the 16-bit floats are `u16`, their bits.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct NativeArray<T, const N: usize> {
    /// The address of the element whose indices are all 0.
    pub data: *mut T,
    /// The extents, each at most `i32::MAX`.
    pub shape: [i64; N],
    /// The distances in bytes between neighbours along each axis.
    pub strides: [i64; N],
}

/// Runs a native function on arguments in a block as [`ArgLayout`] describes it, for callers that learn its signature
/// at run time. After the arguments comes the address of the workspace, where there is one. `extents` has as many entries
/// as the launch has axes. Results are stored in the arrays that the block has for them. Returns the status.
pub type NativeBlockEntry = unsafe extern "C" fn(args: *const u8, extents: *const i64) -> i32;

/// A parameter of the kernel or function, before composites are taken apart.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NativeParam {
    /// Its name in the source: `s.x` for a field of a struct.
    pub name: Arc<str>,
    /// Its type.
    pub ty: Type,
    /// True if it is an array that the kernel may write.
    pub is_written: bool,
}

/// Describes what a native function returns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NativeReturn {
    /// 0, or the failed check's number plus one.
    Status,
    /// The function's value.
    Value(Scalar),
}

/// The type of one parameter in C.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NativeArgument {
    /// `int64_t`: an extent of the launch.
    Extent,
    /// A scalar by value.
    Scalar(Scalar),
    /// A pointer to the components of a composite, which are read.
    Components(Composite),
    /// A pointer to a [`NativeArray`] of this element type and rank; `written` if the elements may be written.
    Array {
        /// The type of the elements.
        elem: Scalar,
        /// The number of axes, those of composites included.
        ndim: u8,
        /// True if elements may be written.
        is_written: bool,
    },
    /// A pointer to memory for a result: a scalar or the components of a composite.
    Result(Type),
    /// A pointer to the workspace, [`NativeSignature::workspace_bytes`] bytes.
    Workspace,
}

/// Describes a native function.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NativeSignature {
    /// The symbol.
    pub name: Arc<str>,
    /// The number of the launch's axes; 0 if the threads have no coordinates, so that there is one thread.
    pub launch_rank: u8,
    /// The parameters.
    pub params: Vec<NativeParam>,
    /// The types of the results of a function of values: scalars and composites. The kernel stores each in element 0 of
    /// an array, the parameters after `params`.
    pub results: Vec<Type>,
    /// Describes what the C function returns.
    pub returns: NativeReturn,
    /// The bytes of memory that a call needs and its caller owns, which may lie anywhere; 0 if none is needed.
    pub workspace_bytes: u64,
}

/// Describes a kernel that runs a block of threads at a time: its threads are blocks, and its last parameters say how a call
/// is shaped and where the memory of a block is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NativeBlocks {
    /// Threads of a block along each axis, and its dynamic shared memory.
    pub grid: LaunchConfig,
    /// The last parameters.
    pub params: Vec<NativeBlockParam>,
}

/// Describes one of these parameters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NativeBlockParam {
    /// A number, which follows from the extents.
    Number(BlockParam),
    /// An array in the workspace, so many bytes from its beginning.
    Memory {
        /// The place where it begins.
        offset: u64,
        /// Its extents and strides.
        memory: BlockMemory,
    },
}

/// Bytes that arrays in a workspace lie at multiples of.
pub const WORKSPACE_ALIGN: u64 = 64;

impl NativeBlocks {
    /// The blocks of a kernel that is split by `plan`, which has these parameters at its end; none if a call with extents
    /// along so many axes is not what the code is for.
    pub fn of(plan: &BlockPlan, kernel: &Function, launch_rank: u8) -> Option<NativeBlocks> {
        let grid = kernel.metadata.grid(1);
        let mut shape = [1; MAX_DIMS];
        shape.iter_mut().take(launch_rank.into()).for_each(|extent| *extent = 2);
        let launch = BlockLaunch { grid, shape };
        if !plan.takes(&launch) {
            return None;
        }
        let types: Vec<Type> = kernel.params().iter().map(|&param| kernel.ty(param)).collect();
        let (mut bytes, mut dynamic) = (0u64, None);
        let mut params = Vec::new();
        for (param, ty) in plan.with_types(&types) {
            let elem = ty.as_array().map_or(Scalar::I32, |(elem, _)| elem);
            params.push(match param.memory(elem, &launch) {
                None => NativeBlockParam::Number(param.clone()),
                Some(memory) => {
                    let mut next = || {
                        let offset = bytes;
                        bytes = bytes.saturating_add(memory.bytes).checked_next_multiple_of(WORKSPACE_ALIGN)?;
                        Some(offset)
                    };
                    let offset = match dynamic {
                        Some(offset) if param.is_dynamic() => offset,
                        _ => next()?,
                    };
                    if param.is_dynamic() {
                        dynamic = Some(offset);
                    }
                    NativeBlockParam::Memory { offset, memory }
                }
            });
        }
        Some(NativeBlocks { grid, params })
    }

    /// The bytes of the workspace, with room to begin at a multiple of [`WORKSPACE_ALIGN`].
    pub fn workspace_bytes(&self) -> u64 {
        let end = |param: &NativeBlockParam| match param {
            NativeBlockParam::Memory { offset, memory } => offset.saturating_add(memory.bytes),
            NativeBlockParam::Number(_) => 0,
        };
        match self.params.iter().map(end).max() {
            None | Some(0) => 0,
            Some(end) => end.saturating_add(WORKSPACE_ALIGN - 1),
        }
    }
}

/// The number of parameters that stand for one of this type once composites are taken apart.
fn n_slots(ty: Type) -> usize {
    ty.as_composite().map_or(1, Composite::n_components)
}

impl NativeSignature {
    /// The signature of a kernel in prepared HIR, whose last parameters are the arrays for `results`, or those of `blocks`.
    ///
    /// # Errors
    ///
    /// When the kernel needs something of the runtime: blocks of threads that could not be split at their barriers, or
    /// prints; and when what gives a value runs in blocks.
    pub fn of(
        kernel: &Function,
        name: &str,
        launch_rank: u8,
        params: Vec<NativeParam>,
        results: Vec<Type>,
        blocks: Option<&NativeBlocks>,
    ) -> Result<NativeSignature, Box<Diagnostic>> {
        let refused = |span, message: String, help: &str| {
            Err(Box::new(Diagnostic::error(Code::NotNative, span, message).help(help)))
        };
        let sites = SiteTable::of(kernel).sites;
        if blocks.is_none() && (kernel.metadata.by_block || kernel.needs_blocks()) {
            let message = format!("the threads of `{name}` wait for each other in ways that only the interpreter runs");
            return refused(kernel.span, message, "launch it, or put its barriers where all threads of a block come");
        }
        if blocks.is_some() && !results.is_empty() {
            let message =
                format!("`{name}` gives a value and is about the threads of a block, of which a value has none");
            return refused(kernel.span, message, "write a kernel, which stores what each block finds in an array");
        }
        if let Some(print) = sites.iter().find(|site| matches!(site.kind, SiteKind::Print(..))) {
            let message = format!("`{name}` prints, and a native function has nowhere to print to");
            return refused(print.span, message, "take the `print` out, or launch the kernel");
        }
        let mut has_coordinates = false;
        kernel.walk(kernel.body, &mut |_, data| has_coordinates |= matches!(data.op, Op::Tid | Op::TidLinear));
        let returns = match results[..] {
            [Type::Scalar(scalar)] if sites.is_empty() => NativeReturn::Value(scalar),
            _ => NativeReturn::Status,
        };
        let launch_rank = if has_coordinates || blocks.is_some() { launch_rank } else { 0 };
        let workspace_bytes = blocks.map_or(0, NativeBlocks::workspace_bytes);
        Ok(NativeSignature { name: identifier(name).into(), launch_rank, params, results, returns, workspace_bytes })
    }

    /// The C function's parameters.
    pub fn arguments(&self) -> Vec<NativeArgument> {
        let extents = (0..self.launch_rank).map(|_| NativeArgument::Extent);
        let params = self.params.iter().map(|param| match param.ty {
            Type::Scalar(scalar) => NativeArgument::Scalar(scalar),
            Type::Composite(composite) => NativeArgument::Components(composite),
            Type::Array { elem, ndim, .. } => NativeArgument::Array { elem, ndim, is_written: param.is_written },
            Type::CompositeArray { elem, ndim, .. } => {
                let ndim = ndim + elem.shape().len() as u8;
                NativeArgument::Array { elem: elem.elem(), ndim, is_written: param.is_written }
            }
        });
        let stored = if self.returns == NativeReturn::Status { &self.results[..] } else { &[] };
        let workspace = (self.workspace_bytes > 0).then_some(NativeArgument::Workspace);
        extents.chain(params).chain(stored.iter().map(|&ty| NativeArgument::Result(ty))).chain(workspace).collect()
    }

    /// The names of the C function's parameters: identifiers of C, Rust and Python, each once.
    pub fn argument_names(&self) -> Vec<String> {
        let mut names: Vec<String> = Vec::new();
        let mut add = |wanted: String| {
            let mut name = wanted;
            while RESERVED.contains(&name.as_str()) || names.contains(&name) {
                name.push('_');
            }
            names.push(name);
        };
        self.params.iter().for_each(|param| add(identifier(&param.name)));
        if self.returns == NativeReturn::Status {
            let single = self.results.len() == 1;
            (0..self.results.len()).for_each(|n| add(if single { "result".to_owned() } else { format!("result{n}") }));
        }
        if self.workspace_bytes > 0 {
            add("workspace".to_owned());
        }
        // Parameters keep their names, so the extents' give way.
        (0..self.launch_rank).for_each(|axis| add(format!("dim{axis}")));
        let extents = names.split_off(names.len() - usize::from(self.launch_rank));
        extents.into_iter().chain(names).collect()
    }

    /// The first parameter of the scalarised kernel that is part of the parameter with this index.
    pub fn first_slot(&self, param: usize) -> usize {
        self.params[..param].iter().map(|param| n_slots(param.ty)).sum()
    }

    /// The parameter of the scalarised kernel that is the array for the result with this index.
    pub fn result_slot(&self, result: usize) -> usize {
        self.first_slot(self.params.len()) + result
    }

    /// The symbol of the entry that takes a block of arguments.
    pub fn block_entry(&self) -> String {
        format!("{}.block", self.name)
    }
}

/// Returns true if a function of a library cannot have this name: it is a word of C, C++, Rust or Python, or a function
/// that programs have from the C library, whose place it would take.
pub fn is_reserved_symbol(name: &str) -> bool {
    RESERVED.contains(&name) || C_FUNCTIONS.contains(&name)
}

/// Functions of the C library whose names kernels may well have, and those that compilers call on their own.
const C_FUNCTIONS: &[&str] = &[
    "abort",
    "abs",
    "accept",
    "acos",
    "asin",
    "atan",
    "atan2",
    "bind",
    "calloc",
    "cbrt",
    "ceil",
    "clock",
    "close",
    "connect",
    "copysign",
    "cos",
    "cosh",
    "div",
    "dup",
    "erf",
    "erfc",
    "exit",
    "exp",
    "exp2",
    "expm1",
    "fabs",
    "fdim",
    "floor",
    "fma",
    "fmax",
    "fmin",
    "fmod",
    "free",
    "gamma",
    "hypot",
    "index",
    "j0",
    "j1",
    "kill",
    "labs",
    "lgamma",
    "link",
    "listen",
    "log",
    "log10",
    "log1p",
    "log2",
    "logb",
    "main",
    "malloc",
    "memcmp",
    "memcpy",
    "memmove",
    "memset",
    "modf",
    "nan",
    "open",
    "pipe",
    "pow",
    "printf",
    "puts",
    "qsort",
    "raise",
    "rand",
    "random",
    "read",
    "realloc",
    "recv",
    "remainder",
    "remove",
    "rename",
    "rint",
    "round",
    "scalb",
    "select",
    "send",
    "signal",
    "significand",
    "sin",
    "sinh",
    "sleep",
    "socket",
    "sqrt",
    "stat",
    "strlen",
    "system",
    "tan",
    "tanh",
    "tgamma",
    "time",
    "trunc",
    "wait",
    "write",
    "y0",
    "y1",
    "yn",
];

/// A name as an identifier. A character that identifiers do not have is written as its number, except the period
/// between a struct and its field.
fn identifier(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for c in name.chars() {
        match c {
            c if c.is_ascii_alphanumeric() || c == '_' => text.push(c),
            '.' => text.push('_'),
            c => text.push_str(&format!("u{:x}", u32::from(c))),
        }
    }
    if text.is_empty() || text.starts_with(|c: char| c.is_ascii_digit()) {
        text.insert(0, '_');
    }
    text
}

/// The words that are no names in C, C++, Rust or Python.
const RESERVED: &[&str] = &[
    "and",
    "as",
    "asm",
    "assert",
    "async",
    "auto",
    "await",
    "bool",
    "break",
    "case",
    "catch",
    "char",
    "class",
    "const",
    "continue",
    "crate",
    "def",
    "default",
    "del",
    "delete",
    "do",
    "double",
    "dyn",
    "elif",
    "else",
    "enum",
    "except",
    "extern",
    "false",
    "finally",
    "float",
    "fn",
    "for",
    "from",
    "global",
    "goto",
    "if",
    "impl",
    "import",
    "in",
    "inline",
    "int",
    "is",
    "lambda",
    "let",
    "long",
    "loop",
    "match",
    "mod",
    "move",
    "mut",
    "namespace",
    "new",
    "nonlocal",
    "not",
    "operator",
    "or",
    "pass",
    "private",
    "protected",
    "pub",
    "public",
    "raise",
    "ref",
    "register",
    "restrict",
    "return",
    "self",
    "short",
    "signed",
    "sizeof",
    "static",
    "struct",
    "super",
    "switch",
    "template",
    "this",
    "throw",
    "trait",
    "true",
    "try",
    "type",
    "typedef",
    "typename",
    "union",
    "unsafe",
    "unsigned",
    "use",
    "using",
    "virtual",
    "void",
    "volatile",
    "where",
    "while",
    "with",
    "yield",
    "None",
    "True",
    "False",
    "Self",
];

/// A kind of processor that native functions are compiled for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum NativeCpu {
    /// Every processor of the platform: x86-64, or ARMv8-A with its vector registers.
    Baseline,
    /// x86-64 with AVX2, FMA and what came with them (x86-64-v3).
    Avx2,
    /// x86-64 with AVX-512 F, BW, CD, DQ and VL (x86-64-v4).
    Avx512,
    /// ARMv8-A, all of which have NEON.
    Neon,
    /// This machine's own processor.
    Native,
}

impl NativeCpu {
    /// `baseline`, `avx2`, `avx512`, `neon` or `native`.
    pub fn name(self) -> &'static str {
        match self {
            NativeCpu::Baseline => "baseline",
            NativeCpu::Avx2 => "avx2",
            NativeCpu::Avx512 => "avx512",
            NativeCpu::Neon => "neon",
            NativeCpu::Native => "native",
        }
    }
}

/// Describes what is in a library beside its functions: how they are chosen, and the texts of their checks.
#[derive(Clone, Copy)]
pub struct NativeLibrary<'a> {
    /// Its name, an identifier.
    pub name: &'a str,
    /// The kinds of processors that there is code for, the least first.
    pub cpus: &'a [NativeCpu],
    /// The functions, each with the checks that a status names.
    pub functions: &'a [(&'a NativeSignature, &'a [String])],
}

/// The symbol of a function's code for one kind of processor, where there are several: C has no such identifiers.
pub fn cpu_symbol(name: &str, cpu: NativeCpu) -> String {
    format!("{name}.{}", cpu.name())
}

/// Names what is compiled as a native function.
#[derive(Clone, Copy)]
pub struct NativeRequest<'a> {
    /// The module, as back ends take it.
    pub module: &'a Module,
    /// The kernel in it.
    pub kernel: FuncId,
    /// The ABI.
    pub signature: &'a NativeSignature,
    /// The symbol of the C function: that of the signature, or of its code for one kind of processor, which nobody
    /// outside of the library sees.
    pub symbol: &'a str,
    /// Facts that hold of arrays that are dense and do not overlap. The function finds out at each call whether they
    /// hold.
    pub dense: &'a ArgFacts,
    /// Facts that hold of all arrays.
    pub general: &'a ArgFacts,
    /// The blocks, of a kernel that runs in blocks of threads.
    pub blocks: Option<&'a NativeBlocks>,
    /// True if the entry that takes a block of arguments is wanted as well.
    pub has_block_entry: bool,
}

impl NativeRequest<'_> {
    /// The layout of the block.
    pub fn layout(&self) -> ArgLayout {
        ArgLayout::of(&self.module.functions[self.kernel])
    }

    /// True if the symbol is for the library alone.
    pub fn is_hidden(&self) -> bool {
        *self.symbol != *self.signature.name
    }
}

/// A native function in executable memory. Dropping it frees the code: whoever calls it keeps it alive.
pub trait LoadedNative: Send + Sync {
    /// The C function.
    fn function(&self) -> *const c_void;

    /// The entry that takes a block of arguments.
    fn block_entry(&self) -> NativeBlockEntry;
}

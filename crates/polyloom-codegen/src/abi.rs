//! The calling convention of compiled kernels.
//!
//! A compiled kernel is one function of type [`KernelEntry`] that runs a range of the launch's threads, in order, on
//! the calling thread. Arguments lie in a packed block ([`ArgLayout`]); everything else comes through the
//! [`LaunchContext`], host functions included, so that compiled code needs no symbol of the process.

use polyloom_ir::function::CheckKind;
use polyloom_ir::{Function, Imm, Inst, MAX_DIMS, Op, Span, Type};
use rustc_hash::FxHashMap;
use std::ffi::c_void;
use std::sync::Arc;

/// Runs threads `begin..end` (row-major linear indices) of a launch.
///
/// `args` points at the argument block, 8-byte aligned. After a failed check the function returns early.
pub type KernelEntry = unsafe extern "C" fn(args: *const u8, context: *const LaunchContext, begin: u64, end: u64);

/// Reports a failed check or assertion: site, index, extent, linear thread. Compiled code returns right after.
pub type TrapFn = unsafe extern "C" fn(context: *const LaunchContext, site: u32, index: i64, extent: i64, thread: u64);

/// Prints: site and one 8-byte slot per operand, each value's bits zero-extended.
pub type PrintFn = unsafe extern "C" fn(context: *const LaunchContext, site: u32, values: *const u64);

/// Describes what a launch hands to compiled code beside the arguments.
#[repr(C)]
#[derive(Debug)]
pub struct LaunchContext {
    /// Extents of the launch; 1 past its rank.
    pub shape: [u64; MAX_DIMS],
    /// Called when a check fails.
    pub trap: TrapFn,
    /// Called by `print`.
    pub print: PrintFn,
    /// The runtime's own; compiled code does not look at it.
    pub data: *mut c_void,
}

impl LaunchContext {
    /// Byte offset of `shape[axis]`.
    pub const fn shape_offset(axis: usize) -> i32 {
        (std::mem::offset_of!(LaunchContext, shape) + 8 * axis) as i32
    }

    /// Byte offset of `trap`.
    pub const TRAP_OFFSET: i32 = std::mem::offset_of!(LaunchContext, trap) as i32;
    /// Byte offset of `print`.
    pub const PRINT_OFFSET: i32 = std::mem::offset_of!(LaunchContext, print) as i32;
}

/// The name of a kernel's entry in PTX and texts for a device. What is not ASCII in a name is written as its number,
/// because LLVM's symbols and compilers of C++ take nothing else.
pub fn entry_name(kernel: &Function, device: &str) -> String {
    let direction = if kernel.metadata.backward { "backward" } else { "forward" };
    format!("{}_{device}_kernel_{direction}", ascii(&kernel.name))
}

/// The name in PTX of a function that kernels call: nothing else that stands there ends so.
pub fn function_name(function: &Function) -> String {
    let name = ascii(&function.name).replace(|c: char| !c.is_ascii_alphanumeric(), "_");
    format!("{name}_cuda_function")
}

fn ascii(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for c in name.chars() {
        match c {
            c if c.is_ascii() => text.push(c),
            c => text.push_str(&format!("u{:x}", u32::from(c))),
        }
    }
    text
}

/// Describes what a launch hands to a kernel on a GPU beside the arguments: the entry's first parameter, by value.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct GpuLaunch {
    /// Extents of the launch; 1 past its rank.
    pub shape: [u64; MAX_DIMS],
    /// Address of a [`GpuReport`] in the GPU's global memory, or 0: then a failed check stops the launch.
    pub report: u64,
}

impl GpuLaunch {
    /// Its size.
    pub const BYTES: u32 = size_of::<GpuLaunch>() as u32;
    /// Byte offset of `report`.
    pub const REPORT_OFFSET: u32 = std::mem::offset_of!(GpuLaunch, report) as u32;

    /// Byte offset of `shape[axis]`.
    pub const fn shape_offset(axis: usize) -> u32 {
        (std::mem::offset_of!(GpuLaunch, shape) + 8 * axis) as u32
    }
}

/// The bytes of all parameters of a kernel's entry on a GPU: [`GpuLaunch`] and the kernel's own, each aligned.
pub fn gpu_parameter_bytes(kernel: &Function) -> u32 {
    kernel.params().iter().fold(GpuLaunch::BYTES, |bytes, &param| match kernel.ty(param) {
        Type::Scalar(scalar) => bytes.next_multiple_of(scalar.bytes()) + scalar.bytes(),
        Type::Composite(composite) => {
            let elem = composite.elem().bytes();
            bytes.next_multiple_of(elem) + elem * composite.n_components() as u32
        }
        ty => bytes.next_multiple_of(8) + ArgLayout::new([ty]).size,
    })
}

/// The first check that failed in a launch on a GPU. The host clears it before the launch.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct GpuReport {
    /// 1 if a check has failed. A thread whose check fails exchanges 0 for 1, fills the rest if it was 0, and ends.
    pub claimed: u64,
    /// The site, as [`SiteTable`] numbers them.
    pub site: u64,
    /// The index out of bounds, or 0.
    pub index: i64,
    /// The extent it is out of, or 0.
    pub extent: i64,
    /// The thread's index in the launch.
    pub thread: u64,
    /// 0.
    pub reserved: u64,
}

impl GpuReport {
    /// Byte offset of `claimed`.
    pub const CLAIMED_OFFSET: u32 = std::mem::offset_of!(GpuReport, claimed) as u32;
    /// Byte offset of `site`.
    pub const SITE_OFFSET: u32 = std::mem::offset_of!(GpuReport, site) as u32;
    /// Byte offset of `index`.
    pub const INDEX_OFFSET: u32 = std::mem::offset_of!(GpuReport, index) as u32;
    /// Byte offset of `extent`.
    pub const EXTENT_OFFSET: u32 = std::mem::offset_of!(GpuReport, extent) as u32;
    /// Byte offset of `thread`.
    pub const THREAD_OFFSET: u32 = std::mem::offset_of!(GpuReport, thread) as u32;
}

/// Describes how the threads of a grid come to the elements of a launch.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum GridShape {
    /// There are at least as many threads as elements, and each runs the kernel once at most.
    #[default]
    OneThreadEach,
    /// Each thread runs the kernel for its own element and for those that follow it by multiples of the grid's threads.
    Stride,
}

/// Says where each argument lies in the argument block.
///
/// Everything is a little-endian 8-byte slot: a scalar takes one (its bits zero-extended), an array `1 + 2 * ndim`:
/// base address, extents, byte strides (signed).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ArgLayout {
    /// Byte offset of each parameter.
    pub offsets: Vec<u32>,
    /// Size of the block in bytes.
    pub size: u32,
}

impl ArgLayout {
    /// The layout for these parameter types.
    pub fn new(params: impl IntoIterator<Item = Type>) -> ArgLayout {
        let (mut offsets, mut size) = (Vec::new(), 0);
        for ty in params {
            offsets.push(size);
            size += match ty {
                Type::Scalar(_) => 8,
                Type::Array { ndim, .. } => 8 * (1 + 2 * u32::from(ndim)),
                // As their components, for kernels that are not scalarised yet.
                Type::Composite(composite) => 8 * composite.n_components() as u32,
                Type::CompositeArray { elem, ndim, .. } => 8 * (1 + 2 * (u32::from(ndim) + elem.shape().len() as u32)),
            };
        }
        ArgLayout { offsets, size }
    }

    /// The layout of a kernel's parameters.
    pub fn of(kernel: &Function) -> ArgLayout {
        ArgLayout::new(kernel.params().iter().map(|&p| kernel.ty(p)))
    }

    /// Offset, within an array argument, of its extent along `axis`.
    pub const fn extent(axis: u8) -> u32 {
        8 * (1 + axis as u32)
    }

    /// Offset, within an `ndim`-dimensional array argument, of its byte stride along `axis`.
    pub const fn stride(ndim: u8, axis: u8) -> u32 {
        8 * (1 + ndim as u32 + axis as u32)
    }
}

/// A place in a kernel that calls back into the host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CallbackSite {
    /// The source it stands for.
    pub span: Span,
    /// Holds what happens there.
    pub kind: SiteKind,
}

/// Describes what happens at a [`CallbackSite`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SiteKind {
    /// `assert`, with its message.
    Assert(Arc<str>),
    /// `check`.
    Check(CheckKind),
    /// `print`: the C format and the types of the operands.
    Print(Arc<str>, Vec<Type>),
}

/// The sites of a kernel, numbered in order of appearance. Back ends and runtime build it from the same HIR, so the
/// numbers agree.
#[derive(Clone, Debug, Default)]
pub struct SiteTable {
    /// The sites.
    pub sites: Vec<CallbackSite>,
    numbers: FxHashMap<Inst, u32>,
}

impl SiteTable {
    /// The sites of `kernel`.
    pub fn of(kernel: &Function) -> SiteTable {
        let mut table = SiteTable::default();
        kernel.walk(kernel.body, &mut |inst, data| {
            let kind = match (data.op, &data.imm) {
                (Op::Assert, Imm::Text(message)) => SiteKind::Assert(message.clone()),
                (Op::Check, Imm::Check(kind)) => SiteKind::Check(kind.clone()),
                (Op::Print, Imm::Text(format)) => {
                    SiteKind::Print(format.clone(), data.operands.iter().map(|&v| kernel.ty(v)).collect())
                }
                _ => return,
            };
            table.numbers.insert(inst, table.sites.len() as u32);
            table.sites.push(CallbackSite { span: data.span, kind });
        });
        table
    }

    /// The number of the site at `inst`.
    pub fn number(&self, inst: Inst) -> Option<u32> {
        self.numbers.get(&inst).copied()
    }
}

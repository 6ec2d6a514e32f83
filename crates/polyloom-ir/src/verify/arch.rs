//! What an architecture lacks: checked when code is made for it, so that no back end meets what it cannot compile.

use crate::arch::{Arch, PtxVersion};
use crate::diagnostic::{Code, Diagnostic};
use crate::entity::FuncId;
use crate::fragment;
use crate::function::{CacheUse, Function, Imm, InstData, Module};
use crate::op::Op;
use crate::types::Scalar;
use rustc_hash::FxHashMap;

/// Returns what keeps a valid kernel from running on GPUs of this architecture: ops that it does not have, and more
/// threads, registers or shared memory than its blocks can have.
pub fn check_arch(module: &Module, kernel: FuncId, arch: Arch) -> Vec<Diagnostic> {
    check(module, kernel, arch, &format!("{arch} allows"))
}

/// Returns what keeps a valid kernel from running on GPUs of any architecture; nothing if one has all it needs.
pub fn check_archs(module: &Module, kernel: FuncId) -> Vec<Diagnostic> {
    if Arch::all().any(|arch| check_arch(module, kernel, arch).is_empty()) {
        return Vec::new();
    }
    // The one with the most shared memory speaks for all, because that is what kernels run out of first.
    let largest = Arch::all().max_by_key(|arch| arch.limits().opt_in_shared_bytes).unwrap_or(Arch::DEFAULT);
    check(module, kernel, largest, "GPUs allow at most")
}

/// Works like [`check_arch`], with words for what is allowed.
fn check(module: &Module, kernel: FuncId, arch: Arch, allows: &str) -> Vec<Diagnostic> {
    let mut errors = Vec::new();
    // Arrays are counted by their numbers, because instructions of one number name one array.
    let mut shared: FxHashMap<u32, u64> = FxHashMap::default();
    for id in module.reachable(kernel) {
        let function = &module.functions[id];
        function.walk(function.body, &mut |_, data| {
            let least = least_arch(function, data);
            if !arch.includes(least) {
                let of = match factor(function, data) {
                    Some(factor) => format!(" of `{}`", factor.python_name()),
                    None => String::new(),
                };
                let message = format!("`{}`{of} needs {least} or later, not {arch}", data.op.name());
                let help = format!("compile for {least}");
                errors.push(Diagnostic::error(Code::Arch, data.span, message).help(help));
            }
            if let Imm::Shared(array) = &data.imm {
                let elem = data.results.first().and_then(|&value| function.ty(value).as_any_array());
                let elem = elem.map_or(0, |(elem, _)| {
                    elem.components().iter().filter_map(|ty| ty.as_scalar()).map(Scalar::bytes).sum()
                });
                shared.insert(array.id, array.bytes(elem));
            }
        });
    }
    let function = &module.functions[kernel];
    let limits = arch.limits();
    let statically: u64 = shared.values().sum();
    let allowed = format!("{allows} {} B opt-in / {} B static", limits.opt_in_shared_bytes, limits.static_shared_bytes);
    let all = statically + u64::from(function.metadata.shared_bytes.unwrap_or(0));
    if all > limits.opt_in_shared_bytes.into() {
        let message = format!("the kernel's blocks share too much memory: it needs {all} B, {allowed}");
        errors.push(of(function, message, "use smaller arrays, or blocks of fewer threads"));
    } else if statically > limits.static_shared_bytes.into() {
        let message = format!("the kernel's static shared arrays are too large: it needs {statically} B, {allowed}");
        errors.push(of(function, message, "make the largest with `dynamic_shared`, and launch with `shared_bytes=`"));
    }
    let extents = function.metadata.workgroup_size.unwrap_or([1; 3]);
    let threads = function.metadata.workgroup_threads();
    let bound = function.metadata.launch_bounds.map_or(0, |(threads, _)| threads);
    let too_far = extents.iter().zip(&limits.block_dim).any(|(extent, limit)| extent > limit);
    if threads > limits.threads_per_block.into() || bound > limits.threads_per_block || too_far {
        let [x, y, z] = limits.block_dim;
        let message = format!(
            "a block of {} threads: {allows} {}, at most {x} × {y} × {z}",
            if too_far { format!("{extents:?}") } else { threads.max(bound.into()).to_string() },
            limits.threads_per_block,
        );
        errors.push(of(function, message, "use smaller blocks"));
    }
    if let Some(registers) = function.metadata.max_registers.filter(|&n| n > limits.registers_per_thread) {
        let message = format!("{registers} registers for each thread: {allows} {}", limits.registers_per_thread);
        errors.push(of(function, message, "ask for fewer"));
    }
    errors
}

/// Returns what of a valid kernel a version of PTX has no instruction for, on architectures that have one.
pub fn check_version(module: &Module, kernel: FuncId, version: PtxVersion) -> Vec<Diagnostic> {
    let mut errors = Vec::new();
    for id in module.reachable(kernel) {
        let function = &module.functions[id];
        function.walk(function.body, &mut |_, data| {
            if let Some((least, what)) = needed_version(data).filter(|(least, _)| version < *least) {
                let message = format!("`{}`{what} needs PTX {least} or later, not PTX {version}", data.op.name());
                let help = format!("ask for PTX {least} or later, or for no version");
                errors.push(Diagnostic::error(Code::Arch, data.span, message).help(help));
            }
        });
    }
    errors
}

/// The least version of PTX that has all instructions of a valid kernel which an architecture's own least version may
/// lack; nothing if there are none.
pub fn least_version(module: &Module, kernel: FuncId) -> Option<PtxVersion> {
    let mut most = None;
    for id in module.reachable(kernel) {
        let function = &module.functions[id];
        function.walk(function.body, &mut |_, data| most = most.max(needed_version(data).map(|(least, _)| least)));
    }
    most
}

/// The version of PTX that an instruction needs, if the least one of its architecture may be older, and of what of it.
fn needed_version(data: &InstData) -> Option<(PtxVersion, &'static str)> {
    match (data.op, &data.imm) {
        // sm_75 has them from this version on.
        (Op::Mma, _) => Some((PtxVersion { major: 6, minor: 5 }, "")),
        (Op::AsyncCopy, Imm::Copy(copy)) if copy.cache == CacheUse::Streaming => {
            Some((PtxVersion { major: 7, minor: 4 }, " with `cache=\"streaming\"`"))
        }
        _ => None,
    }
}

/// The least architecture that has an instruction: what the op table says, or more if its types ask for it.
pub fn least_arch(function: &Function, data: &InstData) -> Arch {
    let least = data.op.info().least_arch;
    factor(function, data).map_or(least, |factor| least.max(fragment::least_arch(factor)))
}

/// Returns what the factors of a product by the tensor core are made of.
fn factor(function: &Function, data: &InstData) -> Option<Scalar> {
    let first = *data.operands.first().filter(|_| data.op == Op::Mma)?;
    let ty = function.ty(first);
    ty.as_composite().map_or_else(|| ty.as_scalar(), |composite| Some(composite.elem()))
}

fn of(function: &Function, message: String, help: &str) -> Diagnostic {
    Diagnostic::error(Code::Arch, function.span, message).help(help)
}

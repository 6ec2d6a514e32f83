//! Gradients that are written rather than added to: a backward kernel, or a stage of one, for callers who do not care
//! what the adjoints of the arrays held that the kernel only reads, and who keep those of what it only writes.
//!
//! ```text
//! adj_x[i] = adj_x[i] + f(adj_y[i])          adj_x[i] = 0.0 + f(adj_y[i])
//! adj_y[i] = 0.0
//! ```
//!
//! A launch that only streams through memory then takes half as long: it neither reads what is zero nor has to be
//! preceded by what sets it to zero, and it does not write to what the way back is done with.
//!
//! Design: `docs/design/gradient-sums.md`.

use super::cleanup::clean;
use super::constants::zero;
use crate::edit::ValueReplacements;
use cranelift_entity::EntitySet;
use polyloom_ir::op::OpEffect;
use polyloom_ir::{Builder, FuncId, Function, Imm, Inst, InstData, Module, Op, Region, Value, ValueDef, verify_module};

/// Describes what a kernel does with an array, or a number that it is given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AdjointAccess {
    /// It does not write it, so that the adjoint is added to.
    Reads,
    /// It does not read it, so that the adjoint is taken, and nothing is added to it.
    Writes,
    /// Both.
    Both,
}

/// A kernel that writes adjoints rather than adding to them. It takes what the kernel takes that it is made of.
#[derive(Clone, Debug)]
pub struct OverwritingProgram {
    /// A module with nothing else in it.
    pub module: Module,
    /// The kernel.
    pub kernel: FuncId,
    /// Says which of the adjoints it writes whole, whatever they held, if they have the extents of the launch. To
    /// others it adds.
    pub begun: Vec<usize>,
    /// Says which of the adjoints it writes of arrays that the kernel only [writes](AdjointAccess::Writes).
    pub taken: Vec<usize>,
    /// True if it does nothing at all.
    pub is_idle: bool,
}

/// Returns what a kernel does with one of its parameters.
pub(super) fn access(func: &Function, param: usize) -> AdjointAccess {
    let param = func.params()[param];
    let (mut reads, mut writes) = (func.ty(param).as_any_array().is_none(), false);
    func.walk(func.body, &mut |_, data| {
        if data.op != Op::Dim && data.operands.contains(&param) {
            let effect = data.op.info().effect;
            reads |= !matches!(effect, OpEffect::Write);
            writes |= !matches!(effect, OpEffect::Pure | OpEffect::Read);
        }
    });
    match (reads, writes) {
        (_, false) => AdjointAccess::Reads,
        (false, true) => AdjointAccess::Writes,
        (true, true) => AdjointAccess::Both,
    }
}

/// Has a backward kernel, or a stage of one, that is launched in so many dimensions write adjoints where it can. The
/// adjoints are its parameters from the number `first` on, of arrays that the kernel accesses so; elements of none are
/// one memory.
pub fn overwriting(
    module: &Module,
    kernel: FuncId,
    first: usize,
    accesses: &[AdjointAccess],
    rank: u8,
) -> OverwritingProgram {
    let mut func = module.functions[kernel].clone();
    let adjoints: Vec<Value> = func.params()[first..first + accesses.len()].to_vec();
    let (mut begun, mut taken) = (Vec::new(), Vec::new());
    for (number, (&adjoint, access)) in adjoints.iter().zip(accesses).enumerate() {
        match access {
            AdjointAccess::Reads if begin(&mut func, adjoint, rank) => begun.push(number),
            AdjointAccess::Writes if !leave(&mut func, adjoint) => taken.push(number),
            _ => {}
        }
    }
    clean(&mut func, &[]);
    let mut is_idle = true;
    func.walk(func.body, &mut |_, data| {
        is_idle &= !matches!(data.op.info().effect, OpEffect::Write | OpEffect::ReadWrite);
    });
    let mut module = Module::new();
    let kernel = module.functions.push(func);
    debug_assert_eq!(verify_module(&module), Ok(()), "a kernel that writes adjoints is valid\n{module}");
    OverwritingProgram { module, kernel, begun, taken, is_idle }
}

/// Has each thread write its own element of an adjoint before it reads it, if that is all that the kernel does with it.
fn begin(func: &mut Function, array: Value, rank: u8) -> bool {
    let Some((elem, ndim)) = func.ty(array).as_any_array() else { return false };
    let mut are_own = ndim == rank;
    func.walk(func.body, &mut |_, data| are_own &= !touches(data, array) || is_own(func, data, array, ndim));
    if !are_own {
        return false;
    }
    // Reads before the first store, which no condition or loop is around.
    let mut read: EntitySet<Inst> = EntitySet::new();
    let mut is_written = false;
    for &inst in &func.regions[func.body].insts {
        let data = &func.insts[inst];
        match data.op {
            Op::ArrayStore if touches(data, array) => {
                is_written = true;
                break;
            }
            Op::ArrayLoad if touches(data, array) => _ = read.insert(inst),
            _ if data.regions.iter().any(|&region| is_touched(func, region, array)) => break,
            _ => {}
        }
    }
    if !is_written {
        return false;
    }
    let body = func.body;
    let insts = std::mem::take(&mut func.regions[body].insts);
    let nothing = zero(&mut Builder::new(func), elem);
    let mut replaced = ValueReplacements::default();
    let (gone, kept): (Vec<Inst>, Vec<Inst>) = insts.into_iter().partition(|&inst| read.contains(inst));
    gone.into_iter().for_each(|inst| replaced.set(func.insts[inst].results[0], nothing));
    func.regions[body].insts.extend(kept);
    replaced.apply_to_region(func, body);
    true
}

/// Takes out the stores to an adjoint after which the kernel does not read it; says whether none is left.
fn leave(func: &mut Function, array: Value) -> bool {
    let mut is_plain = true;
    func.walk(func.body, &mut |_, data| {
        is_plain &= !touches(data, array) || matches!(data.op, Op::ArrayLoad | Op::ArrayStore);
    });
    is_plain && leave_region(func, func.body, array, &mut false)
}

/// `is_read` says whether it is read behind the region.
fn leave_region(func: &mut Function, region: Region, array: Value, is_read: &mut bool) -> bool {
    let mut insts = std::mem::take(&mut func.regions[region].insts);
    let mut is_left = true;
    for index in (0..insts.len()).rev() {
        let data = func.insts[insts[index]].clone();
        if data.op == Op::If {
            let behind = *is_read;
            for inner in data.regions {
                let mut is_read_inside = behind;
                is_left &= leave_region(func, inner, array, &mut is_read_inside);
                *is_read |= is_read_inside;
            }
        } else if data.regions.iter().any(|&inner| is_touched(func, inner, array)) {
            // The next access may be in another iteration.
            *is_read = true;
            data.regions.iter().for_each(|&inner| is_left &= !is_stored(func, inner, array));
        } else if touches(&data, array) && data.op == Op::ArrayStore {
            match *is_read {
                true => is_left = false,
                false => _ = insts.remove(index),
            }
        } else {
            *is_read |= touches(&data, array);
        }
    }
    func.regions[region].insts = insts;
    is_left
}

fn touches(data: &InstData, array: Value) -> bool {
    data.op != Op::Dim && data.operands.contains(&array)
}

fn is_touched(func: &Function, region: Region, array: Value) -> bool {
    let mut found = false;
    func.walk(region, &mut |_, data| found |= touches(data, array));
    found
}

fn is_stored(func: &Function, region: Region, array: Value) -> bool {
    let mut found = false;
    func.walk(region, &mut |_, data| found |= data.op == Op::ArrayStore && touches(data, array));
    found
}

/// Returns true if an instruction reads or writes the element, whole, whose indices are the thread's coordinates.
fn is_own(func: &Function, data: &InstData, array: Value, ndim: u8) -> bool {
    let n_values = match data.op {
        Op::ArrayLoad => 0,
        Op::ArrayStore => 1,
        _ => return false,
    };
    let indices = &data.operands[1..data.operands.len() - n_values];
    data.operands[0] == array
        && indices.len() == usize::from(ndim)
        && (0..ndim).zip(indices).all(|(axis, &index)| {
            let ValueDef::Result(inst, _) = func.values[index].def else { return false };
            func.insts[inst].op == Op::Tid && func.insts[inst].imm == Imm::Axis(axis)
        })
}

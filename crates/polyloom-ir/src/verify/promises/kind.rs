//! `kind="stencil"`: what a kernel must do to be of a kind.
//!
//! Of most kinds there is something that no kernel of the kind does without; a kernel without it is refused. That a
//! kernel is `elementwise` can be shown, or is told not to be known.

use super::walk_with_callees;
use crate::analysis::affine::{AffineSum, AffineTerm};
use crate::diagnostic::{Code, Diagnostic};
use crate::entity::{FuncId, Region, Value};
use crate::function::{Function, InstData, Module, ValueDef};
use crate::metadata::KernelKind;
use crate::op::{Op, OpGroup};
use std::collections::{HashMap, HashSet};

/// Facts about a kernel and the functions that it calls that kinds ask for.
#[derive(Default)]
struct KindEvidence {
    /// Atomic updates, barriers and what else threads do together.
    combines: bool,
    /// A loop hands a value from one iteration to the next.
    carries: bool,
    /// A product is added to something.
    sums_products: bool,
    exponentials: bool,
    compares: bool,
    /// An array is read at two indices, or in a loop.
    reads_around: bool,
}

/// An error if the kernel cannot be of its kind; a warning if nobody can tell.
pub(super) fn check_kind(module: &Module, id: FuncId, kernel: &Function) -> Option<Diagnostic> {
    let kind = kernel.metadata.kind;
    if kind == KernelKind::Elementwise {
        return check_elementwise(module, id, kernel);
    }
    let evidence = KindEvidence::of(module, id);
    let missing = match kind {
        KernelKind::Custom | KernelKind::Elementwise => return None,
        KernelKind::Reduce | KernelKind::Scan if !evidence.combines && !evidence.carries => {
            "nothing combines values: no loop that carries one, no atomic update, nothing that threads do together"
        }
        KernelKind::Matmul | KernelKind::Conv2d | KernelKind::Attention | KernelKind::FlashAttention
            if !evidence.sums_products =>
        {
            "no product is added to a sum"
        }
        KernelKind::Attention | KernelKind::FlashAttention if !evidence.exponentials => "no exponential is taken",
        KernelKind::FlashAttention if !evidence.compares => "no running maximum is kept",
        KernelKind::Sort if !evidence.compares => "no two elements are compared",
        KernelKind::Stencil | KernelKind::Conv2d if !evidence.reads_around => "no array is read at two places",
        _ => return None,
    };
    let message = format!("`{}` is of no kernel of the kind `{}`: {missing}", kernel.name, kind.name());
    let help = "leave `kind` out, or name the kind it is of; `custom` promises nothing";
    Some(Diagnostic::error(Code::BrokenPromise, kernel.span, message).help(help))
}

impl KindEvidence {
    fn of(module: &Module, kernel: FuncId) -> KindEvidence {
        let mut evidence = KindEvidence::default();
        let mut reads: HashMap<Value, HashSet<Vec<Value>>> = HashMap::new();
        let mut last_function = std::ptr::null();
        walk_with_callees(module, kernel, &mut |function, data| {
            if !std::ptr::eq(function, last_function) {
                (last_function, reads) = (function, HashMap::new());
            }
            evidence.see(function, data);
            if let (Op::ArrayLoad | Op::LoadReadonly | Op::AsyncCopy, Some((array, indices))) =
                (data.op, data.operands.split_first())
            {
                let known = reads.entry(*array).or_default();
                known.insert(indices.to_vec());
                evidence.reads_around |= known.len() > 1;
            }
        });
        evidence
    }

    fn see(&mut self, function: &Function, data: &InstData) {
        match data.op.info().group {
            OpGroup::Atomic => self.combines = true,
            OpGroup::Gpu if data.op != Op::BlockDim => self.combines = true,
            OpGroup::Comparison => self.compares = true,
            _ => {}
        }
        match data.op {
            Op::ForRange | Op::While => {
                let carried = data.regions.last().map_or(0, |&body| function.regions[body].params.len());
                self.carries |= carried > usize::from(data.op == Op::ForRange);
                self.reads_around |= data.regions.iter().any(|&region| reads_array(function, region));
            }
            Op::Add | Op::Sub | Op::AtomicAdd => {
                self.sums_products |= data.operands.iter().any(|&operand| is_product(function, operand));
            }
            Op::Fma | Op::Dot | Op::Ddot | Op::Mma => self.sums_products = true,
            // A product of matrices or vectors is a sum of products.
            Op::Mul if data.operands.iter().all(|&operand| function.ty(operand).as_scalar().is_none()) => {
                self.sums_products = true;
            }
            Op::Exp | Op::Exp2 | Op::Pow | Op::Expm1 => self.exponentials = true,
            Op::Min | Op::Max | Op::Argmin | Op::Argmax => self.compares = true,
            _ => {}
        }
    }
}

fn reads_array(function: &Function, region: Region) -> bool {
    let mut reads = false;
    function.walk(region, &mut |_, data| reads |= matches!(data.op, Op::ArrayLoad | Op::LoadReadonly | Op::AsyncCopy));
    reads
}

/// Returns true for products, and for results of functions, branches and loops, which may be products.
fn is_product(function: &Function, value: Value) -> bool {
    let ValueDef::Result(inst, _) = function.values[value].def else { return false };
    let data = &function.insts[inst];
    match data.op {
        Op::Mul | Op::Call | Op::If | Op::ForRange | Op::While | Op::Block | Op::Select => true,
        Op::Cast | Op::Neg => data.operands.first().is_some_and(|&operand| is_product(function, operand)),
        _ => false,
    }
}

/// Each thread writes elements that are its own, and no other; threads do nothing together.
fn check_elementwise(module: &Module, id: FuncId, kernel: &Function) -> Option<Diagnostic> {
    let mut wrong: Option<Diagnostic> = None;
    let mut unknown: Option<Diagnostic> = None;
    let mut stores = false;
    walk_with_callees(module, id, &mut |function, data| {
        let refused = |message: &str| {
            let help = "leave `kind` out, or name the kind it is of; `custom` promises nothing";
            Diagnostic::error(Code::BrokenPromise, data.span, message).help(help)
        };
        match data.op.info().group {
            OpGroup::Atomic => {
                wrong.get_or_insert_with(|| refused("an atomic update in a kernel of the kind `elementwise`"));
            }
            OpGroup::Gpu if data.op != Op::BlockDim => {
                let message = format!("`{}` in a kernel of the kind `elementwise`", data.op.name());
                wrong.get_or_insert_with(|| refused(&message));
            }
            _ => {}
        }
        if data.op != Op::ArrayStore {
            return;
        }
        stores = true;
        match owner_of_element(function, &data.operands[1..data.operands.len() - 1]) {
            ElementOwner::Own => {}
            ElementOwner::Shared => {
                let message = "all threads write this element, in a kernel of the kind `elementwise`";
                wrong.get_or_insert_with(|| refused(message));
            }
            ElementOwner::Unknown => {
                unknown.get_or_insert_with(|| {
                    let message = "whether this element is the thread's own, as in a kernel of the kind `elementwise`, \
                                   is not known";
                    Diagnostic::warning(Code::Unenforced, data.span, message)
                        .help("write `x[i]` with `i = tid()`, or leave `kind` out")
                });
            }
        }
    });
    if wrong.is_none() && !stores {
        let message = format!("`{}` writes no element, but its kind is `elementwise`", kernel.name);
        wrong = Some(Diagnostic::error(Code::BrokenPromise, kernel.span, message).help("leave `kind` out"));
    }
    wrong.or(unknown)
}

enum ElementOwner {
    Own,
    Shared,
    Unknown,
}

/// Finds out from the indices of an element whether it belongs to the thread.
fn owner_of_element(function: &Function, indices: &[Value]) -> ElementOwner {
    let sums: Vec<AffineSum> = indices.iter().map(|&index| AffineSum::of(function, index)).collect();
    let terms = || sums.iter().flat_map(|sum| sum.terms.iter().map(|&(term, _)| term));
    if terms().any(|term| matches!(term, AffineTerm::Coordinate(_))) {
        ElementOwner::Own
    } else if terms().next().is_none() {
        ElementOwner::Shared
    } else {
        ElementOwner::Unknown
    }
}

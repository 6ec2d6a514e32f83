//! Which elements of an array the threads of a kernel access, and whether each is the business of one thread.

use crate::pipeline::extract;
use crate::transform::inline;
use polyloom_ir::analysis::affine::{AffineSum, AffineTerm};
use polyloom_ir::analysis::interval::Interval;
use polyloom_ir::op::OpGroup;
use polyloom_ir::{FuncId, Function, InstData, Module, Op, Scalar, Value};
use smallvec::SmallVec;

/// The index along an axis, as a multiple of one coordinate of the thread and a constant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AxisIndex {
    /// The axis of the launch.
    pub coordinate: u8,
    /// Its factor, which is positive.
    pub factor: i64,
    /// The constant, which is not negative: an index below zero counts from the end.
    pub offset: i64,
    /// The integer type of the index, which wraps beyond what that holds.
    pub ty: Scalar,
}

impl AxisIndex {
    /// Returns true if threads with so many coordinates have different indices: the sum never wraps.
    fn differs_over(self, extent: u64) -> bool {
        let last = i128::from(self.factor) * (i128::from(extent) - 1) + i128::from(self.offset);
        Interval::full(self.ty).contains(Interval::one(last))
    }
}

/// How a kernel accesses an array.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ArrayUse {
    /// Not at all, but for its extents.
    Untouched,
    /// At indices that are, by axis, the same in all accesses where they are given.
    Elements(SmallVec<[Option<AxisIndex>; 4]>),
    /// In ways that nothing is known of.
    Unknown,
}

impl ArrayUse {
    /// Returns true if no thread of a launch with these extents accesses an element, in one of the two ways, that
    /// another thread accesses in one of them.
    pub fn is_apart(&self, other: &ArrayUse, shape: &[u64]) -> bool {
        let (own, others) = match (self, other) {
            (ArrayUse::Untouched, _) | (_, ArrayUse::Untouched) => return true,
            (ArrayUse::Elements(own), ArrayUse::Elements(others)) => (own, others),
            _ => return false,
        };
        let is_told = |axis: usize| {
            let same = |(a, b): (&Option<AxisIndex>, &Option<AxisIndex>)| {
                a == b
                    && a.is_some_and(|index| usize::from(index.coordinate) == axis && index.differs_over(shape[axis]))
            };
            own.iter().zip(others).any(same)
        };
        // Threads that differ along an axis differ in the index that goes by it, so that an axis of one thread needs
        // none.
        own.len() == others.len() && (0..shape.len()).all(|axis| shape[axis] <= 1 || is_told(axis))
    }
}

/// Returns, by parameter, how a kernel and what it calls access it; of one that is no array, nothing.
pub fn array_uses(module: &Module, kernel: FuncId) -> Vec<ArrayUse> {
    let (mut copy, id) = extract(module, kernel);
    if inline::inline(&mut copy, id, inline::KeptCalls::NoCalls).is_err() {
        return vec![ArrayUse::Unknown; module.functions[kernel].params().len()];
    }
    let function = &copy.functions[id];
    let mut uses = vec![ArrayUse::Untouched; function.params().len()];
    function.walk(function.body, &mut |_, data| {
        for (operand, &value) in data.operands.iter().enumerate() {
            let Some((_, ndim)) = function.ty(value).as_any_array() else { continue };
            let access = access_of(function, data, operand, ndim.into());
            match (function.param_index(value), access) {
                (_, Access::OfExtents) => {}
                (Some(param), Access::OfElement(indices)) => meet(&mut uses[param], indices),
                (Some(param), Access::Other) => uses[param] = ArrayUse::Unknown,
                // A view of an array, or one of two: any of them may be meant.
                (None, _) => uses.fill(ArrayUse::Unknown),
            }
        }
    });
    uses
}

enum Access {
    OfElement(SmallVec<[Option<AxisIndex>; 4]>),
    OfExtents,
    Other,
}

fn access_of(function: &Function, data: &InstData, operand: usize, ndim: usize) -> Access {
    let is_access = matches!(data.op, Op::ArrayLoad | Op::ArrayStore) || data.op.info().group == OpGroup::Atomic;
    match (data.op, operand) {
        (Op::Dim, _) => Access::OfExtents,
        (_, 0) if is_access => {
            let indices = data.operands.get(1..=ndim).unwrap_or_default();
            Access::OfElement(indices.iter().map(|&index| axis_index(function, index)).collect())
        }
        _ => Access::Other,
    }
}

fn axis_index(function: &Function, index: Value) -> Option<AxisIndex> {
    let (sum, ty) = (AffineSum::of(function, index), function.ty(index).as_scalar()?);
    match sum.terms[..] {
        [(AffineTerm::Coordinate(coordinate), factor)] if factor > 0 && sum.offset >= 0 => {
            Some(AxisIndex { coordinate, factor, offset: sum.offset, ty })
        }
        _ => None,
    }
}

/// Makes a use that of one more access.
fn meet(use_: &mut ArrayUse, indices: SmallVec<[Option<AxisIndex>; 4]>) {
    match use_ {
        ArrayUse::Unknown => {}
        ArrayUse::Untouched => *use_ = ArrayUse::Elements(indices),
        ArrayUse::Elements(known) => {
            for (known, index) in known.iter_mut().zip(indices) {
                if *known != index {
                    *known = None;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use polyloom_ir::{FileId, parse_module};

    fn uses(body: &str) -> Vec<ArrayUse> {
        let text = format!("kernel @k(%x x: array<f32, 1>, %y y: array<f32, 2>, %n n: i32) {{\n{body}\nreturn\n}}");
        let module = parse_module(&text, FileId::from_u32(0)).expect("the text is HIR");
        let kernel = module.find("k").expect("it has a kernel `k`");
        array_uses(&module, kernel)
    }

    #[test]
    fn elements_of_the_own_thread_are_apart() {
        let own = uses("%i: i32 = tid 0\n%v: f32 = array_load %x, %i\narray_store %y, %i, %n, %v");
        assert!(own[0].is_apart(&own[0], &[8]));
        assert!(own[1].is_apart(&own[1], &[8]), "rows of its own, whatever the column");
        assert!(!own[1].is_apart(&own[1], &[8, 2]), "two threads share a row");
        assert!(own[1].is_apart(&own[1], &[8, 1]));
    }

    #[test]
    fn neighbours_and_elements_from_the_end_are_not() {
        let own = uses("%i: i32 = tid 0\n%v: f32 = array_load %x, %i");
        let next = uses("%i: i32 = tid 0\n%c: i32 = const 1\n%j: i32 = add %i, %c\n%v: f32 = array_load %x, %j");
        assert!(!own[0].is_apart(&next[0], &[8]));
        assert!(next[0].is_apart(&next[0], &[8]));
        let last = uses("%i: i32 = tid 0\n%c: i32 = const 1\n%j: i32 = sub %i, %c\n%v: f32 = array_load %x, %j");
        assert!(!last[0].is_apart(&last[0], &[8]), "that of thread 0 is the last element");
        assert!(own[0].is_apart(&uses("")[0], &[8]));
    }

    #[test]
    fn an_index_that_wraps_is_one_of_several_threads() {
        let shifted = "%i: i32 = tid 0\n%c: i32 = const 16\n%a: i32 = lshift %i, %c\n%j: i32 = lshift %a, %c";
        let one = uses(&format!("{shifted}\n%v: f32 = array_load %x, %j"));
        assert!(!one[0].is_apart(&one[0], &[8]), "it is 0 in all threads");
        let far = uses("%i: i32 = tid 0\n%c: i32 = const 30\n%j: i32 = lshift %i, %c\n%v: f32 = array_load %x, %j");
        assert!(far[0].is_apart(&far[0], &[2]));
        assert!(!far[0].is_apart(&far[0], &[3]), "2^31 is negative, and counts from the end");
    }

    #[test]
    fn an_index_that_is_computed_otherwise_may_be_any() {
        let any = uses("%v: f32 = array_load %x, %n");
        assert!(!any[0].is_apart(&any[0], &[8]));
        assert!(any[0].is_apart(&any[0], &[1]));
    }
}

//! What of values is read: of a vector one component, of a number its size alone, of a bounded number whether it passes
//! a number within the bounds.

use super::finding::EffectFinding;
use crate::catalogue::{self, OpTrait};
use polyloom::{Composite, Function, Imm, InstData, Op, Value};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// The first value in the function that is more than what is read of it.
pub(super) fn find(function: &Function) -> Option<EffectFinding> {
    let mut insts: Vec<&InstData> = Vec::new();
    function.walk(function.body, &mut |inst, _| insts.push(&function.insts[inst]));
    let mut reads = ElementReads { function, readers: FxHashMap::default(), parts: FxHashMap::default() };
    for data in insts.iter().rev() {
        reads.add(data);
    }
    insts.into_iter().find_map(|data| {
        let what = reads.fault(data)?;
        Some(EffectFinding { span: data.span, subject: reads.subject(data), what })
    })
}

struct ElementReads<'a> {
    function: &'a Function,
    readers: FxHashMap<Value, SmallVec<[&'a InstData; 2]>>,
    /// The components that are read of composites, a bit each.
    parts: FxHashMap<Value, u64>,
}

impl<'a> ElementReads<'a> {
    fn add(&mut self, data: &'a InstData) {
        let of_result = data.results.first().and_then(|result| self.parts.get(result)).copied().unwrap_or(0);
        let is_by_part = self.is_by_part(data);
        for &operand in &data.operands {
            let parts = match data.imm {
                Imm::Component(at) if data.op == Op::Component && at < 64 => 1 << at,
                _ if is_by_part => of_result,
                _ => u64::MAX,
            };
            *self.parts.entry(operand).or_default() |= parts;
            let readers = self.readers.entry(operand).or_default();
            if !readers.iter().any(|&other| std::ptr::eq(other, data)) {
                readers.push(data);
            }
        }
    }

    fn subject(&self, data: &InstData) -> String {
        let name = data.results.first().and_then(|&result| self.function.value_names[result].as_deref());
        name.unwrap_or(data.op.name()).to_owned()
    }

    fn fault(&self, data: &'a InstData) -> Option<&'static str> {
        let &[result] = &data.results[..] else { return None };
        match data.op {
            op if catalogue::facts(op).is(OpTrait::SignOnly) && self.loses_sign(result) => {
                Some("gives a sign that nothing reads")
            }
            op if catalogue::facts(op).is(OpTrait::Limits) && self.is_only_compared(data, result) => {
                Some("bounds what is only compared")
            }
            _ if self.is_of_parts(data) && self.parts.get(&result).is_some_and(|parts| parts.count_ones() == 1) => {
                Some("is read in one component")
            }
            _ => None,
        }
    }

    /// Returns true if it computes all components of a composite for themselves, or each from several.
    fn is_of_parts(&self, data: &InstData) -> bool {
        let is_matrix = |value: &Value| matches!(self.composite(*value), Some(Composite::Matrix { .. }));
        let is_long = data.results.first().is_some_and(|&result| self.function.ty(result).as_composite().is_some());
        let is_number = |operand: &Value| self.function.as_const(*operand).is_some();
        match data.op {
            // The value that a variable begins with.
            Op::Construct => is_long && !data.operands.iter().all(is_number),
            Op::Mul => is_long && (data.operands.iter().any(is_matrix) || self.is_by_part(data)),
            _ => is_long && self.is_by_part(data),
        }
    }

    /// Returns true if each component of what it gives comes from the same of its operands.
    fn is_by_part(&self, data: &InstData) -> bool {
        let Some(&result) = data.results.first() else { return false };
        let Some(composite) = self.composite(result) else { return false };
        let is_same = |operand: &Value| self.composite(*operand).is_none_or(|of| of.shape() == composite.shape());
        let n_composites = data.operands.iter().filter(|&&operand| self.composite(operand).is_some()).count();
        match data.op {
            Op::Mul | Op::Div => n_composites == 1,
            op => catalogue::facts(op).is(OpTrait::ByComponent) && data.operands.iter().all(is_same),
        }
    }

    fn composite(&self, value: Value) -> Option<Composite> {
        self.function.ty(value).as_composite()
    }

    /// Returns true if everything that reads a number gives the same for minus the number.
    fn loses_sign(&self, value: Value) -> bool {
        let Some(readers) = self.readers.get(&value) else { return false };
        self.function.ty(value).is_float()
            && readers.iter().all(|reader| match reader.op {
                Op::Mul => reader.operands.iter().all(|&operand| operand == value),
                op => catalogue::facts(op).is(OpTrait::Even),
            })
    }

    /// Returns true if a bounded number, or one that rises or falls with it, is compared with a number and nothing
    /// else, so that the bounds have no say in that.
    fn is_only_compared(&self, data: &InstData, mut value: Value) -> bool {
        let is_number = |value: Value| self.function.as_const(value).is_some();
        let is_bounded = match data.op {
            Op::Clamp => data.operands.iter().skip(1).all(|&bound| is_number(bound)),
            _ => data.operands.iter().any(|&bound| is_number(bound)),
        };
        let ty = self.function.ty(value);
        if !is_bounded || ty.as_scalar().is_none() {
            return false;
        }
        loop {
            let Some(&[reader]) = self.readers.get(&value).map(|readers| &readers[..]) else { return false };
            let others = || reader.operands.iter().filter(|&&operand| operand != value).count();
            let is_with_number = others() == 1 && reader.operands.iter().any(|&operand| is_number(operand));
            match reader.op {
                op if catalogue::facts(op).order.is_some() => return is_with_number,
                Op::Neg if ty.is_float() => {}
                Op::Add | Op::Sub | Op::Mul if ty.is_float() && is_with_number => {}
                Op::Div if ty.is_float() && is_number(reader.operands[1]) => {}
                _ => return false,
            }
            value = reader.results[0];
        }
    }
}

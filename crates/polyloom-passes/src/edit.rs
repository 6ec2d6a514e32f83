//! What passes that rewrite a function in one forward walk share: substitution of values.
//!
//! HIR keeps no lists of uses. A pass that replaces a value walks the regions in order, as definitions precede uses
//! in structured SSA, and rewrites each instruction's operands when it comes to it.

use cranelift_entity::SecondaryMap;
use cranelift_entity::packed_option::PackedOption;
use polyloom_ir::{Function, Region, Value};

/// Values that other values stand for from here on.
#[derive(Default)]
pub(crate) struct ValueReplacements {
    map: SecondaryMap<Value, PackedOption<Value>>,
    any: bool,
}

impl ValueReplacements {
    /// Makes `to` stand for `from` in every instruction not visited yet.
    pub(crate) fn set(&mut self, from: Value, to: Value) {
        let to = self.get(to);
        debug_assert_ne!(from, to, "a value cannot stand for itself");
        self.map[from] = to.into();
        self.any = true;
    }

    /// The value that stands for `value`.
    pub(crate) fn get(&self, mut value: Value) -> Value {
        while let Some(next) = self.map[value].expand() {
            value = next;
        }
        value
    }

    /// Rewrites operands.
    pub(crate) fn apply(&self, operands: &mut [Value]) {
        if self.any {
            for operand in operands {
                *operand = self.get(*operand);
            }
        }
    }

    /// Returns true if anything was replaced.
    pub(crate) fn any(&self) -> bool {
        self.any
    }

    /// Rewrites the operands of every instruction under `region`.
    pub(crate) fn apply_to_region(&self, func: &mut Function, region: Region) {
        for index in 0..func.regions[region].insts.len() {
            let inst = func.regions[region].insts[index];
            self.apply(&mut func.insts[inst].operands);
            for inner in 0..func.insts[inst].regions.len() {
                self.apply_to_region(func, func.insts[inst].regions[inner]);
            }
        }
    }
}

//! Values that nothing reads, and values that a loop makes anew in each round although none of what they are made of
//! changes in it.

use super::finding::{EffectFinding, is_load, is_place};
use polyloom::{Function, Inst, InstData, Op, Region, Value};
use rustc_hash::{FxHashMap, FxHashSet};

/// The first of them in the function.
pub(super) fn find(function: &Function) -> Option<EffectFinding> {
    let mut read = FxHashSet::default();
    function.walk(function.body, &mut |_, data| read.extend(data.operands.iter().copied()));
    let mut search = LoopSearch { function, read, written: function.written_arrays(), depths: FxHashMap::default() };
    search.region(function.body, 0)
}

struct LoopSearch<'a> {
    function: &'a Function,
    /// The values that something reads.
    read: FxHashSet<Value>,
    /// True for each parameter that is an array the function writes.
    written: Vec<bool>,
    /// In how many loops each value changes.
    depths: FxHashMap<Value, u32>,
}

impl LoopSearch<'_> {
    fn region(&mut self, region: Region, depth: u32) -> Option<EffectFinding> {
        let region = &self.function.regions[region];
        self.depths.extend(region.params.iter().map(|&param| (param, depth)));
        region.insts.iter().find_map(|&inst| self.inst(inst, depth))
    }

    fn inst(&mut self, inst: Inst, depth: u32) -> Option<EffectFinding> {
        let data = &self.function.insts[inst];
        let changes = self.depth(data, depth);
        self.depths.extend(data.results.iter().map(|&result| (result, changes)));
        let inner = depth + u32::from(matches!(data.op, Op::ForRange | Op::While));
        if let Some(found) = data.regions.iter().find_map(|&region| self.region(region, inner)) {
            return Some(found);
        }
        let [result] = data.results[..] else { return None };
        let name = self.function.value_names[result].as_deref()?;
        if !data.op.info().is_pure() || is_place(data.op) || self.is_beginning(data) {
            return None;
        }
        let finding = |what| Some(EffectFinding { span: data.span, subject: name.to_owned(), what });
        match self.read.contains(&result) {
            false => finding("is computed and not used"),
            true if changes < depth && !self.is_whole(result) => {
                finding("does not change in the loop that computes it")
            }
            true => None,
        }
    }

    /// In how many of so many loops what an instruction gives changes.
    fn depth(&self, data: &InstData, depth: u32) -> u32 {
        let is_kept = |array: &Value| self.function.param_index(*array).is_some_and(|param| !self.written[param]);
        let depends_on_operands = match data.op {
            op if is_load(op) => data.operands.first().is_some_and(is_kept),
            op => op.info().is_pure(),
        };
        match depends_on_operands {
            true => data.operands.iter().filter_map(|operand| self.depths.get(operand)).copied().max().unwrap_or(0),
            false => depth,
        }
    }

    /// Returns true if it is an integer, because where a thread reads is written next to where it does so.
    fn is_whole(&self, value: Value) -> bool {
        let ty = self.function.ty(value);
        ty.as_scalar().is_some_and(|scalar| !scalar.is_float())
    }

    /// Returns true if it is what a variable or a member begins with.
    fn is_beginning(&self, data: &InstData) -> bool {
        let is_number = |operand: &Value| self.function.as_const(*operand).is_some();
        data.op == Op::Const || (data.op == Op::Construct && data.operands.iter().all(is_number))
    }
}

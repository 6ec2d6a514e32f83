//! Invariants 1 to 4: handles are in range, regions form a tree, values are where they say.
//!
//! What these checks walk may be arbitrarily broken, so they index nothing unchecked and do not recurse.

use super::invalid;
use crate::diagnostic::Diagnostic;
use crate::entity::{Inst, Region};
use crate::function::{Function, Imm, Module, ValueDef};
use crate::text::MAX_REGION_DEPTH;
use rustc_hash::FxHashSet;

pub(super) fn check(func: &Function, module: Option<&Module>, errors: &mut Vec<Diagnostic>) {
    let mut structure =
        StructureCheck { func, module, errors, owned: FxHashSet::default(), placed: FxHashSet::default() };
    structure.owned.insert(func.body);
    let mut pending = vec![(func.body, 1)];
    while let Some((region, depth)) = pending.pop() {
        structure.region(region, depth, &mut pending);
    }
}

struct StructureCheck<'a> {
    func: &'a Function,
    module: Option<&'a Module>,
    errors: &'a mut Vec<Diagnostic>,
    owned: FxHashSet<Region>,
    placed: FxHashSet<Inst>,
}

impl StructureCheck<'_> {
    fn error(&mut self, inst: Option<Inst>, message: String) {
        let span = inst.and_then(|inst| self.func.insts.get(inst)).map_or(self.func.span, |data| data.span);
        self.errors.push(invalid(span, message).help(format!("in @{}", self.func.name)));
    }

    fn region(&mut self, region: Region, depth: usize, pending: &mut Vec<(Region, usize)>) {
        let func = self.func;
        let Some(data) = func.regions.get(region) else {
            return self.error(None, format!("{region} does not exist"));
        };
        for (index, &param) in data.params.iter().enumerate() {
            match func.values.get(param) {
                None => self.error(None, format!("{param}, a parameter of {region}, does not exist")),
                Some(value) if value.def != ValueDef::Param(region, index as u32) => {
                    self.error(
                        None,
                        format!("{param} is not defined as parameter {index} of {region}, where it stands"),
                    );
                }
                Some(_) => {}
            }
        }
        for &inst in &data.insts {
            if self.placed.insert(inst) {
                self.inst(inst, depth, pending);
            } else {
                self.error(Some(inst), format!("{inst} stands in two places"));
            }
        }
    }

    fn inst(&mut self, inst: Inst, depth: usize, pending: &mut Vec<(Region, usize)>) {
        let func = self.func;
        let Some(data) = func.insts.get(inst) else {
            return self.error(None, format!("{inst} does not exist"));
        };
        for &operand in &data.operands {
            if !func.values.is_valid(operand) {
                self.error(Some(inst), format!("{operand}, an operand of `{}`, does not exist", data.op.name()));
            }
        }
        for (index, &result) in data.results.iter().enumerate() {
            match func.values.get(result) {
                None => self.error(Some(inst), format!("{result}, a result of `{}`, does not exist", data.op.name())),
                Some(value) if value.def != ValueDef::Result(inst, index as u32) => {
                    self.error(
                        Some(inst),
                        format!("{result} is not defined as result {index} of {inst}, where it stands"),
                    );
                }
                Some(_) => {}
            }
        }
        match data.imm {
            Imm::Target(target) if !func.insts.is_valid(target) => {
                self.error(Some(inst), format!("{target}, the target of `{}`, does not exist", data.op.name()));
            }
            Imm::Func(callee) if self.module.is_some_and(|module| !module.functions.is_valid(callee)) => {
                self.error(Some(inst), format!("{callee}, the callee of `{}`, does not exist", data.op.name()));
            }
            _ => {}
        }
        for &region in &data.regions {
            if !self.owned.insert(region) {
                self.error(Some(inst), format!("{region} has two owners"));
            } else if depth >= MAX_REGION_DEPTH {
                self.error(Some(inst), format!("regions nest more than {MAX_REGION_DEPTH} deep"));
            } else {
                pending.push((region, depth + 1));
            }
        }
    }
}

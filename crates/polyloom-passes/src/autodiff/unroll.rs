//! Loops over constants written out, iteration by iteration: what they carry is then in scope on the way back.

use super::instructions::written_again;
use cranelift_entity::SecondaryMap;
use cranelift_entity::packed_option::PackedOption;
use polyloom_ir::{Builder, Function, Inst, InstData, Op, Region, Scalar, Type, Value};
use smallvec::SmallVec;

type Values = SmallVec<[Value; 8]>;

/// Instructions that a function may grow to. Loops that would take more stay loops.
const MAX_INSTS: usize = 4096;

/// A function in structured form of whose loops over constants those that are `wanted` are written out.
pub(super) fn unrolled(old: &Function, wanted: &dyn Fn(Inst) -> bool) -> Function {
    let mut new = old.like();
    let params: Vec<Value> = new.params().to_vec();
    let mut unroller = LoopUnroller { old, wanted, builder: Builder::new(&mut new), values: SecondaryMap::new() };
    for (&param, &value) in old.params().iter().zip(&params) {
        unroller.values[param] = value.into();
    }
    let results = unroller.region(old.body);
    unroller.builder.return_(&results);
    new
}

struct LoopUnroller<'a> {
    old: &'a Function,
    wanted: &'a dyn Fn(Inst) -> bool,
    builder: Builder<'a>,
    values: SecondaryMap<Value, PackedOption<Value>>,
}

impl LoopUnroller<'_> {
    fn mapped(&self, old: &[Value]) -> Values {
        old.iter().map(|&value| self.values[value].expand().unwrap_or(value)).collect()
    }

    fn bind(&mut self, old: &[Value], new: &[Value]) {
        for (&old, &new) in old.iter().zip(new) {
            self.values[old] = new.into();
            self.builder.func.value_names[new] = self.old.value_names[old].clone();
        }
    }

    /// Writes the instructions of a region but its terminator, and gives what that hands out.
    fn region(&mut self, region: Region) -> Values {
        let old = self.old;
        let mut given = Values::new();
        for &inst in &old.regions[region].insts {
            let data = &old.insts[inst];
            self.builder.set_span(data.span);
            let operands = self.mapped(&data.operands);
            if data.op.info().is_terminator() {
                given = operands;
            } else if let Some(counters) = self.counters(inst) {
                self.iterations(data, &operands, &counters);
            } else if data.regions.is_empty() {
                let new = written_again(&mut self.builder, old, data, &operands);
                let results = self.builder.func.insts[new].results.clone();
                self.bind(&data.results, &results);
            } else {
                self.construct(data, &operands);
            }
        }
        given
    }

    fn construct(&mut self, data: &InstData, operands: &[Value]) {
        let old = self.old;
        let mut regions: SmallVec<[Region; 2]> = SmallVec::new();
        for &region in &data.regions {
            let params = &old.regions[region].params;
            let types: SmallVec<[Type; 8]> = params.iter().map(|&param| old.ty(param)).collect();
            let new = self.builder.create_region(&types);
            let around = self.builder.switch_to(new);
            let inner = self.builder.func.regions[new].params.clone();
            self.bind(params, &inner);
            let given = self.region(region);
            self.builder.yield_(&given);
            self.builder.switch_to(around);
            regions.push(new);
        }
        let types: SmallVec<[Type; 8]> = data.results.iter().map(|&result| old.ty(result)).collect();
        let new = self.builder.region_inst(data.op, operands, &types, &regions);
        let results = self.builder.func.insts[new].results.clone();
        self.bind(&data.results, &results);
    }

    fn iterations(&mut self, data: &InstData, operands: &[Value], counters: &[i64]) {
        let body = data.regions[0];
        let params = &self.old.regions[body].params;
        let scalar = self.old.ty(params[0]).as_scalar().unwrap_or(Scalar::I32);
        let mut carried: Values = operands[3..].into();
        for &counter in counters {
            let counter = self.builder.const_int(scalar, counter);
            self.bind(&params[..1], &[counter]);
            self.bind(&params[1..], &carried);
            carried = self.region(body);
        }
        self.bind(&data.results, &carried);
    }

    /// Returns what a loop counts through, if that is known and not too much.
    fn counters(&self, inst: Inst) -> Option<Vec<i64>> {
        let data = &self.old.insts[inst];
        if data.op != Op::ForRange || !(self.wanted)(inst) {
            return None;
        }
        let scalar = self.old.ty(data.operands[0]).as_scalar()?;
        let number = |value: Value| {
            let unused = 64 - scalar.bits();
            let bits = self.old.as_const(value)? << unused;
            Some(if scalar.is_signed_int() { bits as i64 >> unused } else { i64::try_from(bits >> unused).ok()? })
        };
        let (low, high, step) = (number(data.operands[0])?, number(data.operands[1])?, number(data.operands[2])?);
        let mut size = 0;
        self.old.walk(data.regions[0], &mut |_, _| size += 1);
        let n_places = MAX_INSTS.saturating_sub(self.builder.func.insts.len()) / (size + 1);
        let next = |&counter: &i64| counter.checked_add(step);
        let is_before = |&counter: &i64| if step > 0 { counter < high } else { counter > high };
        let counters = std::iter::successors(Some(low), next).take_while(is_before).take(n_places + 1);
        let counters: Vec<i64> = counters.collect();
        (step != 0 && counters.len() <= n_places).then_some(counters)
    }
}

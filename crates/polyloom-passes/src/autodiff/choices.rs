//! `choices_as_branches`: where a `where` chooses between values that are computed for it alone, it becomes an `if`
//! around computing them; what is computed before an `if` for one of its sides alone goes there.
//!
//! Both sides of a `where` are computed, and the adjoint of the side that is not chosen is zero. The derivatives there
//! may be infinite or NaN (`where(x > 0, sqrt(x), 0)` for an `x` of 0), of which nothing is left by multiplying with
//! zero. On the side of an `if` that is not taken nothing is computed.

use polyloom_ir::op::{Derivative, Effect, Group};
use polyloom_ir::{Function, Imm, Inst, InstData, Op, Region, Value, ValueDef};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

pub(super) fn choices_as_branches(func: &mut Function) {
    if !func.insts.values().any(|data| matches!(data.op, Op::Select | Op::If)) {
        return;
    }
    let mut n_uses = FxHashMap::default();
    func.walk(func.body, &mut |_, data| {
        for &operand in &data.operands {
            *n_uses.entry(operand).or_insert(0_u32) += 1;
        }
    });
    let mut pending = vec![func.body];
    while let Some(region) = pending.pop() {
        branches_of(func, region, &n_uses);
        for &inst in &func.regions[region].insts {
            pending.extend(&func.insts[inst].regions);
        }
    }
}

type Uses = FxHashMap<Value, u32>;

fn branches_of(func: &mut Function, region: Region, n_uses: &Uses) {
    let mut insts: Vec<Option<Inst>> = func.regions[region].insts.iter().copied().map(Some).collect();
    let places: FxHashMap<Inst, usize> =
        func.regions[region].insts.iter().enumerate().map(|(place, &inst)| (inst, place)).collect();
    let mut end = insts.len();
    while end > 0 {
        let last = end - 1;
        let Some(inst) = insts[last] else {
            end = last;
            continue;
        };
        if func.insts[inst].op == Op::If {
            let regions = func.insts[inst].regions.clone();
            for side in regions {
                let own = exclusive(func, used_in(func, side), last, &places, &insts, n_uses);
                if own.iter().any(|&place| insts[place].is_some_and(|inst| is_curved(&func.insts[inst]))) {
                    let own: Vec<Inst> = own.into_iter().filter_map(|place| insts[place].take()).collect();
                    func.regions[side].insts.splice(0..0, own);
                }
            }
        }
        if func.insts[inst].op != Op::Select {
            end = last;
            continue;
        }
        // Choices by one condition that follow each other, none of them between results of another: the components of
        // one choice.
        let cond = func.insts[inst].operands[0];
        let mut first = last;
        while let Some(before) = first.checked_sub(1).and_then(|place| insts[place]) {
            let data = &func.insts[before];
            let is_used =
                |inst: &Option<Inst>| inst.is_some_and(|inst| func.insts[inst].operands.contains(&data.results[0]));
            if data.op != Op::Select || data.operands[0] != cond || insts[first..end].iter().any(is_used) {
                break;
            }
            first -= 1;
        }
        let choices: SmallVec<[Inst; 4]> = insts[first..end].iter().copied().flatten().collect();
        end = first;
        let sides = [1, 2].map(|side| {
            let chosen = choices.iter().map(|&choice| func.insts[choice].operands[side]).collect();
            exclusive(func, chosen, first, &places, &insts, n_uses)
        });
        let matters = |&place: &usize| insts[place].is_some_and(|inst| is_curved(&func.insts[inst]));
        if !sides.iter().flatten().any(matters) {
            continue;
        }
        let sides = sides.map(|side| side.into_iter().filter_map(|place| insts[place].take()).collect::<Vec<Inst>>());
        insts[first] = Some(branch(func, &choices, cond, sides));
        insts[first + 1..first + choices.len()].fill(None);
    }
    func.regions[region].insts = insts.into_iter().flatten().collect();
}

/// What the instructions of a region use, as often as they do.
fn used_in(func: &Function, region: Region) -> Vec<Value> {
    let mut used = Vec::new();
    func.walk(region, &mut |_, data| used.extend(&data.operands));
    used
}

/// The places of what is computed for these uses of values alone, in order.
fn exclusive(
    func: &Function,
    uses: Vec<Value>,
    before: usize,
    places: &FxHashMap<Inst, usize>,
    insts: &[Option<Inst>],
    n_uses: &Uses,
) -> Vec<usize> {
    let mut found = Vec::new();
    let mut seen = Uses::default();
    let mut pending = uses;
    while let Some(value) = pending.pop() {
        *seen.entry(value).or_default() += 1;
        let ValueDef::Result(inst, _) = func.values[value].def else { continue };
        let data = &func.insts[inst];
        // Every use of each of its results is in what has been found.
        let is_own = data.results.iter().all(|result| seen.get(result) == n_uses.get(result));
        let is_pure = data.op.info().effect == Effect::Pure && data.regions.is_empty();
        match places.get(&inst) {
            Some(&place) if is_own && is_pure && place < before && insts[place].is_some() => {
                found.push(place);
                pending.extend(&data.operands);
            }
            _ => {}
        }
    }
    found.sort_unstable();
    found
}

/// Whether the derivative may be infinite or NaN where the result is not asked for.
fn is_curved(data: &InstData) -> bool {
    let info = data.op.info();
    let is_linear = matches!(data.op, Op::Add | Op::Sub | Op::Neg | Op::Pos | Op::Cast | Op::Select)
        || matches!(info.group, Group::Core)
        || matches!(data.op, Op::Construct | Op::Component | Op::WithComponent);
    !is_linear && info.derivative != Derivative::Zero
}

/// The `if` whose results are those of the choices.
fn branch(func: &mut Function, choices: &[Inst], cond: Value, sides: [Vec<Inst>; 2]) -> Inst {
    let span = func.insts[choices[0]].span;
    let results: SmallVec<[Value; 2]> = choices.iter().map(|&choice| func.insts[choice].results[0]).collect();
    let inst = func.make_inst(Op::If, [cond].as_slice(), &[], Imm::None, span);
    for (side, mut insts) in sides.into_iter().enumerate() {
        let values: SmallVec<[Value; 4]> =
            choices.iter().map(|&choice| func.insts[choice].operands[side + 1]).collect();
        insts.push(func.make_inst(Op::Yield, values.as_slice(), &[], Imm::None, span));
        let region = func.regions.push(Default::default());
        func.regions[region].insts = insts;
        func.insts[inst].regions.push(region);
    }
    for (index, &result) in results.iter().enumerate() {
        func.values[result].def = ValueDef::Result(inst, index as u32);
    }
    func.insts[inst].results = results;
    inst
}

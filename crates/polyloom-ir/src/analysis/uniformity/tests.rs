//! Small functions whose threads' agreement is plain to see.

use super::*;
use crate::builder::Builder;
use crate::function::{FunctionKind, ValueDef};
use crate::types::Type;
use smallvec::smallvec;

const F32_ARRAY: Type = Type::array(Scalar::F32, 1);
const I32_ARRAY: Type = Type::array(Scalar::I32, 1);
const EXACT: ValueShape = ValueShape::Affine { stride: 1, exact: true };

fn kernel(params: &[(&'static str, Type)]) -> Function {
    Function::new("k", FunctionKind::Kernel, params.iter().copied(), &[])
}

fn analyse(func: &Function) -> Uniformity {
    let module = Module::new();
    Uniformity::of(func, &UniformityContext { disjoint: &|_| true, ..UniformityContext::new(&module, 1) })
}

fn inst_of(func: &Function, value: Value) -> Inst {
    match func.values[value].def {
        ValueDef::Result(inst, _) => inst,
        ValueDef::Param(..) => panic!("{value} is a parameter"),
    }
}

/// `for counter in range(lo, hi, 1)` with these carried values; `body` gives the next ones.
fn for_range(
    b: &mut Builder<'_>,
    bounds: [Value; 3],
    inits: &[Value],
    body: impl FnOnce(&mut Builder<'_>, Inst, &[Value]) -> Vec<Value>,
) -> Inst {
    let (inst, region) = b.begin_for_range(bounds, inits);
    let outer = b.switch_to(region);
    let params = b.func.regions[region].params.to_vec();
    let next = body(b, inst, &params);
    b.yield_(&next);
    b.switch_to(outer);
    inst
}

/// `if cond { then }`, where `then` ends its region itself.
fn leave_if(b: &mut Builder<'_>, cond: Value, then: impl FnOnce(&mut Builder<'_>)) -> Inst {
    let (inst, regions) = b.begin_if(cond, &[]);
    let outer = b.switch_to(regions[0]);
    then(b);
    b.switch_to(regions[1]);
    b.yield_(&[]);
    b.switch_to(outer);
    inst
}

#[test]
fn index_arithmetic_is_affine() {
    let mut f = kernel(&[("n", Type::I32)]);
    let n = f.params()[0];
    let mut b = Builder::new(&mut f);
    let tid = b.tid(0);
    let one = b.const_int(Scalar::I32, 1);
    let next = b.op(Op::Add, &[tid, one]);
    let previous = b.op(Op::Sub, &[tid, one]);
    let shifted = b.op(Op::Add, &[tid, n]);
    let four = b.const_int(Scalar::I32, 4);
    let scaled = b.op(Op::Mul, &[four, tid]);
    let by_n = b.op(Op::Mul, &[n, tid]);
    let wide = b.cast(tid, Scalar::I64);
    let wide_shifted = b.cast(shifted, Scalar::I64);
    let wide_n = b.cast(n, Scalar::I64);
    let wide_sum = b.op(Op::Add, &[wide, wide_n]);
    let mirrored = b.op(Op::Sub, &[n, tid]);
    let difference = b.op(Op::Sub, &[shifted, tid]);
    let two = b.const_int(Scalar::I32, 2);
    let doubled = b.op(Op::Lshift, &[tid, two]);
    let below = b.op(Op::Lt, &[tid, n]);
    let product = b.op(Op::Mul, &[tid, tid]);
    let as_float = b.cast(tid, Scalar::F32);
    let as_unsigned = b.cast(previous, Scalar::U32);
    let narrow = b.cast(tid, Scalar::I8);
    b.return_(&[]);
    let u = analyse(&f);
    let wraps = |stride| ValueShape::Affine { stride, exact: false };
    for (value, shape) in [
        (tid, EXACT),
        (next, EXACT),
        (previous, EXACT),
        (n, ValueShape::Uniform),
        (shifted, wraps(1)),
        (scaled, wraps(4)),
        (by_n, ValueShape::Varying),
        (wide, EXACT),
        (wide_shifted, ValueShape::Varying),
        (wide_sum, EXACT),
        (mirrored, wraps(-1)),
        (difference, ValueShape::Uniform),
        (doubled, wraps(4)),
        (below, ValueShape::Varying),
        (product, ValueShape::Varying),
        (as_float, ValueShape::Varying),
        (as_unsigned, wraps(1)),
        (narrow, wraps(1)),
    ] {
        assert_eq!(u.shape(value), shape, "{value} in\n{f}");
    }
}

#[test]
fn only_the_innermost_coordinate_differs_in_a_row() {
    let mut f = kernel(&[]);
    let mut b = Builder::new(&mut f);
    let (outer, inner, absent) = (b.tid(0), b.tid(1), b.tid(2));
    let linear = b.inst(Op::TidLinear, &[], &[Type::I32], Imm::None);
    b.return_(&[]);
    let linear = f.insts[linear].results[0];
    let module = Module::new();
    let u = Uniformity::of(&f, &UniformityContext::new(&module, 2));
    assert_eq!(
        [outer, inner, absent, linear].map(|v| u.shape(v)),
        [ValueShape::Uniform, EXACT, ValueShape::Uniform, EXACT]
    );
}

#[test]
fn loads_are_uniform_only_from_arrays_nothing_writes() {
    let mut f = kernel(&[("read", F32_ARRAY), ("written", F32_ARRAY), ("overlapping", F32_ARRAY), ("i", Type::I32)]);
    let [read, written, overlapping, i] = f.params()[..] else { panic!() };
    let mut b = Builder::new(&mut f);
    let tid = b.tid(0);
    let loads = [(read, i), (read, tid), (written, i), (overlapping, i)].map(|(array, index)| {
        let value = b.op(Op::ArrayLoad, &[array, index]);
        b.inst(Op::ArrayStore, &[written, tid, value], &[], Imm::None);
        value
    });
    b.return_(&[]);
    assert_eq!(f.written_arrays(), [false, true, false, false]);
    let module = Module::new();
    let u = Uniformity::of(&f, &UniformityContext { disjoint: &|p| p != 2, ..UniformityContext::new(&module, 1) });
    let expected = [ValueShape::Uniform, ValueShape::Varying, ValueShape::Varying, ValueShape::Varying];
    assert_eq!(loads.map(|v| u.shape(v)), expected);
}

#[test]
fn branches_merge_by_their_condition() {
    let mut f = kernel(&[("n", Type::I32)]);
    let n = f.params()[0];
    let mut b = Builder::new(&mut f);
    let (tid, five) = (b.tid(0), b.const_int(Scalar::I32, 5));
    let uniform_cond = b.op(Op::Lt, &[n, five]);
    let varying_cond = b.op(Op::Lt, &[tid, n]);
    let results: Vec<Value> = [(uniform_cond, n), (uniform_cond, tid), (varying_cond, n), (varying_cond, five)]
        .map(|(cond, then)| b.if_else(cond, &[Type::I32], |_| Ok(smallvec![then]), |_| Ok(smallvec![five])).unwrap()[0])
        .to_vec();
    let same_tid = b.if_else(uniform_cond, &[Type::I32], |_| Ok(smallvec![tid]), |_| Ok(smallvec![tid])).unwrap()[0];
    b.return_(&[]);
    let u = analyse(&f);
    let shapes: Vec<ValueShape> = results.iter().map(|&v| u.shape(v)).collect();
    assert_eq!(shapes, [ValueShape::Uniform, ValueShape::Varying, ValueShape::Varying, ValueShape::Uniform]);
    assert_eq!(u.shape(same_tid), EXACT);
    assert!(u.cond_is_uniform(inst_of(&f, results[0])));
    assert!(!u.cond_is_uniform(inst_of(&f, results[2])));
    let in_branch = |value| f.regions[f.insts[inst_of(&f, value)].regions[0]].insts[0];
    assert!(!u.is_divergent(in_branch(results[0])));
    assert!(u.is_divergent(in_branch(results[2])));
    assert!(!u.is_divergent(*f.regions[f.body].insts.last().unwrap()));
}

#[test]
fn counters_stay_uniform_in_loops_that_end_apart() {
    let mut f = kernel(&[("n", Type::I32)]);
    let n = f.params()[0];
    let mut b = Builder::new(&mut f);
    let (tid, zero, one) = (b.tid(0), b.const_int(Scalar::I32, 0), b.const_int(Scalar::I32, 1));
    let count = |b: &mut Builder<'_>, _: Inst, params: &[Value]| vec![b.op(Op::Add, &[params[1], one])];
    let together = for_range(&mut b, [zero, n, one], &[zero], count);
    let apart = for_range(&mut b, [zero, tid, one], &[zero], count);
    let four = b.const_int(Scalar::I32, 4);
    let window_end = b.op(Op::Add, &[tid, four]);
    let window = for_range(&mut b, [tid, window_end, one], &[zero], count);
    b.return_(&[]);
    let u = analyse(&f);
    let counter = |inst: Inst| u.shape(f.regions[f.insts[inst].regions[0]].params[0]);
    let carried = |inst: Inst| u.shape(f.regions[f.insts[inst].regions[0]].params[1]);
    let result = |inst: Inst| u.shape(f.insts[inst].results[0]);
    let all = |inst| [counter(inst), carried(inst), result(inst)];
    assert_eq!(all(together), [ValueShape::Uniform; 3]);
    assert!(u.cond_is_uniform(together));
    assert_eq!(all(apart), [ValueShape::Uniform, ValueShape::Uniform, ValueShape::Varying]);
    assert!(!u.cond_is_uniform(apart));
    // tid + 4 may pass the largest i32 as far as types tell, so the trip counts may differ.
    assert_eq!(all(window), [EXACT, ValueShape::Uniform, ValueShape::Varying]);
}

#[test]
fn a_window_of_fixed_length_is_walked_in_step() {
    let mut f = kernel(&[]);
    let mut b = Builder::new(&mut f);
    let tid = b.tid(0);
    let start = b.cast(tid, Scalar::I64);
    let (four, one) = (b.const_int(Scalar::I64, 4), b.const_int(Scalar::I64, 1));
    let end = b.op(Op::Add, &[start, four]);
    let window = for_range(&mut b, [start, end, one], &[four], |_, _, params| vec![params[1]]);
    b.return_(&[]);
    let u = analyse(&f);
    assert!(u.cond_is_uniform(window));
    assert_eq!(u.shape(f.regions[f.insts[window].regions[0]].params[0]), EXACT);
    assert_eq!(u.shape(f.insts[window].results[0]), ValueShape::Uniform);
}

#[test]
fn a_value_made_varying_late_in_a_loop_is_varying_early_in_it() {
    let mut f = kernel(&[("n", Type::I32)]);
    let n = f.params()[0];
    let mut b = Builder::new(&mut f);
    let (tid, zero, one) = (b.tid(0), b.const_int(Scalar::I32, 0), b.const_int(Scalar::I32, 1));
    let mut early = None;
    // first, second = second, second * tid: the second is varying after one iteration, the first after two.
    let inst = for_range(&mut b, [zero, n, one], &[n, n], |b, _, params| {
        early = Some(b.op(Op::Add, &[params[1], one]));
        vec![params[2], b.op(Op::Mul, &[params[2], tid])]
    });
    b.return_(&[]);
    let u = analyse(&f);
    assert_eq!(u.shape(early.unwrap()), ValueShape::Varying);
    assert_eq!(u.shape(f.insts[inst].results[0]), ValueShape::Varying);
    assert!(u.cond_is_uniform(inst));
}

#[test]
fn pointers_that_advance_together_stay_affine() {
    let mut f = kernel(&[("n", Type::I32), ("pitch", Type::I32)]);
    let [n, pitch] = f.params()[..] else { panic!() };
    let mut b = Builder::new(&mut f);
    let (tid, zero, one) = (b.tid(0), b.const_int(Scalar::I32, 0), b.const_int(Scalar::I32, 1));
    let inst = for_range(&mut b, [zero, n, one], &[tid], |b, _, params| vec![b.op(Op::Add, &[params[1], pitch])]);
    b.return_(&[]);
    let u = analyse(&f);
    let wraps = ValueShape::Affine { stride: 1, exact: false };
    assert_eq!(u.shape(f.regions[f.insts[inst].regions[0]].params[1]), wraps);
    assert_eq!(u.shape(f.insts[inst].results[0]), wraps);
}

#[test]
fn a_divergent_break_makes_the_rest_of_the_loop_divergent() {
    let mut f = kernel(&[("n", Type::I32), ("data", I32_ARRAY)]);
    let [n, data] = f.params()[..] else { panic!() };
    let mut b = Builder::new(&mut f);
    let (tid, zero, one) = (b.tid(0), b.const_int(Scalar::I32, 0), b.const_int(Scalar::I32, 1));
    let mut seen = None;
    let inst = for_range(&mut b, [zero, n, one], &[zero], |b, label, params| {
        let first = b.op(Op::Add, &[params[1], one]);
        let element = b.op(Op::ArrayLoad, &[data, tid]);
        let stop = b.op(Op::Lt, &[element, params[0]]);
        let branch = leave_if(b, stop, |b| b.break_(label, &[first]));
        seen = Some((first, branch));
        vec![first]
    });
    let after = b.op(Op::Add, &[n, one]);
    b.return_(&[]);
    let u = analyse(&f);
    let (first, branch) = seen.unwrap();
    assert!(!u.cond_is_uniform(inst));
    assert!(!u.loses_threads(inst));
    assert!(u.loses_threads(branch));
    assert!(u.is_divergent(inst_of(&f, first)), "from the second iteration threads are missing");
    assert_eq!(u.shape(first), ValueShape::Uniform, "threads that are left are in the same iteration");
    assert_eq!(u.shape(f.insts[inst].results[0]), ValueShape::Varying);
    assert!(!u.is_divergent(inst_of(&f, after)), "all threads meet after the loop");
}

#[test]
fn a_divergent_continue_makes_carried_values_varying() {
    let mut f = kernel(&[("n", Type::I32)]);
    let n = f.params()[0];
    let mut b = Builder::new(&mut f);
    let (tid, zero, one) = (b.tid(0), b.const_int(Scalar::I32, 0), b.const_int(Scalar::I32, 1));
    let mut conds = Vec::new();
    let inst = for_range(&mut b, [zero, n, one], &[zero, zero], |b, label, params| {
        let (carried, kept) = (params[1], params[2]);
        let skip = b.op(Op::Eq, &[tid, params[0]]);
        conds.push(leave_if(b, skip, |b| b.continue_(label, &[carried, kept])));
        vec![b.op(Op::Add, &[carried, one]), kept]
    });
    b.return_(&[]);
    let u = analyse(&f);
    let params = &f.regions[f.insts[inst].regions[0]].params;
    assert_eq!([u.shape(params[1]), u.shape(params[2])], [ValueShape::Varying, ValueShape::Uniform]);
    assert!(u.cond_is_uniform(inst), "every thread runs every iteration");
    assert!(!u.is_divergent(conds[0]), "all threads meet at the next iteration");
}

#[test]
fn an_early_return_makes_what_follows_divergent() {
    let mut f = kernel(&[("n", Type::I32)]);
    let n = f.params()[0];
    let mut b = Builder::new(&mut f);
    let (tid, one) = (b.tid(0), b.const_int(Scalar::I32, 1));
    let uniform = b.op(Op::Lt, &[n, one]);
    let checked = leave_if(&mut b, uniform, |b| b.return_(&[]));
    let before = b.op(Op::Add, &[n, one]);
    let outside = b.op(Op::Ge, &[tid, n]);
    let guard = leave_if(&mut b, outside, |b| b.return_(&[]));
    let after = b.op(Op::Add, &[n, one]);
    b.return_(&[]);
    let u = analyse(&f);
    assert!(!u.loses_threads(checked) && u.loses_threads(guard));
    assert!(!u.is_divergent(inst_of(&f, before)));
    assert!(u.is_divergent(inst_of(&f, after)));
    assert_eq!(u.shape(after), ValueShape::Uniform);
}

/// An inlined function with two returns: `block { if cond { break a }; yield b }`.
fn block_with_break(b: &mut Builder<'_>, cond: Value, early: Value, late: Value) -> Inst {
    let region = b.create_region(&[]);
    let ty = b.func.ty(early);
    let block = b.region_inst(Op::Block, &[], &[ty], &[region]);
    let outer = b.switch_to(region);
    leave_if(b, cond, |b| b.break_(block, &[early]));
    b.yield_(&[late]);
    b.switch_to(outer);
    block
}

#[test]
fn blocks_merge_their_exits() {
    let mut f = kernel(&[("n", Type::I32)]);
    let n = f.params()[0];
    let mut b = Builder::new(&mut f);
    let (tid, one) = (b.tid(0), b.const_int(Scalar::I32, 1));
    let uniform = b.op(Op::Lt, &[n, one]);
    let varying = b.op(Op::Lt, &[tid, n]);
    let together = block_with_break(&mut b, uniform, n, one);
    let apart = block_with_break(&mut b, varying, n, one);
    let same = block_with_break(&mut b, varying, n, n);
    let after = b.op(Op::Add, &[n, one]);
    b.return_(&[]);
    let u = analyse(&f);
    let shape = |inst: Inst| u.shape(f.insts[inst].results[0]);
    assert_eq!([together, apart, same].map(shape), [ValueShape::Uniform, ValueShape::Varying, ValueShape::Uniform]);
    assert_eq!([together, apart].map(|inst| u.cond_is_uniform(inst)), [true, false]);
    assert!(!u.is_divergent(inst_of(&f, after)));
}

#[test]
fn leaving_a_block_from_iterations_apart_is_varying_even_by_one_exit() {
    let mut f = kernel(&[("n", Type::I32)]);
    let n = f.params()[0];
    let mut b = Builder::new(&mut f);
    let (tid, zero, one) = (b.tid(0), b.const_int(Scalar::I32, 0), b.const_int(Scalar::I32, 1));
    let region = b.create_region(&[]);
    let block = b.region_inst(Op::Block, &[], &[Type::I32], &[region]);
    let outer = b.switch_to(region);
    let inner = for_range(&mut b, [zero, n, one], &[], |b, _, params| {
        let found = b.op(Op::Eq, &[tid, params[0]]);
        let counter = params[0];
        leave_if(b, found, |b| b.break_(block, &[counter]));
        vec![]
    });
    b.inst(Op::Unreachable, &[], &[], Imm::None);
    b.switch_to(outer);
    b.return_(&[]);
    let u = analyse(&f);
    assert_eq!(u.shape(f.insts[block].results[0]), ValueShape::Varying);
    assert!(u.loses_threads(inner) && !u.cond_is_uniform(inner));
    assert!(!u.loses_threads(block));
}

#[test]
fn a_while_ends_apart_if_its_condition_varies() {
    let mut f = kernel(&[("n", Type::I32)]);
    let n = f.params()[0];
    let mut b = Builder::new(&mut f);
    let (tid, one) = (b.tid(0), b.const_int(Scalar::I32, 1));
    let [together, apart] = [n, tid].map(|limit| {
        let regions = [b.create_region(&[Type::I32]), b.create_region(&[Type::I32])];
        let inst = b.region_inst(Op::While, &[one], &[Type::I32], &regions);
        let outer = b.switch_to(regions[0]);
        let carried = b.func.regions[regions[0]].params[0];
        let cond = b.op(Op::Lt, &[carried, limit]);
        b.yield_(&[cond]);
        b.switch_to(regions[1]);
        let carried = b.func.regions[regions[1]].params[0];
        let next = b.op(Op::Add, &[carried, carried]);
        b.yield_(&[next]);
        b.switch_to(outer);
        inst
    });
    b.return_(&[]);
    let u = analyse(&f);
    assert_eq!([together, apart].map(|inst| u.cond_is_uniform(inst)), [true, false]);
    assert_eq!(
        [together, apart].map(|inst| u.shape(f.insts[inst].results[0])),
        [ValueShape::Uniform, ValueShape::Varying]
    );
    let body = |inst: Inst| f.regions[f.insts[inst].regions[1]].insts[0];
    assert_eq!([together, apart].map(|inst| u.is_divergent(body(inst))), [false, true]);
}

#[test]
fn calls_are_uniform_if_the_callee_is_the_same_in_every_thread() {
    let mut module = Module::new();
    let mut pure = Function::new("twice", FunctionKind::Func, [("x", Type::I32)], &[Type::I32]);
    let x = pure.params()[0];
    let mut b = Builder::new(&mut pure);
    let twice = b.op(Op::Add, &[x, x]);
    b.return_(&[twice]);
    let pure = module.functions.push(pure);
    let mut own = Function::new("mine", FunctionKind::Func, [("x", Type::I32)], &[Type::I32]);
    let mut b = Builder::new(&mut own);
    let tid = b.tid(0);
    b.return_(&[tid]);
    let own = module.functions.push(own);

    let mut f = kernel(&[("n", Type::I32)]);
    let n = f.params()[0];
    let mut b = Builder::new(&mut f);
    let tid = b.tid(0);
    let results = [(pure, n), (pure, tid), (own, n)].map(|(callee, arg)| b.call(callee, &[arg], &[Type::I32])[0]);
    b.return_(&[]);
    let u = Uniformity::of(&f, &UniformityContext::new(&module, 1));
    assert_eq!(results.map(|v| u.shape(v)), [ValueShape::Uniform, ValueShape::Varying, ValueShape::Varying]);
}

#[test]
fn parameters_take_the_shapes_given() {
    let mut f = Function::new("g", FunctionKind::Func, [("x", Type::F32), ("y", Type::F32)], &[Type::F32]);
    let [x, y] = f.params()[..] else { panic!() };
    let mut b = Builder::new(&mut f);
    let sum = b.op(Op::Add, &[x, y]);
    b.return_(&[sum]);
    let module = Module::new();
    let params = [ValueShape::Varying, ValueShape::Uniform];
    let u = Uniformity::of(&f, &UniformityContext { params: &params, ..UniformityContext::new(&module, 1) });
    assert_eq!([x, y, sum].map(|v| u.shape(v)), [ValueShape::Varying, ValueShape::Uniform, ValueShape::Varying]);
}

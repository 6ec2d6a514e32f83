//! Plans whose launches are given other arguments.

use polyloom::{
    ArgBlock, BoundLaunch, CpuQueue, ExprBuilder, Kernel, LaunchOptions, Module, Plan, PlanStep, Scalar, Session,
    SourceMap, Type,
};
use std::sync::Arc;

const ARRAY: Type = Type::array(Scalar::F32, 1);

/// `y[i] = x[i] + s * ones[at]`.
fn plus() -> Arc<Kernel> {
    let params = [("s", Type::F32), ("at", Type::I32), ("ones", ARRAY), ("x", ARRAY), ("y", ARRAY)];
    let kernel = ExprBuilder::kernel("plus", params, |b, [s, at, ones, x, y]| {
        let i = b.tid(0);
        y.store(&[i], x.load(&[i]) + s * ones.load(&[at]));
    });
    let mut module = Module::new();
    let id = module.functions.push(kernel.unwrap());
    Arc::new(Session::new().unwrap().compile_module(module, id, SourceMap::new()).unwrap())
}

/// Memory that outlives all launches.
fn memory(values: &[f32]) -> &'static mut [f32] {
    Box::leak(values.to_vec().into_boxed_slice())
}

fn launch(kernel: &Arc<Kernel>, s: f32, at: u64, x: *mut f32, y: *mut f32) -> Arc<BoundLaunch> {
    let mut args = ArgBlock::new();
    args.scalar(kernel.params(), Scalar::F32, s.to_bits().into()).unwrap();
    args.scalar(kernel.params(), Scalar::I32, at).unwrap();
    for array in [memory(&[1.0, 1.0]).as_mut_ptr(), x, y] {
        args.array(kernel.params(), Scalar::F32, array.cast(), &[2], &[4]).unwrap();
    }
    Arc::new(BoundLaunch::new(kernel.clone(), Arc::new(CpuQueue), &[2], args, &LaunchOptions::default()))
}

fn run(plan: &Plan) {
    // SAFETY: the memory outlives the launches, which access no element outside.
    unsafe { plan.run(&LaunchOptions::default()).unwrap() };
}

fn kernels(plan: &Plan) -> Vec<*const Kernel> {
    (0..plan.n_units()).filter_map(|unit| Some(Arc::as_ptr(plan.unit_launch(unit)?.kernel()))).collect()
}

#[test]
fn one_kernel_takes_other_arguments_as_long_as_arrays_overlap_as_they_did() {
    let kernel = plus();
    let [x, y, z, u, v] = [(); 5].map(|()| memory(&[1.0, 2.0]).as_mut_ptr());
    let (first, second) = (launch(&kernel, 1.0, 0, x, y), launch(&kernel, 10.0, 0, y, z));
    let mut plan = Plan::new([&first, &second].map(|step| PlanStep::Launch(step.clone())).into(), true);
    let [fused] = kernels(&plan)[..] else { panic!("{:?}", plan.explain()) };
    run(&plan);
    // SAFETY: nothing else uses the memory.
    let read = |at: *mut f32| unsafe { [*at, *at.add(1)] };
    assert_eq!((read(y), read(z)), ([2.0, 3.0], [12.0, 13.0]));

    assert!(plan.rebind(&[(1, launch(&kernel, 20.0, 0, y, z))]));
    run(&plan);
    assert_eq!((read(y), read(z)), ([2.0, 3.0], [22.0, 23.0]));

    // Other memory between them, the same for both.
    assert!(plan.rebind(&[(0, launch(&kernel, 5.0, 0, x, u)), (1, launch(&kernel, 20.0, 0, u, v))]));
    run(&plan);
    assert_eq!((read(u), read(v), read(y)), ([6.0, 7.0], [26.0, 27.0], [2.0, 3.0]));
    assert_eq!(kernels(&plan), [fused]);

    // Of the one alone: they were one memory, and are not.
    assert!(!plan.rebind(&[(1, launch(&kernel, 20.0, 0, y, v))]));
    // An access outside is refused before anything runs, which one kernel does not do.
    assert!(!plan.rebind(&[(0, launch(&kernel, 5.0, 2, x, u))]));
    // Another step than there is, and another kernel.
    assert!(!plan.rebind(&[(2, first.clone())]));
    assert!(!plan.rebind(&[(0, launch(&plus(), 5.0, 0, x, u))]));
    run(&plan);
    assert_eq!((read(u), read(v), read(y)), ([6.0, 7.0], [26.0, 27.0], [2.0, 3.0]));
}

#[test]
fn a_plan_of_other_steps_takes_over_the_kernels_that_launches_have_become() {
    let kernel = plus();
    let [x, y, z] = [(); 3].map(|()| memory(&[1.0, 2.0]).as_mut_ptr());
    let steps = |n: usize| -> Vec<PlanStep> {
        let all = [launch(&kernel, 1.0, 0, x, y), launch(&kernel, 2.0, 0, y, z), launch(&kernel, 3.0, 0, z, z)];
        all.into_iter().take(n).map(PlanStep::Launch).collect()
    };
    let plan = Plan::new(steps(2), true);
    let two = kernels(&plan);
    let plan = plan.with_steps(steps(3));
    let three = kernels(&plan);
    assert!(two.len() == 1 && three.len() == 1 && two != three);
    let plan = plan.with_steps(steps(2));
    assert_eq!(kernels(&plan), two);
    run(&plan.with_steps(steps(3)));
    // SAFETY: nothing else uses the memory.
    assert_eq!(unsafe { [*z, *z.add(1)] }, [7.0, 8.0]);
}

#[test]
fn launches_that_are_not_to_become_one_are_replaced_one_by_one() {
    let kernel = plus();
    let [x, y] = [(); 2].map(|()| memory(&[1.0, 2.0]).as_mut_ptr());
    let first = launch(&kernel, 1.0, 0, x, y);
    let mut plan = Plan::new(vec![PlanStep::Launch(first), PlanStep::Host(Arc::new(|| Ok(())))], false);
    assert!(plan.rebind(&[(0, launch(&kernel, 4.0, 0, x, y))]));
    assert!(!plan.rebind(&[(1, launch(&kernel, 4.0, 0, x, y))]));
    run(&plan);
    // SAFETY: nothing else uses the memory.
    assert_eq!(unsafe { [*y, *y.add(1)] }, [5.0, 6.0]);
    assert_eq!((plan.unit_steps(1), plan.unit_of(1), plan.unit_of(2)), (1..2, 1, 2));
}

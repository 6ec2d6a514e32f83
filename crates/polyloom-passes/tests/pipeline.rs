//! The whole pipeline leaves kernels in the form that back ends take.

use polyloom_ir::op::Lowering;
use polyloom_ir::{Builder, FloatMode, FuncId, Function, FunctionKind, Imm, Module, Op, Scalar, Type};
use polyloom_passes::{PipelineOptions, prepared};

const ARRAY: Type = Type::array(Scalar::F32, 1);

/// `y[i] = relu(sign(x[i]))` with an early return in `relu`.
fn module_with_calls() -> (Module, FuncId) {
    let mut module = Module::new();
    let mut relu = Function::new("relu", FunctionKind::Func, [("x", Type::F32)], &[Type::F32]);
    let x = relu.params()[0];
    let mut builder = Builder::new(&mut relu);
    let zero = builder.const_f32(0.0);
    let positive = builder.op(Op::Gt, &[x, zero]);
    let (_, regions) = builder.begin_if(positive, &[]);
    let body = builder.switch_to(regions[0]);
    builder.return_(&[x]);
    builder.switch_to(regions[1]);
    builder.yield_(&[]);
    builder.switch_to(body);
    builder.return_(&[zero]);
    let relu = module.functions.push(relu);

    let mut kernel = Function::new("k", FunctionKind::Kernel, [("x", ARRAY), ("y", ARRAY), ("i", Type::I32)], &[]);
    let [x, y, i] = kernel.params()[..] else { unreachable!("three parameters") };
    let mut builder = Builder::new(&mut kernel);
    let value = builder.op(Op::ArrayLoad, &[x, i]);
    let sign = builder.op(Op::Sign, &[value]);
    let clipped = builder.call(relu, &[sign], &[Type::F32]);
    builder.inst(Op::ArrayStore, &[y, i, clipped[0]], &[], Imm::None);
    builder.return_(&[]);
    let kernel = module.functions.push(kernel);
    (module, kernel)
}

#[test]
fn no_small_calls_or_library_ops_remain() {
    let (module, kernel) = module_with_calls();
    let (module, kernel) = prepared(&module, kernel, &PipelineOptions::default()).expect("prepares");
    assert_eq!(module.functions.len(), 1, "everything is inlined:\n{module}");
    let function = &module.functions[kernel];
    let mut wraps = 0;
    function.walk(function.body, &mut |_, data| {
        assert_ne!(data.op, Op::Call, "{module}");
        assert_ne!(data.op.info().lowering, Lowering::Library, "{module}");
        wraps += usize::from(data.op == Op::Dim);
    });
    assert_eq!(wraps, 2, "an unknown index is wrapped for each array:\n{module}");
}

#[test]
fn big_library_functions_stay_calls_and_share_what_they_call() {
    let mut module = Module::new();
    let mut kernel = Function::new("k", FunctionKind::Kernel, [("y", ARRAY), ("x", Type::F32)], &[]);
    let [y, x] = kernel.params()[..] else { unreachable!("two parameters") };
    let mut builder = Builder::new(&mut kernel);
    let i = builder.op(Op::TidLinear, &[]);
    let (sin, cos) = (builder.op(Op::Sin, &[x]), builder.op(Op::Cos, &[x]));
    let again = builder.op(Op::Sin, &[x]);
    let sum = builder.op(Op::Add, &[sin, cos]);
    let sum = builder.op(Op::Add, &[sum, again]);
    builder.inst(Op::ArrayStore, &[y, i, sum], &[], Imm::None);
    builder.return_(&[]);
    let kernel = module.functions.push(kernel);
    let (module, kernel) = prepared(&module, kernel, &PipelineOptions::default()).expect("prepares");
    let mut names: Vec<&str> = module.functions.values().map(|f| &*f.name).collect();
    names.sort_unstable();
    assert_eq!(names, ["cos.f32", "k", "reduce_angle.f32", "sin.f32"]);
    let mut n_calls = 0;
    module.functions[kernel].walk(module.functions[kernel].body, &mut |_, data| {
        n_calls += usize::from(data.op == Op::Call);
    });
    assert_eq!(n_calls, 2, "the second `sin` of one angle is the first:\n{module}");
}

/// A library function stays a call in a kernel whose float mode is not strict, through a user's function too: inlined,
/// its arithmetic would take on the kernel's mode.
#[test]
fn library_functions_stay_strict_in_the_functions_of_a_relaxed_kernel() {
    let mut module = Module::new();
    let mut helper = Function::new("helper", FunctionKind::Func, [("x", Type::F32)], &[Type::F32]);
    let x = helper.params()[0];
    let mut builder = Builder::new(&mut helper);
    let root = builder.op(Op::Rsqrt, &[x]);
    builder.return_(&[root]);
    let helper = module.functions.push(helper);
    let mut kernel = Function::new("k", FunctionKind::Kernel, [("y", ARRAY), ("x", Type::F32)], &[]);
    let [y, x] = kernel.params()[..] else { unreachable!("two parameters") };
    let mut builder = Builder::new(&mut kernel);
    let i = builder.op(Op::TidLinear, &[]);
    let value = builder.call(helper, &[x], &[Type::F32])[0];
    builder.inst(Op::ArrayStore, &[y, i, value], &[], Imm::None);
    builder.return_(&[]);
    let kernel = module.functions.push(kernel);
    for (mode, functions) in [
        (FloatMode::Strict, &["k"][..]),
        (FloatMode::Contract, &["k", "rsqrt.f32"]),
        (FloatMode::Fast, &["k", "rsqrt.f32"]),
    ] {
        module.functions[kernel].metadata.float_mode = mode;
        let (module, _) = prepared(&module, kernel, &PipelineOptions::default()).expect("prepares");
        let mut names: Vec<&str> = module.functions.values().map(|f| &*f.name).collect();
        names.sort_unstable();
        assert_eq!(names, functions, "in mode {}", mode.name());
    }
}

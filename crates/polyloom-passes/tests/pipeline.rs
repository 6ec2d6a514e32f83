//! The whole pipeline leaves kernels in the form that back ends take.

use polyloom_ir::op::Lowering;
use polyloom_ir::{Builder, FuncId, Function, FunctionKind, Imm, Module, Op, Scalar, Type};
use polyloom_passes::{Options, prepared};

const ARRAY: Type = Type::Array { elem: Scalar::F32, ndim: 1 };

/// `y[i] = relu(sign(x[i]))` with an early return in `relu`.
fn module_with_calls() -> (Module, FuncId) {
    let mut module = Module::new();
    let mut relu = Function::new("relu", FunctionKind::Func, [("x", Type::F32)], &[Type::F32]);
    let x = relu.params()[0];
    let mut builder = Builder::new(&mut relu);
    let zero = builder.const_f32(0.0);
    let positive = builder.op(Op::Gt, &[x, zero]);
    let regions = [builder.create_region(&[]), builder.create_region(&[])];
    builder.region_inst(Op::If, &[positive], &[], &regions);
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
    let (module, kernel) = prepared(&module, kernel, &Options::default()).expect("prepares");
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

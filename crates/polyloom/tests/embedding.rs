//! Kernels that come from no source text.

use polyloom::{
    ArgBlock, BuildError, Builder, Code, EmitOptions, ExprBuilder, Form, Function, FunctionKind, LaunchOptions, Module,
    Op, Scalar, Session, SourceFile, SourceMap, Type, parse_module,
};

const ARRAY: Type = Type::array(Scalar::F32, 1);

fn module_of(functions: impl IntoIterator<Item = Function>) -> Module {
    let mut module = Module::new();
    functions.into_iter().for_each(|function| _ = module.functions.push(function));
    module
}

#[test]
fn built_kernels_run() {
    let session = Session::new().unwrap();
    let square = ExprBuilder::function("square", &[("v", Type::F32)], &[Type::F32], |_, v| vec![v[0] * v[0]]).unwrap();
    let mut module = module_of([square]);
    let (callee, _) = module.functions.iter().next().unwrap();
    let kernel = ExprBuilder::kernel("k", [("n", Type::I32), ("x", ARRAY)], |b, [n, x]| {
        let i = b.tid(0);
        b.if_then(i.lt(x.extent(0)), || {
            let [sum] = b.for_range(0, n, 1, [x.load(&[i])], |counter, [sum]| [sum + counter.cast(Scalar::F32)]);
            let [halved] = b.while_loop([sum], |[v]| v.gt(4.0), |[v]| [v * 0.5]);
            let [squared] = b.call(callee, &[halved], [Type::F32]);
            let [result] = b.branch(squared.lt(1.0), || [squared], || [squared + 1.0]);
            x.store(&[i], result);
        });
    });
    let id = module.functions.push(kernel.unwrap());
    let kernel = session.compile_module(module, id, SourceMap::new()).unwrap();
    let mut x = [0.0f32, 0.5, 20.0];
    let mut args = ArgBlock::new();
    args.scalar(kernel.params(), Scalar::I32, 2).unwrap();
    args.slice(kernel.params(), &mut x, &[3]).unwrap();
    // SAFETY: `x` outlives the launch, and the kernel compares its index with its extent.
    unsafe { kernel.launch(&[4], &args, &LaunchOptions::default()).unwrap() };
    // 0 + 0 + 1 = 1 and 1.5; 21 is halved to 2.625.
    assert_eq!(x, [2.0, 3.25, 2.625 * 2.625 + 1.0]);
    let error = kernel.emit(Form::Ast, &EmitOptions::default()).unwrap_err();
    assert!(error.to_string().contains("made of HIR"), "{error}");
}

#[test]
fn each_form_that_is_asked_for_is_given() {
    let unit = polyloom::SourceUnit::parse(SourceFile::new(
        "k.py",
        "import polyloom as loom\n\n@loom.kernel\ndef k(x: loom.array(dtype=float)):\n    x[loom.tid()] = 1.0\n",
        1,
    ));
    let kernel = Session::new().unwrap().compile_file_kernel(&unit.unwrap(), "k").unwrap();
    let options = EmitOptions::default();
    let forms =
        [Form::Ast, Form::Hir, Form::Hir, Form::HirPrepared, Form::Cpp, Form::Cpp, Form::Cuda, Form::Asm, Form::Ast];
    let made = kernel.emit_forms(&forms, &options).unwrap();
    let alone: Vec<_> = forms.iter().map(|&form| kernel.emit(form, &options).unwrap()).collect();
    assert_eq!(made, alone);
    assert_eq!(kernel.emit_forms(&[], &options).unwrap(), Vec::<Vec<u8>>::new());
}

#[test]
fn the_cpu_is_one_device() {
    let [one, other] = [(); 2].map(|()| polyloom::device(polyloom::DeviceId::Cpu).unwrap());
    assert!(std::sync::Arc::ptr_eq(&one, &other));
}

#[test]
fn ptx_of_a_kernel_from_no_source_names_no_file() {
    if !polyloom::has_compute() {
        return;
    }
    let kernel = ExprBuilder::kernel("k", [("x", ARRAY)], |b, [x]| x.store(&[b.tid(0)], b.float(Scalar::F32, 1.0)));
    let mut module = Module::new();
    let id = module.functions.push(kernel.unwrap());
    let kernel = Session::new().unwrap().compile_module(module, id, SourceMap::new()).unwrap();
    let ptx = kernel.emit_text(Form::Ptx, &EmitOptions::default()).unwrap();
    assert!(!ptx.contains(".file") && !ptx.contains(".loc"), "{ptx}");
}

/// The body of a kernel that cannot be built.
type WrongBody = fn(&ExprBuilder, [polyloom::Expr<'_>; 2]);

#[test]
fn what_cannot_be_built_is_an_error() {
    let built =
        |write: WrongBody| ExprBuilder::kernel("k", [("a", Type::F32), ("x", ARRAY)], write).unwrap_err().to_string();
    let cases: [(WrongBody, &str); 9] = [
        (|b, _| _ = b.int(Scalar::F32, 1), "the type of an integer is one, not f32"),
        (|b, _| _ = b.float(Scalar::I32, 0.5), "the type of a fraction is a float, not i32"),
        (|_, [a, x]| _ = a + x, "no overload of `add` takes (f32, array<f32, 1>)"),
        (|_, [a, x]| x.store(&[a], a), "no overload of `array_store` takes (array<f32, 1>, f32, f32)"),
        (|_, [_, x]| _ = x * 2.0, "an operand is a scalar, not array<f32, 1>"),
        (|_, [a, _]| _ = a.extent(0), "what has an extent is an array of that axis, not f32 with axis 0"),
        (|b, [a, _]| b.if_then(a, || ()), "a condition is a bool, not f32"),
        (|b, [a, _]| _ = b.for_range(0, a, 1, [], |_, []| []), "the end of a range is an integer, not f32"),
        (
            |b, [a, _]| _ = b.while_loop([a], |[v]| v.lt(1.0), |[v]| [v.cast(Scalar::F64)]),
            "the body of a loop hands on (f64), not (f32)",
        ),
    ];
    for (write, message) in cases {
        assert_eq!(built(write), message);
    }
}

#[test]
fn builders_of_single_instructions_return_errors() {
    let mut function = Function::new("k", FunctionKind::Kernel, [("a", Type::F32), ("x", ARRAY)], &[]);
    let (a, x) = (function.params()[0], function.params()[1]);
    let mut b = Builder::new(&mut function);
    let i = b.tid(0);
    let [zero, one] = [0, 1].map(|number| b.const_int(Scalar::I32, number));
    let sum = b.for_range([zero, i, one], &[a], |b, _, sum| {
        let element = b.load(x, &[i])?;
        Ok([b.try_op(Op::Add, &[sum[0], element])?].into_iter().collect())
    });
    b.store(x, &[i], sum.unwrap()[0]).unwrap();
    assert!(matches!(b.load(x, &[i, i]), Err(BuildError::NoOverload { op: "array_load", .. })));
    assert!(matches!(b.try_op(Op::ArrayStore, &[x, i, a]), Err(BuildError::ResultCount { found: 0, .. })));
    let error = b.for_range([zero, a, one], &[], |_, _, _| Ok(Default::default())).unwrap_err();
    assert_eq!(error.to_string(), "a bound of a range is of the start's type, not f32");
}

#[test]
fn modules_that_are_not_valid_are_refused() {
    let session = Session::new().unwrap();
    let text = "func @f() {\n  return\n}\n\nkernel @k(%0 x: array<f32, 1>) {\n  %1: i32 = tid 7\n  return\n}\n";
    let mut sources = SourceMap::new();
    let file = sources.add(SourceFile::new("k.hir", text, 1));
    let module = parse_module(text, file).unwrap();
    let ids: Vec<_> = module.functions.keys().collect();
    let error = session.compile_module(module.clone(), ids[1], sources.clone()).err().unwrap();
    assert!(error.render(false).contains("k.hir:6:3"), "{}", error.render(false));
    let error = session.compile_module(module.clone(), ids[0], sources.clone()).err().unwrap();
    assert_eq!(error.diagnostics[0].code, Code::NoKernel);
    let error = session.compile_module(Module::new(), ids[1], sources).err().unwrap();
    assert_eq!(error.diagnostics[0].code, Code::NoKernel);
}

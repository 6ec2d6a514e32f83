//! Programs beyond the compiler's limits are diagnosed, with the function at fault, and nothing overflows.

use polyloom_ir::{Builder, Code, FuncId, Function, FunctionKind, Module, Op, Type};
use polyloom_passes::{PipelineOptions, prepared};

/// A module of functions built one after the other, each given the one before, and a kernel that calls the last.
fn chain(n: usize, body: impl Fn(&mut Builder<'_>, Option<FuncId>)) -> (Module, FuncId) {
    let mut module = Module::new();
    let mut previous = None;
    for index in 0..n {
        let mut func = Function::new(format!("f{index}"), FunctionKind::Func, [("x", Type::F32)], &[Type::F32]);
        body(&mut Builder::new(&mut func), previous);
        previous = Some(module.functions.push(func));
    }
    let mut kernel = Function::new("k", FunctionKind::Kernel, [("x", Type::F32)], &[]);
    let x = kernel.params()[0];
    let mut builder = Builder::new(&mut kernel);
    if let Some(last) = previous {
        builder.call(last, &[x], &[Type::F32]);
    }
    builder.return_(&[]);
    let kernel = module.functions.push(kernel);
    (module, kernel)
}

fn message(module: &Module, kernel: FuncId) -> String {
    let errors = prepared(module, kernel, &PipelineOptions::default()).expect_err("it is too large");
    assert_eq!(errors[0].code, Code::Limit);
    assert!(errors[0].help.is_some());
    errors[0].message.clone()
}

#[test]
fn code_that_doubles_with_each_call() {
    let (module, kernel) = chain(40, |builder, previous| {
        let mut x = builder.func.params()[0];
        for _ in 0..2 {
            x = match previous {
                Some(callee) => builder.call(callee, &[x], &[Type::F32])[0],
                None => builder.op(Op::Add, &[x, x]),
            };
        }
        builder.return_(&[x]);
    });
    assert_eq!(message(&module, kernel), "`f15` grows beyond 50000 instructions by inlining `f14`");
}

#[test]
fn chains_of_calls() {
    let (module, kernel) = chain(1000, |builder, previous| {
        let mut x = builder.func.params()[0];
        if let Some(callee) = previous {
            x = builder.call(callee, &[x], &[Type::F32])[0];
        }
        builder.return_(&[x]);
    });
    assert_eq!(message(&module, kernel), "calls are nested more than 128 deep at `f871`");
}

/// Each function but the first calls at depth 21, so function n nests 21 n deep.
#[test]
fn regions_that_nest_with_each_call() {
    let (module, kernel) = chain(100, |builder, previous| {
        let x = builder.func.params()[0];
        let Some(callee) = previous else { return builder.return_(&[x]) };
        fn nested(builder: &mut Builder<'_>, callee: FuncId, depth: usize) {
            let x = builder.func.params()[0];
            if depth == 0 {
                let result = builder.call(callee, &[x], &[Type::F32]);
                return builder.return_(&result);
            }
            let cond = builder.const_bool(true);
            let (_, regions) = builder.begin_if(cond, &[]);
            let outer = builder.switch_to(regions[0]);
            nested(builder, callee, depth - 1);
            builder.switch_to(regions[1]);
            builder.yield_(&[]);
            builder.switch_to(outer);
            builder.return_(&[x]);
        }
        nested(builder, callee, 20);
    });
    assert_eq!(message(&module, kernel), "branches and loops nest more than 448 deep where `f22` calls `f21`");
}

/// Each function leaves early 32 times and then calls the one before: every exit turned into a branch would add a
/// level.
#[test]
fn early_exits_of_functions_in_functions() {
    let (module, kernel) = chain(20, |builder, previous| {
        let x = builder.func.params()[0];
        for n in 0..32 {
            let limit = builder.const_f32(n as f32);
            let is_equal = builder.op(Op::Eq, &[x, limit]);
            let (_, regions) = builder.begin_if(is_equal, &[]);
            let outer = builder.switch_to(regions[0]);
            builder.return_(&[limit]);
            builder.switch_to(regions[1]);
            builder.yield_(&[]);
            builder.switch_to(outer);
        }
        let sum = builder.op(Op::Add, &[x, x]);
        let result = match previous {
            Some(callee) => builder.call(callee, &[sum], &[Type::F32])[0],
            None => sum,
        };
        builder.return_(&[result]);
    });
    let (module, _) = prepared(&module, kernel, &PipelineOptions::default()).expect("blocks that stay nest no deeper");
    assert_eq!(polyloom_ir::verify_module(&module), Ok(()));
}

/// Looking at one selection leads to the conditions of all before it.
#[test]
fn chains_of_selections() {
    let array = Type::array(polyloom_ir::Scalar::F32, 1);
    let mut kernel = Function::new("k", FunctionKind::Kernel, [("a", array)], &[]);
    let a = kernel.params()[0];
    let mut builder = Builder::new(&mut kernel);
    let mut x = builder.tid(0);
    let seven = builder.const_int(polyloom_ir::Scalar::I32, 7);
    for _ in 0..2000 {
        let above = builder.op(Op::Gt, &[x, seven]);
        let wrapped = builder.op(Op::Sub, &[x, seven]);
        x = builder.op(Op::Select, &[above, wrapped, x]);
    }
    let element = builder.op(Op::ArrayLoad, &[a, x]);
    builder.inst(Op::ArrayStore, &[a, x, element], &[], polyloom_ir::Imm::None);
    builder.return_(&[]);
    let mut module = Module::new();
    let kernel = module.functions.push(kernel);
    prepared(&module, kernel, &PipelineOptions::default()).expect("it is small");
}

/// Each block asks for its own exits among those of all.
#[test]
fn many_blocks_with_exits() {
    let array = Type::array(polyloom_ir::Scalar::I32, 1);
    let mut kernel = Function::new("k", FunctionKind::Kernel, [("a", array)], &[]);
    let a = kernel.params()[0];
    let mut builder = Builder::new(&mut kernel);
    let i = builder.tid(0);
    for _ in 0..10_000 {
        let body = builder.create_region(&[]);
        let block = builder.region_inst(Op::Block, &[], &[], &[body]);
        let outer = builder.switch_to(body);
        builder.inst(Op::ArrayStore, &[a, i, i], &[], polyloom_ir::Imm::None);
        builder.inst(Op::Break, &[], &[], polyloom_ir::Imm::Target(block));
        builder.switch_to(outer);
    }
    builder.return_(&[]);
    let mut module = Module::new();
    let kernel = module.functions.push(kernel);
    prepared(&module, kernel, &PipelineOptions::default()).expect("it is small");
}

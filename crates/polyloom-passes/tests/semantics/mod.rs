//! Every pass keeps what a program computes: random programs, run by the interpreter before and after.
//!
//! `POLYLOOM_FUZZ_ITERATIONS` sets how many, `POLYLOOM_FUZZ_SEED` which come first.

mod program;

use polyloom_ir::generate::Random;
use polyloom_ir::interp::{BufferMemory, InterpArg, InterpError, Interpreter, PrintingHost};
use polyloom_ir::{FuncId, Module, Op, Scalar, Type, eval, verify_module};
use polyloom_passes::{PASSES, PassContext, PipelineOptions, prepared};
use program::{ARRAYS, EXTENT, SCALARS, program, value};

const SHAPE: [u64; 2] = [3, 2];

/// The arrays after a launch, NaNs made one.
fn run(module: &Module, kernel: FuncId, seed: u64) -> Result<Vec<Vec<u64>>, InterpError> {
    let mut random = Random::new(seed);
    let mut memory = BufferMemory::default();
    let mut args = Vec::new();
    for (_, elem, ndim) in ARRAYS {
        let n = EXTENT.pow(ndim.into());
        let elements: Vec<u64> = (0..n).map(|_| value(&mut random, elem)).collect();
        args.push(memory.add_array(elem, &vec![EXTENT; ndim.into()], &elements));
    }
    args.extend(SCALARS.map(|(_, scalar)| InterpArg::Scalar(value(&mut random, scalar))));
    let interpreter = Interpreter::new(module, kernel)?.with_max_steps(100_000);
    interpreter.launch(&SHAPE, &args, &mut memory, &mut PrintingHost::default(), 0..SHAPE[0] * SHAPE[1])?;
    let arrays = ARRAYS.iter().zip(&args);
    Ok(arrays.map(|(&(_, elem, _), &arg)| canonical(elem, memory.elements(elem, arg))).collect())
}

fn canonical(elem: Scalar, elements: Vec<u64>) -> Vec<u64> {
    let is_nan = |bits| eval::eval(Op::Ne, &[Type::from(elem); 2], &[bits, bits], Type::BOOL) == Some(1);
    elements.into_iter().map(|bits| if is_nan(bits) { u64::MAX } else { bits }).collect()
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

fn assert_valid(module: &Module, what: &str) {
    if let Err(errors) = verify_module(module) {
        let messages: Vec<_> = errors.iter().map(|e| e.message.as_str()).collect();
        panic!("after {what}: {}\n{module}", messages.join("; "));
    }
}

#[test]
fn passes_keep_what_programs_compute() {
    let first = number("POLYLOOM_FUZZ_SEED", 1) << 32;
    let n_programs = number("POLYLOOM_FUZZ_ITERATIONS", 300);
    let mut n_run = 0;
    for seed in first..first + n_programs {
        let (module, kernel) = program(seed);
        assert_valid(&module, "generation");
        let before = match run(&module, kernel, seed) {
            Err(InterpError::StepLimit { .. }) => continue,
            result => result,
        };
        assert!(before.is_ok(), "seed {seed}: {before:?}\n{module}");
        n_run += 1;
        for pass in PASSES.iter().filter(|pass| pass.name != "insert_checks") {
            let mut copy = module.clone();
            let functions: Vec<FuncId> = copy.functions.keys().collect();
            for id in functions {
                (pass.run)(&mut copy, id, &PassContext::default()).expect("small programs have no limits");
            }
            assert_valid(&copy, pass.name);
            let after = run(&copy, kernel, seed);
            assert_eq!(before, after, "seed {seed}, pass {}\nbefore:\n{module}\nafter:\n{copy}", pass.name);
        }
        let (copy, id) = prepared(&module, kernel, &PipelineOptions::default()).expect("small programs have no limits");
        assert_valid(&copy, "prepare");
        let after = run(&copy, id, seed);
        assert_eq!(before, after, "seed {seed}, prepared\nbefore:\n{module}\nafter:\n{copy}");
        no_index_is_negative(&copy, id, seed);

        let (copy, id) = prepared(&module, kernel, &PipelineOptions { checked: true, ..Default::default() })
            .expect("small programs have no limits");
        assert_valid(&copy, "prepare, checked");
        match run(&copy, id, seed) {
            // Programs divide by zero, but they index no array outside.
            Err(InterpError::Trap(trap)) => {
                let data = &copy.functions[id].insts[trap.site.inst];
                assert_eq!(data.imm, polyloom_ir::Imm::Check(polyloom_ir::CheckKind::Division), "seed {seed}\n{copy}");
            }
            after => assert_eq!(before, after, "seed {seed}, checked\nbefore:\n{module}\nafter:\n{copy}"),
        }
    }
    assert!(n_run * 10 > n_programs * 9, "only {n_run} of {n_programs} programs ended in time");
}

/// Reads every index as unsigned: the interpreter would wrap a negative one, back ends do not.
fn no_index_is_negative(module: &Module, kernel: FuncId, seed: u64) {
    use polyloom_ir::op::OpGroup;
    let mut unsigned = module.clone();
    let func = &mut unsigned.functions[kernel];
    let regions: Vec<_> = func.regions.keys().collect();
    for region in regions {
        let insts = std::mem::take(&mut func.regions[region].insts);
        let mut new = Vec::new();
        for inst in insts {
            let data = &func.insts[inst];
            if matches!(data.op.info().group, OpGroup::Array | OpGroup::Atomic) {
                let (_, ndim) = func.ty(data.operands[0]).as_array().expect("the first operand is an array");
                for axis in 0..usize::from(ndim) {
                    let index = func.insts[inst].operands[1 + axis];
                    let to = match func.ty(index).as_scalar() {
                        Some(Scalar::I8) => Scalar::U8,
                        Some(Scalar::I16) => Scalar::U16,
                        Some(Scalar::I32) => Scalar::U32,
                        Some(Scalar::I64) => Scalar::U64,
                        _ => continue,
                    };
                    let cast = func.make_inst(
                        Op::Cast,
                        [index].as_slice(),
                        &[to.into()],
                        polyloom_ir::Imm::None,
                        polyloom_ir::Span::NONE,
                    );
                    new.push(cast);
                    func.insts[inst].operands[1 + axis] = func.insts[cast].results[0];
                }
            }
            new.push(inst);
        }
        func.regions[region].insts = new;
    }
    let result = run(&unsigned, kernel, seed);
    assert!(result.is_ok(), "seed {seed}: {result:?}\n{module}");
}

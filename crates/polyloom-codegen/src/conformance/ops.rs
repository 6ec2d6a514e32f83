//! Every native op on every type it takes, against [`polyloom_ir::eval`].

use super::launch::{dense, run};
use super::values::{RandomOperands, edges, reciprocal_is_normal, to_f64};
use super::{EngineSubject, HirPreparation};
use polyloom_ir::eval::{OpEvaluator, evaluator};
use polyloom_ir::interp::BufferMemory;
use polyloom_ir::op::{OpInfo, TyPattern};
use polyloom_ir::{Builder, FloatMode, FuncId, Function, FunctionKind, Module, Op, Scalar, Type, verify_module};

/// One op on one combination of types.
struct OpCase {
    op: Op,
    operands: Vec<Scalar>,
    result: Scalar,
    evaluator: OpEvaluator,
}

impl OpCase {
    fn new(op: Op, operands: &[Scalar], result: Scalar) -> Option<OpCase> {
        let types: Vec<Type> = operands.iter().map(|&s| s.into()).collect();
        let evaluator = evaluator(op, &types, result.into())?;
        Some(OpCase { op, operands: operands.to_vec(), result, evaluator })
    }

    fn expected(&self, operands: &[u64]) -> u64 {
        match (self.evaluator, operands) {
            (OpEvaluator::Unary(f), &[x]) => f(x),
            (OpEvaluator::Binary(f), &[a, b]) => f(a, b),
            (OpEvaluator::Ternary(f), &[a, b, c]) => f(a, b, c),
            _ => panic!("`{}` does not take {} operands", self.op.name(), operands.len()),
        }
    }

    /// Returns true if a back end may give `got` for these operands. In the mode `fast` a division may be a
    /// multiplication by the reciprocal, so that it has no bound where the reciprocal overflows or underflows, and its
    /// floor may be the next integer.
    fn agrees(&self, subject: &EngineSubject<'_>, operands: &[u64], got: u64) -> bool {
        let (ty, want) = (self.result, self.expected(operands));
        let divides = matches!(self.op, Op::Div | Op::FloorDiv) && ty.is_float();
        if divides && subject.float_mode == FloatMode::Fast {
            let next = || (to_f64(ty, want) - to_f64(ty, got)).abs() <= 1.0;
            return !reciprocal_is_normal(ty, operands[1])
                || subject.agrees(ty, want, got)
                || (self.op == Op::FloorDiv && next());
        }
        subject.agrees(ty, want, got)
    }

    fn describe(&self, operands: &[u64], got: u64) -> String {
        let types: Vec<&str> = self.operands.iter().map(|s| s.name()).collect();
        let want = self.expected(operands);
        format!("{} of {types:?} to {}, operands {operands:#x?}: {got:#x}, not {want:#x}", self.op.name(), self.result)
    }

    /// Emits the op on these values.
    fn emit(&self, builder: &mut Builder<'_>, operands: &[polyloom_ir::Value]) -> polyloom_ir::Value {
        match self.op {
            Op::Cast => builder.cast(operands[0], self.result),
            Op::Bitcast => builder.bitcast(operands[0], self.result),
            _ => builder.op(self.op, operands),
        }
    }
}

/// Every case of the table but conversions, which are many.
fn cases() -> Vec<OpCase> {
    let mut cases = Vec::new();
    let of_threads_alone =
        |info: &&polyloom_ir::op::OpInfo| !info.needs_blocks() && info.group != polyloom_ir::op::OpGroup::Gpu;
    for info in Op::all().filter(of_threads_alone).filter(|info| info.op != Op::Cast && info.op != Op::Bitcast) {
        for signature in &info.signatures {
            let members: Vec<Option<Scalar>> = match signature.var {
                Some(class) => class.members().map(Some).collect(),
                None => vec![None],
            };
            for var in members {
                cases.extend(case_with(info, signature, var));
            }
        }
    }
    cases
}

fn case_with(info: &OpInfo, signature: &polyloom_ir::op::Signature, var: Option<Scalar>) -> Option<OpCase> {
    let scalar = |pattern: TyPattern| match pattern {
        TyPattern::Var => var,
        TyPattern::Is(scalar) => Some(scalar),
        _ => None,
    };
    let operands: Option<Vec<Scalar>> = signature.params.iter().map(|param| scalar(param.ty)).collect();
    let [result] = signature.results[..] else { return None };
    OpCase::new(info.op, &operands?, scalar(result)?)
}

/// Operand rows: all combinations of edges, thinned so that three operands stay affordable, and random ones.
fn rows(case: &OpCase, random: &mut RandomOperands) -> Vec<Vec<u64>> {
    let edges: Vec<Vec<u64>> = case.operands.iter().map(|&ty| edges(ty)).collect();
    let step = if case.operands.len() > 2 { 3 } else { 1 };
    let mut rows: Vec<Vec<u64>> = vec![Vec::new()];
    for (position, values) in edges.iter().enumerate() {
        let step = if values.len() < 8 { 1 } else { step };
        // Each operand starts elsewhere, so that thinning does not always keep the same values.
        let kept = || values.iter().skip(position % step).step_by(step);
        rows = rows.iter().flat_map(|row| kept().map(move |&v| [&row[..], &[v]].concat())).collect();
    }
    for _ in 0..512 {
        rows.push(case.operands.iter().map(|&ty| random.value(ty)).collect());
    }
    rows
}

/// A kernel whose parameters are arrays of `params` and, last, of `result`.
fn kernel(
    params: &[Scalar],
    result: Scalar,
    result_ndim: u8,
    body: impl FnOnce(&mut Builder<'_>, &[polyloom_ir::Value], polyloom_ir::Value),
) -> (Module, FuncId) {
    let array = |elem, ndim| Type::array(elem, ndim);
    let names = ["a", "b", "c"];
    let all = names.iter().copied().zip(params.iter().map(|&elem| array(elem, 1)));
    let all = all.chain([("out", array(result, result_ndim))]);
    let mut function = Function::new("case", FunctionKind::Kernel, all, &[]);
    let values = function.params().to_vec();
    let mut builder = Builder::new(&mut function);
    let thread = builder.tid(0);
    body(&mut builder, &values, thread);
    builder.return_(&[]);
    let mut module = Module::new();
    let id = module.functions.push(function);
    if let Err(errors) = verify_module(&module) {
        panic!("{errors:?}\n{module}");
    }
    (module, id)
}

fn load_element(
    builder: &mut Builder<'_>,
    array: polyloom_ir::Value,
    thread: polyloom_ir::Value,
) -> polyloom_ir::Value {
    builder.op(Op::ArrayLoad, &[array, thread])
}

fn check(subject: &EngineSubject<'_>, case: &OpCase, random: &mut RandomOperands) {
    let (module, id) = kernel(&case.operands, case.result, 1, |builder, params, thread| {
        let (&out, inputs) = params.split_last().expect("an output");
        let operands: Vec<_> = inputs.iter().map(|&array| load_element(builder, array, thread)).collect();
        let value = case.emit(builder, &operands);
        builder.inst(Op::ArrayStore, &[out, thread, value], &[], polyloom_ir::Imm::None);
    });
    let rows = rows(case, random);
    let mut memory = BufferMemory::default();
    let mut args = Vec::new();
    for (position, &ty) in case.operands.iter().enumerate() {
        let column: Vec<u64> = rows.iter().map(|row| row[position]).collect();
        args.push(dense(&mut memory, ty, &[rows.len()], &column));
    }
    args.push(dense(&mut memory, case.result, &[rows.len()], &vec![0; rows.len()]));
    let total = rows.len() as u64;
    let facts = super::launch::facts(&module.functions[id], &args);
    let (prepared, id, code) = subject.load(&module, id, HirPreparation::Unchecked, 1, facts);
    run(&code, &prepared.functions[id], &[total], &args, &mut memory, std::slice::from_ref(&(0..total)));
    let results = memory.elements(case.result, args[args.len() - 1]);
    for (row, &got) in rows.iter().zip(&results) {
        assert!(case.agrees(subject, row, got), "{}: {}\n{prepared}", subject.name(), case.describe(row, got));
    }
}

/// Every op but conversions, all operands in memory.
pub fn elementwise(subject: &EngineSubject<'_>) {
    let mut random = RandomOperands::new(1);
    for case in cases() {
        check(subject, &case, &mut random);
    }
}

/// Every conversion between scalar types.
pub fn casts(subject: &EngineSubject<'_>) {
    let mut random = RandomOperands::new(2);
    for from in Scalar::ALL {
        for to in Scalar::ALL {
            for op in [Op::Cast, Op::Bitcast] {
                if from != to
                    && let Some(case) = OpCase::new(op, &[from], to)
                    && (op == Op::Cast || (from != Scalar::Bool && to != Scalar::Bool))
                {
                    check(subject, &case, &mut random);
                }
            }
        }
    }
}

/// Every op on two operands, with one of them constant, because back ends take other paths there.
pub fn constant_operands(subject: &EngineSubject<'_>) {
    let mut random = RandomOperands::new(3);
    for case in cases() {
        let [first, second] = case.operands[..] else { continue };
        if first != second {
            continue;
        }
        let all = edges(first);
        let step = all.len().div_ceil(24);
        let constants: Vec<u64> = all.iter().copied().step_by(step).collect();
        let mut inputs = edges(first);
        inputs.extend(random.values(first, 64));
        let n_rows = 2 * constants.len();

        let (module, id) = kernel(&[first], case.result, 2, |builder, params, thread| {
            let x = load_element(builder, params[0], thread);
            for (pair, &bits) in constants.iter().enumerate() {
                let constant = builder.const_bits(first, bits);
                for (side, operands) in [[x, constant], [constant, x]].into_iter().enumerate() {
                    let value = case.emit(builder, &operands);
                    let row = builder.const_int(Scalar::I32, (2 * pair + side) as i64);
                    builder.inst(Op::ArrayStore, &[params[1], row, thread, value], &[], polyloom_ir::Imm::None);
                }
            }
        });
        let mut memory = BufferMemory::default();
        let args = [
            dense(&mut memory, first, &[inputs.len()], &inputs),
            dense(&mut memory, case.result, &[n_rows, inputs.len()], &vec![0; n_rows * inputs.len()]),
        ];
        let total = inputs.len() as u64;
        // Known to be contiguous, each row of results is stored whole; otherwise scattered stores would be most of the
        // code.
        let facts = super::launch::facts(&module.functions[id], &args);
        let (prepared, id, code) = subject.load(&module, id, HirPreparation::Unchecked, 1, facts);
        run(&code, &prepared.functions[id], &[total], &args, &mut memory, std::slice::from_ref(&(0..total)));
        let results = memory.elements(case.result, args[1]);
        for (index, &got) in results.iter().enumerate() {
            let (row, x) = (index / inputs.len(), inputs[index % inputs.len()]);
            let constant = constants[row / 2];
            let operands = if row % 2 == 0 { [x, constant] } else { [constant, x] };
            assert!(
                case.agrees(subject, &operands, got),
                "{}, one operand constant: {}",
                subject.name(),
                case.describe(&operands, got)
            );
        }
    }
}

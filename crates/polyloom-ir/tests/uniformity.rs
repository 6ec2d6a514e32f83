//! What the uniformity analysis says of random kernels, against what the interpreter sees their threads do.
//!
//! The kernel is instrumented: before and after each instruction, and where regions begin, it prints what runs and the
//! values there. Each event is filed under the instruction and the iterations of the loops around it, which is what the
//! analysis means by threads in step.

use polyloom_ir::analysis::uniformity::{Uniformity, UniformityContext, ValueShape};
use polyloom_ir::generate::{GenerateOptions, program};
use polyloom_ir::interp::{InterpHost, Interpreter};
use polyloom_ir::*;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// A point of the program: what kind, which instruction, which region of it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
enum Point {
    Before(Inst),
    After(Inst),
    Inside(Inst, usize),
}

/// A point and the iterations of the loops around it.
type Moment = (Point, Vec<u32>);

/// An instrumented kernel: the text of each print is the number of a point.
struct Instrumented {
    func: Function,
    points: Vec<Point>,
    /// For each instruction, the loops around it, outermost first.
    loops: HashMap<Inst, Vec<Inst>>,
}

fn is_loop(op: Op) -> bool {
    matches!(op, Op::ForRange | Op::While)
}

impl Instrumented {
    fn new(func: &Function) -> Instrumented {
        let mut instrumented = Instrumented { func: func.clone(), points: Vec::new(), loops: HashMap::new() };
        instrumented.region(func, func.body, None, &mut Vec::new());
        instrumented
    }

    fn print(&mut self, point: Point, values: &[Value]) -> Inst {
        let text: Arc<str> = self.points.len().to_string().into();
        self.points.push(point);
        self.func.make_inst(Op::Print, function::Operands::from_slice(values), &[], Imm::Text(text), Span::NONE)
    }

    fn region(&mut self, func: &Function, region: Region, owner: Option<(Inst, usize)>, around: &mut Vec<Inst>) {
        let mut insts = Vec::new();
        if let Some((inst, index)) = owner {
            insts.push(self.print(Point::Inside(inst, index), &func.regions[region].params));
        }
        for &inst in &func.regions[region].insts {
            self.loops.insert(inst, around.clone());
            let data = &func.insts[inst];
            insts.push(self.print(Point::Before(inst), &[]));
            insts.push(inst);
            insts.push(self.print(Point::After(inst), &data.results));
            if data.op.info().is_terminator() {
                insts.pop();
            }
            if is_loop(data.op) {
                around.push(inst);
            }
            for (index, &inner) in data.regions.iter().enumerate() {
                self.region(func, inner, Some((inst, index)), around);
            }
            if is_loop(data.op) {
                around.pop();
            }
        }
        self.func.regions[region].insts = insts;
    }
}

/// Collects what one thread does.
struct Trace<'a> {
    kernel: &'a Instrumented,
    iterations: HashMap<Inst, u32>,
    moments: BTreeMap<Moment, Vec<u64>>,
}

impl InterpHost for Trace<'_> {
    fn print(&mut self, format: &str, _: &[Type], values: &[u64]) {
        let point = self.kernel.points[format.parse::<usize>().unwrap()];
        let (Point::Before(inst) | Point::After(inst) | Point::Inside(inst, _)) = point;
        match point {
            Point::Before(_) => _ = self.iterations.insert(inst, 0),
            Point::Inside(_, 0) => *self.iterations.entry(inst).or_default() += 1,
            _ => {}
        }
        let mut path: Vec<u32> = self.kernel.loops[&inst].iter().map(|outer| self.iterations[outer]).collect();
        if matches!(point, Point::Inside(..)) && is_loop(self.kernel.func.insts[inst].op) {
            path.push(self.iterations[&inst]);
        }
        self.moments.insert((point, path), values.to_vec());
    }
}

/// A value's bits as a number.
fn number(ty: Scalar, bits: u64) -> i128 {
    let unused = 64 - ty.bits();
    if ty.is_signed_int() { ((bits << unused) as i64 >> unused).into() } else { bits.into() }
}

fn wrap(ty: Scalar, value: i128) -> i128 {
    value.rem_euclid(1 << ty.bits())
}

struct Row<'a> {
    func: &'a Function,
    uniformity: &'a Uniformity,
    /// Indexed by thread of the row.
    traces: Vec<BTreeMap<Moment, Vec<u64>>>,
}

impl Row<'_> {
    fn check(&self) -> Result<(), String> {
        let mut all: BTreeMap<&Moment, Vec<(usize, &[u64])>> = BTreeMap::new();
        for (thread, trace) in self.traces.iter().enumerate() {
            for (moment, values) in trace {
                all.entry(moment).or_default().push((thread, values));
            }
        }
        for (moment, threads) in &all {
            let (point, path) = moment;
            let values = match *point {
                Point::Before(inst) => {
                    if !self.uniformity.is_divergent(inst) && threads.len() != self.traces.len() {
                        return Err(format!("{point:?} {path:?} is not divergent, but has threads {threads:?}"));
                    }
                    let data = &self.func.insts[inst];
                    if !data.regions.is_empty() {
                        self.check_owner(inst, moment, threads)?;
                    }
                    &[][..]
                }
                Point::After(inst) => &self.func.insts[inst].results[..],
                Point::Inside(inst, index) => &self.func.regions[self.func.insts[inst].regions[index]].params[..],
            };
            for (index, &value) in values.iter().enumerate() {
                let values: Vec<(usize, u64)> = threads.iter().map(|(thread, bits)| (*thread, bits[index])).collect();
                self.check_value(value, &values).map_err(|error| format!("{point:?} {path:?}: {error}"))?;
            }
        }
        Ok(())
    }

    fn check_value(&self, value: Value, threads: &[(usize, u64)]) -> Result<(), String> {
        let Type::Scalar(ty) = self.func.ty(value) else { return Ok(()) };
        let shape = self.uniformity.shape(value);
        let (first, base) = threads[0];
        let base = number(ty, base);
        for &(thread, bits) in threads {
            let bits = number(ty, bits);
            let n = (thread - first) as i128;
            let fits = match shape {
                ValueShape::Uniform => bits == base,
                ValueShape::Affine { stride, exact: true } => bits == base + i128::from(stride) * n,
                ValueShape::Affine { stride, exact: false } => {
                    wrap(ty, bits) == wrap(ty, base + i128::from(stride) * n)
                }
                ValueShape::Varying => true,
            };
            if !fits {
                return Err(format!("{value} is {shape:?}, but {base} in thread {first} and {bits} in {thread}"));
            }
        }
        Ok(())
    }

    /// Returns what is said of instructions with regions.
    fn check_owner(&self, inst: Inst, moment: &Moment, threads: &[(usize, &[u64])]) -> Result<(), String> {
        let data = &self.func.insts[inst];
        let after = (Point::After(inst), moment.1.clone());
        // What a thread does inside: the side of an `if`, the iterations of a loop; and whether it comes out.
        let behaviour = |thread: usize| -> (Vec<usize>, bool) {
            let trace = &self.traces[thread];
            let counts = (0..data.regions.len()).map(|index| {
                if is_loop(data.op) {
                    let next = |n: u32| {
                        let path = moment.1.iter().copied().chain([n]).collect();
                        trace.contains_key(&(Point::Inside(inst, index), path))
                    };
                    (1..).take_while(|&n| next(n)).count()
                } else {
                    usize::from(trace.contains_key(&(Point::Inside(inst, index), moment.1.clone())))
                }
            });
            (counts.collect(), trace.contains_key(&after))
        };
        let all: Vec<_> = threads.iter().map(|&(thread, _)| behaviour(thread)).collect();
        if self.uniformity.cond_is_uniform(inst) && all.iter().any(|(counts, _)| *counts != all[0].0) {
            return Err(format!("threads of {inst} part ways at {moment:?}: {all:?}"));
        }
        if !self.uniformity.loses_threads(inst) && all.iter().any(|(_, comes_out)| *comes_out != all[0].1) {
            return Err(format!("{inst} loses threads at {moment:?}: {all:?}"));
        }
        Ok(())
    }
}

/// Describes how much the analysis said about the kernels, so that saying nothing is not passing.
#[derive(Default, Debug)]
struct Claims {
    n_values: usize,
    n_uniform: usize,
    n_affine: usize,
    n_owners: usize,
    n_together: usize,
}

fn check(seed: u64, claims: &mut Claims) {
    let program = program(seed, GenerateOptions { library: false, size: 80, ..GenerateOptions::default() });
    let kernel = &program.module.functions[program.kernel];
    // Every array has a buffer of its own.
    let context =
        UniformityContext { disjoint: &|_| true, ..UniformityContext::new(&program.module, program.shape.len() as u8) };
    let uniformity = Uniformity::of(kernel, &context);
    kernel.walk(kernel.body, &mut |inst, data| {
        for &value in &data.results {
            claims.n_values += 1;
            claims.n_uniform += usize::from(uniformity.shape(value).is_uniform());
            claims.n_affine += usize::from(matches!(uniformity.shape(value), ValueShape::Affine { .. }));
        }
        if !data.regions.is_empty() {
            claims.n_owners += 1;
            claims.n_together += usize::from(uniformity.cond_is_uniform(inst));
        }
    });
    let instrumented = Instrumented::new(kernel);
    let mut module = program.module.clone();
    module.functions[program.kernel] = instrumented.func.clone();
    let interpreter = Interpreter::new(&module, program.kernel).unwrap().with_max_steps(10_000);
    let mut memory = program.memory.clone();
    let mut row = Row { func: kernel, uniformity: &uniformity, traces: Vec::new() };
    let row_length = *program.shape.last().unwrap();
    // Few threads show what there is to see.
    for thread in 0..program.n_threads() {
        if thread % row_length == 0 {
            row.traces.clear();
        }
        if thread % row_length >= 8 {
            continue;
        }
        let mut trace = Trace { kernel: &instrumented, iterations: HashMap::new(), moments: BTreeMap::new() };
        let range = thread..thread + 1;
        if interpreter.launch(&program.shape, &program.args, &mut memory, &mut trace, range).is_err() {
            return;
        }
        row.traces.push(trace.moments);
        if thread % row_length == row_length.min(8) - 1
            && let Err(error) = row.check()
        {
            panic!("seed {seed}, {error} in\n{kernel}");
        }
    }
}

#[test]
fn threads_do_what_the_analysis_says() {
    let n_seeds = std::env::var("POLYLOOM_FUZZ_ITERATIONS").ok().and_then(|text| text.parse().ok()).unwrap_or(400);
    let mut claims = Claims::default();
    for seed in 0..n_seeds {
        check(seed, &mut claims);
    }
    let share = |part: usize, whole: usize| part as f64 / whole as f64;
    assert!(share(claims.n_uniform, claims.n_values) > 0.2, "{claims:?}");
    assert!(share(claims.n_affine, claims.n_values) > 0.02, "{claims:?}");
    assert!(share(claims.n_together, claims.n_owners) > 0.2, "{claims:?}");
}

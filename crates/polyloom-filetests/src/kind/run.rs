//! `test run`: calls and launches with their outcomes, in comments of the input itself.
//!
//! ```text
//! ; run: @square(12) == 144
//! ; run: @divide(7, 0) == 0, true
//! ; run: @saxpy[4](2.0, [1, 2, 3, 4], [0, 0, 0, 0]) == _, [2, 4, 6, 8]
//! ; run: @first[1]([]) fails index 0 is outside axis 0 of extent 0 in thread 0
//! ; run: @hello[2]() prints "hello\nhello\n"
//! ```
//!
//! A function's outcome is its results, a kernel's the arrays it was given, as they are afterwards; `_` leaves one out.
//! Values are written as in HIR text and read by the type they must have; any NaN equals any other.
//!
//! A composite is given by its components, one after another, and an array of composites as the array of its
//! components.
//!
//! In a Python file the comments start with `#` and the functions are its kernels.
//!
//! What ends well is run three times: as written, and prepared for back ends without and with checks. What is launched
//! in blocks is also split at barriers after it is prepared, and must be such that it can be.

use super::python;
use super::value::{TestValue, ValueReader, matches_value};
use crate::case::TestCase;
use crate::split::launch_split;
use polyloom_ir::block_plan::BlockPlan;
use polyloom_ir::function::CheckKind;
use polyloom_ir::interp::{BufferMemory, InterpArg, InterpError, Interpreter, PrintingHost};
use polyloom_ir::{FuncId, Function, FunctionKind, Imm, Module, Type};
use polyloom_passes::transform::blocks::split_blocks;
use polyloom_passes::transform::scalarise::scalarise;
use polyloom_passes::{PipelineOptions, prepared};

/// Enough for any test, and soon over.
const MAX_STEPS: u64 = 10_000_000;

pub(super) fn run(case: &TestCase) -> Result<(), String> {
    let hir = if case.is_python() { None } else { Some(case.module(true)?) };
    let mut n_runs = 0;
    for (line, text) in case.directives("run:") {
        n_runs += 1;
        let compiled = match &hir {
            Some(_) => None,
            None => Some(python::module(case, &ValueReader::new(text).function_name()?)?),
        };
        let Some(module) = compiled.as_ref().or(hir.as_ref()) else { continue };
        let mut module = module.clone();
        scalarise(&mut module);
        RunDirective::parse(text, &module)
            .and_then(|directive| directive.check(&module))
            .map_err(|message| format!("line {line}: {text}\n  {message}"))?;
    }
    if n_runs == 0 { Err("no line starts with `run:` in a comment".to_owned()) } else { Ok(()) }
}

/// One `; run:` line.
pub(super) struct RunDirective {
    pub(super) func: FuncId,
    /// Empty for a call.
    pub(super) shape: Vec<u64>,
    arguments: Vec<TestValue>,
    expected: ExpectedValue,
}

#[derive(Default)]
struct ExpectedValue {
    /// `None` leaves one out.
    values: Vec<Option<TestValue>>,
    printed: Option<String>,
    failure: Option<String>,
}

/// Describes what a run came to.
struct RunOutcome {
    values: Vec<TestValue>,
    printed: String,
}

impl RunDirective {
    pub(super) fn parse(text: &str, module: &Module) -> Result<RunDirective, String> {
        let mut reader = ValueReader::new(text);
        let name = reader.function_name()?;
        let func = module.find(&name).ok_or_else(|| format!("there is no function @{name}"))?;
        let function = &module.functions[func];
        let mut shape = Vec::new();
        if function.kind == FunctionKind::Kernel {
            reader.expect("[")?;
            shape = reader.list("]", |reader| reader.number())?;
        }
        reader.expect("(")?;
        let mut types = function.params().iter().map(|&param| function.ty(param));
        let arguments = reader.list(")", |reader| {
            let ty = types.next().ok_or("there are more arguments than parameters")?;
            reader.value(ty)
        })?;
        if types.next().is_some() {
            return Err("there are fewer arguments than parameters".to_owned());
        }
        let mut expected = ExpectedValue::default();
        if reader.eat("==") {
            let outcome_types = outcome_types(function);
            for (index, &ty) in outcome_types.iter().enumerate() {
                if index > 0 {
                    reader.expect(",")?;
                }
                expected.values.push(if reader.eat("_") { None } else { Some(reader.value(ty)?) });
            }
        }
        if reader.eat("prints") {
            expected.printed = Some(reader.string()?);
        }
        if reader.eat("fails") {
            expected.failure = Some(reader.rest().to_owned());
        } else if !reader.rest().is_empty() {
            return Err(format!("unexpected `{}`", reader.rest()));
        }
        Ok(RunDirective { func, shape, arguments, expected })
    }

    fn check(&self, module: &Module) -> Result<(), String> {
        let outcome = self.execute(module, self.func);
        let outcome = match (outcome, &self.expected.failure) {
            (Ok(_), Some(_)) => return Err("did not fail".to_owned()),
            (Err(found), Some(expected)) if found == *expected => return Ok(()),
            (Err(found), _) => return Err(format!("fails {found}")),
            (Ok(outcome), None) => outcome,
        };
        self.compare(&outcome)?;
        if module.functions[self.func].kind != FunctionKind::Kernel {
            return Ok(());
        }
        for checked in [false, true] {
            let how = if checked { "prepared with checks" } else { "prepared without checks" };
            let (copy, kernel) = prepared(module, self.func, &PipelineOptions { checked, ..Default::default() })
                .map_err(|errors| format!("cannot be {how}: {}", errors[0].message))?;
            let outcome = self.execute(&copy, kernel);
            outcome
                .and_then(|outcome| self.compare(&outcome))
                .map_err(|message| format!("{how}: {message}\n{copy}"))?;
            let mut copy = copy;
            if Interpreter::new(module, self.func).is_ok_and(|interpreter| interpreter.needs_blocks()) {
                let Some(plan) = split_blocks(&mut copy, kernel) else {
                    return Err(format!("{how} it cannot be split at barriers\n{copy}"));
                };
                self.execute_split(&copy, kernel, &plan)
                    .and_then(|outcome| self.compare(&outcome))
                    .map_err(|message| format!("{how} and split at barriers: {message}\n{copy}"))?;
            }
        }
        Ok(())
    }

    /// Runs the function; an error is a description of the failure.
    fn execute(&self, module: &Module, func: FuncId) -> Result<RunOutcome, String> {
        let function = &module.functions[func];
        let describe = |error: InterpError| describe(module, error);
        let interpreter = Interpreter::new(module, func).map_err(describe)?.with_max_steps(MAX_STEPS);
        let (mut memory, mut host) = (BufferMemory::default(), PrintingHost::default());
        let arguments = self.arguments(&mut memory);
        let values = if function.kind == FunctionKind::Kernel {
            let n_threads = self.shape.iter().product();
            interpreter.launch(&self.shape, &arguments, &mut memory, &mut host, 0..n_threads).map_err(describe)?;
            self.arrays(&memory, &arguments)
        } else {
            let bits = interpreter.call_with(&arguments, &mut memory, &mut host).map_err(describe)?;
            let scalars = function.results.iter().filter_map(|ty| ty.as_scalar());
            scalars.zip(bits).map(|(ty, bits)| TestValue::Scalar(ty, bits)).collect()
        };
        Ok(RunOutcome { values, printed: host.0 })
    }

    /// Runs a kernel that does the work of whole blocks.
    fn execute_split(&self, module: &Module, func: FuncId, plan: &BlockPlan) -> Result<RunOutcome, String> {
        let describe = |error: InterpError| describe(module, error);
        let interpreter = Interpreter::new(module, func).map_err(describe)?;
        let grid = interpreter.default_grid(self.shape.iter().product());
        let (mut memory, mut host) = (BufferMemory::default(), PrintingHost::default());
        let arguments = self.arguments(&mut memory);
        let (split, over) = ((module, func, plan), (&self.shape[..], grid));
        launch_split(split, over, &arguments, &mut memory, &mut host, MAX_STEPS).map_err(describe)?;
        Ok(RunOutcome { values: self.arrays(&memory, &arguments), printed: host.0 })
    }

    /// Returns true if a launch ends well, and leaves something in arrays.
    pub(super) fn leaves_arrays(&self) -> bool {
        self.expected.failure.is_none() && self.expected.values.iter().any(Option::is_some)
    }

    /// Compares what a launch left in arrays.
    pub(super) fn compare_arrays(&self, memory: &BufferMemory, arguments: &[InterpArg]) -> Result<(), String> {
        let printed = self.expected.printed.clone().unwrap_or_default();
        self.compare(&RunOutcome { values: self.arrays(memory, arguments), printed })
    }

    /// The arguments, arrays among them in memory.
    pub(super) fn arguments(&self, memory: &mut BufferMemory) -> Vec<InterpArg> {
        let argument = |argument: &TestValue| match argument {
            TestValue::Scalar(_, bits) => InterpArg::Scalar(*bits),
            TestValue::Array(elem, extents, bits) => memory.add_array(*elem, extents, bits),
        };
        self.arguments.iter().map(argument).collect()
    }

    /// Returns what is in the arrays among the arguments.
    fn arrays(&self, memory: &BufferMemory, arguments: &[InterpArg]) -> Vec<TestValue> {
        let arrays = self.arguments.iter().zip(arguments).filter_map(|(value, &argument)| match value {
            TestValue::Array(elem, extents, _) => {
                Some(TestValue::Array(*elem, extents.clone(), memory.elements(*elem, argument)))
            }
            TestValue::Scalar(..) => None,
        });
        arrays.collect()
    }

    fn compare(&self, outcome: &RunOutcome) -> Result<(), String> {
        let differs = |(expected, found): (&Option<TestValue>, &TestValue)| {
            expected.as_ref().is_some_and(|expected| !matches_value(expected, found))
        };
        if self.expected.values.iter().zip(&outcome.values).any(differs) {
            let found: Vec<String> = outcome.values.iter().map(TestValue::to_string).collect();
            return Err(format!("gives {}", found.join(", ")));
        }
        match &self.expected.printed {
            Some(expected) if *expected != outcome.printed => Err(format!("prints {:?}", outcome.printed)),
            _ => Ok(()),
        }
    }
}

/// The types of what a run comes to.
fn outcome_types(function: &Function) -> Vec<Type> {
    if function.kind != FunctionKind::Kernel {
        return function.results.to_vec();
    }
    let types = function.params().iter().map(|&param| function.ty(param));
    types.filter(|ty| ty.as_array().is_some()).collect()
}

/// A failure in one phrase.
fn describe(module: &Module, error: InterpError) -> String {
    let InterpError::Trap(trap) = &error else { return error.to_string() };
    let imm = trap.site.func.map(|func| &module.functions[func].insts[trap.site.inst].imm);
    let (index, extent, thread) = (trap.index, trap.extent, trap.thread);
    match imm {
        Some(Imm::Text(message)) => format!("assert {message:?} in thread {thread}"),
        Some(Imm::Check(kind @ CheckKind::Bounds { array, axis, .. })) => {
            let index = kind.index(index);
            format!("bounds {array} axis {axis}: index {index}, extent {extent} in thread {thread}")
        }
        _ => format!("division in thread {thread}"),
    }
}

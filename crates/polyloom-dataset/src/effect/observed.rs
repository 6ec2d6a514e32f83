//! What operations have given in runs of a kernel: those that hardly ever did anything, though nothing proves it.
//!
//! Operations on values that come from data are looked at, where data is elements of arrays, random numbers and arguments
//! that are no integers. Where a thread is and how large something is are what a kernel begins with.

use super::finding::{EffectFinding, is_looked_at, is_place};
use crate::catalogue::{self, WatchedOutcome};
use crate::generate::DatasetProgram;
use crate::proof::RejectedProof;
use crate::text::functions;
use polyloom::op::{OpEffect, OpGroup};
use polyloom::{Function, FunctionKind, Kernel, LaunchObserver, ObservedOp, Op, Region, Span, Value};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Fewer than one in this many counts as hardly ever.
const RARE: u32 = 32;

/// Fewer different operands than these say nothing.
const FEWEST: u32 = 12;

/// Describes what the operations of a kernel have given since they were cleared, by where they are in its source.
#[derive(Default)]
pub(crate) struct KernelObservations(Mutex<FxHashMap<(Span, Op), OperationOutcomes>>);

/// Describes what an operation has given.
#[derive(Default)]
struct OperationOutcomes {
    n: u32,
    /// Number of times its operands were not the same as the last time.
    n_new: u32,
    last: SmallVec<[u64; 4]>,
    first_result: u64,
    /// Number of times it gave something else than the first time.
    n_other: u32,
    /// Number of times it gave each of its operands.
    n_given: SmallVec<[u32; 4]>,
}

impl OperationOutcomes {
    fn add(&mut self, observed: &ObservedOp<'_>) {
        if self.n == 0 {
            self.first_result = observed.result;
            self.n_given = SmallVec::from_elem(0, observed.operands.len());
        }
        self.n += 1;
        self.n_other += u32::from(observed.result != self.first_result);
        for (n, &operand) in self.n_given.iter_mut().zip(observed.operands) {
            *n += u32::from(observed.result == operand);
        }
        if self.last[..] != *observed.operands {
            self.n_new += 1;
            self.last = observed.operands.into();
        }
    }

    /// Returns what is wrong with the operation, if something is.
    fn fault(&self, op: Op) -> Option<&'static str> {
        let is_rare = |n: u32| n * RARE < self.n;
        let gave = |index: usize| self.n_given.get(index).copied().unwrap_or(0);
        match op {
            _ if self.n_new < FEWEST => None,
            _ if self.n_other == 0 => Some("gave one number in all runs"),
            op if op.info().group == OpGroup::Comparison
                && (is_rare(self.n_other) || is_rare(self.n - self.n_other)) =>
            {
                Some("hardly ever decided otherwise")
            }
            op => match catalogue::facts(op).outcome? {
                WatchedOutcome::OneOf(first) if is_rare(self.n - gave(first)) || is_rare(self.n - gave(first + 1)) => {
                    Some("hardly ever gave the other one of the two")
                }
                WatchedOutcome::Bounded if is_rare(self.n - gave(0)) => Some("hardly ever reached a bound"),
                WatchedOutcome::Bounded if is_rare(gave(0)) => Some("hardly ever gave what is no bound"),
                WatchedOutcome::Leaves if is_rare(self.n - gave(0)) => Some("hardly ever changed what it was given"),
                _ => None,
            },
        }
    }
}

impl LaunchObserver for KernelObservations {
    fn watches(&self, op: Op) -> bool {
        catalogue::facts(op).outcome.is_some() || op.info().group == OpGroup::Comparison
    }

    fn observe(&self, observed: &ObservedOp<'_>) {
        self.lock().entry((observed.span, observed.op)).or_default().add(observed);
    }
}

impl KernelObservations {
    fn lock(&self) -> MutexGuard<'_, FxHashMap<(Span, Op), OperationOutcomes>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Forgets them.
    pub(crate) fn clear(&self) {
        self.lock().clear();
    }

    /// Tells whether each operation of a generated kernel has had an effect in the runs that were observed.
    ///
    /// # Errors
    ///
    /// [`Reason::NoEffect`](crate::Reason::NoEffect), with the first operation that had none.
    pub(crate) fn check(&self, program: &DatasetProgram, kernel: &Kernel) -> Result<(), Box<RejectedProof>> {
        if !is_looked_at(program) {
            return Ok(());
        }
        let outcomes = self.lock();
        let mut finding: Option<EffectFinding> = None;
        for function in functions(kernel) {
            let of_data = OfData::of(function, function.kind == FunctionKind::Func);
            function.walk(function.body, &mut |_, data| {
                if !data.operands.iter().any(|operand| of_data.values.contains(operand)) {
                    return;
                }
                let known = outcomes.get(&(data.span, data.op));
                if let Some(what) = known.and_then(|outcomes| outcomes.fault(data.op))
                    && finding.is_none()
                {
                    finding = Some(EffectFinding { span: data.span, subject: data.op.name().to_owned(), what });
                }
            });
        }
        finding.map_or(Ok(()), |finding| Err(finding.reject(kernel)))
    }
}

/// The values of a function that come from data.
struct OfData<'a> {
    function: &'a Function,
    values: FxHashSet<Value>,
}

impl<'a> OfData<'a> {
    /// `takes_data`: whether all its arguments are.
    fn of(function: &'a Function, takes_data: bool) -> OfData<'a> {
        let is_data = |param: &Value| {
            let ty = function.ty(*param);
            ty.as_any_array().is_none() && (takes_data || ty.is_float())
        };
        let values = function.params().iter().copied().filter(is_data).collect();
        let mut found = OfData { function, values };
        // The function is read again, because a carried value may come from a later part of the loop.
        loop {
            let n = found.values.len();
            found.region(function.body);
            if found.values.len() == n {
                return found;
            }
        }
    }

    /// Returns true if something is handed on from this region that comes from data.
    fn region(&mut self, region: Region) -> bool {
        let mut hands_on = false;
        for &inst in &self.function.regions[region].insts {
            let data = &self.function.insts[inst];
            let info = data.op.info();
            let of_data = data.operands.iter().any(|operand| self.values.contains(operand));
            let mut of_data_inside = false;
            for &inner in &data.regions {
                of_data_inside |= self.region(inner);
            }
            hands_on |= of_data_inside || (info.effect == OpEffect::Terminator && of_data);
            let is_source = !info.is_pure() && data.regions.is_empty() && !is_place(data.op);
            if of_data || of_data_inside || is_source || info.group == OpGroup::Random {
                self.values.extend(&data.results);
                // A loop counts as its ends say, whatever it carries.
                let counts = data.op == Op::ForRange && !data.operands[..3].iter().any(|end| self.values.contains(end));
                for &inner in &data.regions {
                    let params = &self.function.regions[inner].params;
                    self.values.extend(&params[usize::from(counts)..]);
                }
            }
        }
        hands_on
    }
}

#[cfg(test)]
mod tests {
    use crate::generate::{DatasetProgram, InputValues, ProgramExtent, ProgramInput};
    use crate::verify::KernelVerifier;
    use polyloom::Arch;

    /// Finds the faults in runs of a kernel of these lines, where `x` is from 0.1 to 2 and `y` from -3 to 3.
    fn check(lines: &str, expected: &str) {
        let lines = lines.lines().map(|line| format!("    {line}\n")).collect::<String>();
        let source = format!(
            "import polyloom as loom


@loom.func
def size(a: float):
    return loom.abs(a) + 1.0


@loom.kernel
def kernel(x: loom.array(dtype=float), y: loom.array(dtype=float), n: int, out: loom.array(dtype=float)):
    i = loom.tid()
{lines}"
        );
        let verifier = KernelVerifier::new(Arch::DEFAULT).expect("the back ends work here");
        let kernel = verifier.compile("kernel", &source).expect("it compiles");
        let all = vec![ProgramExtent::Is(60)];
        let input = |name: &str, dtype: &str, shape: &[ProgramExtent], values: InputValues| ProgramInput {
            name: name.to_owned(),
            dtype: dtype.to_owned(),
            shape: shape.to_vec(),
            values,
        };
        let inputs = vec![
            input("x", "float32", &all, InputValues::Between { low: 0.1, high: 2.0 }),
            input("y", "float32", &all, InputValues::Between { low: -3.0, high: 3.0 }),
            input("n", "int32", &[], InputValues::Between { low: 2.0, high: 9.0 }),
            input("out", "float32", &all, InputValues::Zeros),
        ];
        let (name, category) = ("kernel".to_owned(), "arithmetic".into());
        let program = DatasetProgram { name, category, difficulty: 0, source, inputs, dim: all };
        let found = verifier.run(&program, &kernel).err().map_or(String::new(), |reject| reject.detail);
        assert_eq!(found.split_once(": ").map_or(found.as_str(), |(_, what)| what), expected, "{lines}");
    }

    #[test]
    fn what_never_happens_in_runs_is_found() {
        check("out[i] = (loom.max(x[i], 0.05) + y[i]) * float(n)", "`max` hardly ever gave the other one of the two");
        check("out[i] = (loom.max(x[i], 0.5) + y[i]) * float(n)", "");
        check("out[i] = (loom.clamp(y[i], -9.0, 9.0) + x[i]) * float(n)", "`clamp` hardly ever reached a bound");
        let lines = "out[i] = (loom.clamp(999.0 * y[i], -0.1, 0.1) + x[i]) * float(n)";
        check(lines, "`clamp` hardly ever gave what is no bound");
        check("out[i] = (loom.clamp(y[i], -1.0, 1.0) + x[i]) * float(n)", "");
        check("out[i] = (loom.abs(x[i]) + y[i]) * float(n)", "`abs` hardly ever changed what it was given");
        check("out[i] = (x[i] % 3.0 + y[i]) * float(n)", "`mod` hardly ever changed what it was given");
        check("out[i] = (loom.sign(x[i]) + y[i]) * float(n)", "`sign` gave one number in all runs");
        let lines = "if y[i] > 5.0:\n    out[i] = x[i] * float(n)\nelse:\n    out[i] = y[i]";
        check(lines, "`gt` gave one number in all runs");
        check(&lines.replace("5.0", "0.5"), "");
        check("out[i] = (size(x[i]) + y[i]) * float(n)", "`abs` hardly ever changed what it was given");
    }

    /// Nor is what a function has no use for in one call, and has in another.
    #[test]
    fn places_and_counters_are_not_looked_at() {
        check("out[i] = (size(x[i]) + size(y[i])) * float(n)", "");
        check("if i < 1000:\n    out[i] = x[i] * y[i] * float(n)", "");
        check("s = y[i]\nfor k in range(4):\n    if k < 9:\n        s += x[i] * float(k)\nout[i] = s * float(n)", "");
        check("out[i] = x[i] * y[i] * float(loom.max(n, 1))", "");
    }
}

//! Proving kernels right: each level is what the one below it is, and more.
//!
//! Design: `docs/design/dataset-verification.md`.

mod arguments;
mod gradient;
mod run;

use crate::effect::KernelObservations;
use crate::generate::DatasetProgram;
use crate::proof::{ProofLevel, Reason, RejectedProof};
use crate::row::Row;
use crate::text::GpuCode;
use polyloom::{
    Arch, CpuDevice, Defaults, GlobalSums, Kernel, Session, SessionError, SourceFile, SourceUnit, Tier, TierPolicy,
};
use std::sync::Arc;

/// Most steps of a thread of a kernel that somebody else wrote: iterations of loops and calls.
const MOST_STEPS: u64 = 1 << 16;

/// The engines that kernels are run on. Each thread has its own.
pub struct KernelVerifier {
    /// The interpreter. It finds indices out of bounds by itself, and of kernels that somebody else wrote, whatever else
    /// checks find.
    reference: Session,
    /// Holds what the reference's operations have given, of generated kernels.
    observations: Option<Arc<KernelObservations>>,
    /// The interpreter as a GPU would add: what the simulator is compared with.
    flushing: Session,
    /// The interpreter that adds magnitudes: how far sums in another order may be from each other.
    magnitudes: Session,
    /// Machine code without checks, which derivatives are launched as.
    quick: Session,
    /// Machine code with checks, which kernels are launched as, since it finds divisions of integers by zero.
    checked: Session,
    /// True if it is known of kernels that they end, whatever they are given.
    they_end: bool,
    arch: Arch,
}

impl KernelVerifier {
    /// The engines of this build, the simulator one of GPUs of this architecture.
    ///
    /// # Errors
    ///
    /// If one does not work here.
    pub fn new(arch: Arch) -> Result<KernelVerifier, SessionError> {
        KernelVerifier::with(arch, None)
    }

    /// The same for kernels of which nobody knows whether they end.
    ///
    /// # Errors
    ///
    /// As [`KernelVerifier::new`].
    pub fn of_strangers(arch: Arch) -> Result<KernelVerifier, SessionError> {
        KernelVerifier::with(arch, Some(MOST_STEPS))
    }

    fn with(arch: Arch, most_steps: Option<u64>) -> Result<KernelVerifier, SessionError> {
        let device = |tier| -> Result<CpuDevice, SessionError> {
            let device = Session::passing_device()?.with_policy(TierPolicy::Always(tier))?;
            Ok(match most_steps {
                Some(steps) => device.with_most_interpreted_steps(steps),
                None => device,
            })
        };
        let they_end = most_steps.is_none();
        let observations = they_end.then(|| Arc::new(KernelObservations::default()));
        let reference = device(Tier::Interpreter)?;
        let reference = Session::on(match &observations {
            Some(observations) => reference.with_observer(observations.clone()),
            None => reference,
        })?;
        reference.set_defaults(Defaults { check: most_steps.is_some(), ..reference.defaults() });
        let summing = |sums| Session::on(device(Tier::Interpreter)?.with_interpreted_sums(sums));
        let (flushing, magnitudes) = (summing(GlobalSums::Flushed)?, summing(GlobalSums::Magnitudes)?);
        let [quick, checked] = [Session::on(device(Tier::Quick)?)?, Session::on(device(Tier::Quick)?)?];
        checked.set_defaults(Defaults { check: true, ..checked.defaults() });
        Ok(KernelVerifier { reference, observations, flushing, magnitudes, quick, checked, they_end, arch })
    }

    /// Compiles the kernel of this name in a text.
    ///
    /// # Errors
    ///
    /// [`Reason::Rejected`].
    pub fn compile(&self, name: &str, source: &str) -> Result<Kernel, Box<RejectedProof>> {
        let file = SourceFile::new(format!("{name}.py"), source, 1);
        Ok(self.quick.compile_file_kernel(&SourceUnit::parse(file)?, name)?)
    }

    /// Compiles the kernel with this index among the functions of a file.
    ///
    /// # Errors
    ///
    /// [`Reason::Rejected`].
    pub fn compile_function(&self, unit: &Arc<SourceUnit>, function: usize) -> Result<Kernel, Box<RejectedProof>> {
        Ok(self.quick.compile_file_function(unit, function)?)
    }

    /// Runs the program's kernel, which [`KernelVerifier::compile`] has made, and looks at what it leaves.
    ///
    /// # Errors
    ///
    /// What is wrong with the kernel or with the compiler.
    pub fn run(&self, program: &DatasetProgram, kernel: &Kernel) -> Result<(), Box<RejectedProof>> {
        self.check(program, &kernel.on(&self.reference), kernel).map(drop)
    }

    fn check(
        &self,
        program: &DatasetProgram,
        reference: &Kernel,
        kernel: &Kernel,
    ) -> Result<Vec<run::Ran>, Box<RejectedProof>> {
        if let Some(observations) = &self.observations {
            observations.clear();
        }
        let ran = run::interpreted(program, reference)?;
        if let Some(observations) = &self.observations {
            observations.check(program, kernel)?;
        }
        let code = kernel.on(&self.checked);
        run::agree(program, &code, &ran)?;
        // Code that does not end cannot be stopped, nor does all code check its indices, so that the interpreter runs
        // first, which can.
        let is_safe = self.they_end && !kernel.function().constraints.unchecked;
        run::depend(program, if is_safe { &code } else { reference }, &ran)?;
        Ok(ran)
    }

    /// Runs PTX of the kernel on the simulator, with all its checks: the compiler's own, or what NVRTC makes of the
    /// kernel's CUDA C++.
    ///
    /// # Errors
    ///
    /// What the simulator finds.
    pub fn simulate(&self, program: &DatasetProgram, kernel: &Kernel, ptx: &str) -> Result<(), Box<RejectedProof>> {
        self.simulate_against(program, &kernel.on(&self.flushing), kernel, ptx, &[])
    }

    /// Runs PTX of the kernel's backward kernel on the simulator, with all its checks.
    ///
    /// # Errors
    ///
    /// What the simulator finds.
    pub fn simulate_backward(
        &self,
        program: &DatasetProgram,
        kernel: &Kernel,
        ptx: &str,
    ) -> Result<(), Box<RejectedProof>> {
        let load = |backward: &Kernel| {
            backward.load_on_simulator(self.arch, ptx).map_err(|error| RejectedProof::new(Reason::Failed, error))
        };
        gradient::simulate(program, kernel, &self.flushing, &self.magnitudes, load)
    }

    /// Runs what NVRTC has made for columns of a row, as [`KernelVerifier::simulate`] and [`KernelVerifier::simulate_backward`] do.
    pub(crate) fn simulate_columns(
        &self,
        program: &DatasetProgram,
        kernel: &Kernel,
        row: &Row,
    ) -> Result<(), Box<RejectedProof>> {
        if let Some(ptx) = &row.nvrtc_ptx_forward {
            self.simulate(program, kernel, ptx)?;
        }
        if let Some(ptx) = &row.nvrtc_ptx_backward {
            self.simulate_backward(program, kernel, ptx)?;
        }
        Ok(())
    }

    fn simulate_against(
        &self,
        program: &DatasetProgram,
        reference: &Kernel,
        kernel: &Kernel,
        ptx: &str,
        ran: &[run::Ran],
    ) -> Result<(), Box<RejectedProof>> {
        let simulated = kernel.load_on_simulator(self.arch, ptx);
        let simulated = simulated.map_err(|error| RejectedProof::new(Reason::Failed, error))?;
        run::simulate(program, reference, kernel, &simulated, ran)
    }

    /// Proves the program's kernel right to this level. `code` makes the kernel's GPU code, which is what the simulator
    /// runs, once all else is proved; it is given back.
    ///
    /// # Errors
    ///
    /// What keeps it from that.
    pub fn verify(
        &self,
        program: &DatasetProgram,
        kernel: &Kernel,
        level: ProofLevel,
        code: impl FnOnce() -> Result<GpuCode, Box<RejectedProof>>,
    ) -> Result<GpuCode, Box<RejectedProof>> {
        if level < ProofLevel::Run {
            return code();
        }
        let reference = kernel.on(&self.reference);
        let ran = self.check(program, &reference, kernel)?;
        let flushing = (level >= ProofLevel::Grad && run::may_flush(kernel)).then(|| kernel.on(&self.flushing));
        let interpreted = flushing.as_ref().unwrap_or(&reference);
        if level >= ProofLevel::Grad {
            gradient::check(program, kernel, interpreted, &self.flushing, &self.magnitudes)?;
        }
        let code = code()?;
        if let (ProofLevel::Full, Some(ptx)) = (level, &code.ptx) {
            let ran = if flushing.is_some() { &[] } else { &ran[..] };
            self.simulate_against(program, interpreted, kernel, ptx, ran)?;
        }
        if let (ProofLevel::Full, Some(ptx)) = (level, &code.ptx_backward) {
            self.simulate_backward(program, kernel, ptx)?;
        }
        Ok(code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::{Category, InputValues, ProgramExtent, ProgramInput, generate};

    #[test]
    fn functions_divide_by_no_zero() {
        let verifier = KernelVerifier::new(Arch::DEFAULT).expect("the back ends work here");
        for seed in 0..120 {
            let program = generate(Category::Function, seed);
            let kernel = verifier.compile(&program.name, &program.source).expect("it compiles");
            let done = verifier.run(&program, &kernel);
            assert!(!done.is_err_and(|reject| reject.reason == Reason::Trap), "{seed}: {}", program.source);
        }
    }

    /// A kernel whose threads share a number, by which the derivative is a sum of terms that nearly cancel: in another
    /// order it is another in its last digits, of which few are left with these many threads.
    #[test]
    fn sums_that_cancel_may_have_any_order() {
        let source = "import polyloom as loom


@loom.kernel
def scale(x: loom.array(dtype=float), factor: float, out: loom.array(dtype=float)):
    i = loom.tid()
    out[i] = x[i] * factor
";
        let verifier = KernelVerifier::new(Arch::DEFAULT).expect("the back ends work here");
        let kernel = verifier.compile("scale", source).expect("it compiles");
        for n in [2858, 2866, 2872] {
            let all = vec![ProgramExtent::Is(n)];
            let (x, factor) =
                (InputValues::Between { low: -2.0, high: 2.0 }, InputValues::Between { low: -1.0, high: 1.0 });
            let inputs = vec![
                input("x", "float32", &all, x),
                input("factor", "float32", &[], factor),
                input("out", "float32", &all, InputValues::Zeros),
            ];
            let program = program("scale", source, inputs, all);
            let done = verifier.verify(&program, &kernel, ProofLevel::Grad, || Ok(GpuCode::default()));
            assert!(done.is_ok(), "{n}: {done:?}");
        }
    }

    /// The inverse of a matrix that is singular but for rounding.
    #[test]
    fn derivatives_of_which_rounding_leaves_nothing_are_no_fault() {
        let source = "import polyloom as loom


@loom.kernel
def invert(a: loom.array(dtype=loom.mat22d), s: loom.array(dtype=loom.float64), out: loom.array(dtype=loom.float64)):
    i = loom.tid()
    m = loom.cw_div(a[i], a[i] * s[i])
    out[i] = loom.inverse(m)[0, 0]
";
        let verifier = KernelVerifier::new(Arch::DEFAULT).expect("the back ends work here");
        let kernel = verifier.compile("invert", source).expect("it compiles");
        let all = vec![ProgramExtent::Is(7)];
        let between = InputValues::Between { low: 0.3, high: 1.7 };
        let inputs = vec![
            input("a", "mat22d", &all, between),
            input("s", "float64", &all, between),
            input("out", "float64", &all, InputValues::Zeros),
        ];
        let program = program("invert", source, inputs, all);
        let done = verifier.verify(&program, &kernel, ProofLevel::Grad, || Ok(GpuCode::default()));
        assert_eq!(done.err().map(|reject| reject.reason), Some(Reason::GradientInexact));
    }

    /// Teeth that are finer than the steps of differences, which see no more of them than their mean.
    #[test]
    fn teeth_that_differences_do_not_see_are_no_fault() {
        let source = "import polyloom as loom


@loom.kernel
def comb(x: loom.array(dtype=float), z: loom.array(dtype=float), out: loom.array(dtype=float)):
    i = loom.tid()
    out[i] = 5.0 * z[i] + 0.1 * (x[i] % 0.0000001)
";
        let verifier = KernelVerifier::new(Arch::DEFAULT).expect("the back ends work here");
        let kernel = verifier.compile("comb", source).expect("it compiles");
        let all = vec![ProgramExtent::Is(3000)];
        let between = InputValues::Between { low: 0.3, high: 1.7 };
        let inputs = vec![
            input("x", "float32", &all, between),
            input("z", "float32", &all, between),
            input("out", "float32", &all, InputValues::Zeros),
        ];
        let (arguments, ran) = (program("comb", source, inputs, all), &verifier.flushing);
        let done = gradient::check(&arguments, &kernel, &kernel.on(ran), ran, &verifier.magnitudes);
        assert!(done.is_ok(), "{done:?}");
    }

    /// Of the generator's kernels and of others, machine code and the interpreter find what there is to find.
    #[test]
    fn what_checks_find_is_a_trap() {
        let statements = [
            ("", "out[i] = 7 // x[i]"),
            ("", "out[i] = x[x[i] + 5]"),
            ("", "assert x[i] > 0\n    out[i] = x[i]"),
            ("(unchecked=True)", "out[i] = x[x[i] + 5]"),
        ];
        for (decorated, lines) in statements {
            let source = format!(
                "import polyloom as loom


@loom.kernel{decorated}
def kernel(x: loom.array(dtype=int), out: loom.array(dtype=int)):
    i = loom.tid()
    {lines}
"
            );
            let all = vec![ProgramExtent::Is(7)];
            // Seven numbers hold one 0 and one that is too large for an index.
            let x = input("x", "int32", &all, InputValues::Between { low: 0.0, high: 3.0 });
            let out = input("out", "int32", &all, InputValues::Zeros);
            let program = program("kernel", &source, vec![x, out], all);
            for verifier in [KernelVerifier::new(Arch::DEFAULT), KernelVerifier::of_strangers(Arch::DEFAULT)] {
                let verifier = verifier.expect("the back ends work here");
                let kernel = verifier.compile("kernel", &source).expect("it compiles");
                let found = verifier.run(&program, &kernel).err().map(|reject| reject.reason);
                assert_eq!(found, Some(Reason::Trap), "{lines} {decorated}");
            }
        }
    }

    fn input(name: &str, dtype: &str, shape: &[ProgramExtent], values: InputValues) -> ProgramInput {
        let (name, dtype) = (name.to_owned(), dtype.to_owned());
        ProgramInput { name, dtype, shape: shape.to_vec(), values }
    }

    fn program(name: &str, source: &str, inputs: Vec<ProgramInput>, dim: Vec<ProgramExtent>) -> DatasetProgram {
        let (name, source) = (name.to_owned(), source.to_owned());
        DatasetProgram { name, category: "arithmetic".into(), difficulty: 0, source, inputs, dim }
    }
}

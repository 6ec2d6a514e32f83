//! Launches that are refused for what a thread would access, compared with kernels that check as they run.
//!
//! A random kernel is launched over more or fewer threads than it was made for. If the launch is refused, the thread that
//! it names has to fail a check when it runs alone.

use super::compare::{ProgramArguments, argument_block, device};
use super::program::RandomProgram;
use super::random::SeededChoices;
use polyloom::{
    CompileError, Defaults, Kernel, LaunchError, LaunchOptions, Session, SessionError, SourceFile, SourceUnit, Tier,
    TierPolicy, without_prints,
};

/// Runs kernels by the interpreter, with checks and without.
pub struct ExtentFuzzer {
    plain: Session,
    checked: Session,
}

/// Describes what became of a launch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum ExtentComparison {
    /// It was refused, and the thread fails the check of the very index.
    Refused,
    /// It was refused, and another check of the thread fails before.
    RefusedLater,
    /// It was not refused and no access was outside.
    Inside,
    /// It was not refused, and an access was outside that no launch verifies.
    Unverified,
}

impl ExtentFuzzer {
    /// Sessions of the interpreter.
    ///
    /// # Errors
    ///
    /// If there can be none here.
    pub fn new() -> Result<ExtentFuzzer, SessionError> {
        let session = || Session::on(device()?.with_policy(TierPolicy::Always(Tier::Interpreter))?);
        let (plain, checked) = (session()?, session()?);
        checked.set_defaults(Defaults { check: true, ..checked.defaults() });
        Ok(ExtentFuzzer { plain, checked })
    }

    /// Launches a program over extents drawn from `seed`.
    ///
    /// # Errors
    ///
    /// What was refused wrongly.
    pub fn check(&self, program: &RandomProgram, seed: u64) -> Result<ExtentComparison, String> {
        let text = program.text.replace("(check=True)", "");
        let kernel = compile(&self.plain, &text).map_err(|error| error.to_string())?;
        let checked = compile(&self.checked, &text).map_err(|error| error.to_string())?;
        let mut random = SeededChoices::new(seed ^ 0x00e7_7e47);
        let ProgramArguments { mut dim, scalars, mut buffers } = ProgramArguments::draw(program, seed);
        for extent in &mut dim {
            match random.below(4) {
                0 => *extent += random.below(*extent as usize + 2) as u64,
                1 => *extent = 1 + random.below(*extent as usize) as u64,
                _ => {}
            }
        }
        let failed = |error: LaunchError| error.to_string();
        let block = argument_block(&kernel, &scalars, &mut buffers).map_err(failed)?;
        // SAFETY: the buffers outlive the launch, and the interpreter looks at every index.
        let done = without_prints(|| unsafe { kernel.launch(&dim, &block, &LaunchOptions::default()) });
        let outside = match done {
            Ok(_) => return Ok(ExtentComparison::Inside),
            Err(LaunchError::Trap(_)) => return Ok(ExtentComparison::Unverified),
            Err(LaunchError::Outside(outside)) => outside,
            Err(error) => return Err(error.to_string()),
        };
        let block = argument_block(&checked, &scalars, &mut buffers).map_err(failed)?;
        let thread = dim.iter().zip(&outside.thread).fold(0, |index, (extent, at)| index * extent + at);
        // SAFETY: as before.
        let done = without_prints(|| unsafe {
            match checked.needs_blocks() {
                // All threads run, because a thread of a block does not run alone.
                true => checked.launch(&dim, &block, &LaunchOptions::default()).map(drop),
                false => checked.interpret_thread(&dim, &block, thread),
            }
        });
        match done {
            Err(LaunchError::Trap(trap)) if trap.site.span == outside.span && trap.index == outside.index() => {
                Ok(ExtentComparison::Refused)
            }
            Err(LaunchError::Trap(_)) => Ok(ExtentComparison::RefusedLater),
            Err(error) => Err(format!("{outside}; with checks {error}")),
            Ok(()) => Err(format!("{outside}; with checks it runs")),
        }
    }
}

fn compile(session: &Session, text: &str) -> Result<Kernel, CompileError> {
    session.compile_file_kernel(&SourceUnit::parse(SourceFile::new("generated.py", text, 1))?, "kernel")
}

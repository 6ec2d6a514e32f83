//! Runs of a kernel: every engine leaves the same bits, finite ones, that depend on every argument.

use super::arguments::{Argument, Arguments, Extents, block};
use super::{Reason, Reject};
use crate::generate::{Program, Values};
use polyloom::ptx::Sanitizers;
use polyloom::{Kernel, LaunchError, LaunchOptions, SimKernel, SimOptions};

/// The sets of arguments: their extents and seeds. The generator has seen the first two; what it might have fitted a
/// kernel to is not in the third.
pub(super) const SETS: [(Extents, u64); 3] = [([7, 5, 3, 2], 1), ([33, 4, 6, 3], 2), ([70, 9, 2, 5], 0x0bad_cafe)];

/// Compares the engines, the first of which is the definition.
pub(super) fn check(program: &Program, reference: &Kernel, quick: &Kernel) -> Result<(), Box<Reject>> {
    if program.inputs.len() != reference.types().len() {
        let (given, wanted) = (program.inputs.len(), reference.types().len());
        return Err(Reject::new(Reason::Failed, format!("{given} inputs are known of a kernel that takes {wanted}")));
    }
    let mut left = Vec::new();
    for (extents, seed) in SETS {
        let given = Arguments::draw(program, reference, &extents, seed);
        let mut expected = given.clone();
        launch(reference, &mut expected)?;
        let mut got = given.clone();
        launch(quick, &mut got)?;
        compare(program, &expected, &got)?;
        left.push((given, expected));
    }
    for (index, input) in program.inputs.iter().enumerate().filter(|(index, _)| reference.writes(*index)) {
        varies(&input.name, index, &left)?;
    }
    matters(program, reference, &left)
}

/// Compares the simulator with the interpreter.
pub(super) fn simulate(
    program: &Program,
    reference: &Kernel,
    kernel: &Kernel,
    simulated: &SimKernel,
) -> Result<(), Box<Reject>> {
    let sim = SimOptions { sanitize: Sanitizers::ALL, counters: false, n_threads: 1 };
    for (extents, seed) in SETS {
        let mut expected = Arguments::draw(program, reference, &extents, seed);
        let mut got = expected.clone();
        launch(reference, &mut expected)?;
        let dim = got.dim.clone();
        let block = block(kernel, &mut got.all).map_err(|error| Reject::new(Reason::Failed, error))?;
        // SAFETY: as in `launch`; the simulator checks every address.
        let done = unsafe { simulated.launch(&dim, &block, &LaunchOptions::default(), &sim) };
        match done {
            Ok(_) => compare(program, &expected, &got)?,
            Err(LaunchError::Simulator(fault)) => return Err(Reject::new(Reason::Sanitizer, fault)),
            Err(error) => return Err(Reject::new(Reason::Failed, error)),
        }
    }
    Ok(())
}

fn launch(kernel: &Kernel, arguments: &mut Arguments) -> Result<(), Box<Reject>> {
    let dim = arguments.dim.clone();
    launch_over(kernel, &dim, &mut arguments.all)
}

/// Launches a kernel, or one of its derivatives, with these arguments.
pub(super) fn launch_over<'a>(
    kernel: &Kernel,
    dim: &[u64],
    all: impl IntoIterator<Item = &'a mut Argument>,
) -> Result<(), Box<Reject>> {
    let block = block(kernel, all).map_err(|error| Reject::new(Reason::Failed, error))?;
    // SAFETY: the arguments outlive the launch, and the block says how large they are; the interpreter, which comes
    // first, checks all indices.
    let done = unsafe { kernel.launch(dim, &block, &LaunchOptions::default()) };
    done.map_err(|error| match error {
        LaunchError::Trap(trap) => Reject::new(Reason::Trap, kernel.explain(&trap).message),
        LaunchError::StepLimit { .. } => Reject::new(Reason::Endless, error),
        error => Reject::new(Reason::Failed, error),
    })
}

fn compare(program: &Program, expected: &Arguments, got: &Arguments) -> Result<(), Box<Reject>> {
    for ((input, expected), got) in program.inputs.iter().zip(&expected.all).zip(&got.all) {
        for index in 0..expected.len() {
            let (want, have) = (expected.number(index), got.number(index));
            if expected.bits(index) != got.bits(index) && !(want.is_nan() && have.is_nan()) {
                let detail = format!("{}[{index}] is {have:e}, the interpreter says {want:e}", input.name);
                return Err(Reject::new(Reason::Disagreement, detail));
            }
        }
    }
    Ok(())
}

/// What the kernel leaves in this array is finite, and not the same throughout in at least two runs.
fn varies(name: &str, index: usize, runs: &[(Arguments, Arguments)]) -> Result<(), Box<Reject>> {
    let mut n_varied = 0;
    let mut firsts = Vec::new();
    for (_, left) in runs {
        let array = &left.all[index];
        if let Some(at) = (0..array.len()).find(|&at| !array.number(at).is_finite()) {
            return Err(Reject::new(Reason::NotFinite, format!("{name}[{at}] is {}", array.number(at))));
        }
        let first = array.bits(0);
        firsts.push(first);
        n_varied += usize::from((1..array.len()).any(|at| array.bits(at) != first));
    }
    // A sum is one number, another each time.
    let differ = firsts.windows(2).all(|pair| pair[0] != pair[1]);
    if n_varied >= 2 || differ { Ok(()) } else { Err(Reject::new(Reason::Constant, name)) }
}

/// Every parameter makes a difference to what is left, in one of the runs.
fn matters(program: &Program, kernel: &Kernel, runs: &[(Arguments, Arguments)]) -> Result<(), Box<Reject>> {
    for (index, input) in program.inputs.iter().enumerate() {
        if input.values == Values::Zeros {
            continue;
        }
        let mut makes_difference = false;
        for ((given, left), (extents, seed)) in runs.iter().zip(SETS) {
            let other = Arguments::draw(program, kernel, &extents, !seed);
            let mut moved = given.clone();
            moved.all[index] = other.all[index].clone();
            launch(kernel, &mut moved)?;
            let differs = |at: usize| at != index && moved.all[at] != left.all[at];
            // What it writes itself differs where that is not what it was given.
            let own = kernel.writes(index) && given.all[index] != left.all[index];
            makes_difference = (0..program.inputs.len()).any(differs) || own;
            if makes_difference {
                break;
            }
        }
        if !makes_difference {
            return Err(Reject::new(Reason::Unused, &input.name));
        }
    }
    Ok(())
}

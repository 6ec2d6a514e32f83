//! Runs of a kernel: every engine leaves the same bits, finite ones, that depend on every argument.

use super::arguments::{Extents, VerifyArgument, VerifyArguments, block};
use crate::generate::{DatasetProgram, InputValues};
use crate::proof::{Reason, RejectedProof};
use polyloom::ptx::Sanitizers;
use polyloom::{
    DeviceKernel as _, Kernel, LaunchError, LaunchOptions, Op, SimKernel, SimOptions, sim_queue, without_prints,
};

/// The sets of arguments that a kernel is run on: extents, and a seed. The generator has seen the first two; what it
/// might have fitted a kernel to is not in the third. Where threads work together they fill whole blocks; otherwise
/// more of them than a warp has would tell nothing, over several axes no more than there have to be.
pub(super) fn sets(program: &DatasetProgram, kernel: &Kernel) -> [(Extents, u64); 3] {
    let [first, second, third] = match program.dim.len() {
        _ if kernel.needs_blocks() => [1, 2, 3].map(|n_blocks| n_blocks * kernel.block_size()),
        1 => [7, 12, 39],
        2 => [5, 6, 9],
        _ => [4, 5, 7],
    };
    [([first, 5, 3, 2], 1), ([second, 4, 6, 3], 2), ([third, 9, 2, 5], 0x0bad_cafe)]
}

/// Describes what a kernel is given, and what it leaves.
pub(super) type Ran = (VerifyArguments, VerifyArguments);

/// Returns what the interpreter, which is the definition, leaves.
pub(super) fn interpreted(program: &DatasetProgram, reference: &Kernel) -> Result<Vec<Ran>, Box<RejectedProof>> {
    if program.inputs.len() != reference.types().len() {
        let (given, wanted) = (program.inputs.len(), reference.types().len());
        return Err(RejectedProof::new(
            Reason::Failed,
            format!("{given} inputs are known of a kernel that takes {wanted}"),
        ));
    }
    let mut left = Vec::new();
    for (extents, seed) in sets(program, reference) {
        let given = VerifyArguments::draw(program, reference, &extents, seed);
        let mut expected = given.clone();
        launch(reference, &mut expected)?;
        left.push((given, expected));
    }
    Ok(left)
}

/// Compares machine code with that.
pub(super) fn agree(program: &DatasetProgram, code: &Kernel, left: &[Ran]) -> Result<(), Box<RejectedProof>> {
    for (given, expected) in left {
        let mut got = given.clone();
        launch(code, &mut got)?;
        compare(program, expected, &got)?;
    }
    Ok(())
}

/// Tells whether these runs left finite numbers that depend on every argument. `explorer` is an engine that is safe on
/// arguments that none has been given.
pub(super) fn depend(program: &DatasetProgram, explorer: &Kernel, left: &[Ran]) -> Result<(), Box<RejectedProof>> {
    // Parameters are those of its HIR, as inputs are, because a launch has more where one is a composite.
    let written = explorer.function().written_arrays();
    for (index, input) in program.inputs.iter().enumerate().filter(|(index, _)| written[*index]) {
        varies(&input.name, index, left)?;
        writes_numbers(&input.name, index, explorer, left)?;
    }
    if !written.contains(&true) {
        return Err(RejectedProof::new(Reason::Constant, "it writes to no array"));
    }
    matters(program, explorer, &written, left)
}

/// Returns true if a GPU may leave other sums than the CPU: see [`polyloom::GlobalSums`].
pub(super) fn may_flush(kernel: &Kernel) -> bool {
    let function = kernel.function();
    let mut may_flush = false;
    function.walk(function.body, &mut |_, data| {
        may_flush |= matches!(data.op, Op::AtomicAdd | Op::AtomicSub | Op::Call);
    });
    may_flush
}

/// Compares the simulator with the interpreter, where it adds as a GPU does. `ran`: what that has left, as far as known.
pub(super) fn simulate(
    program: &DatasetProgram,
    reference: &Kernel,
    kernel: &Kernel,
    simulated: &SimKernel,
    ran: &[Ran],
) -> Result<(), Box<RejectedProof>> {
    for (number, (extents, seed)) in sets(program, kernel).into_iter().enumerate() {
        let (mut got, expected) = match ran.get(number) {
            Some(ran) => ran.clone(),
            None => {
                let given = VerifyArguments::draw(program, reference, &extents, seed);
                let mut expected = given.clone();
                launch(reference, &mut expected)?;
                (given, expected)
            }
        };
        let dim = got.dim.clone();
        simulate_over(kernel, simulated, &dim, &mut got.all)?;
        compare(program, &expected, &got)?;
    }
    Ok(())
}

fn launch(kernel: &Kernel, arguments: &mut VerifyArguments) -> Result<(), Box<RejectedProof>> {
    let dim = arguments.dim.clone();
    launch_over(kernel, &dim, &mut arguments.all)
}

/// Launches a kernel, or one of its derivatives, with these arguments.
pub(super) fn launch_over<'a>(
    kernel: &Kernel,
    dim: &[u64],
    all: impl IntoIterator<Item = &'a mut VerifyArgument>,
) -> Result<(), Box<RejectedProof>> {
    let block = block(kernel, all).map_err(|error| RejectedProof::new(Reason::Failed, error))?;
    let done = without_prints(|| {
        // Indices are not verified before the launch, so that one outside is reported by the check that fails, with the
        // values of its thread.
        let options = LaunchOptions { unchecked: true, ..LaunchOptions::default() };
        // SAFETY: the arguments outlive the launch, and the block says how large they are. The interpreter checks all indices,
        // and machine code where `Verifier::check` has it explore; all other machine code comes after the interpreter, on the
        // arguments that it has been given.
        unsafe { kernel.launch(dim, &block, &options) }
    });
    done.map(drop).map_err(|error| launch_failed(kernel, error))
}

/// Why a kernel whose launch fails is rejected.
pub(super) fn launch_failed(kernel: &Kernel, error: LaunchError) -> Box<RejectedProof> {
    match error {
        LaunchError::Trap(trap) => RejectedProof::new(Reason::Trap, kernel.explain(&trap).message),
        LaunchError::StepLimit { .. } => RejectedProof::new(Reason::Endless, error),
        LaunchError::Simulator(fault) => RejectedProof::new(Reason::Sanitizer, without_addresses(&fault.to_string())),
        error => RejectedProof::new(Reason::Failed, error),
    }
}

/// Launches on the simulator under all its checks.
pub(super) fn sanitized() -> LaunchOptions<'static> {
    let sim = SimOptions { sanitize: Sanitizers::ALL, ..SimOptions::default() };
    LaunchOptions { sim, ..LaunchOptions::default() }
}

/// Without where arrays lay, which is not the same in every run.
fn without_addresses(text: &str) -> String {
    let mut parts = text.split(" at 0x");
    let mut kept = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        kept.push_str(part.trim_start_matches(|digit: char| digit.is_ascii_hexdigit()));
    }
    kept
}

/// Launches PTX of a kernel, or of one of its derivatives, on the simulator with these arguments.
pub(super) fn simulate_over<'a>(
    kernel: &Kernel,
    simulated: &SimKernel,
    dim: &[u64],
    all: impl IntoIterator<Item = &'a mut VerifyArgument>,
) -> Result<(), Box<RejectedProof>> {
    let block = block(kernel, all).map_err(|error| RejectedProof::new(Reason::Failed, error))?;
    // SAFETY: as in `launch_over`; the simulator checks every address.
    let done = without_prints(|| unsafe { simulated.launch(&*sim_queue(), dim, &block, &sanitized()) });
    done.map(drop).map_err(|error| launch_failed(kernel, error))
}

fn compare(
    program: &DatasetProgram,
    expected: &VerifyArguments,
    got: &VerifyArguments,
) -> Result<(), Box<RejectedProof>> {
    for ((input, expected), got) in program.inputs.iter().zip(&expected.all).zip(&got.all) {
        for index in 0..expected.len() {
            let (want, have) = (expected.number(index), got.number(index));
            if expected.bits(index) != got.bits(index) && !(want.is_nan() && have.is_nan()) {
                let detail = format!("{}[{index}] is {have:e}, the interpreter says {want:e}", input.name);
                return Err(RejectedProof::new(Reason::Disagreement, detail));
            }
        }
    }
    Ok(())
}

/// Refuses an array in which the kernel leaves infinities or NaNs, or the same number throughout in all runs but one.
fn varies(name: &str, index: usize, runs: &[Ran]) -> Result<(), Box<RejectedProof>> {
    let mut n_varied = 0;
    let mut firsts = Vec::new();
    for (_, left) in runs {
        let array = &left.all[index];
        if let Some(at) = (0..array.len()).find(|&at| !array.number(at).is_finite()) {
            return Err(RejectedProof::new(Reason::NotFinite, format!("{name}[{at}] is {}", array.number(at))));
        }
        let first = array.bits(0);
        firsts.push(first);
        n_varied += usize::from((1..array.len()).any(|at| array.bits(at) != first));
    }
    // A sum is one number, another each time.
    let differ = firsts.windows(2).all(|pair| pair[0] != pair[1]);
    if n_varied >= 2 || differ { Ok(()) } else { Err(RejectedProof::new(Reason::Constant, name)) }
}

/// Refuses an array in which the kernel leaves one number wherever it writes and something else where it does not, as in an
/// array that is longer than the launch.
fn writes_numbers(name: &str, index: usize, kernel: &Kernel, runs: &[Ran]) -> Result<(), Box<RejectedProof>> {
    let changed = |(given, left): &Ran| -> Vec<u64> {
        let (given, left) = (&given.all[index], &left.all[index]);
        (0..left.len()).filter(|&at| left.bits(at) != given.bits(at)).map(|at| left.bits(at)).collect()
    };
    let changed = runs.iter().flat_map(changed).collect::<Vec<_>>();
    let (Some((given, left)), Some((first, rest))) = (runs.first(), changed.split_first()) else { return Ok(()) };
    if rest.iter().any(|bits| bits != first) {
        return Ok(());
    }
    // The kernel runs on other numbers as well, because some that are left as they were may have been written, too:
    // those that are the same again, whatever was there.
    let mut other = given.clone();
    other.all[index].invert();
    launch(kernel, &mut other)?;
    let (left, other) = (&left.all[index], &other.all[index]);
    match (0..left.len()).any(|at| left.bits(at) == other.bits(at) && left.bits(at) != *first) {
        true => Ok(()),
        false => Err(RejectedProof::new(Reason::Constant, name)),
    }
}

/// Number of times a parameter is moved in each of the runs before it is said to make no difference.
const MOVES: u64 = 4;

/// Every parameter makes a difference to what is left, in one of the runs.
fn matters(
    program: &DatasetProgram,
    kernel: &Kernel,
    written: &[bool],
    runs: &[Ran],
) -> Result<(), Box<RejectedProof>> {
    let makes_difference = |index: usize, attempt: u64, run: &Ran, (extents, seed): (Extents, u64)| {
        let (given, left) = run;
        let other = VerifyArguments::draw(program, kernel, &extents, !(seed + (attempt << 32)));
        let mut moved = given.clone();
        moved.all[index] = other.all[index].clone();
        launch(kernel, &mut moved)?;
        let differs = |at: usize| at != index && moved.all[at].is_moved_from(&left.all[at]);
        // What it writes itself differs where that is not what it was given.
        let own = written[index] && given.all[index] != left.all[index];
        Ok::<bool, Box<RejectedProof>>((0..program.inputs.len()).any(differs) || own)
    };
    'inputs: for (index, input) in program.inputs.iter().enumerate() {
        if input.values == InputValues::Zeros {
            continue;
        }
        for attempt in 0..MOVES {
            for (run, set) in runs.iter().zip(sets(program, kernel)) {
                if makes_difference(index, attempt, run, set)? {
                    continue 'inputs;
                }
            }
        }
        return Err(RejectedProof::new(Reason::Unused, &input.name));
    }
    Ok(())
}

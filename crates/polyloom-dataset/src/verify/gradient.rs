//! Derivatives of a kernel: reverse mode against forward mode, and forward mode against differences.
//!
//! A kernel of `float32` is differenced in double precision ([`Kernel::in_double`]), where a difference tells ten digits
//! of a derivative instead of two. Where the two modes agree on the kernel itself and on its double, and the double's
//! with differences, what is compiled is the derivative.

use super::arguments::{VerifyArgument, VerifyArguments, block};
use super::run::{launch_failed, launch_over as launch, sanitized, sets};
use crate::generate::DatasetProgram;
use crate::proof::{Reason, RejectedProof};
use crate::text::backward;
use polyloom::{
    ArgArray, ArgBlock, BackwardError, BackwardKernel, BackwardRun, CpuQueue, DeviceKernel as _, Kernel, LaunchOptions,
    Queue, Random, Session, SimKernel, TapeLimits, sim_queue, without_prints,
};
use std::sync::Arc;

/// Steps of differences.
const COARSE: f64 = 1e-4;
const FINE: f64 = 1e-5;
/// A step so small that rounding leaves four digits, since by it teeth are found that are finer than other steps.
const FINEST: f64 = 1e-8;
/// Says how far differences of the two steps may be apart, over their size, where a kernel is called smooth.
const SMOOTH: f64 = 1e-5;
/// Says how far the two modes may be apart, over their size, in double precision.
const DOUBLE: f64 = 1e-8;
/// Derivatives beyond this are no use to anybody, and differences do not resolve what is beside them.
const LARGE: f64 = 1e6;

const LIMITS: TapeLimits = TapeLimits { bytes: 1 << 20, n_cores: Some(1) };

/// Numbers for each parameter that has derivatives, and none for others.
type Numbers = Vec<Vec<f64>>;

type Checked<T> = Result<T, Box<RejectedProof>>;

/// Describes what both modes find: what a step in `directions` does to what the kernel leaves, and what a change of its
/// `weights` comes from.
struct DirectionalChange {
    directions: Numbers,
    tangents: Numbers,
    weights: Numbers,
    adjoints: Numbers,
}

impl DirectionalChange {
    /// Returns what the weighted sum of what is left changes by if the arguments move in the directions: by forward
    /// mode, by reverse mode, and the size of the terms that these are sums of.
    fn changes(&self) -> (f64, f64, f64) {
        let (mut forward, mut reverse, mut size) = (0.0, 0.0, 0.0);
        for (weight, tangent) in self.weights.iter().flatten().zip(self.tangents.iter().flatten()) {
            forward += weight * tangent;
            size += f64::abs(weight * tangent);
        }
        for (adjoint, direction) in self.adjoints.iter().flatten().zip(self.directions.iter().flatten()) {
            reverse += adjoint * direction;
            size += f64::abs(adjoint * direction);
        }
        (forward, reverse, size)
    }

    /// Returns true if a change of the arguments in their last digits moves the derivatives to about as far as the two
    /// modes may be apart: then what they are apart by is rounding.
    fn moves_to(&self, nudged: &DirectionalChange) -> bool {
        let ((forward, reverse, size), (nudged_forward, nudged_reverse, _)) = (self.changes(), nudged.changes());
        let moved = (forward - nudged_forward).abs().max((reverse - nudged_reverse).abs());
        moved > 0.1 * DOUBLE * size.max(1e-3)
    }
}

/// A way back, and on what it is gone.
#[derive(Clone, Copy)]
struct WayBack<'a> {
    backward: &'a BackwardKernel,
    /// PTX of the backward kernel on the simulator, if that runs it.
    simulated: Option<&'a SimKernel>,
}

impl<'a> WayBack<'a> {
    fn of(backward: &'a BackwardKernel) -> WayBack<'a> {
        WayBack { backward, simulated: None }
    }
}

/// Compares the derivatives of a kernel, if it has any. In `session`, where the kernel is `interpreted`, both modes are
/// compared with each other and, in double precision, with differences; what machine code finds, with that, as far as the
/// sums that the session `magnitudes` finds tell them apart.
pub(super) fn check(
    program: &DatasetProgram,
    kernel: &Kernel,
    interpreted: &Kernel,
    session: &Session,
    magnitudes: &Session,
) -> Checked<()> {
    let Some(compiled) = backward(kernel)? else { return Ok(()) };
    let (extents, seed) = sets(program, kernel)[0];
    let arguments = VerifyArguments::draw(program, kernel, &extents, seed);
    let found = derivatives(interpreted, WayBack::of(&compiled.on(session)), &arguments)?;
    let agree = modes_agree(&found, 1e-4);
    let quick = adjoints(interpreted, WayBack::of(&compiled), &arguments, &found.weights)?;
    let sums = || adjoints(interpreted, WayBack::of(&compiled.on(magnitudes)), &arguments, &found.weights);
    engines_agree(program, &arguments, &found, &quick, sums)?;
    // Differences tell nothing about noise, because it has no form in double precision.
    let Some(double) = interpreted.in_double() else { return agree };
    let arguments = VerifyArguments::draw(program, &double, &extents, seed);
    let Some(back) = backward(&double)? else { return agree };
    let way_back = WayBack::of(&back);
    let found = derivatives(&double, way_back, &arguments)?;
    if let Err(reject) = modes_agree(&found, DOUBLE) {
        let nudged = derivatives(&double, way_back, &arguments.nudged())?;
        let reason = if found.moves_to(&nudged) { Reason::GradientInexact } else { Reason::Gradient };
        return Err(RejectedProof::new(reason, reject.detail));
    }
    differences_agree(program, &double, &arguments, &found)?;
    // In double precision they are the derivative, because what they differ by is rounding of steps that cancel.
    agree.map_err(|reject| RejectedProof::new(Reason::GradientInexact, reject.detail))
}

/// Compares PTX of the backward kernel, on the simulator, with what the interpreter finds in `session`, as far as the sums
/// that the session `magnitudes` finds tell them apart.
pub(super) fn simulate(
    program: &DatasetProgram,
    kernel: &Kernel,
    session: &Session,
    magnitudes: &Session,
    load: impl FnOnce(&Kernel) -> Checked<SimKernel>,
) -> Checked<()> {
    let Some(compiled) = backward(kernel)? else { return Ok(()) };
    let interpreted = kernel.on(session);
    let (extents, seed) = sets(program, kernel)[0];
    let arguments = VerifyArguments::draw(program, kernel, &extents, seed);
    let expected = derivatives(&interpreted, WayBack::of(&compiled.on(session)), &arguments)?;
    let simulated = load(&compiled.kernel)?;
    let on_simulator = WayBack { backward: &compiled, simulated: Some(&simulated) };
    let found = adjoints(&interpreted, on_simulator, &arguments, &expected.weights)?;
    let sums = || adjoints(&interpreted, WayBack::of(&compiled.on(magnitudes)), &arguments, &expected.weights);
    engines_agree(program, &arguments, &expected, &found, sums)
}

fn wrong(detail: String) -> Box<RejectedProof> {
    RejectedProof::new(Reason::Gradient, detail)
}

/// A number at which most functions are smooth and of a fair size.
fn fair(random: &mut Random) -> f64 {
    let size = 0.1 + 1.7 * (random.bits() >> 11) as f64 / (1u64 << 53) as f64;
    if random.one_in(3) { -size } else { size }
}

/// Fair numbers in place of those that may have derivatives, rounded as the kernel sees them.
fn drawn(arguments: &VerifyArguments, random: &mut Random) -> Numbers {
    let of = |argument: &VerifyArgument| {
        let numbers: Vec<f64> = argument.numbers().iter().map(|_| fair(random)).collect();
        let mut rounded = argument.clone();
        rounded.set_numbers(&numbers);
        rounded.numbers()
    };
    arguments.all.iter().map(of).collect()
}

/// Returns what the kernel leaves in these arrays.
fn left(kernel: &Kernel, arguments: &VerifyArguments, which: &[usize]) -> Checked<Vec<VerifyArgument>> {
    if which.is_empty() {
        return Ok(Vec::new());
    }
    let mut after = arguments.clone();
    launch(kernel.strict().map_or(kernel, |strict| strict), &arguments.dim, &mut after.all)?;
    Ok(which.iter().map(|&index| after.all[index].clone()).collect())
}

fn derivatives(kernel: &Kernel, way_back: WayBack<'_>, arguments: &VerifyArguments) -> Checked<DirectionalChange> {
    let mut random = Random::new(0xd1ff);
    let (directions, mut weights) = (drawn(arguments, &mut random), drawn(arguments, &mut random));
    let tangents = forward(kernel, arguments, &directions)?;
    for (index, argument) in arguments.all.iter().enumerate() {
        // A number has nothing left that could be weighted.
        if argument.shape().is_none() {
            weights[index].fill(0.0);
        }
    }
    let adjoints = adjoints(kernel, way_back, arguments, &weights)?;
    let found = DirectionalChange { directions, tangents, weights, adjoints };
    let all = found.tangents.iter().chain(&found.adjoints).flatten();
    match all.into_iter().find(|number| !number.is_finite()) {
        Some(number) => Err(RejectedProof::new(Reason::GradientNotFinite, format!("a derivative is {number}"))),
        None => Ok(found),
    }
}

/// Returns what a change of a weighted sum of what the kernel leaves comes from.
fn adjoints(
    kernel: &Kernel,
    way_back: WayBack<'_>,
    arguments: &VerifyArguments,
    weights: &[Vec<f64>],
) -> Checked<Numbers> {
    let needs = &way_back.backward.needs;
    let of = |&index: &usize| arguments.all[index].adjoint(&weights[index], kernel.types()[index]);
    let mut found: Vec<VerifyArgument> = needs.adjoints.iter().map(of).collect();
    let mut after = left(kernel, arguments, &needs.after)?;
    reverse(kernel, way_back, arguments, &mut found, &mut after)?;
    let mut adjoints: Numbers = weights.iter().map(|numbers| vec![0.0; numbers.len()]).collect();
    for (&index, adjoint) in needs.adjoints.iter().zip(&found) {
        adjoints[index] = adjoint.numbers();
    }
    Ok(adjoints)
}

/// Returns what a step in these directions does to what the kernel leaves.
fn forward(kernel: &Kernel, arguments: &VerifyArguments, directions: &Numbers) -> Checked<Numbers> {
    let request = crate::text::request(kernel);
    let tangent = kernel.tangent(&request)?;
    let mut all: Vec<VerifyArgument> = Vec::new();
    all.extend(arguments.all.iter().cloned());
    for &index in &tangent.tangents {
        let mut moving = arguments.all[index].clone();
        moving.set_numbers(&directions[index]);
        all.push(moving);
    }
    all.extend(left(kernel, arguments, &tangent.after)?);
    launch(&tangent.kernel, &arguments.dim, &mut all)?;
    let mut tangents = directions.clone();
    for (&index, moved) in tangent.tangents.iter().zip(&all[arguments.all.len()..]) {
        // A number moves where it comes from, and nothing is left in it.
        tangents[index] = match moved.shape() {
            Some(_) => moved.numbers(),
            None => vec![0.0; directions[index].len()],
        };
    }
    Ok(tangents)
}

/// Launches a backward kernel of `kernel` on its arguments, adjoints and arrays as the kernel leaves them.
fn reverse(
    kernel: &Kernel,
    way_back: WayBack<'_>,
    arguments: &VerifyArguments,
    adjoints: &mut [VerifyArgument],
    after: &mut [VerifyArgument],
) -> Checked<()> {
    let WayBack { backward, simulated } = way_back;
    let mut all = arguments.all.clone();
    let args = block(kernel, &mut all).map_err(|error| RejectedProof::new(Reason::Failed, error))?;
    let adjoints: Vec<ArgArray> = adjoints.iter_mut().filter_map(VerifyArgument::as_array).collect();
    let after: Vec<ArgArray> = after.iter_mut().filter_map(VerifyArgument::as_array).collect();
    let queue: Arc<dyn Queue> = if simulated.is_some() { sim_queue() } else { Arc::new(CpuQueue) };
    let launch = |part: &Kernel, dim: &[u64], args: &ArgBlock| match simulated {
        // SAFETY: the arguments outlive the launch; the simulator checks every address.
        Some(simulated) if std::ptr::eq(part, &*backward.kernel) => unsafe {
            simulated.launch(&*queue, dim, args, &sanitized())
        },
        // SAFETY: as above; the interpreter checks all indices, and machine code comes after it, on the same arguments.
        _ => unsafe { part.launch(dim, args, &LaunchOptions { unchecked: true, ..LaunchOptions::default() }) },
    };
    let run = BackwardRun {
        forward: kernel,
        shape: &arguments.dim,
        args: &args,
        adjoints: &adjoints,
        after: &after,
        queue: &queue,
        is_whole: true,
        run: &|part, dim, args| without_prints(|| launch(part, dim, args)),
    };
    // SAFETY: as above.
    let done = unsafe { backward.plan_of(&run, LIMITS).and_then(|plan| backward.launch(&run, false, plan.as_ref())) };
    done.map(drop).map_err(|error| match error {
        BackwardError::Launch { kernel, error } => launch_failed(&kernel, error),
        error => RejectedProof::new(Reason::Failed, error),
    })
}

/// A weighted sum of what is left moves as much by one mode as by the other.
fn modes_agree(found: &DirectionalChange, tolerance: f64) -> Checked<()> {
    let (forward, reverse, size) = found.changes();
    match (forward - reverse).abs() <= tolerance * size.max(1e-3) {
        true => Ok(()),
        false => Err(wrong(format!("forward mode gives {forward:e}, reverse mode {reverse:e}"))),
    }
}

/// Machine code finds what the interpreter finds. Where it does not, what threads have added in another order tells how
/// far they may be apart: `sums` gives the sums of the magnitudes of these terms.
fn engines_agree(
    program: &DatasetProgram,
    arguments: &VerifyArguments,
    expected: &DirectionalChange,
    found: &Numbers,
    sums: impl FnOnce() -> Checked<Numbers>,
) -> Checked<()> {
    let differ = |param: usize| -> Vec<usize> {
        let (expected, found) = (&expected.adjoints[param], &found[param]);
        let largest = expected.iter().fold(1e-6, |largest: f64, number| largest.max(number.abs()));
        (0..expected.len()).filter(|&index| (expected[index] - found[index]).abs() > 1e-5 * largest).collect()
    };
    let places: Vec<(usize, usize)> =
        (0..found.len()).flat_map(|param| differ(param).into_iter().map(move |index| (param, index))).collect();
    if places.is_empty() {
        return Ok(());
    }
    let sums = sums()?;
    let n_threads = arguments.dim.iter().product::<u64>() as f64;
    for (param, index) in places {
        let (want, have) = (expected.adjoints[param][index], found[param][index]);
        // The initial value is a term, too, with its sign.
        let size = sums[param][index].abs() + 2.0 * expected.weights[param][index].abs();
        // Two sums of n terms are apart by 2 (n - 1) units of rounding of the sum of their magnitudes at most (Higham,
        // Accuracy and Stability of Numerical Algorithms, §4.2).
        if (want - have).abs() > n_threads * arguments.all[param].epsilon() * size {
            let name = &program.inputs[param].name;
            let detail = format!("derivative of {name}[{index}]: {have:e}, the interpreter says {want:e}");
            return Err(RejectedProof::new(Reason::Disagreement, detail));
        }
    }
    Ok(())
}

/// Returns what the kernel leaves if all its arguments move so far in their directions.
fn moved(kernel: &Kernel, arguments: &VerifyArguments, directions: &Numbers, step: f64) -> Checked<Numbers> {
    let mut moved = arguments.clone();
    for (argument, directions) in moved.all.iter_mut().zip(directions) {
        let numbers: Vec<f64> = argument.numbers().iter().zip(directions).map(|(x, d)| x + step * d).collect();
        argument.set_numbers(&numbers);
    }
    launch(kernel, &arguments.dim, &mut moved.all)?;
    Ok(moved.all.iter().map(VerifyArgument::numbers).collect())
}

/// Tangents are what differences say, wherever those of two steps agree.
fn differences_agree(
    program: &DatasetProgram,
    kernel: &Kernel,
    arguments: &VerifyArguments,
    found: &DirectionalChange,
) -> Checked<()> {
    let around = |step: f64| -> Checked<(Numbers, Numbers)> {
        let ahead = moved(kernel, arguments, &found.directions, step)?;
        Ok((ahead, moved(kernel, arguments, &found.directions, -step)?))
    };
    let here = moved(kernel, arguments, &found.directions, 0.0)?;
    let (coarse, fine) = (around(COARSE)?, around(FINE)?);
    let mut finest = None;
    for (param, tangents) in found.tangents.iter().enumerate() {
        if arguments.all[param].shape().is_none() {
            continue;
        }
        for (index, tangent) in tangents.iter().enumerate() {
            let of = |(ahead, behind): &(Numbers, Numbers), step| {
                let (ahead, behind, here) = (ahead[param][index], behind[param][index], here[param][index]);
                let bend = ((ahead - here) - (here - behind)).abs() / step;
                ((ahead - behind) / (2.0 * step), bend)
            };
            let ((coarse, coarse_bend), (fine, fine_bend)) = (of(&coarse, COARSE), of(&fine, FINE));
            let size = coarse.abs().max(fine.abs()).max(1e-3);
            // Rounding error of a difference of numbers of this size.
            let noise = 1e-15 * here[param][index].abs() / FINE;
            let is_close = (coarse - fine).abs() <= SMOOTH * size;
            // A kink at the place itself, since the two sides' differences stay apart.
            let is_kink = fine_bend > 10.0 * noise && fine_bend > SMOOTH * size && coarse_bend < 3.0 * fine_bend;
            if !is_close || is_kink || noise > SMOOTH * size || size > LARGE {
                continue;
            }
            let apart = 100.0 * SMOOTH * size.max(tangent.abs());
            if (tangent - fine).abs() > apart {
                if finest.is_none() {
                    finest = Some(around(FINEST)?);
                }
                // Teeth, such as those of a remainder by a small number, of which other steps see the mean.
                let is_toothed = |found: &(Numbers, Numbers)| (of(found, FINEST).0 - fine).abs() > apart;
                if finest.as_ref().is_some_and(is_toothed) {
                    continue;
                }
                let name = &program.inputs[param].name;
                return Err(wrong(format!("derivative of {name}[{index}]: {tangent:e}, differences say {fine:e}")));
            }
        }
    }
    Ok(())
}

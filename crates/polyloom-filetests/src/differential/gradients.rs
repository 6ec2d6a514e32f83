//! Derivatives of generated kernels: reverse mode against forward mode against differences, on every engine.

use super::compare::{ComparedEngine, Disagreement, EngineSet, GuardedBuffer, ProgramArguments, silently};
use super::program::RandomProgram;
use super::random::SeededChoices;
use polyloom::{
    AdjointAccess, ArgArray, ArgBlock, ArrayLayout, BackwardError, BackwardKernel, BackwardRun, Composite, CpuQueue,
    DerivativeLaunch, DerivativeRequest, Kernel, LaunchArgument, LaunchError, LaunchOptions, Queue, Scalar, SimOptions,
    SourceFile, SourceUnit, TangentKernel, TapeLimits, Type, sim_queue,
};
use polyloom_ir::Code;
use std::sync::Arc;

/// Describes what became of a program whose derivatives were to be checked.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum GradientOutcome {
    /// They agree.
    Agree,
    /// They agree, but differences do not tell what they should be, because the program is not smooth there.
    AgreeNotSmooth,
    /// There is none, says the compiler.
    Refused,
    /// Something is infinite or not a number.
    NotFinite,
    /// The kernel fails a check.
    Trapped,
}

/// Directional differences are trusted where those of two steps are so close, relative to the largest.
const SMOOTH: f64 = 1e-5;

/// Numbers that move faster hide steps from differences, since `ceil` of them has derivative zero.
const LARGE: f64 = 1e6;

/// Tapes may take little, so that launches are in parts.
const LIMITS: TapeLimits = TapeLimits { bytes: 4096, n_cores: Some(1) };

/// Says how far parameters move. Differences of what rounding or a step has made multiples of some number agree where
/// the quotient of the two steps is that of small integers, however wrong both are: this one, 3 plus the golden ratio,
/// is as far from such as numbers are.
const COARSE: f64 = 1e-5;
const FINE: f64 = COARSE / 4.618_033_988_749_895;

/// One of so many programs has gradients written rather than added to as well.
const OVERWRITTEN: u64 = 3;

/// Steps for what neither of these moves, since a large number that an argument is added to may have swallowed them. A
/// step function of numbers of a fair size, `floor` or `sign`, is moved by the near ones, and not by their own length,
/// a large number that swallows `COARSE` perhaps by the wide or far ones alone.
const NEAR: [f64; 3] = [0.0131, 0.117, 0.731];
const WIDE: f64 = 731.3;
const FAR: [f64; 2] = [1e10, 1e20];

/// Says how close, relatively, the movement by a near or wide step is to the tangent if a large number has swallowed
/// smaller ones, since it rounds the step.
const SWALLOWED: f64 = 1e-2;

/// Smaller numbers are compared as this one is, since they may be what is left of larger ones, added in another order.
const SMALL: f64 = 1e-5;

/// Says how far the modes may be apart, in multiples of what moves if arguments do by a few units in the last place.
const NOISE: f64 = 10.0;

impl EngineSet {
    /// Differentiates a program in both modes, with arguments drawn from `seed`, and compares.
    ///
    /// # Errors
    ///
    /// The first disagreement: between engines, between the modes, or with central differences.
    pub fn check_gradients(&self, program: &RandomProgram, seed: u64) -> Result<GradientOutcome, Box<Disagreement>> {
        silently(|| self.gradients(program, seed))
    }

    fn gradients(&self, program: &RandomProgram, seed: u64) -> Result<GradientOutcome, Box<Disagreement>> {
        let mut first: Option<LaunchDerivatives> = None;
        for engine in self.all() {
            let run = EngineRun::new(engine, program, seed)?;
            let found = match run.derivatives()? {
                Ok(found) => found,
                Err(other) => return Ok(other),
            };
            let Some(expected) = &first else {
                found.check(&run)?;
                if !found.is_finite() {
                    return Ok(GradientOutcome::NotFinite);
                }
                first = Some(found);
                continue;
            };
            for (which, expected, got) in
                [("adjoint", &expected.adjoints, &found.adjoints), ("tangent", &expected.tangents, &found.tangents)]
            {
                // Engines add in different orders.
                if let Some(apart) = apart(expected, got, 1e-9) {
                    return Err(disagreement(format!("{}: {which} {apart}, the interpreter's first", engine.name)));
                }
            }
        }
        let Some(found) = first else { return Ok(GradientOutcome::Refused) };
        let run = EngineRun::new(&self.all()[1], program, seed)?;
        run.check_differences(&found)
    }
}

fn disagreement(message: String) -> Box<Disagreement> {
    Box::new(Disagreement::Derivative(message))
}

/// The numbers in arrays.
type Numbers = Vec<Vec<f64>>;

/// Derivatives of one launch.
struct LaunchDerivatives {
    /// The direction in which every parameter moves.
    directions: Numbers,
    /// Says how what the kernel leaves in every parameter then moves.
    tangents: Numbers,
    /// Holds what the kernel leaves counts so much.
    weights: Numbers,
    /// The gradient of the weighted sum.
    adjoints: Numbers,
}

impl LaunchDerivatives {
    fn is_finite(&self) -> bool {
        let all = [&self.tangents, &self.adjoints];
        all.into_iter().flatten().flatten().all(|number| number.is_finite() && number.abs() < 1e100)
    }

    /// The weighted sum moves as much by one mode as by the other, but for what rounding makes of it.
    fn check(&self, run: &EngineRun<'_>) -> Result<(), Box<Disagreement>> {
        if !self.is_finite() {
            return Ok(());
        }
        let [(forward, size), (reverse, other)] = self.movements();
        let apart = (forward - reverse).abs();
        if apart > 1e-7 * (size + other).max(1e-6) && apart > NOISE * run.noise(self)? {
            let name = run.engine.name;
            return Err(disagreement(format!("{name}: forward mode gives {forward:e}, reverse mode {reverse:e}")));
        }
        Ok(())
    }

    /// Returns how the weighted sum moves by forward and by reverse mode, and the sum of its terms' magnitudes.
    fn movements(&self) -> [(f64, f64); 2] {
        [(&self.weights, &self.tangents), (&self.adjoints, &self.directions)].map(|(a, b)| {
            let terms = a.iter().flatten().zip(b.iter().flatten()).map(|(a, b)| a * b);
            terms.fold((0.0, 0.0), |(sum, size), term| (sum + term, size + f64::abs(term)))
        })
    }
}

/// The first numbers that are further apart than by so much of the largest.
fn apart(a: &Numbers, b: &Numbers, tolerance: f64) -> Option<String> {
    for (param, (a, b)) in a.iter().zip(b).enumerate() {
        let largest = a.iter().chain(b).fold(0.0, |largest: f64, number| largest.max(number.abs()));
        for (index, (x, y)) in a.iter().zip(b).enumerate() {
            if (x - y).abs() > tolerance * largest.max(SMALL) {
                return Some(format!("{index} of parameter {param}: {x:e} and {y:e}"));
            }
        }
    }
    None
}

/// A program on an engine.
struct EngineRun<'a> {
    engine: &'a ComparedEngine,
    kernel: Kernel,
    program: &'a RandomProgram,
    seed: u64,
    /// Holds what all numbers among the arguments are multiplied by.
    scale: f64,
}

/// Describes what a parameter of HIR is given.
enum ParamValue {
    /// One, or the components of a composite.
    Scalars(Scalar, Vec<u64>),
    Array(GuardedBuffer),
}

impl ParamValue {
    /// The array, as an argument of a launch; nothing if it is none.
    fn as_array(&mut self) -> Option<ArgArray> {
        let ParamValue::Array(buffer) = self else { return None };
        let layout = ArrayLayout {
            base: buffer.base() as u64,
            elem_bytes: buffer.elem().bytes().into(),
            extents: buffer.shape.as_slice().into(),
            strides: buffer.strides.as_slice().into(),
        };
        Some(ArgArray { elem: buffer.elem(), layout, is_resident: false })
    }
}

impl<'a> EngineRun<'a> {
    fn new(
        engine: &'a ComparedEngine,
        program: &'a RandomProgram,
        seed: u64,
    ) -> Result<EngineRun<'a>, Box<Disagreement>> {
        let rejected = |error| Box::new(Disagreement::Rejected(Box::new(error)));
        let file = SourceFile::new("generated.py", program.text.as_str(), 1);
        let unit = SourceUnit::parse(file).map_err(rejected)?;
        let kernel = engine.session.compile_file_kernel(&unit, "kernel").map_err(rejected)?;
        Ok(EngineRun { engine, kernel, program, seed, scale: 1.0 })
    }

    /// The arguments, a value for each parameter of the kernel's HIR.
    fn arguments(&self) -> (Vec<u64>, Vec<ParamValue>) {
        let ProgramArguments { dim, scalars, buffers } = ProgramArguments::draw(self.program, self.seed);
        let mut random = SeededChoices::new(self.seed ^ 0x5eed);
        let (mut scalars, mut buffers) = (scalars.into_iter(), buffers.into_iter());
        let mut given = Vec::new();
        for &ty in self.kernel.types() {
            if ty.as_any_array().is_some() {
                let Some(mut buffer) = buffers.next() else { break };
                if buffer.elem() == Scalar::F64 {
                    let numbers =
                        buffer.numbers().iter().map(|_| self.scale * smooth_number(&mut random)).collect::<Vec<_>>();
                    buffer.set_numbers(&numbers);
                }
                given.push(ParamValue::Array(buffer));
            } else {
                let n = ty.as_composite().map_or(1, Composite::n_components);
                let mut values: Vec<u64> = scalars.by_ref().take(n).collect();
                let elem = elem_of(ty).unwrap_or(Scalar::I32);
                if elem == Scalar::F64 {
                    values.iter_mut().for_each(|bits| *bits = (self.scale * smooth_number(&mut random)).to_bits());
                }
                given.push(ParamValue::Scalars(elem, values));
            }
        }
        (dim, given)
    }

    fn request(&self) -> DerivativeRequest {
        let active = vec![true; self.kernel.types().len()];
        let (checkpoints, rows) = (self.seed % 2 == 1, self.seed % 4 == 1);
        DerivativeRequest { checkpoints, rows, ..DerivativeRequest::new(active, self.program.rank as u8) }
    }

    fn derivatives(&self) -> Result<Result<LaunchDerivatives, GradientOutcome>, Box<Disagreement>> {
        let request = self.request();
        let refused =
            |error: polyloom::CompileError| match error.diagnostics.iter().all(|d| d.code == Code::NotDifferentiable) {
                true => Ok(Err(GradientOutcome::Refused)),
                false => Err(Box::new(Disagreement::Rejected(Box::new(error)))),
            };
        let (dim, given) = self.arguments();
        let arguments: Vec<LaunchArgument> = given.iter().map(ParamValue::known).collect();
        let launch = DerivativeLaunch { dim: &dim, arguments: &arguments };
        let backward = self.kernel.backward(&request).and_then(|backward| backward.check(&launch).map(|()| backward));
        let backward = match backward {
            Ok(backward) => backward,
            Err(error) => return refused(error),
        };
        let tangent = self.kernel.tangent(&request).and_then(|tangent| tangent.check(&launch).map(|()| tangent));
        let tangent = match tangent {
            Ok(tangent) => tangent,
            Err(error) => return refused(error),
        };
        let mut random = SeededChoices::new(self.seed ^ 0xd1ff);
        let directions = self.numbers_like(&given, &mut random);
        let mut weights = self.numbers_like(&given, &mut random);
        let (Some(tangents), Some(adjoints)) =
            (self.forward(&tangent, &directions)?, self.reverse(&backward, &weights)?)
        else {
            return Ok(Err(GradientOutcome::Trapped));
        };
        // A scalar has nothing left that could be weighted.
        for (weights, given) in weights.iter_mut().zip(&given) {
            if let ParamValue::Scalars(..) = given {
                weights.fill(0.0);
            }
        }
        Ok(Ok(LaunchDerivatives { directions, tangents, weights, adjoints }))
    }

    /// Returns how what the kernel leaves moves if its parameters move in these directions, unless it fails a check.
    fn forward(&self, tangent: &TangentKernel, directions: &Numbers) -> Result<Option<Numbers>, Box<Disagreement>> {
        let (dim, mut args) = self.arguments();
        let (_, mut moving) = self.arguments();
        for (moving, directions) in moving.iter_mut().zip(directions) {
            moving.set_numbers(directions);
        }
        let Ok(mut left) = self.left(&tangent.after, &dim)? else { return Ok(None) };
        let is_moving = |&(index, _): &(usize, &mut ParamValue)| tangent.tangents.contains(&index);
        let mut all: Vec<&mut ParamValue> = args.iter_mut().collect();
        all.extend(moving.iter_mut().enumerate().filter(is_moving).map(|(_, given)| given));
        all.extend(left.iter_mut());
        if self.launch(&tangent.kernel, &dim, &mut all, &mut [])?.is_err() {
            return Ok(None);
        }
        let mut tangents = directions.clone();
        for &index in &tangent.tangents {
            // A scalar moves where it comes from, and nothing is left in it.
            match &moving[index] {
                ParamValue::Array(buffer) => tangents[index] = buffer.numbers(),
                ParamValue::Scalars(..) => tangents[index].fill(0.0),
            }
        }
        Ok(Some(tangents))
    }

    /// The gradient of what the kernel leaves, weighted so, unless it fails a check.
    fn reverse(&self, backward: &BackwardKernel, weights: &Numbers) -> Result<Option<Numbers>, Box<Disagreement>> {
        let gradient = self.adjoints(backward, weights, false)?;
        if self.seed.is_multiple_of(OVERWRITTEN)
            && !backward.needs.takes_part()
            && let Some(gradient) = &gradient
        {
            let Some(mut written) = self.adjoints(backward, weights, true)? else { return Ok(None) };
            for (&index, access) in backward.needs.adjoints.iter().zip(&backward.needs.accesses) {
                let is_array = self.kernel.types()[index].as_any_array().is_some();
                match access {
                    // Sums began with the weights, and the adjoint of a number with zero.
                    AdjointAccess::Reads if is_array => {
                        written[index].iter_mut().zip(&weights[index]).for_each(|(number, began)| *number += began);
                    }
                    AdjointAccess::Writes if written[index] != weights[index] => {
                        let name = self.engine.name;
                        return Err(disagreement(format!("{name}: the adjoint of parameter {index} changes")));
                    }
                    AdjointAccess::Writes => written[index].clone_from(&gradient[index]),
                    _ => {}
                }
            }
            if let Some(apart) = apart(gradient, &written, 1e-9) {
                let name = self.engine.name;
                return Err(disagreement(format!("{name}: adjoint {apart}, the latter where it is written")));
            }
        }
        Ok(gradient)
    }

    /// Returns what the backward kernel leaves in the adjoints, which begin with the weights; where it `overwrites`,
    /// what it writes there if they begin so.
    fn adjoints(
        &self,
        backward: &BackwardKernel,
        weights: &Numbers,
        overwrites: bool,
    ) -> Result<Option<Numbers>, Box<Disagreement>> {
        let (dim, mut args) = self.arguments();
        let (_, like) = self.arguments();
        let adjoint = |&index: &usize| match &like[index] {
            ParamValue::Array(buffer) => {
                let mut buffer = buffer.clone();
                buffer.set_numbers(&weights[index]);
                ParamValue::Array(buffer)
            }
            ParamValue::Scalars(_, values) => {
                let inner = self.kernel.types()[index].as_composite().map(Composite::shape).unwrap_or_default();
                let shape: Vec<u64> = std::iter::once(1).chain(inner.iter().map(|&n| u64::from(n))).collect();
                let mut buffer = GuardedBuffer::dense(Scalar::F64, &shape);
                buffer.set_numbers(&vec![0.0; values.len()]);
                ParamValue::Array(buffer)
            }
        };
        let which = &backward.needs.adjoints;
        let mut adjoints: Vec<ParamValue> = which.iter().map(adjoint).collect();
        let Ok(mut left) = self.left(&backward.needs.after, &dim)? else { return Ok(None) };
        let mut all: Vec<&mut ParamValue> = args.iter_mut().chain(adjoints.iter_mut()).chain(left.iter_mut()).collect();
        if self.launch_backward(backward, &dim, &mut all, overwrites)?.is_err() {
            return Ok(None);
        }
        let mut gradient: Numbers = like.iter().map(|given| vec![0.0; given.numbers().len()]).collect();
        for (&index, adjoint) in which.iter().zip(&adjoints) {
            gradient[index] = adjoint.numbers();
        }
        Ok(Some(gradient))
    }

    /// Random numbers for every parameter that has derivatives.
    fn numbers_like(&self, given: &[ParamValue], random: &mut SeededChoices) -> Numbers {
        given.iter().map(|given| given.numbers().iter().map(|_| smooth_number(random)).collect()).collect()
    }

    /// Returns what the kernel leaves in these arrays.
    fn left(&self, arrays: &[usize], dim: &[u64]) -> Result<Result<Vec<ParamValue>, LaunchError>, Box<Disagreement>> {
        if arrays.is_empty() {
            return Ok(Ok(Vec::new()));
        }
        let (_, mut args) = self.arguments();
        let mut all: Vec<&mut ParamValue> = args.iter_mut().collect();
        if let Err(error) =
            self.launch(self.kernel.strict().map_or(&self.kernel, |strict| strict), dim, &mut all, &mut [])?
        {
            return Ok(Err(error));
        }
        let mut args: Vec<Option<ParamValue>> = args.into_iter().map(Some).collect();
        Ok(Ok(arrays.iter().filter_map(|&index| args[index].take()).collect()))
    }

    /// Launches a backward kernel, with tapes if it has any: on the kernel's arguments, adjoints and arrays as the kernel
    /// leaves them.
    fn launch_backward(
        &self,
        backward: &BackwardKernel,
        dim: &[u64],
        given: &mut [&mut ParamValue],
        overwrites: bool,
    ) -> Result<Result<(), LaunchError>, Box<Disagreement>> {
        let (args, arrays) = given.split_at_mut(self.kernel.types().len());
        let args = self.block(&self.kernel, args, &mut [])?;
        let arrays: Vec<ArgArray> = arrays.iter_mut().filter_map(|array| array.as_array()).collect();
        let (adjoints, after) = arrays.split_at(backward.needs.adjoints.len());
        let queue: Arc<dyn Queue> = if self.engine.simulated.is_some() { sim_queue() } else { Arc::new(CpuQueue) };
        let options = self.options();
        let launch = |kernel: &Kernel, dim: &[u64], block: &ArgBlock| {
            // SAFETY: the buffers outlive the launch and reach as far as their shapes and strides say.
            unsafe { kernel.launch_on(&*queue, dim, block, &options) }
        };
        let run = BackwardRun {
            forward: &self.kernel,
            shape: dim,
            args: &args,
            adjoints,
            after,
            queue: &queue,
            is_whole: false,
            run: &launch,
        };
        // SAFETY: as above.
        let done =
            unsafe { backward.plan_of(&run, LIMITS).and_then(|plan| backward.launch(&run, overwrites, plan.as_ref())) };
        match done {
            Ok(_) => Ok(Ok(())),
            Err(BackwardError::Launch { error: error @ LaunchError::Trap(_), .. }) => Ok(Err(error)),
            Err(BackwardError::Launch { error, .. }) => Err(self.failed(error)),
            Err(error) => Err(disagreement(error.to_string())),
        }
    }

    /// Launches a kernel on the engine.
    fn launch(
        &self,
        kernel: &Kernel,
        dim: &[u64],
        given: &mut [&mut ParamValue],
        more: &mut [ParamValue],
    ) -> Result<Result<(), LaunchError>, Box<Disagreement>> {
        let block = self.block(kernel, given, more)?;
        let options = self.options();
        // SAFETY: the buffers outlive the launch and reach as far as their shapes and strides say.
        let done = unsafe {
            match self.engine.simulated {
                None => kernel.launch(dim, &block, &options),
                Some(_) => kernel.launch_on(&*sim_queue(), dim, &block, &options),
            }
        };
        match done {
            Err(LaunchError::Trap(_)) | Ok(_) => Ok(done.map(drop)),
            Err(error) => Err(self.failed(error)),
        }
    }

    fn options(&self) -> LaunchOptions<'static> {
        let sim = SimOptions { arch: self.engine.simulated, ..SimOptions::default() };
        LaunchOptions { sim, ..LaunchOptions::default() }
    }

    /// The arguments of a launch.
    fn block(
        &self,
        kernel: &Kernel,
        given: &mut [&mut ParamValue],
        more: &mut [ParamValue],
    ) -> Result<ArgBlock, Box<Disagreement>> {
        let mut block = ArgBlock::new();
        let mut types = kernel.params().types().iter();
        for given in given.iter_mut().map(|given| &mut **given).chain(more) {
            match given {
                ParamValue::Scalars(_, values) => {
                    for &bits in values.iter() {
                        let Some(Type::Scalar(scalar)) = types.next() else {
                            return Err(disagreement("parameters".into()));
                        };
                        let filled = block.scalar(kernel.params(), *scalar, bits);
                        filled.map_err(|error| self.failed(error.into()))?;
                    }
                }
                ParamValue::Array(buffer) => {
                    types.next();
                    let (elem, shape, strides) = (buffer.elem(), buffer.shape.clone(), buffer.strides.clone());
                    let filled = block.array(kernel.params(), elem, buffer.base(), &shape, &strides);
                    filled.map_err(|error| self.failed(error.into()))?;
                }
            }
        }
        Ok(block)
    }

    fn failed(&self, error: LaunchError) -> Box<Disagreement> {
        Box::new(Disagreement::Failed { engine: self.engine.name, error })
    }

    /// Returns what the kernel leaves if every parameter moves so far in its direction.
    fn moved(&self, directions: &Numbers, step: f64) -> Result<Numbers, Box<Disagreement>> {
        let (dim, mut args) = self.arguments();
        for (arg, directions) in args.iter_mut().zip(directions) {
            let numbers: Vec<f64> = arg.numbers().iter().zip(directions).map(|(x, d)| x + step * d).collect();
            arg.set_numbers(&numbers);
        }
        let mut all: Vec<&mut ParamValue> = args.iter_mut().collect();
        let _ = self.launch(&self.kernel, &dim, &mut all, &mut [])?;
        Ok(args.iter().map(ParamValue::numbers).collect())
    }

    /// Returns how far the weighted sum's movement is from the one found if the arguments are a few units in the last
    /// place from what they were: as far as rounding may bring it, where large terms cancel within the derivatives.
    fn noise(&self, found: &LaunchDerivatives) -> Result<f64, Box<Disagreement>> {
        let mut noise: f64 = 0.0;
        for n_units in [1, 2, 3, 4, 7, 12, 20, 33] {
            let scale = 1.0 + f64::from(n_units) * f64::EPSILON;
            let run = EngineRun { scale, ..EngineRun::new(self.engine, self.program, self.seed)? };
            let Ok(moved) = run.derivatives()? else { continue };
            for ((before, _), (after, _)) in found.movements().into_iter().zip(moved.movements()) {
                noise = noise.max((after - before).abs());
            }
        }
        Ok(noise)
    }

    /// Tells whether a large number may have swallowed the steps of differences, none of which has moved this number:
    /// one of the near steps moves it by what the tangent says (the longer ones what rounds the step, the shorter ones
    /// what bends), or, if none moves it, the wide one does, or a far one moves it at all.
    fn swallows_steps(
        &self,
        found: &LaunchDerivatives,
        here: &Numbers,
        (param, index): (usize, usize),
    ) -> Result<bool, Box<Disagreement>> {
        let (here, tangent) = (here[param][index], found.tangents[param][index]);
        // How it moves, and whether as the tangent says.
        let moves = |step: f64| -> Result<Option<bool>, Box<Disagreement>> {
            let [ahead, behind] = [step, -step].map(|step| self.moved(&found.directions, step));
            let (ahead, behind) = (ahead?[param][index], behind?[param][index]);
            let is_linear = ((ahead - behind) / (2.0 * step) - tangent).abs() <= SWALLOWED * tangent.abs();
            Ok((ahead.to_bits() != here.to_bits() || behind.to_bits() != here.to_bits()).then_some(is_linear))
        };
        let mut is_moved = false;
        for step in NEAR {
            match moves(step)? {
                Some(true) => return Ok(true),
                found => is_moved |= found.is_some(),
            }
        }
        if is_moved {
            return Ok(false);
        }
        if let Some(is_linear) = moves(WIDE)? {
            return Ok(is_linear);
        }
        for step in FAR {
            if moves(step)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn check_differences(&self, found: &LaunchDerivatives) -> Result<GradientOutcome, Box<Disagreement>> {
        let (_, given) = self.arguments();
        let here = self.moved(&found.directions, 0.0)?;
        let around = |step: f64| -> Result<SidePoints, Box<Disagreement>> {
            Ok(SidePoints {
                ahead: self.moved(&found.directions, step)?,
                behind: self.moved(&found.directions, -step)?,
                step,
            })
        };
        let (coarse, fine) = (around(COARSE)?, around(FINE)?);
        let mut is_smooth = true;
        for (param, given) in given.iter().enumerate() {
            if matches!(given, ParamValue::Scalars(..)) {
                continue;
            }
            for (index, tangent) in found.tangents[param].iter().enumerate() {
                let place = (param, index);
                let bends = [&coarse, &fine].map(|around| around.bend(here[param][index], place));
                let [coarse, fine] = [&coarse, &fine].map(|around| around.difference(place));
                let size = coarse.abs().max(fine.abs()).max(1e-3);
                // Rounding error of a difference of numbers of this size.
                let noise = 1e-15 * here[param][index].abs() / FINE;
                let is_close = (coarse - fine).abs() <= SMOOTH * size;
                // A kink at the place itself, or a jump to it and back, where rounding decides a comparison of equals.
                let is_apart = bends[1] > 10.0 * noise && bends[1] > SMOOTH * size && bends[0] < 3.0 * bends[1];
                if !is_close || is_apart || noise > SMOOTH * size || size > LARGE {
                    is_smooth = false;
                    continue;
                }
                let agrees = (tangent - fine).abs() <= 100.0 * SMOOTH * size.max(tangent.abs());
                if !agrees && coarse == 0.0 && fine == 0.0 && self.swallows_steps(found, &here, place)? {
                    is_smooth = false;
                } else if !agrees {
                    return Err(disagreement(format!(
                        "tangent {index} of parameter {param}: {tangent:e}, differences say {fine:e} and {coarse:e}"
                    )));
                }
            }
        }
        Ok(if is_smooth { GradientOutcome::Agree } else { GradientOutcome::AgreeNotSmooth })
    }
}

/// Describes what a kernel leaves on both sides of a place.
struct SidePoints {
    ahead: Numbers,
    behind: Numbers,
    step: f64,
}

impl SidePoints {
    /// Returns how a number moves.
    fn difference(&self, (param, index): (usize, usize)) -> f64 {
        (self.ahead[param][index] - self.behind[param][index]) / (2.0 * self.step)
    }

    /// Returns how far the differences to both sides are apart: less in a smaller step where it is smooth, as much at a
    /// kink, and more where it is elsewhere at the very place.
    fn bend(&self, here: f64, (param, index): (usize, usize)) -> f64 {
        ((self.ahead[param][index] - here) - (here - self.behind[param][index])).abs() / self.step
    }
}

impl ParamValue {
    /// Returns what of it decides about races.
    fn known(&self) -> LaunchArgument {
        match self {
            ParamValue::Scalars(scalar, values) if scalar.is_int() && values.len() == 1 => {
                let unused = 64 - scalar.bits();
                let bits = values[0] << unused;
                match scalar.is_signed_int() {
                    true => LaunchArgument::Number(bits as i64 >> unused),
                    false => i64::try_from(bits >> unused).map_or(LaunchArgument::Other, LaunchArgument::Number),
                }
            }
            ParamValue::Scalars(..) => LaunchArgument::Other,
            ParamValue::Array(buffer) => LaunchArgument::Extents(buffer.shape.clone()),
        }
    }

    /// The numbers that have derivatives.
    fn numbers(&self) -> Vec<f64> {
        match self {
            ParamValue::Scalars(Scalar::F64, values) => values.iter().map(|&bits| f64::from_bits(bits)).collect(),
            ParamValue::Scalars(..) => Vec::new(),
            ParamValue::Array(buffer) => buffer.numbers(),
        }
    }

    fn set_numbers(&mut self, numbers: &[f64]) {
        match self {
            ParamValue::Scalars(_, values) => {
                values.iter_mut().zip(numbers).for_each(|(bits, number)| *bits = number.to_bits())
            }
            ParamValue::Array(buffer) => buffer.set_numbers(numbers),
        }
    }
}

fn elem_of(ty: Type) -> Option<Scalar> {
    match ty {
        Type::Composite(composite) => Some(composite.elem()),
        ty => ty.as_scalar(),
    }
}

/// A number at which most functions are smooth and of a fair size.
fn smooth_number(random: &mut SeededChoices) -> f64 {
    let size = 0.1 + 1.7 * (random.next() >> 11) as f64 / (1u64 << 53) as f64;
    if random.chance(30) { -size } else { size }
}

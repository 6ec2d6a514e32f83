//! What a kernel is launched with: numbers and arrays drawn from what its parameters may be given.

use crate::generate::{DatasetProgram, InputValues, ProgramExtent};
use polyloom::{ArgArray, ArgBlock, ArgError, ArrayLayout, Composite, Kernel, Random, Scalar, Type, scalar_bits};

/// The extents that stand for the free ones.
pub(super) type Extents = [u64; 4];

/// The arguments of a launch, one for each parameter of the kernel's HIR.
#[derive(Clone)]
pub(super) struct VerifyArguments {
    pub(super) dim: Vec<u64>,
    pub(super) all: Vec<VerifyArgument>,
}

/// A number, the components of a composite, or an array of either, in row-major order.
#[derive(Clone, PartialEq)]
pub(super) struct VerifyArgument {
    elem: Scalar,
    /// The extents of an array and then those of its elements' components; none of what is no array.
    shape: Option<Vec<u64>>,
    n: usize,
    words: Vec<u64>,
}

impl VerifyArguments {
    /// The same for every engine, because everything is drawn from the seed in the same order.
    pub(super) fn draw(program: &DatasetProgram, kernel: &Kernel, extents: &Extents, seed: u64) -> VerifyArguments {
        let mut random = Random::new(seed);
        let resolve = |extent: &ProgramExtent| match *extent {
            ProgramExtent::Is(extent) => u64::from(extent),
            ProgramExtent::Free(name) => extents[usize::from(name) % extents.len()],
        };
        let all = program.inputs.iter().zip(kernel.types()).map(|(input, &ty)| {
            let outer: Vec<u64> = input.shape.iter().map(resolve).collect();
            let elem = ty.as_any_array().map_or(ty, |(elem, _)| elem);
            VerifyArgument::draw(&mut random, elem, (!outer.is_empty()).then_some(outer), &input.values)
        });
        VerifyArguments { all: all.collect(), dim: program.dim.iter().map(resolve).collect() }
    }
}

impl VerifyArguments {
    /// The same but for the last digits of floats.
    pub(super) fn nudged(&self) -> VerifyArguments {
        let mut nudged = self.clone();
        for argument in &mut nudged.all {
            let step = 2.0 * argument.epsilon();
            let numbers = argument.numbers();
            let moved = numbers.iter().enumerate().map(|(i, x)| x * if i % 2 == 0 { 1.0 + step } else { 1.0 - step });
            argument.set_numbers(&moved.collect::<Vec<_>>());
        }
        nudged
    }
}

/// A block of arguments for a launch of the kernel, which reads and writes their memory.
pub(super) fn block<'a>(
    kernel: &Kernel,
    arguments: impl IntoIterator<Item = &'a mut VerifyArgument>,
) -> Result<ArgBlock, ArgError> {
    let mut block = ArgBlock::new();
    let params = kernel.params();
    for argument in arguments {
        if argument.shape.is_none() {
            for index in 0..argument.len() {
                block.scalar(params, argument.elem, argument.bits(index))?;
            }
            continue;
        }
        if let Some(array) = argument.as_array() {
            block.push_array(params, &array)?;
        }
    }
    Ok(block)
}

impl VerifyArgument {
    /// The array, as an argument of a launch; nothing if it is a number or a composite.
    pub(super) fn as_array(&mut self) -> Option<ArgArray> {
        let shape = self.shape.as_ref()?;
        let elem_bytes = u64::from(self.elem.bytes());
        let strides = std::iter::repeat_n(0, shape.len()).collect();
        let layout = ArrayLayout { base: 0, elem_bytes, extents: shape.as_slice().into(), strides };
        let layout = layout.dense_at(self.words.as_mut_ptr() as u64);
        Some(ArgArray { elem: self.elem, layout, is_resident: false })
    }

    /// An array of zeros.
    pub(super) fn zeros(elem: Scalar, shape: &[u64]) -> VerifyArgument {
        let n: u64 = shape.iter().product();
        let n_words = (n * u64::from(elem.bytes())).div_ceil(8).max(1);
        VerifyArgument { elem, shape: Some(shape.to_vec()), n: n as usize, words: vec![0; n_words as usize] }
    }

    fn draw(random: &mut Random, ty: Type, outer: Option<Vec<u64>>, values: &InputValues) -> VerifyArgument {
        let composite = ty.as_composite();
        let components: Vec<u64> =
            composite.map(Composite::shape).unwrap_or_default().iter().map(|&extent| extent.into()).collect();
        let elem = composite.map_or(ty.as_scalar(), |composite| Some(composite.elem())).unwrap_or(Scalar::I32);
        let n_components: u64 = components.iter().product();
        let n: u64 = outer.iter().flatten().product::<u64>() * n_components;
        let is_array = outer.is_some();
        let shape = [outer.unwrap_or_default(), components].concat();
        let mut argument = VerifyArgument::zeros(elem, &shape);
        if !is_array {
            argument.shape = None;
        }
        match *values {
            InputValues::Zeros => {}
            InputValues::Between { low, high } => {
                for index in 0..n as usize {
                    argument.set(index, number(random, elem, low, high));
                }
            }
            InputValues::Unit => {
                for first in (0..n as usize).step_by(n_components as usize) {
                    let drawn: Vec<f64> = (0..n_components).map(|_| fraction(random) * 2.0 - 1.0).collect();
                    let length = drawn.iter().map(|x| x * x).sum::<f64>().sqrt().max(1e-3);
                    for (index, x) in drawn.iter().enumerate() {
                        argument.set(first + index, scalar_bits::from_f64(elem, x / length));
                    }
                }
            }
        }
        argument
    }

    /// Of an array its extents, and then those of its elements' components.
    pub(super) fn shape(&self) -> Option<&[u64]> {
        self.shape.as_deref()
    }

    /// Returns the number of numbers it has.
    pub(super) fn len(&self) -> usize {
        self.n
    }

    /// Returns how far apart floats of its type are at 1.
    pub(super) fn epsilon(&self) -> f64 {
        match self.elem {
            Scalar::BF16 => f64::exp2(-7.0),
            Scalar::F16 => f64::exp2(-10.0),
            Scalar::F64 => f64::EPSILON,
            _ => f32::EPSILON.into(),
        }
    }

    /// Returns true if it differs by more than rounding may make of numbers that cancel.
    pub(super) fn is_moved_from(&self, other: &VerifyArgument) -> bool {
        let rounding = if self.elem.is_float() { ROUNDING * self.epsilon() } else { 0.0 };
        let moves = |index: usize| {
            let (a, b) = (self.number(index), other.number(index));
            (a - b).abs() > rounding * a.abs().max(b.abs())
        };
        self != other && (0..self.n).any(moves)
    }

    /// The numbers that may have derivatives: all of them, or none of integers.
    pub(super) fn numbers(&self) -> Vec<f64> {
        let n = if self.elem.is_float() { self.n } else { 0 };
        (0..n).map(|index| self.number(index)).collect()
    }

    /// Sets what [`VerifyArgument::numbers`] gives.
    pub(super) fn set_numbers(&mut self, numbers: &[f64]) {
        for (index, &number) in numbers.iter().enumerate() {
            self.set(index, scalar_bits::from_f64(self.elem, number));
        }
    }

    /// Returns what its adjoint is: as an array is, and of a number an array of one.
    pub(super) fn adjoint(&self, numbers: &[f64], ty: Type) -> VerifyArgument {
        let mut adjoint = match &self.shape {
            Some(shape) => VerifyArgument::zeros(self.elem, shape),
            None => {
                let components = ty.as_composite().map(Composite::shape).unwrap_or_default();
                let components = components.iter().map(|&extent| u64::from(extent));
                VerifyArgument::zeros(self.elem, &std::iter::once(1).chain(components).collect::<Vec<_>>())
            }
        };
        adjoint.set_numbers(numbers);
        adjoint
    }

    /// Makes every number another.
    pub(super) fn invert(&mut self) {
        for index in 0..self.n {
            let other = if self.number(index) == 1.0 { 2.0 } else { 1.0 };
            let bits = match self.elem.is_float() {
                true => scalar_bits::from_f64(self.elem, other),
                false => scalar_bits::from_int(self.elem, other as i128).unwrap_or(0),
            };
            self.set(index, bits);
        }
    }

    pub(super) fn bits(&self, index: usize) -> u64 {
        let (at, width) = self.place(index);
        (self.words[at / 64] >> (at % 64)) & (u64::MAX >> (64 - width))
    }

    pub(super) fn number(&self, index: usize) -> f64 {
        scalar_bits::to_f64(self.elem, self.bits(index))
    }

    fn set(&mut self, index: usize, bits: u64) {
        let (at, width) = self.place(index);
        let mask = (u64::MAX >> (64 - width)) << (at % 64);
        let word = &mut self.words[at / 64];
        *word = *word & !mask | (bits << (at % 64)) & mask;
    }

    fn place(&self, index: usize) -> (usize, usize) {
        let width = self.elem.bytes() as usize * 8;
        (index * width, width)
    }
}

/// So many units in the last place may be what rounding leaves of numbers that cancel.
const ROUNDING: f64 = 32.0;

/// A number from 0 to 1.
fn fraction(random: &mut Random) -> f64 {
    (random.bits() >> 11) as f64 / (1u64 << 53) as f64
}

fn number(random: &mut Random, elem: Scalar, low: f64, high: f64) -> u64 {
    if elem.is_float() {
        return scalar_bits::from_f64(elem, low + (high - low) * fraction(random));
    }
    let n = (high - low).max(0.0) as usize + 1;
    scalar_bits::from_int(elem, low as i128 + random.below(n) as i128).unwrap_or(0)
}

//! What products of matrices compute: fragments are read into dense matrices, whose rows are multiplied in loops that
//! the host's compiler vectorises, and the sums go back to where the fragments of the result have them.

use super::op::{AnySource, DestRegister};
use super::types::PtxType;
use crate::exec::registers::{Compute, LANES, RegisterFiles, put};
use crate::number::Rounding;
use crate::number::arithmetic::{DirectedOperation, canonical, directed_f64, fma};
use crate::number::half::{bf16_to_f32, f16_from_f32, f16_to_f32};
use crate::number::narrow::{E4M3, E5M2, widen};
use pulp::{Arch, Simd, WithSimd};

/// Describes what single bits are combined by before they are counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum BitOperation {
    And,
    Xor,
}

/// An element of a fragment.
#[derive(Clone, Copy)]
pub(super) struct FragmentPart {
    pub(super) lane: u8,
    pub(super) register: u8,
    pub(super) bit: u8,
    pub(super) row: u32,
    pub(super) column: u32,
}

/// Bits of an element in a register of the fragment.
pub(crate) fn element_bits(ty: PtxType) -> u32 {
    match ty {
        PtxType::F16 | PtxType::Bf16 => 16,
        other => other.bits(),
    }
}

/// Returns the number of elements a register of a fragment has.
fn per_register(ty: PtxType) -> usize {
    (32 / element_bits(ty)).max(1) as usize
}

/// The index of an element of a fragment among those of its registers, which come one after the other, lane by lane.
fn place(part: &FragmentPart, ty: PtxType) -> usize {
    let word = usize::from(part.register) * LANES + usize::from(part.lane);
    word * per_register(ty) + usize::from(part.bit) / element_bits(ty) as usize
}

/// Describes what a fragment's elements are computed with.
trait ProductNumber: Copy + Default + Send + Sync + 'static {
    /// The elements of a register, lane by lane.
    fn of_words(words: &[u32; LANES], ty: PtxType, out: &mut [Self]);
    fn into_words(elements: &[Self], ty: PtxType, saturating: bool) -> [u32; LANES];

    #[inline(always)]
    fn of_doubles(doubles: &[u64; LANES], ty: PtxType, out: &mut [Self]) {
        Self::of_words(&doubles.map(|double| double as u32), ty, out);
    }

    #[inline(always)]
    fn into_doubles(elements: &[Self], ty: PtxType, saturating: bool) -> [u64; LANES] {
        Self::into_words(elements, ty, saturating).map(u64::from)
    }
}

/// Takes the lanes' words apart, each into `EACH` elements, which `f` finds at the bottom of a word.
#[inline(always)]
fn unpack<const EACH: usize, T>(words: &[u32; LANES], out: &mut [T], f: impl Fn(u32) -> T) {
    for (word, out) in words.iter().zip(out.as_chunks_mut::<EACH>().0) {
        for (index, out) in out.iter_mut().enumerate() {
            *out = f(word >> (index * (32 / EACH)));
        }
    }
}

impl ProductNumber for f32 {
    #[inline(always)]
    fn of_words(words: &[u32; LANES], ty: PtxType, out: &mut [f32]) {
        match ty {
            PtxType::F16 => unpack::<2, _>(words, out, |word| f16_to_f32(word as u16)),
            PtxType::Bf16 => unpack::<2, _>(words, out, |word| bf16_to_f32(word as u16)),
            // The low 13 bits of a tf32 are ignored.
            PtxType::Tf32 => unpack::<1, _>(words, out, |word| f32::from_bits(word & !0x1fff)),
            PtxType::E4m3 => unpack::<4, _>(words, out, |word| widen((word & 0xff).into(), E4M3) as f32),
            PtxType::E5m2 => unpack::<4, _>(words, out, |word| widen((word & 0xff).into(), E5M2) as f32),
            _ => unpack::<1, _>(words, out, f32::from_bits),
        }
    }

    #[inline(always)]
    fn into_words(elements: &[f32], ty: PtxType, _: bool) -> [u32; LANES] {
        let mut words = [0; LANES];
        if ty == PtxType::F16 {
            for (word, [low, high]) in words.iter_mut().zip(elements.as_chunks().0) {
                *word = u32::from(f16_from_f32(*low)) | u32::from(f16_from_f32(*high)) << 16;
            }
        } else {
            for (word, element) in words.iter_mut().zip(elements) {
                *word = canonical(*element).to_bits();
            }
        }
        words
    }
}

impl ProductNumber for f64 {
    #[inline(always)]
    fn of_words(words: &[u32; LANES], ty: PtxType, out: &mut [f64]) {
        match ty {
            PtxType::S(8) => unpack::<4, _>(words, out, |word| (word as u8 as i8).into()),
            PtxType::U(8) => unpack::<4, _>(words, out, |word| (word as u8).into()),
            PtxType::S4 => unpack::<8, _>(words, out, |word| (((word << 4) as u8 as i8) >> 4).into()),
            PtxType::U4 => unpack::<8, _>(words, out, |word| (word as u8 & 0xf).into()),
            PtxType::B1 => unpack::<32, _>(words, out, |word| (word as u8 & 1).into()),
            _ => unpack::<1, _>(words, out, |word| (word as i32).into()),
        }
    }

    #[inline(always)]
    fn into_words(elements: &[f64], _: PtxType, saturating: bool) -> [u32; LANES] {
        let mut words = [0; LANES];
        for (word, element) in words.iter_mut().zip(elements) {
            *word = if saturating { *element as i32 as u32 } else { *element as i64 as u32 };
        }
        words
    }

    #[inline(always)]
    fn of_doubles(doubles: &[u64; LANES], ty: PtxType, out: &mut [f64]) {
        if ty != PtxType::F64 {
            return Self::of_words(&doubles.map(|double| double as u32), ty, out);
        }
        for (out, double) in out.iter_mut().zip(doubles) {
            *out = f64::from_bits(*double);
        }
    }

    #[inline(always)]
    fn into_doubles(elements: &[f64], ty: PtxType, saturating: bool) -> [u64; LANES] {
        if ty != PtxType::F64 {
            return Self::into_words(elements, ty, saturating).map(u64::from);
        }
        std::array::from_fn(|lane| elements[lane].to_bits())
    }
}

/// Elements of one order as those of another.
struct ElementOrder {
    from: Vec<u16>,
    /// Says how many follow each other in both: 1, 4 or 8, or all.
    run: usize,
}

impl ElementOrder {
    fn new(from: Vec<u16>) -> ElementOrder {
        let follows = |run: usize| {
            let (runs, rest) = from.split_at(from.len() / run * run);
            rest.is_empty() && runs.chunks(run).all(|run| run.windows(2).all(|pair| pair[0] + 1 == pair[1]))
        };
        let run = if from[0] == 0 && follows(from.len()) {
            from.len()
        } else {
            [8, 4].into_iter().find(|run| follows(*run)).unwrap_or(1)
        };
        ElementOrder { from, run }
    }

    /// The elements in the other order, unless it is the same.
    fn moved<T: ProductNumber>(&self, elements: &[T]) -> Option<Vec<T>> {
        match self.run {
            run if run == self.from.len() => None,
            8 => Some(self.runs::<8, T>(elements)),
            4 => Some(self.runs::<4, T>(elements)),
            _ => Some(self.runs::<1, T>(elements)),
        }
    }

    fn runs<const RUN: usize, T: ProductNumber>(&self, elements: &[T]) -> Vec<T> {
        let mut all = vec![T::default(); self.from.len()];
        for (run, from) in all.as_chunks_mut::<RUN>().0.iter_mut().zip(self.from.iter().step_by(RUN)) {
            run.copy_from_slice(&elements[usize::from(*from)..][..RUN]);
        }
        all
    }
}

/// A fragment and the registers it is in.
pub(super) struct ProductFragment {
    sources: Vec<AnySource>,
    ty: PtxType,
    /// From the registers' elements to the matrix, row by row.
    order: ElementOrder,
}

impl ProductFragment {
    /// `parts` are all elements of a matrix of so many rows and columns. Of copies the first is read.
    pub(super) fn new(
        mut sources: Vec<AnySource>,
        parts: &[FragmentPart],
        ty: PtxType,
        (rows, columns): (u32, u32),
    ) -> ProductFragment {
        let mut from = vec![u16::MAX; (rows * columns) as usize];
        for part in parts {
            let cell = &mut from[(part.row * columns + part.column) as usize];
            *cell = (place(part, ty) as u16).min(*cell);
        }
        let read = from.iter().max().map_or(0, |last| usize::from(*last) / (LANES * per_register(ty)) + 1);
        sources.truncate(read);
        ProductFragment { sources, ty, order: ElementOrder::new(from) }
    }

    /// The matrix, row by row.
    #[inline(always)]
    fn read<T: ProductNumber>(&self, registers: &RegisterFiles) -> Vec<T> {
        let each = LANES * per_register(self.ty);
        let mut elements = vec![T::default(); self.sources.len() * each];
        for (source, elements) in self.sources.iter().zip(elements.chunks_mut(each)) {
            match source {
                AnySource::Word(source) => T::of_words(source.get(registers), self.ty, elements),
                AnySource::Double(source) => T::of_doubles(source.get(registers), self.ty, elements),
            }
        }
        self.order.moved(&elements).unwrap_or(elements)
    }
}

/// Says where a result goes.
pub(super) struct ProductOutput {
    slots: Vec<DestRegister>,
    ty: PtxType,
    saturating: bool,
    /// From the matrix, row by row, to the registers' elements.
    order: ElementOrder,
}

impl ProductOutput {
    pub(super) fn new(
        slots: Vec<DestRegister>,
        parts: &[FragmentPart],
        ty: PtxType,
        columns: u32,
        saturating: bool,
    ) -> ProductOutput {
        let mut from = vec![0; parts.len()];
        for part in parts {
            from[place(part, ty)] = (part.row * columns + part.column) as u16;
        }
        ProductOutput { slots, ty, saturating, order: ElementOrder::new(from) }
    }

    #[inline(always)]
    fn write<T: ProductNumber>(&self, registers: &mut RegisterFiles, sums: &[T], mask: u32) {
        let moved = self.order.moved(sums);
        let elements = moved.as_deref().unwrap_or(sums);
        for (slot, elements) in self.slots.iter().zip(elements.chunks(LANES * per_register(self.ty))) {
            match slot {
                DestRegister::Word(slot, _) => {
                    put(registers, Some(*slot), &T::into_words(elements, self.ty, self.saturating), mask);
                }
                DestRegister::Double(slot) => {
                    put(registers, Some(*slot), &T::into_doubles(elements, self.ty, self.saturating), mask);
                }
                DestRegister::Sink => {}
            }
        }
    }
}

/// `a` times `b`, and `c` added.
pub(super) struct MatrixProduct {
    pub(super) a: ProductFragment,
    pub(super) b: ProductFragment,
    pub(super) c: ProductFragment,
    pub(super) d: ProductOutput,
    /// Rows of a product; A may have those of several, below each other.
    pub(super) m: usize,
    /// Columns of the result.
    pub(super) n: usize,
    /// The extent that is summed over.
    pub(super) k: usize,
    pub(super) operation: Option<BitOperation>,
    pub(super) rounding: Rounding,
}

impl MatrixProduct {
    /// Of 8, 16 or 32 columns, as all shapes have.
    pub(super) fn compute(self) -> Option<Compute> {
        match self.n {
            8 => Some(self.of_columns::<8>()),
            16 => Some(self.of_columns::<16>()),
            32 => Some(self.of_columns::<32>()),
            _ => None,
        }
    }

    fn of_columns<const N: usize>(self) -> Compute {
        let rounding = self.rounding;
        match self.d.ty {
            PtxType::F64 if rounding == Rounding::Nearest => self.summed::<N, f64>(|a, b, sum| a.mul_add(b, sum)),
            PtxType::F64 => {
                self.summed::<N, f64>(move |a, b, sum| directed_f64(DirectedOperation::Fma, rounding, a, b, sum))
            }
            // Exact, because a sum of integers is far below 2^53.
            PtxType::S(32) if self.operation == Some(BitOperation::Xor) => {
                self.summed::<N, f64>(|a, b, sum| sum + (a - b).abs())
            }
            PtxType::S(32) => self.summed::<N, f64>(|a, b, sum| sum + a * b),
            _ if matches!(self.a.ty, PtxType::Bf16 | PtxType::Tf32) => self.vectorised(
                #[inline(always)]
                |product, registers, mask| {
                    let (left, right) = (product.a.read(registers), product.b.read(registers));
                    let sums = if products_are_exact(&left, &right) {
                        product.sums::<N, f32>(registers, &left, &right, |a, b, sum| sum + a * b)
                    } else {
                        product.sums::<N, f32>(registers, &left, &right, fma)
                    };
                    product.d.write(registers, &sums, mask);
                },
            ),
            // No fused step is needed, because the product of two numbers of so few bits, and exponents so small, is
            // exact in f32.
            _ => self.summed::<N, f32>(|a, b, sum| sum + a * b),
        }
    }

    fn summed<const N: usize, T: ProductNumber>(self, add: impl Fn(T, T, T) -> T + Send + Sync + 'static) -> Compute {
        self.vectorised(
            #[inline(always)]
            move |product, registers, mask| {
                let (left, right) = (product.a.read(registers), product.b.read(registers));
                let sums = product.sums::<N, T>(registers, &left, &right, &add);
                product.d.write(registers, &sums, mask);
            },
        )
    }

    /// `step` and its callees have to be inlined, because a function of its own is compiled for every machine's
    /// vectors.
    fn vectorised(self, step: impl Fn(&MatrixProduct, &mut RegisterFiles, u32) + Send + Sync + 'static) -> Compute {
        let arch = Arch::new();
        Box::new(move |registers, mask| {
            arch.dispatch(VectorisedWork(
                #[inline(always)]
                || step(&self, registers, mask),
            ));
        })
    }

    /// The elements of the result, row by row, so that each product is added to the accumulator in the order of k.
    #[inline(always)]
    fn sums<const N: usize, T: ProductNumber>(
        &self,
        registers: &RegisterFiles,
        left: &[T],
        right: &[T],
        add: impl Fn(T, T, T) -> T,
    ) -> Vec<T> {
        let mut sums: Vec<T> = self.c.read(registers);
        // Products below each other have rows of A and B of their own.
        let products = left.chunks(self.m * self.k).zip(right.chunks(self.k * N)).zip(sums.chunks_mut(self.m * N));
        for ((left, right), sums) in products {
            for (left, sums) in left.chunks(self.k).zip(sums.as_chunks_mut::<N>().0) {
                let mut row = *sums;
                for (a, right) in left.iter().zip(right.as_chunks::<N>().0) {
                    for (sum, b) in row.iter_mut().zip(right) {
                        *sum = add(*a, *b, *sum);
                    }
                }
                *sums = row;
            }
        }
        sums
    }
}

/// Returns true if all products of elements of two matrices of bf16 or tf32 are exact in f32, whose bits are enough,
/// since none is too large, and none too small.
fn products_are_exact(left: &[f32], right: &[f32]) -> bool {
    let range = |all: &[f32]| {
        let mut range = (f32::MAX.to_bits(), 0);
        for x in all {
            let bits = x.to_bits() & 0x7fff_ffff;
            let nonzero = if bits == 0 { f32::MAX.to_bits() } else { bits };
            range = (range.0.min(nonzero), range.1.max(bits));
        }
        (f64::from(f32::from_bits(range.0)), f64::from(f32::from_bits(range.1)))
    };
    let ((low, high), (low_right, high_right)) = (range(left), range(right));
    low * low_right >= f32::MIN_POSITIVE.into() && high * high_right <= f32::MAX.into()
}

/// Work that is compiled once for every width of vectors, and run with the machine's widest.
struct VectorisedWork<F>(F);

impl<F: FnMut()> WithSimd for VectorisedWork<F> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, _: S) {
        self.0();
    }
}

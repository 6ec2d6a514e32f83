//! The registers of a warp, one value a lane, and the loops over lanes that arithmetic is made of.
//!
//! 8-, 16- and 32-bit registers share one file of 32-bit lanes (the bits above a narrow register's width are zero),
//! 64-bit registers have another, predicates are masks. Each arithmetic instruction is decoded to a closure whose loop
//! over the lanes the host's compiler vectorises.

/// Lanes in a warp.
pub(crate) const LANES: usize = 32;

/// The register files, and where the running function's registers begin in them.
#[derive(Default)]
pub(crate) struct RegisterFiles {
    words: Vec<[u32; LANES]>,
    doubles: Vec<[u64; LANES]>,
    predicates: Vec<u32>,
    base: FrameBase,
}

/// Says where a function's registers and its local memory begin.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct FrameBase {
    pub(crate) words: u32,
    pub(crate) doubles: u32,
    pub(crate) predicates: u32,
    pub(crate) local: u32,
}

impl FrameBase {
    pub(crate) fn plus(self, size: FrameBase) -> FrameBase {
        FrameBase {
            words: self.words + size.words,
            doubles: self.doubles + size.doubles,
            predicates: self.predicates + size.predicates,
            local: self.local + size.local,
        }
    }
}

impl RegisterFiles {
    /// Bytes that the registers of a function take.
    pub(crate) fn bytes(size: FrameBase) -> u64 {
        let lanes = LANES as u64;
        lanes * (4 * u64::from(size.words) + 8 * u64::from(size.doubles)) + 4 * u64::from(size.predicates)
    }

    /// Forgets all values, with room for one function. Whether the host has that much.
    pub(crate) fn reset(&mut self, size: FrameBase) -> bool {
        self.words.clear();
        self.doubles.clear();
        self.predicates.clear();
        self.base = FrameBase::default();
        self.reserve(FrameBase::default(), size)
    }

    /// Makes room for a function's registers at `base`. Whether the host has that much.
    pub(crate) fn reserve(&mut self, base: FrameBase, size: FrameBase) -> bool {
        let end = base.plus(size);
        grow(&mut self.words, end.words, [0; LANES])
            && grow(&mut self.doubles, end.doubles, [0; LANES])
            && grow(&mut self.predicates, end.predicates, 0)
    }

    pub(crate) fn set_base(&mut self, base: FrameBase) {
        self.base = base;
    }

    pub(crate) fn base(&self) -> FrameBase {
        self.base
    }

    pub(crate) fn predicate(&self, slot: u32) -> u32 {
        self.predicates[(self.base.predicates + slot) as usize]
    }

    /// Sets a predicate in the lanes of `mask`.
    pub(crate) fn set_predicate(&mut self, slot: u32, value: u32, mask: u32) {
        let cell = &mut self.predicates[(self.base.predicates + slot) as usize];
        *cell = *cell & !mask | value & mask;
    }
}

fn grow<T: Clone>(file: &mut Vec<T>, end: u32, zero: T) -> bool {
    let more = (end as usize).saturating_sub(file.len());
    if file.try_reserve(more).is_err() {
        return false;
    }
    if more > 0 {
        file.resize(end as usize, zero);
    }
    true
}

/// Describes what a register file's lanes hold.
pub(crate) trait RegisterWord: Copy + Default + PartialEq + Send + Sync + 'static {
    fn lanes(registers: &RegisterFiles, slot: u32) -> &[Self; LANES];
    fn lanes_mut(registers: &mut RegisterFiles, slot: u32) -> &mut [Self; LANES];
    fn truncated(value: u64) -> Self;
}

impl RegisterWord for u32 {
    #[inline]
    fn lanes(registers: &RegisterFiles, slot: u32) -> &[u32; LANES] {
        &registers.words[(registers.base.words + slot) as usize]
    }
    #[inline]
    fn lanes_mut(registers: &mut RegisterFiles, slot: u32) -> &mut [u32; LANES] {
        &mut registers.words[(registers.base.words + slot) as usize]
    }
    fn truncated(value: u64) -> u32 {
        value as u32
    }
}

impl RegisterWord for u64 {
    #[inline]
    fn lanes(registers: &RegisterFiles, slot: u32) -> &[u64; LANES] {
        &registers.doubles[(registers.base.doubles + slot) as usize]
    }
    #[inline]
    fn lanes_mut(registers: &mut RegisterFiles, slot: u32) -> &mut [u64; LANES] {
        &mut registers.doubles[(registers.base.doubles + slot) as usize]
    }
    fn truncated(value: u64) -> u64 {
        value
    }
}

/// An operand that is read: a register, or the same value in all lanes.
#[derive(Clone, Debug)]
pub(crate) enum SourceOperand<T> {
    Register(u32),
    Constant(Box<[T; LANES]>),
}

impl<T: RegisterWord> SourceOperand<T> {
    pub(crate) fn constant(value: T) -> Self {
        SourceOperand::Constant(Box::new([value; LANES]))
    }

    #[inline]
    pub(crate) fn get<'a>(&'a self, registers: &'a RegisterFiles) -> &'a [T; LANES] {
        match self {
            SourceOperand::Register(slot) => T::lanes(registers, *slot),
            SourceOperand::Constant(lanes) => lanes,
        }
    }
}

/// A predicate that is read.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PredicateTest {
    Register { slot: u32, negated: bool },
    Constant(bool),
}

impl PredicateTest {
    #[inline]
    pub(crate) fn mask(self, registers: &RegisterFiles) -> u32 {
        match self {
            PredicateTest::Register { slot, negated } => registers.predicate(slot) ^ if negated { !0 } else { 0 },
            PredicateTest::Constant(value) => {
                if value {
                    !0
                } else {
                    0
                }
            }
        }
    }
}

/// An operand that is written; `None` is the sink `_`.
pub(crate) type Slot = Option<u32>;

/// Writes the lanes of `mask`.
#[inline]
pub(crate) fn put<T: RegisterWord>(registers: &mut RegisterFiles, slot: Slot, values: &[T; LANES], mask: u32) {
    let Some(slot) = slot else { return };
    let lanes = T::lanes_mut(registers, slot);
    if mask == !0 {
        *lanes = *values;
    } else {
        for (index, lane) in lanes.iter_mut().enumerate() {
            *lane = if mask >> index & 1 != 0 { values[index] } else { *lane };
        }
    }
}

/// Describes what instructions compute with, kept in lanes of some width.
pub(crate) trait LaneValue: Copy + Send + Sync + 'static {
    type Word: RegisterWord;
    fn from_word(word: Self::Word) -> Self;
    fn into_word(self) -> Self::Word;
}

macro_rules! values {
    ($($ty:ty, $word:ty, |$from:ident| $value:expr, |$into:ident| $bits:expr;)*) => {
        $(impl LaneValue for $ty {
            type Word = $word;
            #[inline]
            fn from_word($from: $word) -> Self { $value }
            #[inline]
            fn into_word(self) -> $word { let $into = self; $bits }
        })*
    };
}

values! {
    u8, u32, |w| w as u8, |v| v.into();
    u16, u32, |w| w as u16, |v| v.into();
    i16, u32, |w| w as i16, |v| v as u16 as u32;
    u32, u32, |w| w, |v| v;
    i32, u32, |w| w as i32, |v| v as u32;
    f32, u32, |w| f32::from_bits(w), |v| v.to_bits();
    u64, u64, |w| w, |v| v;
    i64, u64, |w| w as i64, |v| v as u64;
    f64, u64, |w| f64::from_bits(w), |v| v.to_bits();
}

/// An instruction that reads and writes registers alone, in the lanes of a mask.
pub(crate) type Compute = Box<dyn Fn(&mut RegisterFiles, u32) + Send + Sync>;

pub(crate) fn map0<D: LaneValue>(d: Slot, f: impl Fn(usize) -> D + Send + Sync + 'static) -> Compute {
    Box::new(move |registers, mask| {
        let mut out = [D::Word::default(); LANES];
        for (lane, out) in out.iter_mut().enumerate() {
            *out = f(lane).into_word();
        }
        put(registers, d, &out, mask);
    })
}

pub(crate) fn map1<D: LaneValue, A: LaneValue>(
    d: Slot,
    a: SourceOperand<A::Word>,
    f: impl Fn(A) -> D + Send + Sync + 'static,
) -> Compute {
    Box::new(move |registers, mask| {
        let mut out = [D::Word::default(); LANES];
        let a = a.get(registers);
        for lane in 0..LANES {
            out[lane] = f(A::from_word(a[lane])).into_word();
        }
        put(registers, d, &out, mask);
    })
}

pub(crate) fn map2<D: LaneValue, A: LaneValue, B: LaneValue>(
    d: Slot,
    a: SourceOperand<A::Word>,
    b: SourceOperand<B::Word>,
    f: impl Fn(A, B) -> D + Send + Sync + 'static,
) -> Compute {
    Box::new(move |registers, mask| {
        let mut out = [D::Word::default(); LANES];
        let (a, b) = (a.get(registers), b.get(registers));
        for lane in 0..LANES {
            out[lane] = f(A::from_word(a[lane]), B::from_word(b[lane])).into_word();
        }
        put(registers, d, &out, mask);
    })
}

pub(crate) fn map3<D: LaneValue, A: LaneValue, B: LaneValue, C: LaneValue>(
    d: Slot,
    a: SourceOperand<A::Word>,
    b: SourceOperand<B::Word>,
    c: SourceOperand<C::Word>,
    f: impl Fn(A, B, C) -> D + Send + Sync + 'static,
) -> Compute {
    Box::new(move |registers, mask| {
        let mut out = [D::Word::default(); LANES];
        let (a, b, c) = (a.get(registers), b.get(registers), c.get(registers));
        for lane in 0..LANES {
            out[lane] = f(A::from_word(a[lane]), B::from_word(b[lane]), C::from_word(c[lane])).into_word();
        }
        put(registers, d, &out, mask);
    })
}

/// Returns which lanes' pairs `f` holds for.
#[inline]
pub(crate) fn lanes_where<A: LaneValue, B: LaneValue>(
    a: &[A::Word; LANES],
    b: &[B::Word; LANES],
    f: impl Fn(A, B) -> bool,
) -> u32 {
    let mut mask = 0;
    for lane in 0..LANES {
        mask |= u32::from(f(A::from_word(a[lane]), B::from_word(b[lane]))) << lane;
    }
    mask
}

/// The lanes of a mask, lowest first.
pub(crate) fn lanes_of(mut mask: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        (mask != 0).then(|| {
            let lane = mask.trailing_zeros() as usize;
            mask &= mask - 1;
            lane
        })
    })
}

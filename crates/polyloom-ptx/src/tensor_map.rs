//! Tensor maps: what a copy of a tile of a tensor has to know of it. On GPUs a driver makes them and nobody sees what is
//! in their 128 bytes; here they are [`TensorMap::to_bytes`].

/// Bytes of a tensor map.
pub const TENSOR_MAP_BYTES: usize = 128;

/// The first bytes of a map.
const MARK: [u8; 4] = *b"PLTM";
/// The most axes of a tensor.
const MAX_AXES: usize = 5;

/// The type of a tensor's elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub enum TensorElement {
    U8,
    U16,
    U32,
    S32,
    U64,
    S64,
    F16,
    F32,
    F64,
    Bf16,
}

impl TensorElement {
    const ALL: [TensorElement; 10] = [
        TensorElement::U8,
        TensorElement::U16,
        TensorElement::U32,
        TensorElement::S32,
        TensorElement::U64,
        TensorElement::S64,
        TensorElement::F16,
        TensorElement::F32,
        TensorElement::F64,
        TensorElement::Bf16,
    ];

    /// The type with this number in the driver's interface (`CUtensorMapDataType`), if the simulator has it.
    pub fn of_number(number: u32) -> Option<TensorElement> {
        TensorElement::ALL.get(number as usize).copied()
    }

    /// Bytes of an element.
    pub fn n_bytes(self) -> u32 {
        match self {
            TensorElement::U8 => 1,
            TensorElement::U16 | TensorElement::F16 | TensorElement::Bf16 => 2,
            TensorElement::U32 | TensorElement::S32 | TensorElement::F32 => 4,
            TensorElement::U64 | TensorElement::S64 | TensorElement::F64 => 8,
        }
    }

    /// The bytes of what `fma.oob` looks for, by which copies fill what lies outside of a tensor of floats.
    fn nan(self) -> Option<u64> {
        match self {
            TensorElement::F16 | TensorElement::Bf16 => Some(0x7ff7),
            TensorElement::F32 => Some(0x7fff_fff7),
            TensorElement::F64 => Some(0x7fff_ffff_ffff_fff7),
            _ => None,
        }
    }
}

/// Says how pieces of 16 bytes are exchanged within lines of shared memory, so that columns lie in different banks (PTX
/// ISA 9.0 §5.5.7).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TensorSwizzle {
    /// As they come.
    None,
    /// Within lines of 32 bytes.
    B32,
    /// Within lines of 64 bytes.
    B64,
    /// Within lines of 128 bytes.
    B128,
}

impl TensorSwizzle {
    const ALL: [TensorSwizzle; 4] = [TensorSwizzle::None, TensorSwizzle::B32, TensorSwizzle::B64, TensorSwizzle::B128];

    /// The one with this number in the driver's interface (`CUtensorMapSwizzle`), if the simulator has it.
    pub fn of_number(number: u32) -> Option<TensorSwizzle> {
        TensorSwizzle::ALL.get(number as usize).copied()
    }

    /// The most bytes of a row of a tile.
    fn row_bytes(self) -> Option<u32> {
        match self {
            TensorSwizzle::None => None,
            TensorSwizzle::B32 => Some(32),
            TensorSwizzle::B64 => Some(64),
            TensorSwizzle::B128 => Some(128),
        }
    }

    /// Where a byte lies that would be at an address of shared memory: the number of the piece of 16 bytes, within two,
    /// four or eight of them, is changed by the lowest bits of the number of the line of 128 bytes.
    pub(crate) fn place(self, address: usize) -> usize {
        let pieces = match self {
            TensorSwizzle::None => 0,
            TensorSwizzle::B32 => 1,
            TensorSwizzle::B64 => 3,
            TensorSwizzle::B128 => 7,
        };
        address ^ (address >> 7 & pieces) << 4
    }
}

/// A tensor in global memory, and the tiles that copies take of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TensorMap {
    /// The type of its elements.
    pub element: TensorElement,
    /// The address of its first element.
    pub address: u64,
    /// Elements along each axis, the innermost first.
    pub extents: Vec<u64>,
    /// Bytes from one element to the next along each axis but the innermost.
    pub strides: Vec<u64>,
    /// Elements that a tile spans along each axis.
    pub tile: Vec<u32>,
    /// Elements from one that a tile has to the next, along each axis.
    pub steps: Vec<u32>,
    /// The places of pieces in shared memory.
    pub swizzle: TensorSwizzle,
    /// True if what lies outside of the tensor is a NaN in shared memory, not zero.
    pub fills_nan: bool,
}

impl TensorMap {
    /// Says what the driver would refuse in it.
    pub fn fault(&self) -> Option<String> {
        let n = self.extents.len();
        let elements = u64::from(self.element.n_bytes());
        let row = u64::from(self.counts().first().copied().unwrap_or(0)) * elements;
        let complaint = match () {
            () if !(1..=MAX_AXES).contains(&n) => format!("it has {n} axes, not 1 to {MAX_AXES}"),
            () if self.strides.len() != n - 1 || self.tile.len() != n || self.steps.len() != n => {
                "strides, tile and steps are of other numbers of axes".to_owned()
            }
            () if !self.address.is_multiple_of(16) => {
                format!("its address, 0x{:x}, is no multiple of 16", self.address)
            }
            () if self.extents.iter().any(|extent| *extent == 0 || *extent > 1 << 32) => {
                format!("its extents, {:?}, are not all 1 to 2^32", self.extents)
            }
            () if self.strides.iter().any(|stride| !stride.is_multiple_of(16) || *stride >= 1 << 40) => {
                format!("its strides, {:?} bytes, are not all multiples of 16 below 2^40", self.strides)
            }
            () if self.tile.iter().any(|extent| *extent == 0 || *extent > 256) => {
                format!("the extents of a tile, {:?}, are not all 1 to 256", self.tile)
            }
            () if self.steps.iter().any(|step| *step == 0 || *step > 8) => {
                format!("the steps of a tile, {:?}, are not all 1 to 8", self.steps)
            }
            () if !row.is_multiple_of(16) => format!("a row of a tile has {row} bytes, no multiple of 16"),
            () if self.swizzle.row_bytes().is_some_and(|most| row > most.into()) => {
                format!("a row of a tile has {row} bytes, more than the swizzle's {:?}", self.swizzle)
            }
            () if self.fills_nan && self.element.nan().is_none() => {
                format!("elements of {:?} have no NaN to fill with", self.element)
            }
            () => return None,
        };
        Some(complaint)
    }

    /// Elements of a tile along each axis.
    pub(crate) fn counts(&self) -> Vec<u32> {
        self.tile.iter().zip(&self.steps).map(|(extent, step)| extent.div_ceil((*step).max(1))).collect()
    }

    /// Bytes of a tile in shared memory.
    pub(crate) fn tile_bytes(&self) -> u32 {
        self.counts().iter().product::<u32>() * self.element.n_bytes()
    }

    /// The bytes of an element that lies outside of the tensor.
    pub(crate) fn fill(&self) -> u64 {
        self.element.nan().filter(|_| self.fills_nan).unwrap_or(0)
    }

    /// The map as it lies in memory.
    pub fn to_bytes(&self) -> [u8; TENSOR_MAP_BYTES] {
        let mut bytes = Vec::with_capacity(TENSOR_MAP_BYTES);
        bytes.extend(MARK);
        let swizzle = TensorSwizzle::ALL.iter().position(|each| *each == self.swizzle).unwrap_or(0);
        let element = TensorElement::ALL.iter().position(|each| *each == self.element).unwrap_or(0);
        bytes.extend([self.extents.len() as u8, element as u8, swizzle as u8, self.fills_nan.into()]);
        bytes.extend(self.address.to_le_bytes());
        let axis = |values: &[u64], at: usize| values.get(at).copied().unwrap_or(0);
        (0..MAX_AXES).for_each(|at| bytes.extend(axis(&self.extents, at).to_le_bytes()));
        (0..MAX_AXES - 1).for_each(|at| bytes.extend(axis(&self.strides, at).to_le_bytes()));
        (0..MAX_AXES).for_each(|at| bytes.extend((self.tile.get(at).copied().unwrap_or(0) as u16).to_le_bytes()));
        (0..MAX_AXES).for_each(|at| bytes.push(self.steps.get(at).copied().unwrap_or(0) as u8));
        bytes.resize(TENSOR_MAP_BYTES, 0);
        let mut all = [0; TENSOR_MAP_BYTES];
        all.copy_from_slice(&bytes);
        all
    }

    /// The map that these bytes are, if they are one.
    pub fn from_bytes(bytes: &[u8; TENSOR_MAP_BYTES]) -> Option<TensorMap> {
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap_or_default());
        let n = usize::from(bytes[4]);
        if bytes[..4] != MARK || n == 0 || n > MAX_AXES {
            return None;
        }
        let (extents, strides) = (16, 16 + 8 * MAX_AXES);
        let (tile, steps) = (strides + 8 * (MAX_AXES - 1), strides + 8 * (MAX_AXES - 1) + 2 * MAX_AXES);
        let half = |at: usize| u32::from(bytes[at]) | u32::from(bytes[at + 1]) << 8;
        let map = TensorMap {
            element: TensorElement::of_number(bytes[5].into())?,
            address: word(8),
            extents: (0..n).map(|axis| word(extents + 8 * axis)).collect(),
            strides: (0..n - 1).map(|axis| word(strides + 8 * axis)).collect(),
            tile: (0..n).map(|axis| half(tile + 2 * axis)).collect(),
            steps: (0..n).map(|axis| bytes[steps + axis].into()).collect(),
            swizzle: TensorSwizzle::of_number(bytes[6].into())?,
            fills_nan: bytes[7] != 0,
        };
        map.fault().is_none().then_some(map)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map() -> TensorMap {
        TensorMap {
            element: TensorElement::F32,
            address: 0x7f00_0000_1000,
            extents: vec![100, 70, 1 << 32],
            strides: vec![400, 1 << 30],
            tile: vec![32, 256, 2],
            steps: vec![1, 8, 2],
            swizzle: TensorSwizzle::B128,
            fills_nan: true,
        }
    }

    #[test]
    fn bytes_give_the_map_back() {
        assert_eq!(map().fault(), None);
        assert_eq!(TensorMap::from_bytes(&map().to_bytes()), Some(map()));
        assert_eq!(map().counts(), [32, 32, 1]);
        assert_eq!(TensorMap::from_bytes(&[0; TENSOR_MAP_BYTES]), None);
    }

    #[test]
    fn what_the_driver_refuses_is_named() {
        let refused = |change: &dyn Fn(&mut TensorMap)| {
            let mut wrong = map();
            change(&mut wrong);
            assert_eq!(TensorMap::from_bytes(&wrong.to_bytes()), None);
            wrong.fault().expect("it is refused")
        };
        assert!(refused(&|map| map.address += 8).contains("no multiple of 16"));
        assert!(refused(&|map| map.strides[0] = 404).contains("multiples of 16"));
        assert!(refused(&|map| map.tile[0] = 64).contains("more than the swizzle's"));
        assert!(refused(&|map| map.steps[1] = 9).contains("1 to 8"));
        assert!(refused(&|map| map.element = TensorElement::S32).contains("no NaN"));
    }

    #[test]
    fn swizzles_exchange_pieces_by_the_number_of_their_line() {
        // The column of first pieces of eight lines of 128 bytes, with eight pieces each, is a diagonal.
        let column: Vec<usize> = (0..8).map(|line| TensorSwizzle::B128.place(1024 + 128 * line) % 128 / 16).collect();
        assert_eq!(column, [0, 1, 2, 3, 4, 5, 6, 7]);
        let column: Vec<usize> = (0..8).map(|line| TensorSwizzle::B64.place(128 * line) % 128 / 16).collect();
        assert_eq!(column, [0, 1, 2, 3, 0, 1, 2, 3]);
        let column: Vec<usize> = (0..8).map(|line| TensorSwizzle::B32.place(128 * line) % 128 / 16).collect();
        assert_eq!(column, [0, 1, 0, 1, 0, 1, 0, 1]);
        assert_eq!(TensorSwizzle::B128.place(128 * 5 + 16 * 3 + 7), 128 * 5 + 16 * 6 + 7);
    }
}

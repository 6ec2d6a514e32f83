//! Says which texels a fetch reads, and how much of each (CUDA C++ Programming Guide, "Texture Fetching").
//!
//! Of a nearest texel the index is `floor(x)`. Between texels `x - 0.5` is a number of 256ths, rounded to the nearest, a
//! tie to the even one: its whole part is the index of the first of two texels, and its fraction is how much of the second is
//! taken. Normalized coordinates are multiplied by the extent first, without rounding. The addressing mode is applied to the
//! indices, so that a filter at the edge of an image that wraps takes of both ends.

use super::{Texture, TextureAddressing};

/// 256ths that a texel is taken of.
pub(crate) const WHOLE: u32 = 256;
/// Indices are kept within this, which no extent comes near to.
const FARTHEST: f64 = (1u64 << 52) as f64;

/// A coordinate as an instruction has it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TextureCoordinate {
    Float(f32),
    /// Counts texels, and reads one.
    Integer(i32),
}

/// The one or two texels along an axis that a fetch reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct AxisTaps {
    /// Indices of texels; `None` is the border.
    pub(crate) indices: [Option<u32>; 2],
    /// 256ths of each.
    pub(crate) weights: [u32; 2],
}

impl Texture {
    /// The texels along an axis that a coordinate is of, `offset` texels on.
    pub(crate) fn taps(&self, axis: usize, at: TextureCoordinate, offset: i32, is_between: bool) -> AxisTaps {
        let extent = self.image.extents[axis];
        let texels = match at {
            TextureCoordinate::Integer(at) => return self.one(axis, i64::from(at) + i64::from(offset)),
            TextureCoordinate::Float(at) if self.is_normalized && !self.image.is_linear => {
                f64::from(at) * f64::from(extent)
            }
            TextureCoordinate::Float(at) => at.into(),
        };
        // A NaN becomes zero.
        let whole = |value: f64| value.clamp(-FARTHEST, FARTHEST) as i64;
        if !is_between {
            return self.one(axis, whole(texels.floor()) + i64::from(offset));
        }
        let fixed = whole(((texels - 0.5) * f64::from(WHOLE)).round_ties_even());
        let (first, second) =
            (fixed.div_euclid(WHOLE.into()) + i64::from(offset), fixed.rem_euclid(WHOLE.into()) as u32);
        AxisTaps { indices: [first, first + 1].map(|index| self.index(axis, index)), weights: [WHOLE - second, second] }
    }

    fn one(&self, axis: usize, index: i64) -> AxisTaps {
        AxisTaps { indices: [self.index(axis, index), None], weights: [WHOLE, 0] }
    }

    /// The texel that an index along an axis stands for; `None` is the border.
    fn index(&self, axis: usize, index: i64) -> Option<u32> {
        let extent = i64::from(self.image.extents[axis]);
        let mode = match self.addressing[axis] {
            _ if self.image.is_linear => TextureAddressing::Border,
            // Coordinates that count texels do not wrap.
            TextureAddressing::Wrap | TextureAddressing::Mirror if !self.is_normalized => TextureAddressing::Clamp,
            mode => mode,
        };
        let index = match mode {
            TextureAddressing::Wrap => index.rem_euclid(extent),
            TextureAddressing::Mirror => {
                let place = index.rem_euclid(2 * extent);
                place.min(2 * extent - 1 - place)
            }
            TextureAddressing::Clamp => index.clamp(0, extent - 1),
            TextureAddressing::Border => Some(index).filter(|index| (0..extent).contains(index))?,
        };
        u32::try_from(index).ok()
    }
}

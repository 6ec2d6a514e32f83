//! Images: texels in global memory, in rows and planes, that textures and surfaces are made of. A GPU's arrays lie in an
//! order that nobody sees; here rows follow each other, so that copies and checks treat them as any memory.

use crate::number::half::f16_to_f32;

/// The type of a texel's channels.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub enum TexelChannel {
    U8,
    U16,
    U32,
    S8,
    S16,
    S32,
    F16,
    F32,
}

impl TexelChannel {
    /// Channel types with their numbers in the driver's interface (`CUarray_format`).
    const NUMBERS: [(TexelChannel, u32); 8] = [
        (TexelChannel::U8, 0x01),
        (TexelChannel::U16, 0x02),
        (TexelChannel::U32, 0x03),
        (TexelChannel::S8, 0x08),
        (TexelChannel::S16, 0x09),
        (TexelChannel::S32, 0x0a),
        (TexelChannel::F16, 0x10),
        (TexelChannel::F32, 0x20),
    ];

    /// The type with this number in the driver's interface, if the simulator has it.
    pub fn of_number(number: u32) -> Option<TexelChannel> {
        TexelChannel::NUMBERS.iter().find(|(_, known)| *known == number).map(|(channel, _)| *channel)
    }

    /// Its number in the driver's interface.
    pub fn number(self) -> u32 {
        TexelChannel::NUMBERS.iter().find(|(channel, _)| *channel == self).map_or(0, |(_, number)| *number)
    }

    /// Bytes of a channel.
    pub fn n_bytes(self) -> u32 {
        match self {
            TexelChannel::U8 | TexelChannel::S8 => 1,
            TexelChannel::U16 | TexelChannel::S16 | TexelChannel::F16 => 2,
            TexelChannel::U32 | TexelChannel::S32 | TexelChannel::F32 => 4,
        }
    }

    /// Returns true of floats.
    pub fn is_float(self) -> bool {
        matches!(self, TexelChannel::F16 | TexelChannel::F32)
    }

    /// Returns true of integers that a texture may read as fractions of the largest.
    pub(crate) fn is_normalizable(self) -> bool {
        !self.is_float() && self.n_bytes() < 4
    }

    /// The integer that the bits of a channel are, in 32 bits.
    pub(crate) fn integer(self, bits: u32) -> u32 {
        match self {
            TexelChannel::S8 => bits as u8 as i8 as u32,
            TexelChannel::S16 => bits as u16 as i16 as u32,
            _ => bits,
        }
    }

    /// The number that the bits of a channel are: a float, or an integer as a fraction of the largest (CUDA C++
    /// Programming Guide, "Texture Memory", read mode). The least signed integer is -1 too.
    pub(crate) fn number_of(self, bits: u32) -> f64 {
        let integer = self.integer(bits);
        match self {
            TexelChannel::U8 => f64::from(integer) / 255.0,
            TexelChannel::U16 => f64::from(integer) / 65535.0,
            TexelChannel::S8 => (f64::from(integer as i32) / 127.0).max(-1.0),
            TexelChannel::S16 => (f64::from(integer as i32) / 32767.0).max(-1.0),
            TexelChannel::F16 => f16_to_f32(bits as u16).into(),
            TexelChannel::F32 => f32::from_bits(bits).into(),
            TexelChannel::U32 => integer.into(),
            TexelChannel::S32 => (integer as i32).into(),
        }
    }
}

/// Describes what a texel consists of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TexelFormat {
    /// The type of each channel.
    pub channel: TexelChannel,
    /// 1, 2 or 4.
    pub n_channels: u32,
}

impl TexelFormat {
    /// Bytes of a texel.
    pub fn n_bytes(self) -> u32 {
        self.channel.n_bytes() * self.n_channels
    }
}

/// Texels in global memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TexelImage {
    /// The address of the first texel.
    pub address: u64,
    /// Says what each texel is.
    pub format: TexelFormat,
    /// Axes, 1 to 3; layers are none.
    pub n_axes: usize,
    /// Texels along x, y and z, 1 along axes that the image does not have.
    pub extents: [u32; 3],
    /// Layers, if it has such. An image of three axes has none.
    pub n_layers: Option<u32>,
    /// Bytes from a row to the next.
    pub row_pitch: u64,
    /// Bytes from a plane or layer to the next.
    pub plane_pitch: u64,
    /// True of plain memory of one axis, which textures read without addressing modes and filters.
    pub is_linear: bool,
}

/// Bytes that rows of arrays are multiples of, so that what surfaces access is aligned in every row.
const ROW_ALIGN: u64 = 16;

impl TexelImage {
    /// The shape of an array with these extents, one for each axis, that [`DeviceMemory::alloc_image`] makes memory for.
    ///
    /// [`DeviceMemory::alloc_image`]: crate::DeviceMemory::alloc_image
    pub fn array(format: TexelFormat, extents: &[u32], n_layers: Option<u32>) -> TexelImage {
        let extent = |axis: usize| extents.get(axis).copied().unwrap_or(1);
        let row_pitch = (u64::from(extent(0)) * u64::from(format.n_bytes())).next_multiple_of(ROW_ALIGN);
        TexelImage {
            address: 0,
            format,
            n_axes: extents.len(),
            extents: [extent(0), extent(1), extent(2)],
            n_layers,
            row_pitch,
            plane_pitch: row_pitch.saturating_mul(extent(1).into()),
            is_linear: false,
        }
    }

    /// Plain memory of so many texels.
    pub fn linear(format: TexelFormat, address: u64, n_texels: u32) -> TexelImage {
        TexelImage { address, is_linear: true, ..TexelImage::array(format, &[n_texels], None) }
    }

    /// Rows of memory, so many bytes apart.
    pub fn rows(format: TexelFormat, address: u64, extents: [u32; 2], row_pitch: u64) -> TexelImage {
        let plane_pitch = row_pitch.saturating_mul(extents[1].into());
        TexelImage { address, row_pitch, plane_pitch, ..TexelImage::array(format, &extents, None) }
    }

    /// Bytes of a row's texels.
    pub fn row_bytes(&self) -> u64 {
        u64::from(self.extents[0]) * u64::from(self.format.n_bytes())
    }

    /// Planes or layers.
    pub fn n_planes(&self) -> u32 {
        self.n_layers.unwrap_or(self.extents[2])
    }

    /// Bytes from the first texel to the end of the last plane, or `None` if no memory has as many.
    pub fn n_bytes(&self) -> Option<usize> {
        usize::try_from(self.plane_pitch.checked_mul(self.n_planes().into())?).ok()
    }

    /// Says what is wrong with it.
    pub fn fault(&self) -> Option<String> {
        let texel = u64::from(self.format.n_bytes());
        let n_channels = self.format.n_channels;
        match () {
            () if !matches!(n_channels, 1 | 2 | 4) => Some(format!("texels have 1, 2 or 4 channels, not {n_channels}")),
            () if !(1..=3).contains(&self.n_axes) => Some(format!("it has {} axes, not 1 to 3", self.n_axes)),
            () if self.n_axes == 3 && self.n_layers.is_some() => {
                Some("layers have one or two axes, not three".to_owned())
            }
            () if self.extents.contains(&0) || self.n_layers == Some(0) => Some("it has no texels".to_owned()),
            () if !self.address.is_multiple_of(texel) => {
                Some(format!("its address, 0x{:x}, is no multiple of {texel}, the bytes of a texel", self.address))
            }
            () if !self.row_pitch.is_multiple_of(texel) || self.row_pitch < self.row_bytes() => Some(format!(
                "its pitch, {}, is less than the {} bytes of a row, or no multiple of {texel}, the bytes of a texel",
                self.row_pitch,
                self.row_bytes()
            )),
            () => None,
        }
    }

    /// The address of a texel, `plane` being its z or its layer.
    pub fn texel(&self, x: u32, y: u32, plane: u32) -> u64 {
        let texel = u64::from(x) * u64::from(self.format.n_bytes());
        self.address + texel + u64::from(y) * self.row_pitch + u64::from(plane) * self.plane_pitch
    }

    /// In words, its shape.
    pub(crate) fn shape(&self) -> String {
        let extents: Vec<String> = self.extents[..self.n_axes].iter().map(u32::to_string).collect();
        let layers = self.n_layers.map_or_else(String::new, |n_layers| format!(" in {n_layers} layers"));
        format!("{}{layers}", extents.join(" by "))
    }
}

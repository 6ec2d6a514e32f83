//! Textures and surfaces: objects that kernels have by their handles. A texture says how coordinates and texels of an
//! image are read; a surface is an image whose texels are read and written as bytes.

mod footprint;
mod image;

pub(crate) use footprint::{AxisTaps, TextureCoordinate, WHOLE};
pub use image::{TexelChannel, TexelFormat, TexelImage};

use crate::memory::MemoryError;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Why there is no such array, texture or surface.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TextureError {
    /// It cannot be.
    #[error("invalid {what}: {fault}")]
    Invalid {
        /// Says which of the three.
        what: &'static str,
        /// Says what is wrong with it.
        fault: String,
    },
    /// No texture or surface has the handle.
    #[error("0x{0:x} is the handle of no texture or surface")]
    NotObject(u64),
    /// There is no memory for it.
    #[error(transparent)]
    Memory(#[from] MemoryError),
}

/// Describes what a texture has where no texel is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TextureAddressing {
    /// The image again and again.
    Wrap,
    /// The nearest texel.
    Clamp,
    /// The image again and again, every second time reversed.
    Mirror,
    /// The colour of the border.
    Border,
}

impl TextureAddressing {
    const ALL: [TextureAddressing; 4] =
        [TextureAddressing::Wrap, TextureAddressing::Clamp, TextureAddressing::Mirror, TextureAddressing::Border];

    /// The mode with this number in the driver's interface (`CUaddress_mode`).
    pub fn of_number(number: u32) -> Option<TextureAddressing> {
        TextureAddressing::ALL.get(number as usize).copied()
    }
}

/// Says which texels a texture reads for coordinates between them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TextureFilter {
    /// The one that the coordinates are in.
    Nearest,
    /// The two along each axis whose middles they are between, by their distances.
    Linear,
}

/// An image and how it is read.
///
/// ```
/// use polyloom_ptx::{DeviceMemory, TexelChannel, TexelFormat, TexelImage, Texture};
///
/// let memory = DeviceMemory::default();
/// let format = TexelFormat { channel: TexelChannel::F32, n_channels: 1 };
/// let image = memory.alloc_image(TexelImage::array(format, &[4, 2], None))?;
/// memory.write(image.texel(0, 1, 0), &1.5f32.to_le_bytes())?;
/// // A kernel's parameter, for `tex.2d`.
/// let handle = memory.create_texture(Texture::new(image))?;
/// memory.destroy_object(handle)?;
/// memory.free(image.address)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Texture {
    /// The texels.
    pub image: TexelImage,
    /// Says what is beyond the image along each axis.
    pub addressing: [TextureAddressing; 3],
    /// Says what is between texels.
    pub filter: TextureFilter,
    /// True if coordinates go from 0 to 1 along each axis, false if they count texels.
    pub is_normalized: bool,
    /// True if integers of 8 and 16 bits are read as fractions of the largest. Other texels are read as they are.
    pub reads_fractions: bool,
    /// The colour of the border. Of integers that are read as they are it has the bits.
    pub border: [f32; 4],
}

impl Texture {
    /// The texels as they are, by coordinates that count them, the nearest ones beyond the image.
    pub fn new(image: TexelImage) -> Texture {
        Texture {
            image,
            addressing: [TextureAddressing::Clamp; 3],
            filter: TextureFilter::Nearest,
            is_normalized: false,
            reads_fractions: false,
            border: [0.0; 4],
        }
    }

    /// Says what is wrong with it.
    pub fn fault(&self) -> Option<String> {
        let is_filtered = self.filter == TextureFilter::Linear && !self.image.is_linear;
        let complaint =
            "its filter is linear and its texels are integers, which are not read as fractions of the largest";
        self.image.fault().or_else(|| (is_filtered && !self.gives_floats()).then(|| complaint.to_owned()))
    }

    /// Returns true if what is read are floats, false if they are integers.
    pub(crate) fn gives_floats(&self) -> bool {
        let channel = self.image.format.channel;
        channel.is_float() || self.reads_fractions && channel.is_normalizable()
    }

    /// Returns what a fetch gives of the bits of a channel that is read as it is.
    pub(crate) fn element(&self, bits: u32) -> u32 {
        match self.image.format.channel {
            TexelChannel::F32 => bits,
            channel if self.gives_floats() => (channel.number_of(bits) as f32).to_bits(),
            channel => channel.integer(bits),
        }
    }

    /// The number that a filter makes of the bits of a channel.
    pub(crate) fn number(&self, bits: u32) -> f64 {
        self.image.format.channel.number_of(bits)
    }

    /// The colour beyond the image. Plain memory has zeros there.
    pub(crate) fn border(&self) -> [f32; 4] {
        if self.image.is_linear { [0.0; 4] } else { self.border }
    }

    /// Returns what a fetch gives of a channel that texels do not have: zero, or one of the fourth.
    pub(crate) fn absent(&self, channel: usize) -> u32 {
        match channel {
            3 if self.gives_floats() => 1f32.to_bits(),
            3 => 1,
            _ => 0,
        }
    }
}

/// The textures and surfaces of a device, by their handles.
#[derive(Clone, Default, Debug)]
pub(crate) struct ImageObjects {
    pub(crate) textures: Arc<BTreeMap<u64, Texture>>,
    pub(crate) surfaces: Arc<BTreeMap<u64, TexelImage>>,
    /// Counts all that there have been; a handle is used once.
    n_made: u64,
}

impl ImageObjects {
    /// A handle that no object has had: an address of `space`, where nothing lies.
    fn handle(&mut self, space: u64) -> u64 {
        self.n_made += 1;
        space + self.n_made
    }

    pub(crate) fn add_texture(&mut self, texture: Texture) -> u64 {
        let handle = self.handle(crate::memory::window::TEXTURES);
        Arc::make_mut(&mut self.textures).insert(handle, texture);
        handle
    }

    pub(crate) fn add_surface(&mut self, image: TexelImage) -> u64 {
        let handle = self.handle(crate::memory::window::SURFACES);
        Arc::make_mut(&mut self.surfaces).insert(handle, image);
        handle
    }

    /// Forgets an object; false if there is none of the handle.
    pub(crate) fn remove(&mut self, handle: u64) -> bool {
        Arc::make_mut(&mut self.textures).remove(&handle).is_some()
            || Arc::make_mut(&mut self.surfaces).remove(&handle).is_some()
    }
}

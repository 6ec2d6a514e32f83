//! CUDA arrays, and the textures and surfaces over them: what handles of theirs stand for.
//!
//! An array is memory of the simulated device in rows that follow each other, so that copies are those of rows. Textures and
//! surfaces are objects of the simulator, whose handles kernels get.

use crate::abi::{Array3dDescription, Handle, ResourceDescription, TextureDescription};
use crate::driver::Driver;
use crate::memory::CopyPlace;
use crate::registry::{Registry, new_handle};
use crate::status::{CudaError, Outcome};
use crate::work::CopySide;
use polyloom_ptx::{TexelChannel, TexelFormat, TexelImage, TextureError};
use std::sync::PoisonError;

/// Says what arrays are for (`CUDA_ARRAY3D_…`).
pub(crate) mod array_flag {
    pub(crate) const LAYERED: u32 = 0x01;
    pub(crate) const SURFACE: u32 = 0x02;
    pub(crate) const CUBEMAP: u32 = 0x04;
    pub(crate) const GATHER: u32 = 0x08;
    pub(crate) const DEPTH: u32 = 0x10;
    pub(crate) const COLOR_ATTACHMENT: u32 = 0x20;
    pub(crate) const SPARSE: u32 = 0x40;
    pub(crate) const DEFERRED: u32 = 0x80;
}

/// The largest textures and surfaces, as GPUs since `sm_75` have them (CUDA C++ Programming Guide, "Technical
/// Specifications per Compute Capability").
pub(crate) mod image_limit {
    pub(crate) const AXIS: usize = 131_072;
    pub(crate) const ROWS: usize = 65_536;
    pub(crate) const AXIS_OF_3D: usize = 16_384;
    /// Also of surfaces of one axis, and of textures whose squares are gathered.
    pub(crate) const AXIS_OF_LAYER: usize = 32_768;
    pub(crate) const LAYERS: usize = 2048;
    /// Texels of plain memory.
    pub(crate) const LINEAR: usize = 1 << 28;
    pub(crate) const PITCHED_ROWS: usize = 65_000;
    pub(crate) const PITCH: usize = 2_097_120;
    /// Bytes that addresses and rows of plain memory are multiples of.
    pub(crate) const ALIGN: u64 = 512;
    pub(crate) const PITCH_ALIGN: usize = 32;
}

/// An array.
pub(crate) struct DeviceArray {
    pub(crate) context: Handle,
    /// As the program has described it.
    pub(crate) description: Array3dDescription,
    pub(crate) image: TexelImage,
}

/// All arrays.
pub(crate) static ARRAYS: Registry<DeviceArray> = Registry::new();

/// A texture or a surface, as the program has described it.
pub(crate) struct ImageObject {
    pub(crate) context: Handle,
    pub(crate) resource: ResourceDescription,
    /// None of a surface.
    pub(crate) texture: Option<TextureDescription>,
}

/// All textures and surfaces, by the handles that the simulator has given them.
pub(crate) static OBJECTS: Registry<ImageObject> = Registry::new();

/// The format of texels by its numbers, or the note that the simulator does not have it.
pub(crate) fn texel_format(driver: &Driver, number: u32, n_channels: u32) -> Outcome<TexelFormat> {
    match TexelChannel::of_number(number) {
        Some(channel) if matches!(n_channels, 1 | 2 | 4) => Ok(TexelFormat { channel, n_channels }),
        // Planes of video, compressed blocks, fractions and depths have numbers above those of plain numbers.
        None if (0x40..=0xff).contains(&number) => {
            driver.journal.missing(&format!("cuArrayCreate or cuTexObjectCreate of format 0x{number:x}"));
            Err(CudaError::NOT_SUPPORTED)
        }
        _ => Err(CudaError::INVALID_VALUE),
    }
}

/// Tells what is wrong with an array or a texture.
pub(crate) fn refuse<T>(driver: &Driver, complaint: &str) -> Outcome<T> {
    driver.journal.noted(complaint);
    Err(CudaError::INVALID_VALUE)
}

/// Tells what the simulator says is wrong.
pub(crate) fn refused(driver: &Driver, error: &TextureError) -> CudaError {
    match error {
        TextureError::Memory(_) => CudaError::OUT_OF_MEMORY,
        _ => {
            driver.journal.noted(&error.to_string());
            CudaError::INVALID_VALUE
        }
    }
}

impl DeviceArray {
    /// Makes an array.
    pub(crate) fn create(driver: &Driver, context: Handle, description: Array3dDescription) -> Outcome<Handle> {
        let Array3dDescription { format, n_channels, flags, .. } = description;
        for (flag, what) in [
            (array_flag::CUBEMAP, "cube maps"),
            (array_flag::DEPTH, "depth textures"),
            (array_flag::SPARSE, "sparse arrays"),
            (array_flag::DEFERRED, "arrays whose memory is mapped later"),
        ] {
            if flags & flag != 0 {
                driver.journal.missing(&format!("cuArray3DCreate of {what}"));
                return Err(CudaError::NOT_SUPPORTED);
            }
        }
        let known = array_flag::LAYERED | array_flag::SURFACE | array_flag::GATHER | array_flag::COLOR_ATTACHMENT;
        if flags & !known != 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        let format = texel_format(driver, format, n_channels)?;
        let (extents, n_layers) = shape_of(driver, &description)?;
        let image = driver.memory.device.alloc_image(TexelImage::array(format, &extents, n_layers));
        let image = image.map_err(|error| refused(driver, &error))?;
        let handle = new_handle();
        ARRAYS.insert(handle, DeviceArray { context, description, image });
        Ok(handle)
    }

    /// Ends an array. Textures of it stay, and read memory that is freed.
    pub(crate) fn destroy(driver: &Driver, handle: Handle) -> Outcome {
        // A launch that runs may access it to its end.
        let _still = driver.running.lock().unwrap_or_else(PoisonError::into_inner);
        let array = ARRAYS.remove(handle)?;
        // The simulator knows it, because it was allocated there.
        let _ = driver.memory.device.free(array.image.address);
        Ok(())
    }

    /// The side of a copy that begins at a byte of a row, a row, and a plane or layer.
    pub(crate) fn copy_side(&self, [x, y, z]: [usize; 3], [width, height, depth]: [usize; 3]) -> Outcome<CopySide> {
        let image = &self.image;
        let fits = |at: usize, n: usize, extent: u64| at.checked_add(n).is_some_and(|end| end as u64 <= extent);
        let texel = image.format.n_bytes() as usize;
        let is_whole = x.is_multiple_of(texel) && width.is_multiple_of(texel);
        let is_inside = fits(x, width, image.row_bytes())
            && fits(y, height, image.extents[1].into())
            && fits(z, depth, image.n_planes().into());
        if !is_whole || !is_inside {
            return Err(CudaError::INVALID_VALUE);
        }
        let address = image.texel((x / texel) as u32, y as u32, z as u32);
        let (pitch, plane) = (image.row_pitch as usize, image.plane_pitch as usize);
        Ok(CopySide { place: CopyPlace::Device(address), pitch, plane })
    }

    /// The place of a byte of an array of one row, from which so many bytes are copied.
    pub(crate) fn bytes_of_row(handle: Handle, offset: usize, n_bytes: usize) -> Outcome<CopyPlace> {
        let array = ARRAYS.get(handle)?;
        if array.description.height > 1 || array.description.depth > 1 {
            return Err(CudaError::INVALID_VALUE);
        }
        Ok(array.copy_side([offset, 0, 0], [n_bytes, 1, 1])?.place)
    }
}

/// The extents of an array and its layers, within the limits of the device.
fn shape_of(driver: &Driver, description: &Array3dDescription) -> Outcome<(Vec<u32>, Option<u32>)> {
    use image_limit::{AXIS, AXIS_OF_3D, AXIS_OF_LAYER, LAYERS, ROWS};
    let &Array3dDescription { width, height, depth, flags, .. } = description;
    let is_layered = flags & array_flag::LAYERED != 0;
    let (given, mut most) = match (is_layered, height, depth) {
        (true, 0, _) => (vec![width, depth], vec![AXIS_OF_LAYER, LAYERS]),
        (true, ..) => (vec![width, height, depth], vec![AXIS_OF_LAYER, AXIS_OF_LAYER, LAYERS]),
        (false, 0, 0) => (vec![width], vec![AXIS]),
        (false, _, 0) => (vec![width, height], vec![AXIS, ROWS]),
        (false, ..) => (vec![width, height, depth], vec![AXIS_OF_3D; 3]),
    };
    if flags & array_flag::GATHER != 0 {
        if is_layered || given.len() != 2 {
            return refuse(driver, "an array is for gathers (CUDA_ARRAY3D_TEXTURE_GATHER), which are of two axes");
        }
        most = vec![AXIS_OF_LAYER; 2];
    }
    if flags & array_flag::SURFACE != 0 && given.len() == 1 {
        most = vec![AXIS_OF_LAYER];
    }
    let extents: Vec<u32> = given.iter().map(|extent| u32::try_from(*extent).unwrap_or(u32::MAX)).collect();
    if given.contains(&0) || given.iter().zip(&most).any(|(extent, most)| extent > most) {
        return refuse(driver, &format!("an array of {given:?} texels: extents are 1 to {most:?}"));
    }
    match is_layered {
        true => Ok((extents[..extents.len() - 1].to_vec(), extents.last().copied())),
        false => Ok((extents, None)),
    }
}

/// Ends the arrays, textures and surfaces of a context.
pub(crate) fn end_all_of(driver: &Driver, context: Handle) {
    for handle in ARRAYS.handles_where(|array| array.context == context) {
        // Nobody else ends it, since its context is at its end.
        let _ = DeviceArray::destroy(driver, handle);
    }
    for handle in OBJECTS.handles_where(|object| object.context == context) {
        let _ = destroy_object(driver, handle as u64, |_| true);
    }
}

/// Ends a texture or a surface.
pub(crate) fn destroy_object(driver: &Driver, handle: u64, is_fit: impl Fn(&ImageObject) -> bool) -> Outcome {
    let object = object_of(handle)?;
    if !is_fit(&object) {
        return Err(CudaError::INVALID_VALUE);
    }
    OBJECTS.remove(handle as Handle).map_err(|_| CudaError::INVALID_VALUE)?;
    // The simulator knows it, because it was made there.
    let _ = driver.memory.device.destroy_object(handle);
    Ok(())
}

/// The texture or surface of a handle.
pub(crate) fn object_of(handle: u64) -> Outcome<std::sync::Arc<ImageObject>> {
    OBJECTS.get(handle as Handle).map_err(|_| CudaError::INVALID_VALUE)
}

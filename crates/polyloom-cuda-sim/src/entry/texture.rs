//! Texture and surface objects.

use super::entry_points;
use crate::abi::{Handle, ResourceDescription, TextureDescription, resource_kind};
use crate::array::{
    ARRAYS, ImageObject, OBJECTS, array_flag, destroy_object, image_limit, object_of, refuse, refused, texel_format,
};
use crate::driver::Driver;
use crate::pointers::{In, Out};
use crate::status::{CudaError, Outcome};
use polyloom_ptx::{TexelImage, Texture, TextureAddressing, TextureFilter};
use std::ffi::c_void;

/// Says how textures read (`CU_TRSF_…`).
mod texture_flag {
    pub(super) const READ_AS_INTEGER: u32 = 0x01;
    pub(super) const NORMALIZED_COORDINATES: u32 = 0x02;
    pub(super) const SRGB: u32 = 0x10;
    /// Of levels and cubes, which there are not.
    pub(super) const WITHOUT_EFFECT: u32 = 0x20 | 0x40;
}

fn missing<T>(driver: &Driver, what: &str) -> Outcome<T> {
    driver.journal.missing(what);
    Err(CudaError::NOT_SUPPORTED)
}

/// The texels that a resource is.
fn image_of(driver: &Driver, resource: &ResourceDescription) -> Outcome<TexelImage> {
    if resource.flags != 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    match resource.kind {
        resource_kind::ARRAY => Ok(ARRAYS.get(resource.array())?.image),
        resource_kind::MIPMAPPED_ARRAY => missing(driver, "cuTexObjectCreate of mipmapped arrays"),
        resource_kind::LINEAR | resource_kind::PITCH_2D => plain_image(driver, resource),
        _ => Err(CudaError::INVALID_VALUE),
    }
}

/// The texels of plain memory.
fn plain_image(driver: &Driver, resource: &ResourceDescription) -> Outcome<TexelImage> {
    let (number, n_channels) = resource.format();
    let format = texel_format(driver, number, n_channels)?;
    let [address, _, size, height, pitch, ..] = resource.body;
    if !address.is_multiple_of(image_limit::ALIGN) {
        let align = image_limit::ALIGN;
        return refuse(
            driver,
            &format!("a texture's memory begins at a multiple of {align} bytes, not at 0x{address:x}"),
        );
    }
    if driver.memory.device.allocation_at(address).is_none() {
        return refuse(driver, &format!("a texture's memory is to begin at 0x{address:x}, where there is none"));
    }
    if resource.kind == resource_kind::LINEAR {
        let n_texels = size as usize / format.n_bytes() as usize;
        if !(1..=image_limit::LINEAR).contains(&n_texels) {
            return refuse(driver, &format!("a texture of plain memory has 1 to {} texels", image_limit::LINEAR));
        }
        return Ok(TexelImage::linear(format, address, n_texels as u32));
    }
    let (width, height, pitch) = (size as usize, height as usize, pitch as usize);
    let is_fit = (1..=image_limit::AXIS).contains(&width)
        && (1..=image_limit::PITCHED_ROWS).contains(&height)
        && pitch <= image_limit::PITCH
        && pitch.is_multiple_of(image_limit::PITCH_ALIGN);
    if !is_fit {
        return refuse(
            driver,
            &format!(
                "a texture of {height} rows of {width} texels, {pitch} bytes apart: there are at most {} rows of {} texels, \
                 multiples of {} and at most {} bytes apart",
                image_limit::PITCHED_ROWS,
                image_limit::AXIS,
                image_limit::PITCH_ALIGN,
                image_limit::PITCH
            ),
        );
    }
    Ok(TexelImage::rows(format, address, [width as u32, height as u32], pitch as u64))
}

/// The texture that two descriptions give.
fn texture_of(driver: &Driver, image: TexelImage, description: &TextureDescription) -> Outcome<Texture> {
    let TextureDescription { addressing, filter, flags, border, .. } = *description;
    let known = texture_flag::READ_AS_INTEGER | texture_flag::NORMALIZED_COORDINATES | texture_flag::WITHOUT_EFFECT;
    if flags & texture_flag::SRGB != 0 {
        return missing(driver, "cuTexObjectCreate of sRGB textures");
    }
    if flags & !known != 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    let mut modes = [TextureAddressing::Clamp; 3];
    for (mode, number) in modes.iter_mut().zip(addressing) {
        *mode = TextureAddressing::of_number(number).ok_or(CudaError::INVALID_VALUE)?;
    }
    Ok(Texture {
        image,
        addressing: modes,
        filter: match filter {
            0 => TextureFilter::Nearest,
            1 => TextureFilter::Linear,
            _ => return Err(CudaError::INVALID_VALUE),
        },
        is_normalized: flags & texture_flag::NORMALIZED_COORDINATES != 0,
        reads_fractions: flags & texture_flag::READ_AS_INTEGER == 0,
        border,
    })
}

fn is_texture(object: &ImageObject) -> bool {
    object.texture.is_some()
}

entry_points! { TEXTURE:
    fn cuTexObjectCreate(
        out: Out<u64>,
        resource: In<ResourceDescription>,
        texture: In<TextureDescription>,
        view: In<c_void>,
    ) [driver, context] {
        let (resource, description) = (resource.get()?, texture.get()?);
        if !view.is_null() {
            return missing(driver, "cuTexObjectCreate with a view of a resource");
        }
        let texture = texture_of(driver, image_of(driver, &resource)?, &description)?;
        let handle = driver.memory.device.create_texture(texture).map_err(|error| refused(driver, &error))?;
        let texture = Some(description);
        OBJECTS.insert(handle as Handle, ImageObject { context: context.handle, resource, texture });
        out.set(handle)
    }

    fn cuTexObjectDestroy(object: u64) [driver, _context] {
        destroy_object(driver, object, is_texture)
    }

    fn cuTexObjectGetResourceDesc(out: Out<ResourceDescription>, object: u64) [_driver, _context] {
        let object = object_of(object)?;
        if is_texture(&object) { out.set(object.resource) } else { Err(CudaError::INVALID_VALUE) }
    }

    fn cuTexObjectGetTextureDesc(out: Out<TextureDescription>, object: u64) [_driver, _context] {
        out.set(object_of(object)?.texture.ok_or(CudaError::INVALID_VALUE)?)
    }

    fn cuTexObjectGetResourceViewDesc(_out: Out<c_void>, object: u64) [_driver, _context] {
        object_of(object)?;
        // No texture has a view.
        Err(CudaError::INVALID_VALUE)
    }

    fn cuSurfObjectCreate(out: Out<u64>, resource: In<ResourceDescription>) [driver, context] {
        let resource = resource.get()?;
        if resource.kind != resource_kind::ARRAY || resource.flags != 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        let array = ARRAYS.get(resource.array())?;
        if array.description.flags & array_flag::SURFACE == 0 {
            return refuse(driver, "a surface is of an array that was made for it, with CUDA_ARRAY3D_SURFACE_LDST");
        }
        let handle = driver.memory.device.create_surface(array.image).map_err(|error| refused(driver, &error))?;
        OBJECTS.insert(handle as Handle, ImageObject { context: context.handle, resource, texture: None });
        out.set(handle)
    }

    fn cuSurfObjectDestroy(object: u64) [driver, _context] {
        destroy_object(driver, object, |object| !is_texture(object))
    }

    fn cuSurfObjectGetResourceDesc(out: Out<ResourceDescription>, object: u64) [_driver, _context] {
        let object = object_of(object)?;
        if is_texture(&object) { Err(CudaError::INVALID_VALUE) } else { out.set(object.resource) }
    }
}

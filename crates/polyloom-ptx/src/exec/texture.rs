//! Fetches of texels, and queries of textures and surfaces. To the checks a fetch is a read of each texel.

use super::access::{AccessEffect, WEAK};
use super::block::BlockState;
use super::grid::GridContext;
use super::lane_access::{AccessKind, LaneAccess};
use super::registers::{LANES, SourceOperand, lanes_of};
use super::warp::WarpRun;
use crate::decode::op::{DecodedInst, ImageFact, ImagePlace, ImageQuery, TextureFetch, TextureResult};
use crate::number::half::f16_from_f32;
use crate::report::{Finding, FindingKind};
use crate::syntax::ast::StateSpace;
use crate::texture::{AxisTaps, TexelImage, Texture, TextureCoordinate, TextureFilter, WHOLE};

/// Channels that a fetch gives.
const CHANNELS: usize = 4;
/// The four texels that `tld4` reads of a square, in its order: against the clock, from the first of the later row.
const SQUARE: [[usize; 2]; 4] = [[0, 1], [1, 1], [1, 0], [0, 0]];

/// Coordinates, layer and offsets of the lanes.
struct LanePlaces {
    coordinates: Vec<[u32; LANES]>,
    offsets: Vec<[u32; LANES]>,
    layers: [u32; LANES],
}

impl WarpRun {
    /// Calls `run` for each object that lanes name, with those lanes.
    pub(super) fn by_object(
        &mut self,
        objects: &[u64; LANES],
        lanes: u32,
        mut run: impl FnMut(&mut WarpRun, u64, u32) -> Result<(), Box<Finding>>,
    ) -> Result<(), Box<Finding>> {
        let mut left = lanes;
        while left != 0 {
            let object = objects[left.trailing_zeros() as usize];
            let alike = lanes_of(left).filter(|lane| objects[*lane] == object).fold(0, |set, lane| set | 1 << lane);
            left &= !alike;
            run(self, object, alike)?;
        }
        Ok(())
    }

    pub(super) fn texture_fetch(
        &mut self,
        context: &GridContext<'_>,
        block: &mut BlockState,
        inst: &DecodedInst,
        fetch: &TextureFetch,
        lanes: u32,
    ) -> Result<(), Box<Finding>> {
        let objects = *fetch.place.object.get(&self.registers);
        let values =
            |sources: &[SourceOperand<u32>]| sources.iter().map(|each| *each.get(&self.registers)).collect::<Vec<_>>();
        let places = LanePlaces {
            coordinates: values(&fetch.place.coordinates),
            offsets: values(&fetch.offsets),
            layers: fetch.place.layer.as_ref().map_or([0; LANES], |layer| *layer.get(&self.registers)),
        };
        let mut channels = [[0u32; CHANNELS]; LANES];
        self.by_object(&objects, lanes, |warp, object, lanes| {
            let texture = warp.texture(context, block, inst, object, lanes)?;
            warp.check_shape(context, block, inst, (object, &texture.image), &fetch.place, lanes)?;
            warp.fetch(context, block, inst, fetch, (object, texture), &places, lanes, &mut channels)
        })?;
        let half = |bits: u32| u64::from(f16_from_f32(f32::from_bits(bits)));
        for (index, destination) in fetch.destinations.iter().enumerate() {
            let values = channels.map(|channels| match fetch.result {
                TextureResult::Words => channels[index].into(),
                TextureResult::Halves => half(channels[index]),
                TextureResult::HalfPairs => half(channels[2 * index]) | half(channels[2 * index + 1]) << 16,
            });
            self.write(*destination, &values, lanes);
        }
        if let Some(resident) = fetch.resident {
            self.registers.set_predicate(resident, lanes, lanes);
        }
        Ok(())
    }

    /// The texture of a handle.
    fn texture<'c>(
        &self,
        context: &'c GridContext<'_>,
        block: &BlockState,
        inst: &DecodedInst,
        object: u64,
        lanes: u32,
    ) -> Result<&'c Texture, Box<Finding>> {
        context.objects.textures.get(&object).ok_or_else(|| {
            let message = match context.objects.surfaces.contains_key(&object) {
                true => format!("0x{object:x} is the handle of a surface, not of a texture"),
                false => format!("0x{object:x} is the handle of no texture"),
            };
            self.finding(context, block, inst, FindingKind::InvalidTexture, &message, lanes)
        })
    }

    /// The surface of a handle.
    pub(super) fn surface<'c>(
        &self,
        context: &'c GridContext<'_>,
        block: &BlockState,
        inst: &DecodedInst,
        object: u64,
        lanes: u32,
    ) -> Result<&'c TexelImage, Box<Finding>> {
        context.objects.surfaces.get(&object).ok_or_else(|| {
            let message = match context.objects.textures.contains_key(&object) {
                true => format!("0x{object:x} is the handle of a texture, not of a surface"),
                false => format!("0x{object:x} is the handle of no surface"),
            };
            self.finding(context, block, inst, FindingKind::InvalidTexture, &message, lanes)
        })
    }

    /// Refuses a texture or surface of another shape than the instruction's.
    pub(super) fn check_shape(
        &self,
        context: &GridContext<'_>,
        block: &BlockState,
        inst: &DecodedInst,
        (object, image): (u64, &TexelImage),
        place: &ImagePlace,
        lanes: u32,
    ) -> Result<(), Box<Finding>> {
        let (n_axes, is_layered) = (place.coordinates.len(), place.layer.is_some());
        if (image.n_axes, image.n_layers.is_some()) == (n_axes, is_layered) {
            return Ok(());
        }
        let layers = if is_layered { " and a layer" } else { "" };
        let message = format!(
            "the object 0x{object:x} is of {} texels, and is given {n_axes} coordinates{layers}",
            image.shape()
        );
        Err(self.finding(context, block, inst, FindingKind::InvalidTexture, &message, lanes))
    }

    #[expect(clippy::too_many_arguments, reason = "a fetch has as many sides")]
    fn fetch(
        &mut self,
        context: &GridContext<'_>,
        block: &mut BlockState,
        inst: &DecodedInst,
        fetch: &TextureFetch,
        (object, texture): (u64, &Texture),
        places: &LanePlaces,
        lanes: u32,
        channels: &mut [[u32; CHANNELS]; LANES],
    ) -> Result<(), Box<Finding>> {
        let image = &texture.image;
        let has_filter = texture.filter == TextureFilter::Linear || fetch.gathers.is_some();
        let is_between = has_filter && !fetch.has_integers && !image.is_linear;
        let taps = lane_taps(texture, fetch, places, is_between, lanes);
        let n_axes = image.n_axes;
        let corners: Vec<[usize; 3]> = match (fetch.gathers, is_between) {
            (Some(_), true) => SQUARE.iter().map(|[x, y]| [*x, *y, 0]).collect(),
            (Some(_), false) => vec![[0; 3]; SQUARE.len()],
            (None, true) => (0..1 << n_axes).map(|corner| [0, 1, 2].map(|axis| corner >> axis & 1)).collect(),
            (None, false) => vec![[0; 3]],
        };
        let (border, n_channels) = (texture.border(), image.format.n_channels as usize);
        let mut sums = [[0f64; CHANNELS]; LANES];
        for (number, corner) in corners.iter().enumerate() {
            let (mut addresses, mut inside, mut weights) = ([0u64; LANES], 0u32, [0f64; LANES]);
            for lane in lanes_of(lanes) {
                let axes = &taps[lane][..n_axes];
                let weight = |(taps, side): (&AxisTaps, &usize)| f64::from(taps.weights[*side]) / f64::from(WHOLE);
                weights[lane] = axes.iter().zip(corner).map(weight).product();
                let index = |axis: usize| axes.get(axis).map_or(Some(0), |taps| taps.indices[corner[axis]]);
                // Texels of which nothing is taken are not read.
                let is_read = weights[lane] > 0.0 || fetch.gathers.is_some();
                if let (Some(x), Some(y), Some(z), true) = (index(0), index(1), index(2), is_read) {
                    let plane = image.n_layers.map_or(z, |n_layers| places.layers[lane].min(n_layers - 1));
                    addresses[lane] = image.texel(x, y, plane);
                    inside |= 1 << lane;
                }
            }
            let texels = self.texels(context, block, inst, (object, image), &addresses, inside)?;
            for lane in lanes_of(lanes) {
                let is_inside = inside >> lane & 1 != 0;
                let element = |channel: usize| match is_inside {
                    _ if channel >= n_channels => texture.absent(channel),
                    true => texture.element(texels[lane][channel]),
                    false => border[channel].to_bits(),
                };
                if let Some(channel) = fetch.gathers {
                    channels[lane][number] = element(channel);
                } else if !is_between {
                    channels[lane] = [0, 1, 2, 3].map(element);
                } else if weights[lane] > 0.0 {
                    for channel in 0..n_channels {
                        let value = match is_inside {
                            true => texture.number(texels[lane][channel]),
                            false => border[channel].into(),
                        };
                        sums[lane][channel] += weights[lane] * value;
                    }
                }
            }
        }
        if is_between && fetch.gathers.is_none() {
            for lane in lanes_of(lanes) {
                channels[lane] = std::array::from_fn(|channel| match channel < n_channels {
                    true => (sums[lane][channel] as f32).to_bits(),
                    false => texture.absent(channel),
                });
            }
        }
        Ok(())
    }

    /// The bits of each channel of the texels at these addresses.
    fn texels(
        &mut self,
        context: &GridContext<'_>,
        block: &mut BlockState,
        inst: &DecodedInst,
        (object, image): (u64, &TexelImage),
        addresses: &[u64; LANES],
        lanes: u32,
    ) -> Result<[[u32; CHANNELS]; LANES], Box<Finding>> {
        let mut texels = [[0; CHANNELS]; LANES];
        let (size, channel_bytes) = (image.format.n_bytes(), image.format.channel.n_bytes());
        let mut left = lanes;
        while left != 0 {
            let global = Some(StateSpace::Global);
            let group = self
                .locate(context, block, inst, global, addresses, left, (size, 1), AccessEffect::Read)
                .map_err(|finding| of_object(finding, "texture", object))?;
            left &= !group.lanes;
            if context.observing {
                let kind = AccessKind::Read;
                let access = LaneAccess { inst, kind, group: &group, size, order: WEAK, stored: None, copied: 0 };
                block.check(context, self, &access)?;
            }
            let region = self.region(context, block, group.place);
            for lane in lanes_of(group.lanes) {
                for channel in 0..image.format.n_channels {
                    let offset = group.offsets[lane] + (channel * channel_bytes) as usize;
                    texels[lane][channel as usize] = region.load(offset, channel_bytes) as u32;
                }
            }
        }
        Ok(texels)
    }

    /// `txq` and `suq`
    pub(super) fn image_query(
        &mut self,
        context: &GridContext<'_>,
        block: &BlockState,
        inst: &DecodedInst,
        query: &ImageQuery,
        lanes: u32,
    ) -> Result<(), Box<Finding>> {
        let objects = *query.object.get(&self.registers);
        let mut values = [0u64; LANES];
        self.by_object(&objects, lanes, |warp, object, lanes| {
            let (image, is_normalized) = match query.is_surface {
                true => (warp.surface(context, block, inst, object, lanes)?, false),
                false => {
                    let texture = warp.texture(context, block, inst, object, lanes)?;
                    (&texture.image, texture.is_normalized)
                }
            };
            let value = match query.query {
                ImageFact::Extent(axis) => image.extents[axis],
                ImageFact::ArraySize => image.n_layers.unwrap_or(1),
                ImageFact::One => 1,
                ImageFact::IsNormalized => is_normalized.into(),
            };
            lanes_of(lanes).for_each(|lane| values[lane] = value.into());
            Ok(())
        })?;
        self.write(query.destination, &values, lanes);
        Ok(())
    }
}

/// The texels along each axis that lanes read.
fn lane_taps(
    texture: &Texture,
    fetch: &TextureFetch,
    places: &LanePlaces,
    is_between: bool,
    lanes: u32,
) -> [[AxisTaps; 3]; LANES] {
    let mut taps = [[AxisTaps::default(); 3]; LANES];
    for (axis, coordinates) in places.coordinates.iter().enumerate() {
        let offsets = places.offsets.get(axis).copied().unwrap_or([0; LANES]);
        for lane in lanes_of(lanes) {
            let at = match fetch.has_integers {
                true => TextureCoordinate::Integer(coordinates[lane] as i32),
                false => TextureCoordinate::Float(f32::from_bits(coordinates[lane])),
            };
            taps[lane][axis] = texture.taps(axis, at, offsets[lane] as i32, is_between);
        }
    }
    taps
}

/// A finding of an access, with the texture or surface that it is of.
pub(super) fn of_object(mut finding: Box<Finding>, what: &str, object: u64) -> Box<Finding> {
    finding.message = format!("the {what} 0x{object:x}: {}", finding.message);
    finding
}

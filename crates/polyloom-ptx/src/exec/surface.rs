//! Accesses of surfaces. To the checks they are those of the bytes that the texels lie in.

use super::access::{AccessEffect, WEAK};
use super::block::BlockState;
use super::grid::GridContext;
use super::lane_access::{AccessKind, LaneAccess};
use super::registers::{LANES, lanes_of};
use super::texture::of_object;
use super::warp::WarpRun;
use crate::decode::op::{DecodedInst, MemoryOrder, OrderScope, SurfaceAccess, SurfaceAccessKind, SurfaceOutside};
use crate::report::{Finding, FindingKind};
use crate::syntax::ast::StateSpace;
use crate::texture::TexelImage;

/// Where a lane's access goes along the axes: bytes of a row, a row, and a plane or layer.
type SurfacePlace = [i64; 3];

impl WarpRun {
    pub(super) fn surface_access(
        &mut self,
        context: &GridContext<'_>,
        block: &mut BlockState,
        inst: &DecodedInst,
        access: &SurfaceAccess,
        lanes: u32,
    ) -> Result<(), Box<Finding>> {
        let objects = *access.place.object.get(&self.registers);
        let places = self.surface_places(access);
        self.by_object(&objects, lanes, |warp, object, lanes| {
            let image = warp.surface(context, block, inst, object, lanes)?;
            warp.check_shape(context, block, inst, (object, image), &access.place, lanes)?;
            let (addresses, inside) = warp.surface_addresses(context, block, inst, access, image, &places, lanes)?;
            if let SurfaceAccessKind::Load(destinations) = &access.kind {
                // Lanes outside have zeros.
                destinations.iter().for_each(|each| warp.write(*each, &[0; LANES], lanes & !inside));
            }
            warp.access_at(context, block, inst, access, (object, &addresses), inside)
        })
    }

    /// The places that lanes name.
    fn surface_places(&self, access: &SurfaceAccess) -> [SurfacePlace; LANES] {
        let mut places = [[0; 3]; LANES];
        for (axis, source) in access.place.coordinates.iter().enumerate() {
            let coordinates = source.get(&self.registers);
            places.iter_mut().zip(coordinates).for_each(|(place, at)| place[axis] = (*at as i32).into());
        }
        if let Some(layer) = &access.place.layer {
            let layers = layer.get(&self.registers);
            places.iter_mut().zip(layers).for_each(|(place, layer)| place[2] = (*layer).into());
        }
        places
    }

    /// The addresses of lanes' accesses, and the lanes that have one.
    #[expect(clippy::too_many_arguments, reason = "one access has as many sides")]
    fn surface_addresses(
        &self,
        context: &GridContext<'_>,
        block: &BlockState,
        inst: &DecodedInst,
        access: &SurfaceAccess,
        image: &TexelImage,
        places: &[SurfacePlace; LANES],
        lanes: u32,
    ) -> Result<([u64; LANES], u32), Box<Finding>> {
        let n_bytes = i64::from(access.size) * access.n_values() as i64;
        let [last_row, last_plane] = [image.extents[1], image.n_planes()].map(|extent| i64::from(extent) - 1);
        let last = [image.row_bytes() as i64 - n_bytes, last_row, last_plane];
        let (mut addresses, mut inside) = ([0; LANES], 0);
        for lane in lanes_of(lanes) {
            let mut place = places[lane];
            if place[0] % n_bytes != 0 {
                if context.launch.sanitize.alignment {
                    let message =
                        format!("byte {} of a row is no multiple of {n_bytes}, the size of the access", place[0]);
                    return Err(self.finding(context, block, inst, FindingKind::Misaligned, &message, 1 << lane));
                }
                place[0] -= place[0].rem_euclid(n_bytes);
            }
            let is_inside = place.iter().zip(last).all(|(at, last)| (0..=last).contains(at));
            let has_place = last.iter().all(|last| *last >= 0);
            match access.outside {
                _ if is_inside => {}
                SurfaceOutside::Zero => continue,
                SurfaceOutside::Clamp if has_place => {
                    place = std::array::from_fn(|axis| place[axis].clamp(0, last[axis]));
                    place[0] -= place[0] % n_bytes;
                }
                SurfaceOutside::Trap | SurfaceOutside::Clamp => {
                    let [x, y, z] = places[lane];
                    let message = format!(
                        "{n_bytes} bytes at byte {x}{} of a surface of {} texels of {} bytes",
                        match (image.n_axes, image.n_layers) {
                            (1, None) => String::new(),
                            (1, Some(_)) => format!(" of layer {z}"),
                            (2, None) => format!(" of row {y}"),
                            (2, Some(_)) => format!(" of row {y} of layer {z}"),
                            _ => format!(" of row {y} of plane {z}"),
                        },
                        image.shape(),
                        image.format.n_bytes()
                    );
                    return Err(self.finding(context, block, inst, FindingKind::SurfaceBounds, &message, 1 << lane));
                }
            }
            let [x, y, plane] = place.map(|at| at as u64);
            addresses[lane] = image.address + x + y * image.row_pitch + plane * image.plane_pitch;
            inside |= 1 << lane;
        }
        Ok((addresses, inside))
    }

    fn access_at(
        &mut self,
        context: &GridContext<'_>,
        block: &mut BlockState,
        inst: &DecodedInst,
        access: &SurfaceAccess,
        (object, addresses): (u64, &[u64; LANES]),
        lanes: u32,
    ) -> Result<(), Box<Finding>> {
        let (size, n_bytes) = (access.size, access.size * access.n_values() as u32);
        let (effect, kind) = match access.kind {
            SurfaceAccessKind::Load(_) => (AccessEffect::Read, AccessKind::Read),
            SurfaceAccessKind::Store(_) => (AccessEffect::Write, AccessKind::Write),
            SurfaceAccessKind::Update(..) => (AccessEffect::Update, AccessKind::Atomic),
        };
        let order = match access.kind {
            SurfaceAccessKind::Update(..) => MemoryOrder { strong: true, scope: OrderScope::Device, ..WEAK },
            _ => WEAK,
        };
        let stored: Vec<[u64; LANES]> = match &access.kind {
            SurfaceAccessKind::Load(_) => Vec::new(),
            SurfaceAccessKind::Store(sources) => sources.iter().map(|source| self.values(source)).collect(),
            SurfaceAccessKind::Update(source, _) => vec![self.values(source)],
        };
        let mut left = lanes;
        while left != 0 {
            let global = Some(StateSpace::Global);
            let group = self
                .locate(context, block, inst, global, addresses, left, (n_bytes, n_bytes), effect)
                .map_err(|finding| of_object(finding, "surface", object))?;
            left &= !group.lanes;
            if context.observing {
                let values = (kind == AccessKind::Write).then_some((stored.as_slice(), size as usize));
                let access = LaneAccess { inst, kind, group: &group, size: n_bytes, order, stored: values, copied: 0 };
                block.check(context, self, &access)?;
            }
            let at = |lane: usize, index: usize| group.offsets[lane] + index * size as usize;
            match &access.kind {
                SurfaceAccessKind::Load(destinations) => {
                    for (index, destination) in destinations.iter().enumerate() {
                        let region = self.region(context, block, group.place);
                        let mut values = [0; LANES];
                        lanes_of(group.lanes).for_each(|lane| values[lane] = region.load(at(lane, index), size));
                        self.write(*destination, &values, group.lanes);
                    }
                }
                SurfaceAccessKind::Store(_) => {
                    let region = self.region(context, block, group.place);
                    for (index, values) in stored.iter().enumerate() {
                        lanes_of(group.lanes).for_each(|lane| region.store(at(lane, index), size, values[lane]));
                    }
                }
                SurfaceAccessKind::Update(_, update) => {
                    let region = self.region(context, block, group.place);
                    for lane in lanes_of(group.lanes) {
                        region.update(at(lane, 0), size, |old| update(old, stored[0][lane], 0));
                    }
                }
            }
        }
        Ok(())
    }
}

impl SurfaceAccess {
    /// Values that are accessed together.
    fn n_values(&self) -> usize {
        match &self.kind {
            SurfaceAccessKind::Load(registers) => registers.len(),
            SurfaceAccessKind::Store(sources) => sources.len(),
            SurfaceAccessKind::Update(..) => 1,
        }
    }
}

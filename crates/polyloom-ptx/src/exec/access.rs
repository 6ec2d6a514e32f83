//! Loads, stores and atomics: from lanes' addresses to regions, with every access checked.

use super::block::BlockState;
use super::grid::GridContext;
use super::lane_access::{AccessKind, AccessRegion, LaneAccess, LaneGroup, NOWHERE_BYTES};
use super::registers::{LANES, RegisterFiles, RegisterWord, lanes_of, put};
use super::warp::WarpRun;
use crate::decode::op::{
    AccessAddress, AddressBase, AnySource, AsyncCopy, AtomicOp, DecodedInst, DestRegister, Halves, LoadOp, MemoryOrder,
    OrderScope, StoreOp, WideAtomic,
};
use crate::memory::region::{MemoryRegion, at_once};
use crate::memory::window;
use crate::report::{Finding, FindingKind};
use crate::syntax::ast::StateSpace;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::fence;

/// Describes what an access does, for its bounds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum AccessEffect {
    Read,
    /// A read that is ordered or volatile, as of a word that is to be updated.
    StrongRead,
    Write,
    /// An atomic.
    Update,
}

/// Orders the host's accesses as one that acquires does, so that what comes behind it in the program does so on the
/// host.
struct HostFence;

impl Drop for HostFence {
    fn drop(&mut self) {
        fence(SeqCst);
    }
}

/// Holds what plain accesses are.
pub(crate) const WEAK: MemoryOrder =
    MemoryOrder { strong: false, acquire: false, release: false, scope: OrderScope::Device };

impl WarpRun {
    pub(super) fn addresses(&self, address: &AccessAddress) -> [u64; LANES] {
        let offset = address.offset as u64;
        match address.base {
            AddressBase::Nothing => [offset; LANES],
            AddressBase::Frame => [offset.wrapping_add(self.registers.base().local.into()); LANES],
            // 32-bit addresses wrap around, as an index before the variable in question does.
            AddressBase::Word(slot) => {
                u32::lanes(&self.registers, slot).map(|value| value.wrapping_add(offset as u32).into())
            }
            AddressBase::Double(slot) => u64::lanes(&self.registers, slot).map(|value| value.wrapping_add(offset)),
        }
    }

    /// The first lane's region and all lanes of `lanes` that go to it, checked.
    #[expect(clippy::too_many_arguments, reason = "one access has as many sides")]
    pub(super) fn locate(
        &mut self,
        context: &GridContext<'_>,
        block: &BlockState,
        inst: &DecodedInst,
        space: Option<StateSpace>,
        addresses: &[u64; LANES],
        lanes: u32,
        (size, align): (u32, u32),
        access: AccessEffect,
    ) -> Result<LaneGroup, Box<Finding>> {
        let of_constants;
        let addresses = if space == Some(StateSpace::Const) {
            of_constants = addresses.map(|address| address.wrapping_add(context.program.constants.start));
            &of_constants
        } else {
            addresses
        };
        let first = addresses[lanes.trailing_zeros() as usize];
        let found = space.unwrap_or_else(|| window::space_of(first));
        let base = if space.is_none() { window::base(found) } else { 0 };
        let mut group = lanes;
        if space.is_none() {
            for lane in lanes_of(lanes) {
                if window::space_of(addresses[lane]) != found {
                    group &= !(1 << lane);
                }
            }
        }
        let of_cluster = addresses;
        let of_block;
        let mut owner = block.rank;
        let addresses = if found == StateSpace::Shared && context.cluster_blocks > 1 {
            let rank = |address: u64| window::rank(address.wrapping_sub(base)).unwrap_or(block.rank);
            owner = rank(first);
            group = lanes_of(group).filter(|lane| rank(addresses[*lane]) == owner).fold(0, |set, lane| set | 1 << lane);
            of_block = addresses.map(window::without_rank);
            &of_block
        } else {
            addresses
        };
        let size = u64::from(size);
        let checks = context.launch.sanitize;
        let writes = matches!(access, AccessEffect::Write | AccessEffect::Update);
        let misaligned = u64::from(align) - 1;
        let (place, start, bounds) = match found {
            StateSpace::Shared if owner == block.rank => (AccessRegion::Shared, base, context.shared_bounds()),
            StateSpace::Shared if owner >= context.cluster_blocks || block.cluster.has_ended(owner) => {
                if !checks.bounds {
                    return Ok(self.nowhere(group));
                }
                let why = match owner >= context.cluster_blocks {
                    true => format!("which has {}", context.cluster_blocks),
                    false => "whose threads have all exited".to_owned(),
                };
                let message = format!("shared memory of block {owner} of the cluster, {why}, at 0x{first:x}");
                return Err(self.finding(context, block, inst, FindingKind::OutOfBounds, &message, group));
            }
            StateSpace::Shared => (AccessRegion::Peer(owner), base, context.shared_bounds()),
            StateSpace::Local => (AccessRegion::Local, base, 0..u64::from(self.local_bytes)),
            StateSpace::Param if writes => {
                if !checks.bounds {
                    return Ok(self.nowhere(group));
                }
                let message = format!("a parameter of the kernel, at 0x{first:x}, is written");
                return Err(self.finding(context, block, inst, FindingKind::OutOfBounds, &message, group));
            }
            StateSpace::Param => (AccessRegion::Param, base, 0..context.parameters.len() as u64),
            StateSpace::Global | StateSpace::Const | StateSpace::Reg => {
                match context.allocation(first, &mut self.recent) {
                    Some(index) => {
                        let allocation = &context.memory[index];
                        if writes && allocation.constant {
                            if !checks.bounds {
                                return Ok(self.nowhere(lanes & lanes.wrapping_neg()));
                            }
                            let message = format!("constant memory at 0x{first:x} is written");
                            return Err(self.finding(context, block, inst, FindingKind::OutOfBounds, &message, group));
                        }
                        let of_words = matches!(access, AccessEffect::Update | AccessEffect::StrongRead);
                        (AccessRegion::Global(index), allocation.address, allocation.bounds(size, of_words))
                    }
                    // Only the first lane is let pass, because the other lanes' addresses may be inside.
                    None if !checks.bounds => return Ok(self.nowhere(lanes & lanes.wrapping_neg())),
                    None => return Err(self.outside(context, block, inst, found, addresses, group, size, base)),
                }
            }
        };
        let mut offsets = [0usize; LANES];
        let (mut bad, mut crooked) = (0u32, 0u64);
        let (first, length) = (start + bounds.start, bounds.end - bounds.start);
        for lane in 0..LANES {
            let offset = addresses[lane].wrapping_sub(first);
            let inside = offset < length && size <= length - offset;
            bad |= u32::from(!inside) << lane;
            crooked |= if group >> lane & 1 != 0 { addresses[lane] } else { 0 };
            offsets[lane] = offset.wrapping_add(bounds.start) as usize;
        }
        if place == AccessRegion::Local && context.program.stack_bytes > 0 {
            // Accesses above a lane's stack are bad, because memory that `alloca` has not given, or that was given
            // back, is nobody's.
            for (lane, offset) in offsets.iter().enumerate() {
                bad |= u32::from((*offset as u64).saturating_add(size) > self.stack[lane].into()) << lane;
            }
        }
        if crooked & misaligned != 0 {
            if !checks.alignment {
                let straight = of_cluster.map(|address| address & !misaligned);
                let size = (size as u32, align);
                let space = space.map(|space| if space == StateSpace::Const { StateSpace::Global } else { space });
                return self.locate(context, block, inst, space, &straight, lanes, size, access);
            }
            return Err(self.misaligned(context, block, inst, addresses, group, align));
        }
        if let AccessRegion::Global(index) = place
            && let Some(heap) = &context.memory[index].heap
        {
            bad |= heap.outside(addresses, group & !bad, size);
        }
        if bad & group != 0 {
            // Wrong lanes behind the first are left for a later turn in global memory, since they may go elsewhere in
            // it. In other spaces there is no elsewhere.
            let wrong = bad & group;
            let first = lanes & lanes.wrapping_neg();
            let is_global = matches!(place, AccessRegion::Global(_));
            let elsewhere = is_global && wrong & first == 0;
            if !elsewhere {
                if !checks.bounds {
                    return Ok(self.nowhere(if is_global { first } else { wrong }));
                }
                return Err(self.outside(context, block, inst, found, addresses, wrong, size, base));
            }
            group &= !wrong;
        }
        if place == AccessRegion::Local {
            for (lane, offset) in offsets.iter_mut().enumerate() {
                *offset = offset.wrapping_add(lane * self.local_bytes as usize);
            }
        }
        Ok(LaneGroup { lanes: group, place, offsets })
    }

    /// Lanes whose accesses are outside of all memory and are let pass: they read zeros, and what they write is lost.
    #[cold]
    fn nowhere(&self, lanes: u32) -> LaneGroup {
        self.nowhere.fill(0);
        LaneGroup { lanes, place: AccessRegion::Nowhere, offsets: std::array::from_fn(|lane| lane * NOWHERE_BYTES) }
    }

    pub(crate) fn region<'a>(
        &'a self,
        context: &'a GridContext<'_>,
        block: &'a BlockState,
        place: AccessRegion,
    ) -> &'a MemoryRegion {
        match place {
            AccessRegion::Global(index) => &context.memory[index].region,
            AccessRegion::Shared => &block.shared,
            AccessRegion::Peer(rank) => block.cluster.shared(rank),
            AccessRegion::Local => &self.local,
            AccessRegion::Param => &context.parameters,
            AccessRegion::Nowhere => &self.nowhere,
        }
    }

    #[cold]
    #[expect(clippy::too_many_arguments, reason = "a report has as many sides")]
    fn outside(
        &self,
        context: &GridContext<'_>,
        block: &BlockState,
        inst: &DecodedInst,
        space: StateSpace,
        addresses: &[u64; LANES],
        lanes: u32,
        size: u64,
        base: u64,
    ) -> Box<Finding> {
        let address = addresses[lanes.trailing_zeros() as usize];
        let place = match space {
            StateSpace::Shared => {
                let place = context.describe_shared(address.wrapping_sub(base));
                format!("{place}; the block has {} bytes", context.program_shared_bytes())
            }
            StateSpace::Local => {
                let grows = context.program.stack_bytes > 0;
                let bytes = if grows { self.stack[lanes.trailing_zeros() as usize] } else { self.local_bytes };
                format!("outside the {bytes} bytes of local memory")
            }
            StateSpace::Param => format!("outside the {} bytes of parameters", context.parameters.len()),
            _ => context.device.describe(address, context.launch.names),
        };
        let verb = format!("{size} bytes at 0x{address:x} of {} memory", space.name());
        let constants = &context.program.constants;
        let why = match space {
            StateSpace::Global if address < constants.end - constants.start => {
                "; constant variables have such addresses, which `cvta.const` makes generic ones"
            }
            StateSpace::Global if address < 4096 => context.lacks_workspace(),
            _ => "",
        };
        let message = format!("{verb}, {place}{why}");
        let mut finding = self.finding(context, block, inst, FindingKind::OutOfBounds, &message, lanes);
        finding.address = Some(address);
        finding
    }

    #[cold]
    fn misaligned(
        &self,
        context: &GridContext<'_>,
        block: &BlockState,
        inst: &DecodedInst,
        addresses: &[u64; LANES],
        lanes: u32,
        align: u32,
    ) -> Box<Finding> {
        let crooked = |lane: &usize| !addresses[*lane].is_multiple_of(align.into());
        let lanes = lanes_of(lanes).filter(crooked).fold(0u32, |set, lane| set | 1 << lane);
        let address = addresses[lanes.trailing_zeros() as usize];
        let message = format!("0x{address:x} is no multiple of {align}, the size of the access");
        let mut finding = self.finding(context, block, inst, FindingKind::Misaligned, &message, lanes);
        finding.address = Some(address);
        finding
    }

    pub(super) fn load(
        &mut self,
        context: &GridContext<'_>,
        block: &mut BlockState,
        inst: &DecodedInst,
        load: &LoadOp,
        lanes: u32,
    ) -> Result<(), Box<Finding>> {
        let total = load.size * load.destinations.len() as u32;
        let addresses = self.addresses(&load.address);
        let mut left = lanes;
        while left != 0 {
            let reach = if load.order.strong { AccessEffect::StrongRead } else { AccessEffect::Read };
            let group = self.locate(context, block, inst, load.space, &addresses, left, (total, total), reach)?;
            left &= !group.lanes;
            if context.observing {
                let access = LaneAccess {
                    inst,
                    kind: AccessKind::Read,
                    group: &group,
                    size: total,
                    order: load.order,
                    stored: None,
                    copied: load.copied,
                };
                block.observe(context, self, &access)?;
            }
            let _held = load.at_once.then(at_once);
            let _ordered = load.order.acquire.then_some(HostFence);
            for (index, destination) in load.destinations.iter().enumerate() {
                let shift = index * load.size as usize;
                let region = self.region(context, block, group.place);
                if let (4, DestRegister::Word(slot, 32)) = (load.size, *destination) {
                    let mut words = [0u32; LANES];
                    if group.lanes == u32::MAX {
                        for (word, offset) in words.iter_mut().zip(&group.offsets) {
                            *word = region.load32(offset + shift);
                        }
                    } else {
                        for lane in lanes_of(group.lanes) {
                            words[lane] = region.load32(group.offsets[lane] + shift);
                        }
                    }
                    put(&mut self.registers, Some(slot), &words, group.lanes);
                    continue;
                }
                let mut values = [0u64; LANES];
                let unused = 64 - 8 * load.size;
                for lane in lanes_of(group.lanes) {
                    let value = region.load(group.offsets[lane] + shift, load.size);
                    values[lane] = if load.signed { ((value << unused) as i64 >> unused) as u64 } else { value };
                }
                self.write(*destination, &values, group.lanes);
            }
        }
        Ok(())
    }

    pub(super) fn values(&self, source: &AnySource) -> [u64; LANES] {
        match source {
            AnySource::Word(source) => source.get(&self.registers).map(u64::from),
            AnySource::Double(source) => *source.get(&self.registers),
        }
    }

    pub(super) fn store(
        &mut self,
        context: &GridContext<'_>,
        block: &mut BlockState,
        inst: &DecodedInst,
        store: &StoreOp,
        lanes: u32,
    ) -> Result<(), Box<Finding>> {
        let total = store.size * store.sources.len() as u32;
        let addresses = self.addresses(&store.address);
        let mut left = lanes;
        while left != 0 {
            let group =
                self.locate(context, block, inst, store.space, &addresses, left, (total, total), AccessEffect::Write)?;
            left &= !group.lanes;
            if context.observing {
                let values: Vec<_> = store.sources.iter().map(|source| self.values(source)).collect();
                let stored = Some((values.as_slice(), store.size as usize));
                let access = LaneAccess {
                    inst,
                    kind: AccessKind::Write,
                    group: &group,
                    size: total,
                    order: store.order,
                    stored,
                    copied: 0,
                };
                block.observe(context, self, &access)?;
            }
            let _held = store.at_once.then(at_once);
            if store.order.release {
                fence(SeqCst);
            }
            let region = self.region(context, block, group.place);
            for (index, source) in store.sources.iter().enumerate() {
                let shift = index * store.size as usize;
                if let (4, AnySource::Word(source)) = (store.size, source) {
                    let words = source.get(&self.registers);
                    if group.lanes == u32::MAX {
                        for (word, offset) in words.iter().zip(&group.offsets) {
                            region.store32(offset + shift, *word);
                        }
                    } else {
                        for lane in lanes_of(group.lanes) {
                            region.store32(group.offsets[lane] + shift, words[lane]);
                        }
                    }
                    continue;
                }
                let values = self.values(source);
                for lane in lanes_of(group.lanes) {
                    region.store(group.offsets[lane] + shift, store.size, values[lane]);
                }
            }
        }
        Ok(())
    }

    pub(super) fn atomic(
        &mut self,
        context: &GridContext<'_>,
        block: &mut BlockState,
        inst: &DecodedInst,
        atomic: &AtomicOp,
        lanes: u32,
    ) -> Result<(), Box<Finding>> {
        let total = atomic.size * atomic.operands.len() as u32;
        let addresses = self.addresses(&atomic.address);
        let operands: Vec<[u64; LANES]> = atomic.operands.iter().map(|source| self.values(source)).collect();
        let second = atomic.second.as_ref().map_or([0; LANES], |source| self.values(source));
        let mut left = lanes;
        while left != 0 {
            let group = self.locate(
                context,
                block,
                inst,
                atomic.space,
                &addresses,
                left,
                (total, total),
                AccessEffect::Update,
            )?;
            left &= !group.lanes;
            if context.observing {
                let (touched, size) = touched(&group, atomic, &operands, &second, total);
                let access = LaneAccess {
                    inst,
                    kind: AccessKind::Atomic,
                    group: &touched,
                    size,
                    order: atomic.order,
                    stored: None,
                    copied: 0,
                };
                block.observe(context, self, &access)?;
            }
            let global = matches!(group.place, AccessRegion::Global(_));
            let update = match &atomic.global_update {
                Some(update) if global => update,
                _ => &atomic.update,
            };
            for (index, operand) in operands.iter().enumerate() {
                let shift = index * atomic.size as usize;
                let mut old = [0u64; LANES];
                let region = self.region(context, block, group.place);
                for lane in lanes_of(group.lanes) {
                    let (b, c) = (operand[lane], second[lane]);
                    old[lane] = region.update(group.offsets[lane] + shift, atomic.size, |value| update(value, b, c));
                }
                if let Some(destination) = atomic.destinations.get(index) {
                    self.write(*destination, &old, group.lanes);
                }
            }
        }
        Ok(())
    }

    /// `cas` and `exch` of 16 bytes.
    pub(super) fn wide_atomic(
        &mut self,
        context: &GridContext<'_>,
        block: &mut BlockState,
        inst: &DecodedInst,
        atomic: &WideAtomic,
        lanes: u32,
    ) -> Result<(), Box<Finding>> {
        let halves = |registers: &RegisterFiles, both: &Halves| both.each_ref().map(|half| *half.get(registers));
        let addresses = self.addresses(&atomic.address);
        let new = halves(&self.registers, &atomic.new);
        let expected = atomic.expected.as_ref().map(|both| halves(&self.registers, both));
        let mut left = lanes;
        while left != 0 {
            let group =
                self.locate(context, block, inst, atomic.space, &addresses, left, (16, 16), AccessEffect::Update)?;
            left &= !group.lanes;
            if context.observing {
                let (kind, order) = (AccessKind::Atomic, atomic.order);
                block.observe(
                    context,
                    self,
                    &LaneAccess { inst, kind, group: &group, size: 16, order, stored: None, copied: 0 },
                )?;
            }
            let mut old = [[0u64; LANES]; 2];
            let held = at_once();
            let region = self.region(context, block, group.place);
            for lane in lanes_of(group.lanes) {
                let offset = group.offsets[lane];
                let found = [region.load64(offset), region.load64(offset + 8)];
                (old[0][lane], old[1][lane]) = (found[0], found[1]);
                if expected.is_none_or(|both| both.map(|half| half[lane]) == found) {
                    region.store64(offset, new[0][lane]);
                    region.store64(offset + 8, new[1][lane]);
                }
            }
            drop(held);
            if let Some(slot) = atomic.destination {
                put(&mut self.registers, Some(slot), &old[0], group.lanes);
                put(&mut self.registers, Some(slot + 1), &old[1], group.lanes);
            }
        }
        Ok(())
    }

    pub(super) fn async_copy(
        &mut self,
        context: &GridContext<'_>,
        block: &mut BlockState,
        inst: &DecodedInst,
        copy: &AsyncCopy,
        lanes: u32,
    ) -> Result<(), Box<Finding>> {
        let (to, from) = (self.addresses(&copy.to), self.addresses(&copy.from));
        let mut sizes = [copy.size; LANES];
        if let Some(source) = &copy.source_size {
            for (size, given) in sizes.iter_mut().zip(source.get(&self.registers)) {
                *size = (*given).min(copy.size);
            }
        }
        if let Some(ignore) = copy.ignore {
            let ignored = ignore.mask(&self.registers);
            for lane in lanes_of(ignored) {
                sizes[lane] = 0;
            }
        }
        let mut bytes = [[0u8; 16]; LANES];
        let mut left = lanes_of(lanes).filter(|lane| sizes[*lane] > 0).fold(0u32, |set, lane| set | 1 << lane);
        while left != 0 {
            let size = sizes[left.trailing_zeros() as usize];
            let alike = lanes_of(left).filter(|lane| sizes[*lane] == size).fold(0, |set, lane| set | 1 << lane);
            let global = Some(StateSpace::Global);
            let group =
                self.locate(context, block, inst, global, &from, alike, (size, copy.size), AccessEffect::Read)?;
            left &= !group.lanes;
            if context.observing {
                let kind = AccessKind::AsyncRead;
                block.observe(
                    context,
                    self,
                    &LaneAccess { inst, kind, group: &group, size, order: WEAK, stored: None, copied: 0 },
                )?;
            }
            let region = self.region(context, block, group.place);
            for lane in lanes_of(group.lanes) {
                region.read(group.offsets[lane], &mut bytes[lane][..size as usize]);
            }
        }
        let mut left = lanes;
        while left != 0 {
            let size = copy.size;
            let group =
                self.locate(context, block, inst, copy.to_space, &to, left, (size, size), AccessEffect::Write)?;
            left &= !group.lanes;
            if context.observing {
                let kind = AccessKind::AsyncWrite;
                block.observe(
                    context,
                    self,
                    &LaneAccess { inst, kind, group: &group, size, order: WEAK, stored: None, copied: 0 },
                )?;
            }
            let region = self.region(context, block, group.place);
            for lane in lanes_of(group.lanes) {
                region.write(group.offsets[lane], &bytes[lane][..size as usize]);
            }
        }
        Ok(())
    }

    /// Replaces a 64-bit word atomically, for `mbarrier`, and gives what was there. To the checks it is a `kind` of
    /// access.
    pub(super) fn update_one(
        &mut self,
        context: &GridContext<'_>,
        block: &mut BlockState,
        inst: &DecodedInst,
        (space, address): (Option<StateSpace>, u64),
        (lane, kind): (usize, AccessKind),
        update: impl Fn(u64) -> u64,
    ) -> Result<u64, Box<Finding>> {
        let addresses = [address; LANES];
        let writes = kind != AccessKind::Read;
        let reach = if writes { AccessEffect::Update } else { AccessEffect::Read };
        let group = self.locate(context, block, inst, space, &addresses, 1 << lane, (8, 8), reach)?;
        if context.observing {
            // Beginning and ending a barrier orders nothing.
            let order = MemoryOrder { strong: kind != AccessKind::Write, scope: OrderScope::Cluster, ..WEAK };
            block.observe(
                context,
                self,
                &LaneAccess { inst, kind, group: &group, size: 8, order, stored: None, copied: 0 },
            )?;
        }
        Ok(self.region(context, block, group.place).update(group.offsets[lane], 8, update))
    }
}

/// The bytes of an atomic update that count as accessed. Exchanges of 16 bits that expect and put the same in one byte
/// are updates of the other: how PTX, which has none of 8 bits, updates a byte.
fn touched(
    group: &LaneGroup,
    atomic: &AtomicOp,
    operands: &[[u64; LANES]],
    second: &[u64; LANES],
    total: u32,
) -> (LaneGroup, u32) {
    let LaneGroup { mut lanes, place, mut offsets } = *group;
    let ([expected], true) = (operands, atomic.second.is_some() && total == 2) else {
        return (LaneGroup { lanes, place, offsets }, total);
    };
    for lane in lanes_of(group.lanes) {
        match (expected[lane] ^ second[lane]) & 0xffff {
            // The lane is left out, because nothing changes and the byte that was meant is not known.
            0 => lanes &= !(1 << lane),
            1..=0xff => {}
            changed if changed & 0xff == 0 => offsets[lane] += 1,
            _ => return (LaneGroup { lanes: group.lanes, place, offsets: group.offsets }, total),
        }
    }
    (LaneGroup { lanes, place, offsets }, 1)
}

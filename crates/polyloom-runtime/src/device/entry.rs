//! What a launch hands to a kernel's entry on a device, and what it learns from it: the parameters that
//! [`GpuLaunch`] and [`ArgLayout`] lay out, and the first check that failed.

use super::layout::{ArrayLayout, RowLayout};
use super::staging::{HostArray, StagedArrays, StagedPlacement};
use super::{DeviceFailure, DeviceId, FillWord, Queue};
use crate::args::{ArgBlock, KernelParams};
use crate::error::{LaunchError, Trap};
use crate::launch_grid::{checked_grid, grid_of};
use crate::launch_options::LaunchOptions;
use polyloom_codegen::abi::SiteKind;
use polyloom_codegen::{ArgLayout, GpuLaunch, GpuReport, SiteTable};
use polyloom_ir::LaunchConfig;
use polyloom_ir::{Function, KernelMetadata, MAX_DIMS, Type};
use std::sync::Arc;

/// A kernel as launches on a device know it.
pub(crate) struct DeviceEntry {
    pub(crate) name: Arc<str>,
    params: KernelParams,
    written: Vec<bool>,
    sites: SiteTable,
    metadata: KernelMetadata,
    /// True if it knows of blocks, which may then have several dimensions.
    in_blocks: bool,
}

/// Describes what a launch has ready for the kernel.
pub(crate) struct PreparedLaunch<'a> {
    /// The bytes of the entry's parameters.
    pub(crate) params: Vec<Vec<u8>>,
    pub(crate) n_threads: u64,
    extents: [u64; MAX_DIMS],
    rank: usize,
    staged: StagedArrays<'a>,
    report: Option<DeviceReport<'a>>,
}

/// A [`GpuReport`] on the device.
struct DeviceReport<'a> {
    queue: &'a dyn Queue,
    address: u64,
}

impl Drop for DeviceReport<'_> {
    fn drop(&mut self) {
        // SAFETY: it is this one's allocation, and the launch is over.
        unsafe { self.queue.free(self.address) };
    }
}

impl DeviceEntry {
    /// Makes the entry of a kernel's HIR as the back end got it.
    pub(crate) fn new(function: &Function, params: KernelParams) -> DeviceEntry {
        DeviceEntry {
            name: function.name.clone(),
            params,
            written: function.written_arrays(),
            sites: SiteTable::of(function),
            metadata: function.metadata.clone(),
            in_blocks: function.needs_blocks(),
        }
    }

    /// The blocks of a launch of so many threads.
    ///
    /// # Errors
    ///
    /// When the kernel is made for others.
    pub(crate) fn grid(&self, n_threads: u64, options: &LaunchOptions<'_>) -> Result<LaunchConfig, LaunchError> {
        let grid = grid_of(&self.metadata, &self.name, n_threads, options)?;
        Ok(if self.in_blocks { grid } else { grid.in_a_row() })
    }

    /// Returns true if the kernel may have something to say: a check that fails, or what it prints.
    #[cfg(feature = "cuda")]
    pub(crate) fn has_sites(&self) -> bool {
        !self.sites.sites.is_empty()
    }

    /// Returns true if the kernel prints.
    #[cfg(feature = "cuda")]
    pub(crate) fn prints(&self) -> bool {
        self.sites.sites.iter().any(|site| matches!(site.kind, SiteKind::Print(..)))
    }

    /// Brings the arrays to the device. Nothing is to be run if this gives nothing.
    ///
    /// # Errors
    ///
    /// When the arguments do not fit, or the device has no memory for them.
    ///
    /// # Safety
    ///
    /// As [`StagedArrays::new`].
    pub(crate) unsafe fn prepare<'a>(
        &self,
        device: DeviceId,
        queue: &'a dyn Queue,
        shape: &[u64],
        args: &ArgBlock,
    ) -> Result<Option<PreparedLaunch<'a>>, LaunchError> {
        if queue.device() != device {
            return Err(self.failed(DeviceFailure::OtherDevice { device, found: queue.device(), what: "a queue" }));
        }
        let (extents, n_threads) = checked_grid(&self.params, shape, args)?;
        if n_threads == 0 {
            return Ok(None);
        }
        // SAFETY: the caller vouches for the arrays.
        let staged = unsafe { StagedArrays::new(queue, self.host_arrays(args), StagedPlacement::AsOnHost) };
        let staged = staged.map_err(|failure| self.failed(failure))?;
        let is_check = |kind: &SiteKind| !matches!(kind, SiteKind::Print(..));
        let report = match self.sites.sites.iter().any(|site| is_check(&site.kind)) {
            true => Some(DeviceReport::new(queue).map_err(|failure| self.failed(failure))?),
            false => None,
        };
        let mut launch = extents.to_vec();
        launch.push(report.as_ref().map_or(0, |report| report.address));
        debug_assert_eq!(launch.len() * 8, GpuLaunch::BYTES as usize);
        let params = self.parameters(&launch, args, &staged);
        Ok(Some(PreparedLaunch { params, n_threads, extents, rank: shape.len(), staged, report }))
    }

    fn parameters(&self, launch: &[u64], args: &ArgBlock, staged: &StagedArrays<'_>) -> Vec<Vec<u8>> {
        let bytes = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
        let mut params = vec![bytes(launch)];
        let layout = self.params.layout();
        let mut n_staged = 0;
        for (index, &ty) in self.params.types().iter().enumerate() {
            let words = &args.words()[layout.offsets[index] as usize / 8..];
            match ty {
                Type::Scalar(scalar) => params.push(words[0].to_le_bytes()[..scalar.bytes() as usize].to_vec()),
                _ => {
                    let mut slots = words[..ArgLayout::new([ty]).size as usize / 8].to_vec();
                    if !args.is_resident(index) {
                        slots[0] = staged.address(n_staged).unwrap_or(0);
                        n_staged += 1;
                    }
                    params.push(bytes(&slots));
                }
            }
        }
        params
    }

    /// The arrays among the arguments that are in the device's memory: where each has its first element, and true if the
    /// kernel writes it.
    #[cfg(feature = "cuda")]
    pub(crate) fn resident_arrays<'a>(&'a self, args: &'a ArgBlock) -> impl Iterator<Item = (u64, bool)> + 'a {
        self.params.types().iter().enumerate().filter_map(|(param, ty)| {
            let is_array = matches!(ty, Type::Array { .. } | Type::CompositeArray { .. });
            if !is_array || !args.is_resident(param) {
                return None;
            }
            let address = *args.words().get(self.params.layout().offsets[param] as usize / 8)?;
            (address != 0).then(|| (address, self.written.get(param).copied().unwrap_or(true)))
        })
    }

    /// Returns true if arrays are among the arguments that are in the host's memory.
    #[cfg(feature = "cuda")]
    pub(crate) fn has_host_arrays(&self, args: &ArgBlock) -> bool {
        let arrays = self.params.types().iter().enumerate();
        let mut arrays = arrays.filter(|(_, ty)| matches!(ty, Type::Array { .. } | Type::CompositeArray { .. }));
        arrays.any(|(param, _)| !args.is_resident(param))
    }

    /// The arrays among the arguments that are in the host's memory, in order.
    fn host_arrays(&self, args: &ArgBlock) -> Vec<HostArray> {
        let array = |(param, ty): (usize, &Type)| {
            let Type::Array { elem, ndim, .. } = *ty else { return None };
            if args.is_resident(param) {
                return None;
            }
            let at = |offset: u32| args.words()[(self.params.layout().offsets[param] + offset) as usize / 8];
            let layout = ArrayLayout {
                base: at(0),
                elem_bytes: elem.bytes().into(),
                extents: (0..ndim).map(|axis| at(ArgLayout::extent(axis))).collect(),
                strides: (0..ndim).map(|axis| at(ArgLayout::stride(ndim, axis)) as i64).collect(),
            };
            Some(HostArray { layout, is_written: self.written.get(param).copied().unwrap_or(false) })
        };
        self.params.types().iter().enumerate().filter_map(array).collect()
    }

    /// Brings what the kernel has written back to the host. Gives the check that failed first, if one did.
    ///
    /// # Errors
    ///
    /// When the device fails.
    ///
    /// # Safety
    ///
    /// As [`StagedArrays::copy_back`].
    pub(crate) unsafe fn finish(&self, prepared: &PreparedLaunch<'_>) -> Result<Option<LaunchError>, LaunchError> {
        // SAFETY: passed on to the caller.
        unsafe { prepared.staged.copy_back() }.map_err(|failure| self.failed(failure))?;
        let Some(report) = &prepared.report else { return Ok(None) };
        let mut bytes = [0; size_of::<GpuReport>()];
        // SAFETY: the allocation is a report's.
        let read = unsafe { report.queue.read(report.address, &mut bytes) };
        read.map_err(|failure| self.failed(failure))?;
        self.trap(&bytes, prepared, report.queue.device())
    }

    fn trap(
        &self,
        report: &[u8; size_of::<GpuReport>()],
        prepared: &PreparedLaunch<'_>,
        device: DeviceId,
    ) -> Result<Option<LaunchError>, LaunchError> {
        let word = |offset: u32| {
            let mut word = [0; 8];
            word.copy_from_slice(&report[offset as usize..offset as usize + 8]);
            u64::from_le_bytes(word)
        };
        if word(GpuReport::CLAIMED_OFFSET) == 0 {
            return Ok(None);
        }
        let number = word(GpuReport::SITE_OFFSET);
        let Some(site) = usize::try_from(number).ok().and_then(|number| self.sites.sites.get(number)).cloned() else {
            let reason = format!("internal error: check {number} of the kernel failed, and it has no such check");
            return Err(self.failed(DeviceFailure::Code { device, reason }));
        };
        Ok(Some(LaunchError::Trap(Box::new(Trap {
            kernel: self.name.clone(),
            index: Trap::index_at(&site, word(GpuReport::INDEX_OFFSET) as i64),
            site,
            extent: word(GpuReport::EXTENT_OFFSET) as i64,
            thread: Trap::coordinates(&prepared.extents, prepared.rank, word(GpuReport::THREAD_OFFSET)),
        }))))
    }

    /// A device's failure in a launch of this kernel.
    pub(crate) fn failed(&self, failure: DeviceFailure) -> LaunchError {
        LaunchError::Device { kernel: self.name.clone(), failure }
    }
}

#[cfg(feature = "cuda")]
impl PreparedLaunch<'_> {
    /// Returns true if some array was brought to the device for this launch.
    pub(crate) fn has_staged_arrays(&self) -> bool {
        self.staged.has_arrays()
    }
}

impl<'a> DeviceReport<'a> {
    fn new(queue: &'a dyn Queue) -> Result<DeviceReport<'a>, DeviceFailure> {
        let report = DeviceReport { queue, address: queue.alloc(size_of::<GpuReport>(), 0)? };
        // SAFETY: the allocation is as large.
        unsafe { queue.fill(RowLayout::one(report.address, size_of::<GpuReport>() as u64), FillWord::U8(0))? };
        Ok(report)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use polyloom_ir::{FileId, parse_module};

    #[test]
    fn a_failed_check_that_the_kernel_does_not_have_is_an_error() {
        let text =
            "kernel @k(%n n: i32) {\n%zero: i32 = const 0\n%above: bool = gt %n, %zero\nassert \"n\" %above\nreturn\n}";
        let module = parse_module(text, FileId::from_u32(0)).expect("the text is HIR");
        let kernel = &module.functions[module.find("k").expect("it has a kernel `k`")];
        let entry = DeviceEntry::new(kernel, KernelParams::of(kernel));
        let queue = crate::sim::queue();
        let mut args = ArgBlock::new();
        args.scalar(&entry.params, polyloom_ir::Scalar::I32, 1).expect("it fits");
        // SAFETY: there are no arrays.
        let prepared = unsafe { entry.prepare(DeviceId::Simulator, &*queue, &[4], &args) };
        let prepared = prepared.expect("it can be launched").expect("it has threads");
        let found = |site: u64| {
            let mut bytes = [0; size_of::<GpuReport>()];
            for (offset, word) in [(GpuReport::CLAIMED_OFFSET, 1), (GpuReport::SITE_OFFSET, site)] {
                bytes[offset as usize..offset as usize + 8].copy_from_slice(&word.to_le_bytes());
            }
            let report = prepared.report.as_ref().expect("it has a check");
            // SAFETY: the allocation is a report's.
            unsafe { queue.write(RowLayout::one(report.address, bytes.len() as u64), &bytes).expect("it is written") };
            // SAFETY: there are no arrays.
            unsafe { entry.finish(&prepared) }
        };
        assert!(matches!(found(0), Ok(Some(LaunchError::Trap(_)))));
        let error = found(7).expect_err("there is no check 7").to_string();
        assert!(error.contains("check 7 of the kernel failed, and it has no such check"), "{error}");
    }
}

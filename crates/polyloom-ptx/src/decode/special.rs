//! Special registers (PTX ISA 9.0 §10).

use super::op::Special;
use crate::memory::window::RESERVED_SHARED;

/// The widths in which a special register can be read, in bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Widths {
    B32,
    B64,
    /// It had 16 bits in old PTX, and the lower half is still to be had.
    UpTo32,
    /// As `UpTo32`, and 64.
    UpTo64,
}

/// The special register of that name and component, and how it can be read.
pub(super) fn special(name: &str, component: Option<&str>) -> Option<(Special, Widths)> {
    let axis = match component {
        None | Some("x") => Some(0),
        Some("y") => Some(1),
        Some("z") => Some(2),
        Some(_) => None,
    };
    let of_axis = |which: fn(usize) -> Special, widths: Widths| match component {
        Some("w") => Some((Special::Absent, widths)),
        _ => Some((which(axis?), widths)),
    };
    if component.is_some() {
        return match name {
            "%tid" => of_axis(Special::ThreadIndex, Widths::UpTo32),
            "%ntid" => of_axis(Special::BlockSize, Widths::UpTo32),
            "%ctaid" => of_axis(Special::BlockIndex, Widths::UpTo32),
            "%nctaid" => of_axis(Special::GridSize, Widths::UpTo32),
            // Every block is a cluster of its own.
            "%clusterid" => of_axis(Special::BlockIndex, Widths::B32),
            "%nclusterid" => of_axis(Special::GridSize, Widths::B32),
            "%cluster_ctaid" => Some((Special::Zero, Widths::B32)),
            "%cluster_nctaid" => Some((Special::One, Widths::B32)),
            _ => None,
        };
    }
    let narrow = match name {
        "%laneid" => Special::Lane,
        "%warpid" => Special::Warp,
        "%nwarpid" => Special::WarpCount,
        "%smid" => Special::Processor,
        "%nsmid" => Special::ProcessorCount,
        "%lanemask_eq" => Special::LanesEqual,
        "%lanemask_le" => Special::LanesLessEqual,
        "%lanemask_lt" => Special::LanesLess,
        "%lanemask_ge" => Special::LanesGreaterEqual,
        "%lanemask_gt" => Special::LanesGreater,
        "%clock" => Special::Clock,
        "%clock_hi" => Special::ClockHigh,
        "%globaltimer_lo" => Special::Time,
        "%globaltimer_hi" => Special::TimeHigh,
        "%dynamic_smem_size" => Special::DynamicShared,
        "%total_smem_size" => Special::TotalShared,
        "%aggr_smem_size" => Special::AggregateShared,
        "%reserved_smem_offset_begin" | "%reserved_smem_offset_0" => Special::ReservedShared(0),
        // Cooperative groups keep barriers here, and words that warps exchange: 288 bytes.
        "%reserved_smem_offset_1" => Special::ReservedShared(RESERVED_SHARED / 2),
        "%reserved_smem_offset_end" | "%reserved_smem_offset_cap" => Special::ReservedShared(RESERVED_SHARED),
        "%cluster_ctarank" => Special::Zero,
        // As cooperative groups have them (cooperative_groups/details/driver_abi.h).
        "%envreg1" => Special::WorkspaceHigh,
        "%envreg2" => Special::WorkspaceLow,
        "%cluster_nctarank" => Special::One,
        "%clock64" => return Some((Special::Clock, Widths::B64)),
        "%globaltimer" => return Some((Special::Time, Widths::B64)),
        "%gridid" => return Some((Special::Absent, Widths::UpTo64)),
        "%current_graph_exec" => return Some((Special::Zero, Widths::B64)),
        _ if name.starts_with("%pm") && name.ends_with("_64") => return Some((Special::Zero, Widths::B64)),
        _ if name.starts_with("%pm") || name.starts_with("%envreg") => Special::Zero,
        _ => return None,
    };
    Some((narrow, Widths::B32))
}

//! Special registers (PTX ISA 9.0 §10).

use super::op::SpecialRegister;
use crate::memory::window::RESERVED_SHARED;

/// The widths in which a special register can be read, in bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SpecialWidths {
    B32,
    B64,
    /// It had 16 bits in old PTX, and the lower half is still to be had.
    UpTo32,
    /// As `UpTo32`, and 64.
    UpTo64,
}

/// The special register of that name and component, and how it can be read.
pub(super) fn special(name: &str, component: Option<&str>) -> Option<(SpecialRegister, SpecialWidths)> {
    let axis = match component {
        None | Some("x") => Some(0),
        Some("y") => Some(1),
        Some("z") => Some(2),
        Some(_) => None,
    };
    let of_axis = |which: fn(usize) -> SpecialRegister, widths: SpecialWidths| match component {
        Some("w") => Some((SpecialRegister::Absent, widths)),
        _ => Some((which(axis?), widths)),
    };
    if component.is_some() {
        return match name {
            "%tid" => of_axis(SpecialRegister::ThreadIndex, SpecialWidths::UpTo32),
            "%ntid" => of_axis(SpecialRegister::BlockSize, SpecialWidths::UpTo32),
            "%ctaid" => of_axis(SpecialRegister::BlockIndex, SpecialWidths::UpTo32),
            "%nctaid" => of_axis(SpecialRegister::GridSize, SpecialWidths::UpTo32),
            "%clusterid" => of_axis(SpecialRegister::ClusterIndex, SpecialWidths::B32),
            "%nclusterid" => of_axis(SpecialRegister::ClusterCount, SpecialWidths::B32),
            "%cluster_ctaid" => of_axis(SpecialRegister::IndexInCluster, SpecialWidths::B32),
            "%cluster_nctaid" => of_axis(SpecialRegister::ClusterSize, SpecialWidths::B32),
            _ => None,
        };
    }
    let narrow = match name {
        "%laneid" => SpecialRegister::Lane,
        "%warpid" => SpecialRegister::Warp,
        "%nwarpid" => SpecialRegister::WarpCount,
        "%smid" => SpecialRegister::Processor,
        "%nsmid" => SpecialRegister::ProcessorCount,
        "%lanemask_eq" => SpecialRegister::LanesEqual,
        "%lanemask_le" => SpecialRegister::LanesLessEqual,
        "%lanemask_lt" => SpecialRegister::LanesLess,
        "%lanemask_ge" => SpecialRegister::LanesGreaterEqual,
        "%lanemask_gt" => SpecialRegister::LanesGreater,
        "%clock" => SpecialRegister::Clock,
        "%clock_hi" => SpecialRegister::ClockHigh,
        "%globaltimer_lo" => SpecialRegister::Time,
        "%globaltimer_hi" => SpecialRegister::TimeHigh,
        "%dynamic_smem_size" => SpecialRegister::DynamicShared,
        "%total_smem_size" => SpecialRegister::TotalShared,
        "%aggr_smem_size" => SpecialRegister::AggregateShared,
        "%reserved_smem_offset_begin" | "%reserved_smem_offset_0" => SpecialRegister::ReservedShared(0),
        // Cooperative groups keep barriers here, and words that warps exchange: 288 bytes.
        "%reserved_smem_offset_1" => SpecialRegister::ReservedShared(RESERVED_SHARED / 2),
        "%reserved_smem_offset_end" | "%reserved_smem_offset_cap" => SpecialRegister::ReservedShared(RESERVED_SHARED),
        "%cluster_ctarank" => SpecialRegister::ClusterRank,
        // As cooperative groups have them (cooperative_groups/details/driver_abi.h).
        "%envreg1" => SpecialRegister::WorkspaceHigh,
        "%envreg2" => SpecialRegister::WorkspaceLow,
        "%cluster_nctarank" => SpecialRegister::ClusterBlocks,
        "%clock64" => return Some((SpecialRegister::Clock, SpecialWidths::B64)),
        "%globaltimer" => return Some((SpecialRegister::Time, SpecialWidths::B64)),
        "%gridid" => return Some((SpecialRegister::Absent, SpecialWidths::UpTo64)),
        "%current_graph_exec" => return Some((SpecialRegister::Zero, SpecialWidths::B64)),
        _ if name.starts_with("%pm") && name.ends_with("_64") => {
            return Some((SpecialRegister::Zero, SpecialWidths::B64));
        }
        _ if name.starts_with("%pm") || name.starts_with("%envreg") => SpecialRegister::Zero,
        _ => return None,
    };
    Some((narrow, SpecialWidths::B32))
}

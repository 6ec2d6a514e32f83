//! Special registers (PTX ISA 9.0 §10).

use super::op::Special;

/// The special register of that name and component, and whether it has 64 bits.
pub(super) fn special(name: &str, component: Option<&str>) -> Option<(Special, bool)> {
    let axis = match component {
        None | Some("x") => Some(0),
        Some("y") => Some(1),
        Some("z") => Some(2),
        Some(_) => None,
    };
    let of_axis = |which: fn(usize) -> Special| match component {
        Some("w") => Some((Special::Absent, false)),
        _ => Some((which(axis?), false)),
    };
    if component.is_some() {
        return match name {
            "%tid" => of_axis(Special::ThreadIndex),
            "%ntid" => of_axis(Special::BlockSize),
            "%ctaid" => of_axis(Special::BlockIndex),
            "%nctaid" => of_axis(Special::GridSize),
            // Every block is a cluster of its own.
            "%clusterid" => of_axis(Special::BlockIndex),
            "%nclusterid" => of_axis(Special::GridSize),
            "%cluster_ctaid" => Some((Special::Zero, false)),
            "%cluster_nctaid" => Some((Special::One, false)),
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
        "%total_smem_size" | "%aggr_smem_size" => Special::TotalShared,
        "%cluster_ctarank"
        | "%reserved_smem_offset_begin"
        | "%reserved_smem_offset_end"
        | "%reserved_smem_offset_cap" => Special::Zero,
        "%cluster_nctarank" => Special::One,
        "%clock64" => return Some((Special::Clock, true)),
        "%globaltimer" => return Some((Special::Time, true)),
        "%gridid" => return Some((Special::Absent, true)),
        "%current_graph_exec" => return Some((Special::Zero, true)),
        _ if name.starts_with("%pm") && name.ends_with("_64") => return Some((Special::Zero, true)),
        _ if name.starts_with("%pm") || name.starts_with("%envreg") || name.starts_with("%reserved_smem_offset_") => {
            Special::Zero
        }
        _ => return None,
    };
    Some((narrow, false))
}

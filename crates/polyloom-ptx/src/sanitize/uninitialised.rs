//! Which bytes of shared and global memory have been written.

use crate::exec::GridContext;
use crate::exec::lane_access::{AccessKind, AccessRegion, LaneAccess};
use crate::exec::registers::lanes_of;

/// The lanes that read a byte nobody wrote, and the first such byte; then what is written counts as written. Bytes that
/// are only copied may be what pads a struct.
pub(super) fn access(context: &GridContext<'_>, shared: &mut [u8], access: &LaneAccess<'_>) -> Option<(u32, usize)> {
    let group = access.group;
    let size = access.size as usize;
    let reads = !matches!(access.kind, AccessKind::Write | AccessKind::AsyncWrite);
    let writes = !matches!(access.kind, AccessKind::Read | AccessKind::AsyncRead);
    let mut unwritten = 0;
    let mut first = None;
    for lane in lanes_of(group.lanes) {
        let offset = group.offsets[lane];
        if reads {
            let known = |at: usize, length: usize| match group.place {
                AccessRegion::Global(index) => context.memory[index].is_written(at, length),
                AccessRegion::Shared | AccessRegion::Peer(_) => {
                    (at..at + length).all(|at| shared[at / 8] >> (at % 8) & 1 != 0)
                }
                AccessRegion::Local | AccessRegion::Param | AccessRegion::Nowhere => true,
            };
            if !known(offset, size) {
                let matters = |byte: &usize| access.copied >> byte & 1 == 0 && !known(offset + byte, 1);
                if let Some(byte) = (0..size).find(matters) {
                    unwritten |= 1 << lane;
                    first.get_or_insert(offset + byte);
                }
            }
        }
        if writes {
            match group.place {
                AccessRegion::Global(index) => context.memory[index].set_written(offset, size),
                AccessRegion::Shared | AccessRegion::Peer(_) => {
                    (offset..offset + size).for_each(|at| shared[at / 8] |= 1 << (at % 8));
                }
                AccessRegion::Local | AccessRegion::Param | AccessRegion::Nowhere => {}
            }
        }
    }
    first.map(|offset| (unwritten, offset))
}

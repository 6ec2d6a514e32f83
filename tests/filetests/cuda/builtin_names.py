# test cuda
import polyloom as loom


@loom.kernel
def named_like_what_it_calls(x: loom.array(dtype=float), y: loom.array(dtype=float)):
    i = loom.tid()
    warp_reduce_add = loom.warp_reduce_add(x[i])
    warp_reduce_max = loom.warp_reduce_max(x[i])
    shuffle_xor = loom.shuffle_xor(x[i], 1)
    ballot = loom.ballot(x[i] > 0.0)
    lane_id = loom.lane_id()
    match_any = loom.match_any(lane_id % 4)
    atomicAdd = warp_reduce_add + warp_reduce_max + shuffle_xor + float(ballot) + float(match_any)
    loom.atomic_add(y, lane_id, atomicAdd)

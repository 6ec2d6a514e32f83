"""Kernels of blocks and warps that tests launch on the CPU and on GPUs."""

import numpy as np
import polyloom as loom


@loom.kernel
def block_sums(a: loom.array(dtype=loom.float64), sums: loom.array(dtype=loom.float64)):
    part = loom.shared_array(shape=32, dtype=loom.float64)
    i = loom.tid()
    warp_sum = loom.warp_reduce_add(a[i])
    if loom.lane_id() == 0:
        part[loom.warp_id()] = warp_sum
    loom.sync_threads()
    if loom.warp_id() == 0:
        x = loom.float64(0.0)
        if loom.lane_id() < loom.block_dim() // 32:
            x = part[loom.lane_id()]
        total = loom.warp_reduce_add(x)
        if loom.lane_id() == 0:
            sums[loom.block_idx()] = total


@loom.kernel
def reversed_parts(out: loom.array(dtype=int), n: int):
    part = loom.dynamic_shared(shape=n, dtype=int)
    t = loom.thread_idx()
    part[t] = t
    loom.sync_threads()
    out[loom.tid()] = part[n - 1 - t]


@loom.kernel(block_dim=32)
def matmul_f16(
    a: loom.array(dtype=loom.float16, ndim=2),
    b: loom.array(dtype=loom.float16, ndim=2),
    c: loom.array(dtype=float, ndim=2),
):
    row, column = loom.block_idx(0) * 16, loom.block_idx(1) * 16
    total = loom.mma_load_c(c, row, column)
    for k in range(a.shape[1] // 16):
        part_a = loom.mma_load_a(a, row, k * 16)
        part_b = loom.mma_load_b(b, k * 16, column)
        total = loom.mma(part_a, part_b, total)
    loom.mma_store(c, row, column, total)


@loom.kernel(block_dim=32)
def matmul_i8(
    a: loom.array(dtype=loom.int8, ndim=2), b: loom.array(dtype=loom.int8, ndim=2), c: loom.array(dtype=int, ndim=2)
):
    shared_a = loom.shared_array(shape=(16, 16), dtype=loom.int8)
    shared_b = loom.shared_array(shape=(8, 16), dtype=loom.int8)
    lane = loom.lane_id()
    loom.async_copy(shared_a[lane // 2, lane % 2 * 8], a[lane // 2, lane % 2 * 8], count=8)
    if lane < 8:
        loom.async_copy(shared_b[lane, 0], b[lane, 0], count=16, cache="l2")
    loom.async_commit()
    loom.async_wait()
    loom.sync_threads()
    part_a = loom.mma_load_a(shared_a, 0, 0)
    part_b = loom.mma_load_b(shared_b, 0, 0, layout="col", n=8)
    loom.mma_store(c, 0, 0, loom.mma(part_a, part_b, loom.vec4i()))


@loom.struct
class Spin:
    up: loom.int8
    weight: loom.float16


@loom.struct
class Particle:
    spin: Spin
    position: loom.vec3
    energy: loom.float64


@loom.func
def taken(tile: loom.array(dtype=Particle, ndim=2), row: int, column: int):
    return tile[row, column]


@loom.func
def energy_of(tile, row: int, column: int):
    return tile[row, column].energy


@loom.func
def fill(tile: loom.array(dtype=Particle, ndim=2), t: int, p: Particle):
    """Stores a particle, and changes it where it is."""
    tile[t // 16, t % 16] = p
    tile[t // 16, t % 16].position.x += 1.0
    tile[t // 16, t % 16].energy *= loom.float64(2.0)
    tile[t // 16, t % 16].spin.up = loom.int8(t)


@loom.kernel(block_dim=32)
def particles(
    up: loom.array(dtype=loom.int8),
    weight: loom.array(dtype=loom.float16),
    position: loom.array(dtype=loom.vec3),
    energy: loom.array(dtype=loom.float64),
):
    i = loom.tid()
    t = loom.thread_idx()
    tile = loom.shared_array(shape=(2, 16), dtype=Particle, align=64)
    fill(tile, t, Particle(Spin(up[i], weight[i]), position[i], energy[i]))
    loom.sync_threads()
    p = taken(tile, 1 - t // 16, t % 16)
    up[i] = p.spin.up
    weight[i] = p.spin.weight
    position[i] = p.position
    energy[i] = p.energy + energy_of(tile, t // 16, t % 16)


@loom.kernel(block_dim=32, shared_bytes=8 + 32 * 23)
def dynamic_particles(
    up: loom.array(dtype=loom.int8),
    weight: loom.array(dtype=loom.float16),
    position: loom.array(dtype=loom.vec3),
    energy: loom.array(dtype=loom.float64),
):
    i = loom.tid()
    t = loom.thread_idx()
    tile = loom.dynamic_shared(shape=(loom.block_dim() // 16, 16), dtype=Particle, offset=8)
    fill(tile, t, Particle(Spin(up[i], weight[i]), position[i], energy[i]))
    loom.sync_threads()
    p = taken(tile, 1 - t // 16, t % 16)
    up[i] = p.spin.up
    weight[i] = p.spin.weight
    position[i] = p.position
    energy[i] = p.energy + energy_of(tile, t // 16, t % 16)


def particles_and_swapped():
    """What `particles` is given, and what it makes of it."""
    rng = np.random.default_rng(11)
    up = rng.integers(-9, 9, 64).astype(np.int8)
    weight, position = rng.standard_normal(64).astype(np.float16), rng.standard_normal((64, 3)).astype(np.float32)
    energy = rng.standard_normal(64)
    order = np.arange(64) ^ 16
    moved = position[order] + np.float32([1, 0, 0])
    expected = [(order % 32).astype(np.int8), weight[order], moved, 2 * energy[order] + 2 * energy]
    return [up, weight, position, energy], expected

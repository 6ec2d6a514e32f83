# test run
# Arrays of structs in shared memory, of which every leaf is an array of its own.
import polyloom as loom


@loom.struct
class Spin:
    up: loom.int8
    weight: loom.float16


@loom.struct
class Particle:
    spin: Spin
    position: loom.vec3
    energy: loom.float64


# Whole elements, fields of fields and components.
@loom.kernel(block_dim=4)
def reverse(a: loom.array(dtype=Particle)):
    tile = loom.shared_array(shape=4, dtype=Particle)
    t = loom.thread_idx()
    tile[t] = a[t]
    tile[t].position.x += 10.0
    tile[t].position[2] = float(tile.shape[0] + len(tile))
    tile[t].spin.up = loom.int8(t)
    loom.sync_threads()
    p = tile[-1 - t]
    p.energy *= loom.float64(2.0)
    a[t] = p
    a[t].spin.weight = tile[t].spin.weight


# run: @reverse[4]([9, 9, 9, 9], [0.5, 1, 1.5, 2], [[1, 5, 0], [2, 6, 0], [3, 7, 0], [4, 8, 0]], [1, 2, 3, 4]) == [3, 2, 1, 0], [0.5, 1, 1.5, 2], [[14, 8, 8], [13, 7, 8], [12, 6, 8], [11, 5, 8]], [8, 6, 4, 2]


@loom.func
def kept(tile: loom.array(dtype=Particle, ndim=2), i: int, j: int, p: Particle):
    """Stores an element and gives what was there."""
    old = tile[i, j]
    tile[i, j] = p
    return old


@loom.func
def total(tile, n: int):
    """The sum of a row's energies, wherever they are."""
    s = loom.float64(0.0)
    for j in range(n):
        s += tile[1, j].energy
    return s


@loom.kernel(block_dim=(2, 2))
def functions(a: loom.array(dtype=Particle, ndim=2), out: loom.array(dtype=loom.float64)):
    tile = loom.shared_array(shape=(2, 2), dtype=Particle, align=32)
    other = tile
    j, i = loom.thread_idx(0), loom.thread_idx(1)
    tile[i, j] = a[i, j]
    loom.sync_threads()
    p = a[i, j]
    p.energy = loom.float64(100.0)
    p = kept(tile, i, 1 - j, p)
    loom.sync_threads()
    if i == 0 and j == 0:
        out[0] = total(other, 2)
        out[1] = total(a, 2)
    a[i, j].energy = p.energy


# run: @functions[4]([[1, 1], [1, 1]], [[1, 1], [1, 1]], [[[0, 0, 0], [0, 0, 0]], [[0, 0, 0], [0, 0, 0]]], [[1, 2], [3, 4]], [0, 0]) == _, _, _, [[2, 1], [4, 3]], [200, 7]


@loom.struct
class Bin:
    count: int
    sums: loom.vec2


# All threads change the same elements; a name stands for an array until the loop body ends.
@loom.kernel(block_dim=8)
def histogram(keys: loom.array(dtype=int), counts: loom.array(dtype=int), sums: loom.array(dtype=loom.vec2)):
    t = loom.thread_idx()
    for shift in range(2):
        bins = loom.shared_array(shape=4, dtype=Bin)
        if t < 4:
            bins[t] = Bin()
        loom.sync_threads()
        key = (keys[t] >> (2 * shift)) & 3
        bins[key].count += 1
        bins[key].sums += loom.vec2(1.0, float(t))
        loom.sync_threads()
        if t < 4:
            counts[4 * shift + t] = bins[t].count
            sums[4 * shift + t] = bins[t].sums
        loom.sync_threads()


# run: @histogram[8]([0, 1, 2, 3, 4, 5, 6, 12], [0, 0, 0, 0, 0, 0, 0, 0], [[0, 0], [0, 0], [0, 0], [0, 0], [0, 0], [0, 0], [0, 0], [0, 0]]) == _, [3, 2, 2, 1, 4, 3, 0, 1], [[3, 11], [2, 6], [2, 8], [1, 3], [4, 6], [3, 15], [0, 0], [1, 7]]


# The leaves follow each other, those with the widest numbers first: 8 * 4 bytes of `energy`, 12 * 4 of `position`,
# 2 * 4 of `weight`, 4 of `up`, behind 16 bytes of something else.
@loom.kernel(block_dim=4, shared_bytes=108)
def dynamic(a: loom.array(dtype=Particle), n: int, seen: loom.array(dtype=float)):
    before = loom.dynamic_shared(shape=4, dtype=int)
    rest = loom.dynamic_shared(shape=(n // 2, 2), dtype=Particle, offset=4 * n)
    energy = loom.dynamic_shared(shape=n, dtype=loom.float64, offset=16)
    position = loom.dynamic_shared(shape=n, dtype=loom.vec3, offset=48)
    weight = loom.dynamic_shared(shape=n, dtype=loom.float16, offset=96)
    up = loom.dynamic_shared(shape=n, dtype=loom.int8, offset=104)
    t = loom.thread_idx()
    before[t] = -1
    rest[t // 2, t % 2] = a[t]
    loom.sync_threads()
    seen[t] = float(energy[t]) + position[t].y + float(weight[t]) + float(up[t]) + float(before[t])
    a[t] = rest[1 - t // 2, t % 2]


# run: @dynamic[4]([1, 2, 3, 4], [0.5, 1, 1.5, 2], [[0, 10, 0], [0, 20, 0], [0, 30, 0], [0, 40, 0]], [100, 200, 300, 400], 4, [0, 0, 0, 0]) == [3, 4, 1, 2], [1.5, 2, 0.5, 1], [[0, 30, 0], [0, 40, 0], [0, 10, 0], [0, 20, 0]], [300, 400, 100, 200], [110.5, 222, 333.5, 445]

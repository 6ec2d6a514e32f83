# test cuda
# What a person would write by hand: names of the source, no conversion and no function that is not needed.
import polyloom as loom

weights = loom.vec4(0.25, 0.5, 0.25, 0.125)
threshold = loom.vec3(0.5, 0.25, 0.125)
int64 = loom.vec3(1.0, 2.0, 3.0)


# Tables are called as the source calls them, one name for each.
@loom.kernel
def tables(x: loom.array(dtype=float), out: loom.array(dtype=float)):
    i = loom.tid()
    own = loom.vec3(3.0, 4.0, 5.0)
    out[i] = weights[i % 4] + own[i % 3] + int64[i % 3] + weights[3]
    if x[i] > threshold[i % 3]:
        out[i] = weights[i]


@loom.kernel
def ends(x: loom.array(dtype=float), m: loom.array(dtype=float, ndim=2), out: loom.array(dtype=loom.vec4)):
    i = loom.tid()
    out[-1] = loom.vec4(x[-1], m[-2, i], m[i, -1], 0.0)
    out[i][-1] = loom.vec4(1.0, 2.0, 3.0, 4.0)[i]


@loom.kernel
def branches(x: loom.array(dtype=float), out: loom.array(dtype=int)):
    i = loom.tid()
    if x[i] > 2.0:
        out[i] = 1
    elif x[i] > 1.0:
        out[i] = 2
    elif x[i] > 0.0:
        out[i] = 3
    else:
        if i > 5:
            out[i] = i - 1


@loom.kernel(block_dim=(16, 16))
def tiles(a: loom.array(dtype=float, ndim=2), out: loom.array(dtype=float, ndim=2)):
    tile = loom.shared_array(shape=(18, 16), dtype=float)
    tx = loom.thread_idx(0)
    ty = loom.thread_idx(1)
    begin = loom.block_idx(0) * 16
    end = begin + 16
    for k in range(ty, 18, 16):
        tile[k, tx] = 0.0
    loom.sync_threads()
    for start in range(0, a.shape[1], 16):
        if start + tx < a.shape[1]:
            tile[ty, -1] = a[loom.block_idx(1), start + tx]
    for _ in range(2):
        for _ in range(10, 0, -3):
            out[begin + ty, end - tx - 1] += tile[ty, tx]
    if loom.thread_idx(0) == 3 and loom.thread_idx(1) > 0:
        out[loom.block_idx(1), loom.block_dim(0) * loom.grid_dim(0) - 1] = float(1 << ty)


# Constants that have names are used by them.
@loom.kernel
def named(x: loom.array(dtype=float), m: loom.array(dtype=float, ndim=2)):
    i = loom.tid()
    last = -1
    two = 2
    half = 0.5
    zero = 0.0
    halves = loom.vec3(half, 0.25, 0.125)
    for k in range(0, 9, two):
        x[last] += m[i, last] + halves[k % 3] + loom.vec3(zero, zero, zero)[i % 3] + float(i + last)


# Components of constants are numbers as well: no conversion, and none that is negative beside unsigned ones.
steps = loom.vec3i(4, -5, 6)


@loom.kernel
def components(x: loom.array(dtype=int), y: loom.array(dtype=int)):
    i = loom.tid()
    x[i] = x[i] * steps[1] + steps[1]
    y[i] = y[i] - steps[1] + i * steps[0]
    x[steps[1]] = y[steps[0]]

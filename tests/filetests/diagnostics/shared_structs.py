# test diagnostics
# Arrays of structs in shared memory that there cannot be, or that are used as what they are not.
import polyloom as loom


@loom.struct
class Pair:
    a: loom.int8
    b: loom.mat33d


@loom.struct
class Grid:
    cells: loom.array(dtype=float)
    size: float


@loom.struct
class Empty:
    pass


@loom.struct
class Holder:
    pairs: loom.array(dtype=Pair)


@loom.kernel(block_dim=32)
def no_such_arrays(n: int):
    grids = loom.shared_array(shape=4, dtype=Grid)
    empty = loom.dynamic_shared(shape=4, dtype=Empty)
    deep = loom.shared_array(shape=(1, 2, 3), dtype=Pair)
    none = loom.shared_array(shape=(), dtype=Pair)
    large = loom.shared_array(shape=1 << 22, dtype=Pair)
    between = loom.dynamic_shared(shape=n, dtype=Pair, offset=12)
    below = loom.dynamic_shared(shape=n, dtype=Pair, offset=-8)
    negative = loom.dynamic_shared(shape=(n, -1), dtype=Pair)
    odd = loom.shared_array(shape=4, dtype=Pair, align=3)


@loom.func
def first(pairs: loom.array(dtype=Pair)):
    return pairs


@loom.func
def twice(pairs: loom.array(dtype=Pair, ndim=2)):
    pairs[0, 0].a = loom.int8(1)


@loom.kernel(block_dim=32)
def uses(pairs: loom.array(dtype=Pair), n: int):
    tile = loom.shared_array(shape=4, dtype=Pair)
    tile[0] = 1.0
    tile[0].c = loom.int8(1)
    tile[0, 1] = pairs[0]
    row = tile[0:2]
    both = tile if n > 0 else pairs
    twice(tile)
    other = first(tile)
    holder = Holder()
    holder.pairs = tile
    tile = pairs
    pairs = loom.shared_array(shape=4, dtype=Pair)
    n = loom.dynamic_shared(shape=4, dtype=Pair)


@loom.kernel(block_dim=32)
def scopes(n: int):
    p = Pair()
    if n > 0:
        tile = loom.shared_array(shape=4, dtype=Pair)
        tile[0] = p
    p = loom.shared_array(shape=4, dtype=Pair)
    tile[1] = p


@loom.kernel(block_dim=32)
def outer(n: int):
    tile = loom.shared_array(shape=4, dtype=Pair)
    if n > 0:
        tile = loom.shared_array(shape=2, dtype=Pair)
    loom.sync_threads()
    tile[0] = Pair()

# test hir
# An array of structs in shared memory is one for each leaf, and a function is compiled for where it is.
import polyloom as loom


@loom.struct
class Spin:
    up: loom.int8
    weight: loom.float64


@loom.struct
class Particle:
    spin: Spin
    position: loom.vec3


@loom.func
def weight_of(particles: loom.array(dtype=Particle), i: int):
    return particles[i].spin.weight


@loom.kernel(block_dim=32)
def static(given: loom.array(dtype=Particle)):
    t = loom.thread_idx()
    tile = loom.shared_array(shape=32, dtype=Particle, align=4)
    tile[t] = given[t]
    loom.sync_threads()
    given[t].spin.weight = weight_of(tile, 31 - t) + weight_of(given, t)


@loom.kernel
def dynamic(given: loom.array(dtype=Particle), n: int):
    t = loom.thread_idx()
    tile = loom.dynamic_shared(shape=(n + 1, n), dtype=Particle, offset=8 * n)
    tile[0, t].position = given[t].position

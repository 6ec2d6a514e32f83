# test cuda
# option prelude
# Random numbers: functions that change the state they are given, made of the generator's step.
import polyloom as loom


@loom.func
def two(state: loom.uint32):
    return loom.randf(state) + loom.randf(state, -1.0, 1.0)


@loom.kernel
def randoms(x: loom.array(dtype=float), n: loom.array(dtype=int), state: loom.uint32):
    i = loom.tid()
    mine = loom.rand_init(42, i)
    x[i] = loom.randf(mine) + loom.randf(mine, -1.0, 1.0)
    loom.randu(state)
    n[i] = loom.randi(state, 0, 6) + loom.randi(mine, i, int(mine & loom.uint32(1)))
    before = mine
    direction = loom.sample_unit_ring(mine)
    x[i] += direction[0] + loom.randf(before) + two(mine)

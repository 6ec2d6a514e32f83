# test run
# Structs: fields, nesting, copies, functions, control flow, and elements of arrays of them, of which the leaves are
# parameters of their own here.
import polyloom as wp


@wp.struct
class Pair:
    a: float
    n: int


@wp.struct
class Body:
    mass: float
    position: wp.vec3
    pair: Pair


@wp.struct
class Buffers:
    values: wp.array(dtype=float)
    pairs: wp.array(dtype=Pair)
    scale: float


@wp.func
def grown(b: Body, by: float) -> Body:
    b.mass += by
    b.pair.n += 1
    return b


@wp.func
def halves(b: Body):
    return b.pair, b.mass


# Arguments are copies; so is what is assigned.
# run: @scalars[1](2.5, 3, [0, 0, 0, 0]) == [2.5, 3, 12.5, 2.5]
@wp.kernel
def scalars(p: Pair, out: wp.array(dtype=float)):
    q = p
    q.a += 10.0
    out[0] = p.a
    out[1] = float(p.n)
    out[2] = q.a
    q = p
    out[3] = q.a


# run: @locals_[1]([0, 0, 0, 0, 0, 0]) == [0, 12, 7.5, 5, 3, 4.5]
@wp.kernel
def locals_(out: wp.array(dtype=float)):
    s = Body()
    out[0] = s.mass + s.position[1] + s.pair.a + float(s.pair.n)
    s.position.x = 3.0
    s.position[-1] = 4.0
    s.position += wp.vec3(0.0, 5.0, 0.0)
    out[1] = s.position[0] + s.position[1] + s.position[2]
    s.pair = Pair(n=5, a=2.5)
    out[2] = s.pair.a + float(s.pair.n)
    pair = s.pair
    pair.n = -1
    out[3] = float(s.pair.n)
    t = Body(1.0, wp.vec3(1.0, 2.0, 3.0), Pair(4.5, 6))
    out[4] = t.position.z
    s, t = t, s
    out[5] = s.pair.a


# run: @functions[1]([0, 0, 0, 0]) == [3, 1, 7, 4]
@wp.kernel
def functions(out: wp.array(dtype=float)):
    s = Body()
    s.mass = 1.0
    t = grown(s, 2.0)
    out[0] = t.mass
    out[1] = s.mass
    out[2] = grown(grown(t, 2.0), 2.0).mass
    pair, mass = halves(t)
    out[3] = float(pair.n) + mass


# run: @chosen[2](1, [0, 0]) == [2, 2]
# run: @chosen[2](0, [0, 0]) == [4, 4]
@wp.kernel
def chosen(c: int, out: wp.array(dtype=float)):
    i = wp.tid()
    a = Pair(1.0, 1)
    b = Pair(3.0, 1)
    s = a if c == 1 else b
    if s.a > 2.0:
        s = Pair(s.a, 7)
        s.n = 1
    out[i] = s.a + float(s.n)


# run: @carried[1](5, [0, 0, 0]) == [5, 2, 32]
@wp.kernel
def carried(n: int, out: wp.array(dtype=float)):
    s = Body()
    s.mass = 1.0
    for i in range(n):
        s.position.x += 1.0
        if i > 2:
            s.pair.n += 1
        if i == 7:
            break
    while s.mass < 30.0:
        s.mass *= 2.0
    out[0] = s.position.x
    out[1] = float(s.pair.n)
    out[2] = s.mass


# run: @elements[2]([1, 2], [[1, 2, 3], [4, 5, 6]], [0, 0], [3, 4], [0, 0]) == [101, 102], [[1, 9, 3], [4, 9, 6]], [0.5, 0.5], [14, 15], [1, 2]
@wp.kernel
def elements(bodies: wp.array(dtype=Body), out: wp.array(dtype=float)):
    i = wp.tid()
    s = bodies[i]
    s.mass += 100.0
    out[i] = bodies[i].mass
    bodies[i].position[1] = 9.0
    s.position = bodies[i].position
    bodies[i].pair.n += 10
    s.pair = bodies[i].pair
    s.pair.a += 0.5
    bodies[i] = s
    bodies[i].pair = Pair(s.pair.a, s.pair.n + 1)


# The indices of an element are evaluated once, before the fields are stored.
# run: @once[1]([1, 5, 6], [1, 5, 6]) == [1, 0, 6], [1, 0, 6]
@wp.kernel
def once(pairs: wp.array(dtype=Pair)):
    pairs[pairs[0].n] = Pair(0.0, 0)


# run: @of_arrays[2]([1, 2], [0, 0], [5, 6], 3, [0, 0]) == [11, 24], [3, 3], [5, 7], [2, 3]
@wp.kernel
def of_arrays(s: Buffers, out: wp.array(dtype=float)):
    i = wp.tid()
    values = s.values
    out[i] = values[i] + 1.0
    mine = Buffers()
    mine.values = s.values
    mine.pairs = s.pairs
    mine.scale = 10.0
    mine.values[i] += mine.scale * values[i] + float(len(mine.pairs) * i)
    s.pairs[i].a = s.scale
    mine.pairs[i].n += i


@wp.struct
class Frame:
    axes: wp.types.matrix((2, 3), float)
    n: int


# Components of matrices in elements of arrays, by indices known at run time.
# run: @components_of_fields[1]([[[1, 2, 3], [4, 5, 6]]], [0], -1, 1) == [[[1, 2, 7], [4, 14, 6]]], [14]
@wp.kernel
def components_of_fields(frames: wp.array(dtype=Frame), row: int, column: int):
    i = wp.tid()
    frames[i].axes[row, column] += 9.0
    frames[i].axes[row - 1, -column] = 7.0
    frames[i].n = int(frames[i].axes[row, column])

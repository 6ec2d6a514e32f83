# test diagnostics
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


@wp.struct
class Bad:
    name: str


@wp.struct
class Empty:
    pass


@wp.func
def take(p: Pair) -> float:
    return p.a


@wp.func
def gives_arrays(b: Buffers):
    return b


@wp.kernel
def fields(bodies: wp.array(dtype=Body), out: wp.array(dtype=float)):
    i = wp.tid()
    s = bodies[i]
    s.mas = 1.0
    out[i] = s.velocity
    s.mass = wp.vec3(1.0)
    s.pair = s.position
    out[i] = s
    out[i] = s + 1.0
    out[i] = bodies[i, 1].mass
    out[i] = bodies.mass
    out[i] = s[0]
    bodies[i] = s.pair
    bodies[i] = 1.0
    if s:
        pass


@wp.kernel
def construction(out: wp.array(dtype=float)):
    p = Pair(1.0)
    q = Pair(1.0, b=2)
    r = Pair(1, 2)
    t = Pair(1.0, 2, 3)
    take(1.0)
    take(Body())
    u = Pair


@wp.kernel
def variables(c: int, out: wp.array(dtype=float)):
    if c > 1:
        s = Pair()
    s.a = 1.0
    out[0] = s.a
    t = Pair()
    t = 1.0
    v = 1.0
    v = Pair()
    w = Pair() if c > 1 else Body()
    x = Pair() if c > 1 else 2.0
    for t in range(3):
        pass


@wp.kernel
def arrays(b: Buffers, other: wp.array(dtype=float), bodies: wp.array(dtype=Body)):
    i = wp.tid()
    b.values = other
    mine = Buffers()
    other[i] = mine.values[i]
    gives_arrays(b)
    wp.atomic_add(bodies, i, 1.0)
    bodies[i] += bodies[i]
    bodies.mass[i] = 1.0
    bodies = bodies


@wp.kernel
def array_of_arrays(b: wp.array(dtype=Buffers)):
    pass


@wp.kernel
def array_of_nothing(e: Empty, b: wp.array(dtype=Empty)):
    pass


@wp.kernel
def too_deep(b: wp.array(dtype=Body, ndim=4)):
    pass


@wp.kernel
def uses_bad(b: Bad):
    pass

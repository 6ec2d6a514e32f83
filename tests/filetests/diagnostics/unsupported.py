# test diagnostics
import polyloom as loom


@loom.func
def star(*args):
    return 1


@loom.kernel
def k(n: int, a: loom.array(dtype=float)):
    """Docstrings are fine."""
    ...
    pass
    import math
    global q
    values = [1.0, 2.0]
    squares = [x * x for x in values]
    names = {"a": 1}
    some = {1, 2}
    text = "abc"
    message = f"{n}"
    nothing = None
    z = 1j
    f = lambda x: x
    if (m := n) > 3:
        pass
    a[0:3] = 0.0
    a[...] = 0.0
    (p, q), r = (1, 2), 3
    first, *rest = 1, 2, 3
    x = a @ a
    if n is None or n in (1, 2):
        pass
    del n
    assert n > 0, f"{n}"
    for v in a:
        pass
    for i, v in enumerate(a):
        pass
    try:
        pass
    except ValueError:
        pass
    with open("x") as file:
        pass
    match n:
        case 1:
            pass
    raise ValueError

    def inner():
        pass

    class Point:
        pass

    while n > 0:
        break
    break
    a[star(1)] = 0.0
    a.shape[1.5]
    yield n


@loom.kernel
async def later(a: loom.array(dtype=float)):
    a[0] = 1.0


@loom.kernel
def inner_definitions(a: loom.array(dtype=float)):
    def inner(x):
        return x

    class Inner:
        x = 1.0

    a[0] = inner(a[0]) + Inner.x
    a[0] = inner


@loom.kernel
def left_out(a: loom.array(dtype=float)):
    t = loom.tile_load(a, shape=4)
    m = loom.mesh_query_point(loom.uint64(0), loom.vec3(), 1.0)

"""Structs in programs written for Warp do the same with nothing but the import changed. Warp itself is the oracle."""

import importlib.util

import numpy as np
import pytest

warp = pytest.importorskip("warp", reason="Warp, the oracle of these tests, is not installed")

PROGRAM = """
import numpy as np
import PACKAGE as wp

wp.init()
N = 16


@wp.struct
class Inner:
    a: float
    n: int


@wp.struct
class Body:
    mass: float
    pos: wp.vec3
    vel: wp.vec3
    frame: wp.mat33
    turn: wp.quat
    pose: wp.transform
    inner: Inner
    flag: wp.bool
    wide: wp.float64


@wp.struct
class Buffers:
    x: wp.array(dtype=wp.vec3)
    index: wp.array(dtype=int)
    grid: wp.array2d(dtype=float)
    scale: float


@wp.struct
class Scene:
    bodies: wp.array(dtype=Body)
    buffers: Buffers
    gravity: wp.vec3


@wp.func
def make(x: float) -> Inner:
    s = Inner()
    s.a = x
    s.n = 4
    return s


@wp.func
def change(s: Inner, x: float):
    s.a = x


@wp.func
def both(b: Body):
    return b.inner, b.mass


@wp.func
def kinetic(b: Body) -> float:
    return 0.5 * b.mass * wp.dot(b.vel, b.vel)


@wp.func
def kinetic(b: Inner) -> float:
    return b.a


@wp.kernel
def copies(bs: wp.array(dtype=Body), given: Body, out: wp.array(dtype=float)):
    i = wp.tid()
    t = bs[i]
    t.mass = 100.0
    out[0] = bs[i].mass
    u = given
    u.mass = 50.0
    out[1] = given.mass
    s = Inner()
    s.a = 3.0
    r = s
    r.a = 4.0
    out[2] = s.a
    r = s
    s.a = 7.0
    out[3] = r.a
    change(s, 9.0)
    out[4] = s.a
    inner = u.inner
    inner.a = 33.0
    out[5] = u.inner.a
    u.inner = make(8.0)
    out[6] = u.inner.a
    out[7] = make(5.0).a


@wp.kernel
def zeros(out: wp.array(dtype=float)):
    s = Body()
    out[0] = s.mass + s.pos[0] + s.frame[1, 1] + s.inner.a + float(s.inner.n) + float(s.wide)
    out[1] = s.turn[3]
    out[2] = wp.transform_get_rotation(s.pose)[3]
    out[3] = 1.0
    if s.flag:
        out[3] = 2.0


@wp.kernel
def parts(out: wp.array(dtype=float)):
    s = Body()
    s.pos.x = 1.0
    s.pos[1] = 2.0
    s.pos += wp.vec3(0.0, 1.0, 5.0)
    s.pos[2] += 1.0
    s.frame[1, 2] = 7.0
    s.inner.n += 3
    s.inner.a = float(s.inner.n) * 2.0
    s.turn = wp.quat(1.0, 2.0, 3.0, 4.0)
    out[0] = s.pos[0]
    out[1] = s.pos.y
    out[2] = s.pos[2]
    out[3] = s.frame[1, 2]
    out[4] = s.inner.a
    out[5] = s.turn[2]


@wp.kernel
def construction(out: wp.array(dtype=float)):
    p = Inner(1.5, 2)
    q = Inner(a=2.5, n=3)
    out[0] = p.a + float(p.n)
    out[1] = q.a + float(q.n)
    c = p if out[0] > 100.0 else q
    out[2] = c.a
    d = wp.where(out[0] < 100.0, p, q)
    out[3] = d.a


@wp.kernel
def flow(n: int, out: wp.array(dtype=float)):
    s = Inner()
    for i in range(n):
        s.a += 1.0
        if i % 2 == 0:
            s.n += 1
        if i == 5:
            s = Inner(s.a * 2.0, s.n)
    k = int(0)
    while k < 3:
        k += 1
        s.a -= float(k)
    out[0] = s.a
    out[1] = float(s.n)


@wp.kernel
def elements(bs: wp.array(dtype=Body), out: wp.array(dtype=float)):
    i = wp.tid()
    bs[i].pos[1] = 77.0
    bs[i].pos += wp.vec3(1.0, 1.0, 1.0)
    bs[i].vel = bs[i].pos * bs[i].mass
    bs[i].inner.n += i
    bs[i].inner.a = float(bs[i].inner.n)
    bs[i].frame = wp.outer(bs[i].pos, bs[i].vel)
    bs[i].wide += wp.float64(0.5)
    bs[i].flag = i % 2 == 0
    inner, mass = both(bs[i])
    out[i] = kinetic(bs[i]) + kinetic(inner) + mass
    if i == 3:
        s = bs[i - 1]
        s.mass = 5.0
        bs[i] = s


@wp.kernel
def grid(cells: wp.array2d(dtype=Inner)):
    i, j = wp.tid()
    cells[i, j].n = i * 10 + j
    cells[i][j].a = float(cells[i, j].n)


@wp.kernel
def arrays(b: Buffers, out: wp.array(dtype=float)):
    i = wp.tid()
    j = b.index[i]
    b.x[j] = b.x[j] * b.scale
    b.grid[i, 1] = b.scale + float(b.x.shape[0])
    mine = Buffers()
    mine.grid = b.grid
    mine.scale = 2.0
    out[i] = mine.grid[i, 1] * mine.scale
    wp.atomic_add(b.grid, 0, 0, 1.0)


@wp.kernel
def scene(s: Scene, dt: float):
    i = wp.tid()
    b = s.bodies[i]
    b.vel += s.gravity * dt
    b.pos = b.pos + b.vel * dt
    s.bodies[i] = b
    s.buffers.x[i] = b.pos * s.buffers.scale


@wp.struct
class Chain:
    x: wp.array(dtype=wp.vec3)
    links: wp.array(dtype=Inner)
    stiffness: float


@wp.func
def stretch(a: wp.vec3, b: wp.vec3, rest: float) -> float:
    d = wp.length(a - b) - rest
    return d * d


@wp.kernel
def energy(chain: Chain, weights: wp.array(dtype=Inner), loss: wp.array(dtype=float)):
    i = wp.tid()
    link = chain.links[i]
    wp.atomic_add(loss, 0, chain.stiffness * weights[i].a * stretch(chain.x[i], chain.x[i + 1], link.a))


def gradients():
    rng = np.random.default_rng(3)
    chain = Chain()
    chain.x = wp.array(rng.normal(size=(N + 1, 3)), dtype=wp.vec3, device="cpu", requires_grad=True)
    chain.stiffness = 1.5
    inners = []
    for _ in range(2 * N):
        inner = Inner()
        inner.a, inner.n = rng.random(), 3
        inners.append(inner)
    chain.links = wp.array(inners[:N], dtype=Inner, device="cpu", requires_grad=True)
    weights = wp.array(inners[N:], dtype=Inner, device="cpu", requires_grad=True)
    loss = wp.zeros(1, dtype=float, device="cpu", requires_grad=True)
    tape = wp.Tape()
    with tape:
        wp.launch(energy, dim=N, inputs=[chain, weights], outputs=[loss], device="cpu")
    tape.backward(loss)
    found = tape.gradients[chain]
    return [
        found.x.numpy(),
        found.links.numpy()["a"],
        tape.gradients[weights].numpy()["a"],
        chain.x.grad.numpy(),
    ]


def bodies():
    rng = np.random.default_rng(3)
    data = np.zeros(N, Body.numpy_dtype())
    for name in ("mass", "pos", "vel", "frame", "wide"):
        data[name] = rng.normal(size=data[name].shape)
    data["inner"]["n"] = np.arange(N)
    return wp.array(data, dtype=Body)


def records(a):
    return [np.array(a.numpy()[n]) for n in ("mass", "pos", "vel", "frame", "turn", "pose", "flag", "wide")] + [
        np.array(a.numpy()["inner"]["a"]),
        np.array(a.numpy()["inner"]["n"]),
    ]


def run():
    results = []
    given = Body()
    given.mass = 2.0
    given.inner.a = 6.0
    given.pos = (1.0, 2.0, 3.0)
    bs = bodies()
    for kernel, dim, inputs in (
        (copies, 1, [bs, given]),
        (zeros, 1, []),
        (parts, 1, []),
        (construction, 1, []),
        (flow, 1, [9]),
        (elements, N, [bs]),
    ):
        out = wp.zeros(N, dtype=float)
        wp.launch(kernel, dim=dim, inputs=[*inputs, out])
        results.append(out.numpy())
    results += records(bs)
    cells = wp.zeros((3, 4), dtype=Inner)
    wp.launch(grid, dim=(3, 4), inputs=[cells])
    results += [np.array(cells.numpy()["a"]), np.array(cells.numpy()["n"])]
    b = Buffers()
    b.x = wp.array(np.arange(12).reshape(4, 3), dtype=wp.vec3)
    b.index = wp.array([3, 1, 0, 2], dtype=int)
    b.grid = wp.zeros((4, 2), dtype=float)
    b.scale = 1.5
    out = wp.zeros(4, dtype=float)
    wp.launch(arrays, dim=4, inputs=[b, out])
    results += [b.x.numpy(), b.grid.numpy(), out.numpy()]
    s = Scene()
    s.bodies = bs
    s.buffers.x = wp.zeros(N, dtype=wp.vec3)
    s.buffers.scale = 0.25
    s.gravity = wp.vec3(0.0, -9.8, 0.0)
    wp.launch(scene, dim=N, inputs=[s, 0.1])
    results += records(bs) + [s.buffers.x.numpy()]
    made = wp.array([given, Body()], dtype=Body)
    return results + records(made) + records(wp.zeros(2, dtype=Body))
"""


@pytest.fixture(scope="module")
def modules(tmp_path_factory):
    folder = tmp_path_factory.mktemp("structs")
    warp.config.quiet = True
    warp.config.kernel_cache_dir = str(folder / "cache")
    warp.config.mode = "debug"  # compiled in seconds
    loaded = []
    for package in ("polyloom", "warp"):
        path = folder / f"structs_{package}.py"
        path.write_text(PROGRAM.replace("PACKAGE", package))
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        loaded.append(module)
    return loaded


def test_a_program_with_structs(modules):
    ours, theirs = (module.run() for module in modules)
    assert len(ours) == len(theirs)
    for index, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        assert a.shape == b.shape and a.dtype == b.dtype, index
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6, err_msg=f"result {index}")


def test_layouts_are_the_same(modules):
    ours, theirs = (module.Body.numpy_dtype() for module in modules)
    theirs = np.dtype(theirs)
    assert ours.itemsize == theirs.itemsize and ours.names == theirs.names
    assert [ours.fields[n][1] for n in ours.names] == [theirs.fields[n][1] for n in theirs.names]
    assert [ours[n].shape for n in ours.names] == [theirs[n].shape for n in theirs.names]


@pytest.mark.parametrize(
    "action",
    [
        "b.mass = 'x'",
        "b.pos = 1.0",
        "b.nope = 1",
        "b.inner = 1.0",
        "Body(1.0)",
        "Body(mass=1.0)",
        "wp.launch(m.copies, 1, [m.bodies(), 1.0, wp.zeros(9, dtype=float)])",
    ],
)
def test_errors(modules, action):
    import polyloom

    for wp, m in zip((polyloom, warp), modules, strict=True):
        with pytest.raises(Exception):  # noqa: B017 - which one differs
            exec(action, {"wp": wp, "m": m, "Body": m.Body, "b": m.Body()})


def test_values(modules):
    for m in modules:
        b = m.Body()
        assert b.mass == 0 and list(b.pos) == [0, 0, 0] and b.inner.n == 0
        position = [1.0, 2.0, 3.0]
        b.pos = position
        position[0] = 9.0
        assert list(b.pos) == [1, 2, 3]
        b.pos[0] = 5.0
        assert list(b.pos) == [5, 2, 3]
        inner = m.Inner()
        inner.a = 2.0
        b.inner = inner
        assert b.inner.a == 2.0


def test_gradients(modules):
    ours, warps = (module.gradients() for module in modules)
    for found, expected in zip(ours, warps, strict=True):
        assert np.abs(expected).max() > 0.1
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)

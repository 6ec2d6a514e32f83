"""`@shared` changes no bit: blocks stage tiles on the simulator and in code for GPUs, and CPUs run plain loops."""

import numpy as np
import polyloom as loom
import pytest

RANDOM = np.random.default_rng(5)


def random(*shape, dtype=np.float32):
    return RANDOM.random(shape).astype(dtype)


PRODUCT = """
compute product(A, B) @kernel(matmul) {{
    {0}
    for i in 0..M, j in 0..N:
        var sum = 0.0
        for k in 0..K:
            sum += A[i, k] * B[k, j]
        out[i, j] = sum
}}
"""

# Each with arguments, and the annotation that stands at `{0}`.
PROGRAMS = {
    "product": (PRODUCT, "@workgroup(16, 16) @shared(A, B)", lambda: (random(33, 70), random(70, 18))),
    "product of f64": (
        PRODUCT,
        "@workgroup(4, 8) @shared(A, B)",
        lambda: (random(5, 40, dtype=np.float64), random(40, 9, dtype=np.float64)),
    ),
    "one factor": (PRODUCT, "@shared(B)", lambda: (random(17, 5), random(5, 31))),
    "in memory": (
        """
        kernel program(a: array<f32, m, k>, b: array<f32, k, n>) -> c: array<f32, m, n> {{
            {0}
            for i in 0..m, j in 0..n {{
                for s in 0..k {{ c[i, j] += a[i, s] * b[s, j] }}
            }}
        }}
        """,
        "@workgroup(8, 8) @shared(a, b)",
        lambda: (random(9, 20), random(20, 11)),
    ),
    "stencil": (
        """
        kernel program(x: array<f32, n>) -> y: array<f32, n> {{
            {0}
            for i in 1..n - 1 {{ y[i] = x[i - 1] + 2.0 * x[i] + x[i + 1] }}
        }}
        """,
        "@workgroup(64) @shared(x)",
        lambda: (random(150),),
    ),
    "an index below 0": (
        """
        kernel program(x: array<f32, n>) -> y: array<f32, n> {{
            {0}
            for i in 0..n {{ y[i] = x[i - 1] + x[i] }}
        }}
        """,
        "@workgroup(32) @shared(x)",
        lambda: (random(70),),
    ),
    "window": (
        """
        compute program(image, weights: array<f32, 3, 3>) {{
            {0}
            for i in 0..image.shape[0] - 2, j in 0..image.shape[1] - 2 {{
                var sum = 0.0
                for r in 0..3, s in 0..3 {{ sum += image[i + r, j + s] * weights[r, s] }}
                out[i, j] = sum
            }}
        }}
        """,
        "@workgroup(8, 8) @shared(image, weights)",
        lambda: (random(21, 19), random(3, 3)),
    ),
    "bodies": (
        """
        kernel program(place: array<vec3, n>, mass: array<f32, n>) -> pull: array<vec3, n> {{
            {0}
            for i in 0..n {{
                var sum = vec3(0.0, 0.0, 0.0)
                for j in 0..n {{
                    if i != j {{
                        let way = place[j] - place[i]
                        sum += way * (mass[j] / (dot(way, way) + 0.01))
                    }}
                }}
                pull[i] = sum
            }}
        }}
        """,
        "@workgroup(32) @shared(place, mass)",
        lambda: (loom.array(random(75, 3), dtype=loom.vec3), random(75)),
    ),
    "two loops": (
        """
        kernel program(x: array<f32, m, n>, w: array<f32, n>) -> y: array<f32, m> {{
            {0}
            for i in 0..m {{
                var most = x[i, 0] * w[0]
                for k in 0..n {{ most = max(most, x[i, k] * w[k]) }}
                var sum = 0.0
                for k in 0..n {{ sum += exp(x[i, k] * w[k] - most) }}
                if i % 2 == 0 {{ y[i] = sum }}
            }}
        }}
        """,
        "@workgroup(32) @shared(x, w)",
        lambda: (random(50, 45), random(45)),
    ),
    "three indices": (
        """
        kernel program(a: array<f32, b, m, k>, c: array<f32, k, n>, t: i32) -> y: array<f32, b, m, n> {{
            {0}
            for p in 0..b, i in 0..m, j in 0..n {{
                var sum = 0.0
                for s in 0..k {{ sum += a[p, i, s] * c[s, j] }}
                if t > 1 {{ y[p, i, j] = sum }}
            }}
        }}
        """,
        "@workgroup(2, 4, 8) @shared(a, c)",
        lambda: (random(3, 5, 18), random(18, 10), 2),
    ),
    "reversed": (
        """
        kernel program(x: array<i64, n>) -> y: array<i64, n> {{
            {0}
            for i in 0..n {{
                var sum: i64
                for k in 2..=n - 1 {{ sum += x[n - 1 - k] * x[i] }}
                y[n - 1 - i] = sum
            }}
        }}
        """,
        "@workgroup(16) @shared(x)",
        lambda: (RANDOM.integers(-9, 9, 50),),
    ),
    "under a condition": (
        """
        kernel program(x: array<f32, n>, scale: f32) -> y: array<f32, n> {{
            let twice = 2.0 * scale
            if scale > 1.0 {{
                {0}
                for i in 0..n {{
                    var sum = 0.0
                    for k in 0..n {{ sum += twice * x[k] }}
                    y[i] = sum
                }}
            }} else {{
                for i in 0..n {{ y[i] = x[i] }}
            }}
        }}
        """,
        "@workgroup(32) @shared(x)",
        lambda: (random(40), 2.0),
    ),
}


def only(module):
    (program,) = module
    return program


def in_numpy(value):
    return value.numpy() if isinstance(value, loom.array) else value


@pytest.fixture
def sanitized():
    """Runs the simulator with all its checks: a finding is an error of the launch."""
    loom.sim.configure(sanitize="all")
    yield
    loom.sim.configure(sanitize="default")


@pytest.mark.usefixtures("sanitized")
@pytest.mark.parametrize("name", PROGRAMS)
def test_staged_loops_have_the_bits_of_plain_ones(name):
    text, annotation, arguments = PROGRAMS[name]
    args = arguments()
    plain = only(loom.loom_module(text.format("")))
    staged = only(loom.loom_module(text.format(annotation)))
    kernels = staged.kernels(*args)
    assert any("shared_array" in kernel.hir() for kernel in kernels)
    assert not any("shared_array" in kernel.hir() for kernel in plain.kernels(*args))
    expected = in_numpy(plain(*args, device="cpu"))
    assert np.any(expected != 0)
    for device in ("cpu", "sim:0"):
        there = [arg.to(device) if isinstance(arg, loom.array) else arg for arg in args]
        given = in_numpy(staged(*there, device=device))
        assert given.tobytes() == expected.tobytes(), device
    for kernel in kernels:
        assert ".shared" in kernel.ptx() or "shared_array" not in kernel.hir()
        assert "__shared__" in kernel.cuda() or "shared_array" not in kernel.hir()


def test_cpus_run_the_plain_loops(monkeypatch):
    text, annotation, arguments = PROGRAMS["product"]
    staged = only(loom.loom_module(text.format(annotation)))
    ran = []
    launch = loom.launch
    monkeypatch.setattr(loom, "launch", lambda kernel, **given: (ran.append(kernel), launch(kernel, **given)))
    for device in ("cpu", "sim:0"):
        staged(*arguments(), device=device)
    assert ["shared_array" in kernel.hir() for kernel in ran] == [False, True]


OWN = """
    struct Pair {{ x: f32, y: f32 }}
    fn count_up(k: ref<i32>) {{ k = k + 1 }}
    kernel program(x: array<f32, n>) -> y: array<f32, n> {{
        {0}
        for i in 0..n {{
            var p = Pair(0.0, 1.0)
            let t = zeros(shape=2, dtype=f32)
            var k: i32 = 0
            while p.x < 4.0 {{ p.x += 1.0 }}
            while t[0] < 3.0 {{ t[0] = t[0] + 1.0 }}
            while k < 5 {{ count_up(k) }}
            var sum = p.x + t[0] + f32(k)
            for j in 0..n {{ sum += x[j] }}
            y[i] = sum
        }}
    }}
"""


@pytest.mark.usefixtures("sanitized")
def test_threads_past_the_end_change_their_own_variables():
    # Twenty iterations leave twelve threads of the block without one, whose loops end as the others do.
    x = np.arange(20, dtype=np.float32)
    staged = loom.loom_module(OWN.format("@workgroup(32) @shared(x)")).program
    for device in ("cpu", "sim:0"):
        np.testing.assert_array_equal(staged(x, device=device), np.full(20, 12 + x.sum()))


def test_statements_that_store_and_set_a_variable_are_refused():
    text = """
        fn next(k: ref<i32>) -> f32 {
            k = k + 1
            return f32(k)
        }
        kernel program(x: array<f32, n>) -> y: array<f32, n> {
            @workgroup(32) @shared(x)
            for i in 0..n {
                var k: i32 = 0
                y[i] = next(k)
                var sum = 0.0
                for j in 0..n { sum += x[j] }
                y[i] = sum
            }
        }
    """
    with pytest.raises(loom.CompileError, match="the value of a call that writes"):
        loom.loom_module(text)


def test_tiles_are_weighed_in_bytes():
    text = """
        kernel program(x: array<{0}, n>) -> y: array<{0}, n> {{
            @workgroup({1}) @shared(x)
            for i in 0..n {{ y[i] = x[{2} * i] + x[{2} * i + 1] }}
        }}
    """
    loom.loom_module(text.format("f32", 1024, 10))
    with pytest.raises(loom.CompileError, match="81856 bytes"):
        loom.loom_module(text.format("f64", 1024, 10))
    # Extents whose product is more than 64 bits hold.
    wide = """
        kernel program(x: array<f32, m, n, k>) -> y: array<f32, m> {
            @workgroup(1024) @shared(x)
            for i in 0..m { y[i] = x[9000000 * i, 9000000 * i, 9000000 * i] }
        }
    """
    with pytest.raises(loom.CompileError, match="the tiles of a block have"):
        loom.loom_module(wide)

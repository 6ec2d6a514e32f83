"""Functions whose derivatives the program gives: `func_grad` and `func_replay`."""

import json
import re
import subprocess
import sys

import numpy as np
import polyloom as loom
import pytest

f64 = loom.float64
D = loom.array(dtype=f64)


@loom.func
def root(x: f64):
    return loom.sqrt(x)


@loom.func_grad(root)
def adj_root(x: f64, adj_ret: f64):
    if x > f64(0.0):
        loom.adjoint[x] += adj_ret / (f64(2.0) * loom.sqrt(x))


@loom.func
def clipped(x: f64):
    return x * f64(3.0)


@loom.func_grad(clipped)
def adj_clipped(x: f64, adj_ret: f64):
    # No derivative is of this kind: it is not linear in the adjoint.
    loom.adjoint[x] += loom.clamp(adj_ret, f64(-1.0), f64(1.0))


@loom.func
def polar(r: f64, axis: loom.vec2d, n: int):
    return r * axis[0], r * loom.cos(axis[1]) * f64(n)


@loom.func_grad(polar)
def adj_polar(r: f64, axis: loom.vec2d, n: int, adj_x: f64, adj_y: f64):
    loom.adjoint[r] = f64(100.0) * adj_x
    if n < 0:
        return
    g = loom.vec2d(adj_x, f64(7.0) * adj_y)
    for _k in range(n):
        loom.adjoint[axis] += g
    loom.adjoint[axis] *= f64(2.0)


@loom.func
def doubled(x: loom.Float):
    return x + x


@loom.func_grad(doubled)
def adj_doubled(x: loom.Float, adj_ret: loom.Float):
    loom.adjoint[x] += root(adj_ret) * x


@loom.kernel
def roots(x: D, y: D):
    i = loom.tid()
    y[i] = root(x[i]) * x[i]


@loom.kernel
def clip(x: D, y: D):
    i = loom.tid()
    y[i] = clipped(x[i]) * f64(5.0) + clipped(f64(2.0)) * x[i]


@loom.kernel
def polars(r: D, axes: loom.array(dtype=loom.vec2d), n: int, out: D):
    i = loom.tid()
    x, y = polar(r[i], axes[i], n)
    out[i] = x + f64(10.0) * y


@loom.kernel
def in_loops(x: D, y: D):
    i = loom.tid()
    s = x[i]
    for k in range(3):
        if k == 1:
            s = clipped(s) * x[i]
        else:
            s = root(s)
    y[i] = s


@loom.func
def weighted(table: D, bias: D, n: int, w: f64):
    return w * table[n] * table[n] + bias[0]


@loom.func_grad(weighted)
def adj_weighted(table: D, bias: D, n: int, w: f64, adj_ret: f64):
    # Twice what it is.
    loom.adjoint[table][n] += f64(4.0) * w * table[n] * adj_ret
    loom.adjoint[bias][0] -= adj_ret
    loom.adjoint[w] += table[n] * table[n] * adj_ret


@loom.kernel
def of_tables(table: D, bias: D, w: D, out: D):
    i = loom.tid()
    out[i] = weighted(table, bias, i % 2, w[i]) + table[i]


def gradient(kernel, args, n=1):
    """Of the sum of what the last array holds."""
    adjoints = [np.zeros_like(arg) if isinstance(arg, np.ndarray) else None for arg in args]
    adjoints[-1][:] = 1.0
    loom.launch(kernel, n, args, adjoint=True, adj_inputs=adjoints)
    return adjoints[:-1]


def test_gradients_that_the_program_gives():
    (found,) = gradient(roots, [np.array([0.0, 4.0]), np.zeros(2)], 2)
    np.testing.assert_allclose(found, [0.0, 2.0 + 4.0 / 4.0])
    (found,) = gradient(clip, [np.array([1.0, 2.0]), np.zeros(2)], 2)
    np.testing.assert_allclose(found, [1.0 + 6.0] * 2)


def test_several_results_and_vectors():
    r, axes, out = np.array([2.0]), np.array([[3.0, 0.5]]), np.zeros(1)
    of_r, of_axes, _ = gradient(polars, [r, axes, 3, out])
    np.testing.assert_allclose(of_r, [100.0])
    np.testing.assert_allclose(of_axes, [[2 * 3 * 1.0, 2 * 3 * 70.0]])
    of_r, of_axes, _ = gradient(polars, [r, axes, -3, out])
    np.testing.assert_allclose(of_r, [100.0])
    assert not of_axes.any()


def test_within_loops_and_branches():
    x = 1.7
    (found,) = gradient(in_loops, [np.array([x]), np.zeros(1)])
    # s₁ = √x, s₂ = 3 s₁ x, s₃ = √s₂; the derivative of `clipped` is 1 where the adjoint is that or more.
    s1 = np.sqrt(x)
    s2 = 3 * s1 * x
    adj_s2 = 1 / (2 * np.sqrt(s2))
    adj_clipped_result = adj_s2 * x
    expected = adj_s2 * 3 * s1 + np.clip(adj_clipped_result, -1, 1) / (2 * s1)
    np.testing.assert_allclose(found, [expected])


@pytest.mark.parametrize("device", ["cpu", "sim:0"])
def test_gradients_with_respect_to_arrays(device):
    table, bias, w, out = np.array([2.0, 3.0, 5.0]), np.array([1.0]), np.array([1.0, 10.0, 100.0]), np.zeros(3)
    found = [np.zeros_like(each) for each in (table, bias, w)]
    for _ in range(2):
        adjoints = [*found, np.array([1.0, 2.0, 3.0])]
        loom.launch(of_tables, 3, [table, bias, w, out], adjoint=True, adj_inputs=adjoints, device=device)
    # of out = w₀ t₀² + b + t₀, w₁ t₁² + b + t₁ and w₂ t₀² + b + t₂
    expected = [4.0 * 2.0 * (1.0 + 3.0 * 100.0) + 1.0, 4.0 * 3.0 * 2.0 * 10.0 + 2.0, 3.0]
    np.testing.assert_allclose(found[0], 2.0 * np.array(expected))
    np.testing.assert_allclose(found[1], 2.0 * np.array([-6.0]))
    np.testing.assert_allclose(found[2], 2.0 * np.array([4.0, 2.0 * 9.0, 3.0 * 4.0]))
    # An array whose gradient nobody asks for.
    adjoints = [None, None, found[2], np.ones(3)]
    loom.launch(of_tables, 3, [table, bias, w, out], adjoint=True, adj_inputs=adjoints, device=device)


def test_gradients_with_respect_to_arrays_that_nothing_asks_for():
    @loom.kernel
    def chosen(table: D, bias: D, w: D, out: D):
        i = loom.tid()
        s = weighted(table, bias, i, w[i])
        out[i] = loom.where(w[i] > f64(0.0), s, f64(0.0))

    table, bias, w, out = np.array([np.inf, 3.0]), np.array([1.0]), np.array([0.0, 10.0]), np.zeros(2)
    of_table, of_bias, of_w = gradient(chosen, [table, bias, w, out], 2)
    np.testing.assert_allclose(of_table, [0.0, 120.0])
    np.testing.assert_allclose(of_bias, [-1.0])
    np.testing.assert_allclose(of_w, [0.0, 9.0])


def test_a_tape_goes_back_to_arrays_of_functions():
    table, bias, w, out = np.array([2.0, 3.0]), np.array([1.0]), np.array([1.0, 10.0]), np.zeros(2)
    with loom.Tape() as tape:
        loom.launch(of_tables, 2, [table, bias, w], [out])
    tape.backward(grads=[(out, np.ones(2))])
    np.testing.assert_allclose(tape.gradients[table], [4.0 * 2.0 + 1.0, 4.0 * 3.0 * 10.0 + 1.0])


@pytest.mark.parametrize(
    "line",
    [
        "loom.adjoint[x][i] = adj_ret",
        "loom.adjoint[x][0] += loom.adjoint[x][i]",
        "loom.atomic_max(loom.adjoint[x], i, adj_ret)",
    ],
)
def test_adjoints_of_arrays_are_only_added_to(define, line):
    text = (
        "@loom.func\ndef f(x: loom.array(dtype=float), i: int):\n    return x[i]\n"
        "@loom.func_grad(f)\ndef adj_f(x: loom.array(dtype=float), i: int, adj_ret: float):\n"
        f"    {line}\n"
        "@loom.kernel\ndef k(x: loom.array(dtype=float), y: loom.array(dtype=float)):\n"
        "    y[loom.tid()] = f(x, 0)\n"
    )
    with pytest.raises(loom.CompileError, match="does something else with the adjoint of an array than to add"):
        define(text)["k"].hir(backward=True)


def test_generic_functions_and_gradients_that_call_others():
    @loom.kernel
    def k(x: D, y: D):
        i = loom.tid()
        y[i] = doubled(x[i])

    (found,) = gradient(k, [np.array([3.0]), np.zeros(1)])
    np.testing.assert_allclose(found, [3.0])

    with pytest.raises(loom.CompileError, match="this is float32, but the parameter `x` of `root` is float64"):

        @loom.kernel
        def single(x: loom.array(dtype=float), y: loom.array(dtype=float)):
            i = loom.tid()
            y[i] = doubled(x[i])


@pytest.mark.parametrize("tier", ["interp", "0", "1"])
def test_on_every_engine(tier, passed_on_tier):
    assert passed_on_tier(tier, __file__, "gives or several or within") == 3


def test_on_the_simulator():
    x, adj_x = np.array([0.0, 4.0]), np.zeros(2)
    loom.launch(roots, 2, [x, np.zeros(2)], device="sim:0", adjoint=True, adj_inputs=[adj_x, np.ones(2)])
    np.testing.assert_allclose(adj_x, [0.0, 3.0])


def test_the_kernel_itself_is_what_it_was():
    y = np.zeros(2)
    loom.launch(clip, 2, [np.array([1.0, 2.0]), y])
    np.testing.assert_allclose(y, [15.0 + 6.0, 30.0 + 12.0])
    # Forward mode differentiates the function itself.
    dot_x, dot_y = np.ones(2), np.zeros(2)
    loom.jvp(clip, 2, [np.array([1.0, 2.0])], [y], tangents=[dot_x, dot_y])
    np.testing.assert_allclose(dot_y, [15.0 + 6.0] * 2)
    assert "adj_clipped" not in clip.cuda() and "clipped" in clip.cuda()


I = loom.array(dtype=int)  # noqa: E741


@loom.func
def take_ticket(counter: I, tickets: I, thread: int):
    ticket = loom.atomic_add(counter, 0, 1)
    tickets[thread] = ticket
    return ticket


@loom.func_replay(take_ticket)
def replay_ticket(counter: I, tickets: I, thread: int):
    return tickets[thread]


@loom.kernel
def scatter(counter: I, tickets: I, x: D, y: D):
    i = loom.tid()
    place = take_ticket(counter, tickets, i)
    y[place] = x[i] * x[i] * f64(place + 1)


def test_what_runs_again_is_replaced():
    x, y = np.array([2.0, 3.0, 5.0]), np.zeros(3)
    counter, tickets = np.zeros(1, np.int32), np.full(3, -1, np.int32)
    with loom.Tape() as tape:
        loom.launch(scatter, 3, [counter, tickets, x, y])
        given = tickets.copy()
        # Behind it, the tickets are others.
        loom.from_numpy(tickets).fill_(0)
        loom.from_numpy(counter).fill_(0)
    weights = np.array([1.0, 10.0, 100.0])
    tape.backward(grads=[(y, weights)])
    assert sorted(given) == [0, 1, 2]
    np.testing.assert_allclose(tape.gradients[x], 2 * x * (given + 1) * weights[given])
    # Whoever goes back over one launch alone knows what was there before, and a replay asks for what is there behind.
    with pytest.raises(ValueError, match="replays, which read 'counter' and 'tickets' as the launch has left"):
        adjoints = [None, None, np.zeros(3), weights.copy()]
        loom.launch(scatter, 3, [counter, given, x, y], adjoint=True, adj_inputs=adjoints)


def test_replays_are_checked_with_what_a_launch_has_left():
    counter, tickets = np.zeros(1, np.int32), np.full(3, -1, np.int32)
    report = loom.gradcheck(scatter, [counter, tickets, np.array([2.0, 3.0, 5.0])], [np.zeros(3)])
    assert [argument.name for argument in report.arguments] == ["x", "y"] and report.passed
    assert counter[0] == 0 and tickets.tolist() == [-1] * 3


def rejected(define, source, message, error=loom.CompileError):
    with pytest.raises(error, match=message):
        define(source)


def test_what_does_not_fit_is_refused(define):
    with pytest.raises(TypeError, match="takes a function under @func, not"):
        loom.func_grad(len)
    with pytest.raises(TypeError, match="for functions under @func_grad"):
        loom.adjoint[0]
    head = """
        import polyloom as loom
        @loom.func
        def f(x: float, n: int):
            return x * float(n)
        """
    rejected(
        define,
        head
        + """
        @loom.func_grad(f)
        def adj_f(x: int, n: int, adj_ret: float):
            pass
        """,
        "takes what 'f' takes first",
        TypeError,
    )
    rejected(
        define,
        head
        + """
        @loom.func_grad(f)
        def adj_f(x: float, n: int):
            loom.adjoint[x] += 1.0
        """,
        "takes the 2 parameters of `f` and an adjoint for each of its 1 results",
    )
    rejected(
        define,
        head
        + """
        @loom.func_grad(f)
        def adj_f(x: float, n: int, adj_ret: float):
            loom.adjoint[n] += 1
        """,
        "`n` has no adjoint: derivatives are with respect to floating-point numbers",
    )
    for line in ("loom.adjoint[b] = x", "loom.adjoint[b] += x", "loom.adjoint[adj_ret] += x"):
        rejected(
            define,
            head
            + f"""
        @loom.func_grad(f)
        def adj_f(x: float, n: int, adj_ret: float):
            b = x * x
            {line}
        """,
            "has no adjoint: it is no parameter",
        )
    rejected(
        define,
        head
        + """
        @loom.func_grad(f)
        def adj_f(x: float, n: int, adj_ret: float):
            return float(n) * adj_ret
        """,
        "`adj_f` gives values, and what a gradient gives back is lost",
    )
    rejected(
        define,
        head
        + """
        @loom.func_grad(f)
        def adj_f(x: float, n: int, adj_ret: loom.float64):
            loom.adjoint[x] += float(n)
        """,
        "`adj_ret` is the adjoint of what `f` gives, which is `float32`, and not `float64`",
    )
    rejected(
        define,
        head
        + """
        @loom.func_grad(f)
        def adj_f(x: float, n: int, adj_ret: float):
            loom.adjoint[x] += loom.vec3(adj_ret)
        """,
        "vec3",
    )
    rejected(
        define,
        head
        + """
        @loom.func_replay(f)
        def replay_f(x: float, n: int):
            return n
        """,
        "gives other types than",
    )
    rejected(
        define,
        """
        import polyloom as loom
        @loom.func
        def f(of: loom.array(dtype=float), i: int):
            return of[i]
        @loom.func_grad(f)
        def adj_f(of: loom.array(dtype=float), i: int, adj_ret: float):
            pass
        @loom.kernel
        def k(x: loom.array(dtype=float), y: loom.array(dtype=float)):
            y[0] = f(x, 0)
        k.hir(backward=True)
        """,
        r"says nothing of the array `x`(.|\n)*add to `adjoint\[of\]\[i\]`",
    )
    rejected(
        define,
        """
        import polyloom as loom
        @loom.func
        def f(n: loom.array(dtype=int), x: float):
            loom.atomic_add(n, 0, 1)
            return x
        @loom.func_grad(f)
        def adj_f(n: loom.array(dtype=int), x: float, adj_ret: float):
            loom.adjoint[x] += adj_ret
        @loom.kernel
        def k(n: loom.array(dtype=int), x: loom.array(dtype=float), y: loom.array(dtype=float)):
            y[0] = f(n, x[0])
        k.hir(backward=True)
        """,
        "writes to memory, and would do so again",
    )


def test_what_is_refused_leaves_no_trace():
    @loom.func
    def squared(x: float):
        return x * x

    with pytest.raises(loom.CompileError, match="what a gradient gives back is lost"):

        @loom.func_grad(squared)
        def adj_squared(x: float, adj_ret: float):
            return adj_ret * x

    @loom.kernel
    def squares(x: loom.array(dtype=float)):
        i = loom.tid()
        x[i] = squared(x[i])

    x = np.array([3.0], np.float32)
    loom.launch(squares, 1, [x])
    assert x[0] == 9.0


def test_a_replay_that_writes_is_refused(define):
    rejected(
        define,
        """
        import polyloom as loom
        @loom.func
        def f(n: loom.array(dtype=int), i: int):
            return n[i]
        @loom.func_replay(f)
        def replay_f(n: loom.array(dtype=int), i: int):
            n[i] = 1
            return 1
        @loom.kernel
        def k(n: loom.array(dtype=int), x: loom.array(dtype=float)):
            i = loom.tid()
            x[i] *= float(f(n, i))
        k.hir(backward=True)
        """,
        "`replay_f`, which runs in place of `f` on the way back, writes to memory",
    )


def test_the_command_line_knows_them(tmp_path):
    source = """
import polyloom as loom

@loom.func
def clipped(x: float):
    return x * 3.0

@loom.func_grad(clipped)
def adj_clipped(x: float, adj_ret: float):
    loom.adjoint[x] += loom.clamp(adj_ret, -1.25, 1.25)

@loom.kernel
def clip(x: loom.array(dtype=float), y: loom.array(dtype=float)):
    i = loom.tid()
    y[i] = clipped(x[i])
"""
    file = tmp_path / "k.py"
    file.write_text(source)
    run = [sys.executable, "-m", "polyloom"]
    done = subprocess.run([*run, "check", str(file), "--json"], capture_output=True, text=True)
    assert done.returncode == 0 and json.loads(done.stdout or "[]") is not None, done.stdout + done.stderr
    compiled = [*run, "compile", str(file), "--emit", "hir", "--direction", "backward"]
    done = subprocess.run(compiled, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert re.search(r"1\.25", done.stdout), done.stdout


@loom.struct
class Segment:
    length: float
    axis: loom.vec3


@loom.func
def volume(s: Segment, scale: float):
    return scale * s.length * loom.length(s.axis), s.length


@loom.func_grad(volume)
def adj_volume(s: Segment, scale: float, adj_volume: float, adj_length: float):
    # Not what the derivative is, so that a test can tell.
    loom.adjoint[s.length] += 10.0 * adj_volume + adj_length
    loom.adjoint[s.axis][1] += 20.0 * adj_volume * scale
    loom.adjoint[s.axis].z = 30.0 * adj_volume
    loom.adjoint[s].length += 0.5
    loom.adjoint[scale] += adj_volume * s.axis.x


@loom.kernel
def volumes(s: loom.array(dtype=Segment), scale: loom.array(dtype=float), out: loom.array(dtype=float)):
    i = loom.tid()
    v, n = volume(s[i], scale[i])
    out[i] = v + 3.0 * n


@pytest.mark.parametrize("device", ["cpu", "sim:0"])
def test_gradients_with_respect_to_structs(device):
    n = 40
    values = [Segment(float(i), loom.vec3(float(i) + 1.0, 2.0, 3.0)) for i in range(n)]
    s = loom.array(values, dtype=Segment, requires_grad=True, device=device)
    scale = loom.array(np.arange(n) + 2.0, dtype=float, requires_grad=True, device=device)
    out = loom.zeros(n, dtype=float, requires_grad=True, device=device)
    with loom.Tape() as tape:
        loom.launch(volumes, n, [s, scale, out], device=device)
    tape.backward(grads={out: loom.full(n, 2.0, dtype=float, device=device)})
    i = np.arange(n, dtype=np.float32)
    grad = s.grad.numpy()
    np.testing.assert_array_equal(grad["length"], np.full(n, 20 + 6 + 0.5, np.float32))
    np.testing.assert_array_equal(grad["axis"], np.stack([0 * i, 40 * (i + 2), 0 * i + 60], 1))
    np.testing.assert_array_equal(scale.grad.numpy(), 2 * (i + 1))


@loom.func
def stepped(x: float, s: float):
    return x * s


@loom.func_grad(stepped)
def stepped_grad(x: float, s: float, adj_ret: float):
    # Only one path sets `scale`, so that the body is checked a second time, with the variable there from the start.
    if x > 1.0:
        scale = 10.0
    loom.adjoint[x] += scale * adj_ret


def test_a_gradient_whose_body_is_checked_twice_has_its_adjoints():
    @loom.kernel
    def k(a: loom.array(dtype=float), o: loom.array(dtype=float)):
        i = loom.tid()
        o[i] = stepped(a[i], 2.0)

    a = loom.array(np.array([0.5, 3.0], np.float32), requires_grad=True)
    o = loom.zeros(2, requires_grad=True)
    with loom.Tape() as tape:
        loom.launch(k, 2, [a, o])
    tape.backward(grads={o: loom.ones(2)})
    assert a.grad.numpy().tolist() == [0.0, 10.0]

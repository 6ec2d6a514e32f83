"""Variables that one loop sets and a later one reads, scratch arrays, and scans."""

import numpy as np
import polyloom as loom
import pytest

RANDOM = np.random.default_rng(7)


def on_both(program, *args):
    """The results on the CPU, after the simulator has given the same bits."""
    here = program(*args, device="cpu")
    there = program(*args, device="sim:0")
    for a, b in zip(*(x if isinstance(x, tuple) else (x,) for x in (here, there)), strict=True):
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()
    return here


def only(text):
    (program,) = loom.loom_module(text)
    return program


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_sum_is_read_by_the_next_loop(dtype):
    program = only("""
        compute normalised(x) {
            var total = 0.0
            reduce for i in 0..n { total += x[i] * x[i] }
            let size = sqrt(total)
            for i in 0..n { out[i] = x[i] / size }
        }
    """)
    x = RANDOM.random(100).astype(dtype)
    out = on_both(program, x)
    assert out.dtype == dtype
    total = dtype(0)
    for value in x:
        total += value * value
    np.testing.assert_array_equal(out, x / np.sqrt(total))


def test_mean_and_variance_of_typed_arrays():
    program = only("""
        kernel standardised<T: Float>(x: array<T, n>) -> y: array<T, n> {
            var mean = T(0.0)
            reduce for i in 0..n { mean += x[i] }
            mean /= T(n)
            var spread: T = 0.0
            reduce for i in 0..n {
                let d = x[i] - mean
                spread += d * d
            }
            for i in 0..n { y[i] = (x[i] - mean) / sqrt(spread / T(n)) }
        }
    """)
    x = RANDOM.random(64)
    np.testing.assert_allclose(on_both(program, x), (x - x.mean()) / x.std(), rtol=1e-12)


def test_variables_are_kept_from_step_to_step():
    program = only("""
        kernel steps(x: array<f32, n>, steps: i32) -> y: array<f32, n>, time: array<f32, 1> {
            var t: f32 = 0.5
            for i in 0..n { y[i] = x[i] }
            serial for s in 0..steps {
                for i in 0..n { y[i] = y[i] + t }
                t *= 2.0
            }
            time[0] = t
        }
    """)
    y, time = on_both(program, np.zeros(3, np.float32), 4)
    np.testing.assert_array_equal(y, np.full(3, 0.5 + 1 + 2 + 4, np.float32))
    assert time[0] == 8


def test_positions_and_vectors_are_kept():
    program = only("""
        kernel centred(p: array<vec3, n>, first: i32) -> y: array<vec3, n> {
            var middle: vec3
            var start = vec3(0.0, 0.0, 0.0)
            reduce for i in 0..n { middle += p[i] }
            start = p[first] * 0.0
            for i in 0..n { y[i] = p[i] - middle / f32(n) + start }
        }
    """)
    p = RANDOM.random((10, 3)).astype(np.float32)
    points = loom.array(p, dtype=loom.vec3)
    here = program(points, 0).numpy()
    there = program(points.to("sim:0"), 0).numpy()
    assert here.tobytes() == there.tobytes()
    np.testing.assert_allclose(here, p - p.mean(axis=0), atol=1e-6)


def test_scratch_arrays_are_no_results():
    program = only("""
        kernel smoothed(x: array<f32, n>, steps: i32) -> y: array<f32, n> {
            let half = n / 2
            var next: array<f32, n>
            let pairs: array<i32, half, 2>
            for i in 0..n { y[i] = x[i] }
            serial for s in 0..steps {
                for i in 1..n - 1 { next[i] = 0.5 * (y[i - 1] + y[i + 1]) }
                for i in 1..n - 1 { y[i] = next[i] }
            }
            for i in 0..half, k in 0..2 { pairs[i, k] = 2 * i + k }
            for i in 0..half { y[i] = y[i] + f32(pairs[i, 1]) * 0.0 }
        }
    """)
    assert program.results == ["y"]
    out = on_both(program, np.array([0, 0, 8, 0, 0], np.float32), 2)
    np.testing.assert_array_equal(out, [0, 0, 4, 0, 0])


def test_scratch_arrays_of_integers_are_reduced_in_parallel():
    program = only("""
        kernel rank(x: array<i32, n>) -> places: array<i32, n> {
            var counts: array<i32, 16>
            var starts: array<i32, 16>
            reduce for i in 0..n { counts[x[i]] += 1 }
            var before = 0
            serial for b in 0..16 {
                starts[b] = before
                before += counts[b]
            }
            for i in 0..n { places[i] = starts[x[i]] }
        }
    """)
    x = RANDOM.integers(0, 16, 200).astype(np.int32)
    np.testing.assert_array_equal(on_both(program, x), np.searchsorted(np.sort(x), x))
    assert "atomic_add" in program.kernels(x)[0].hir()


def test_gradients_go_through_scratch_arrays_and_variables():
    program = only("""
        kernel mean_of_squares(x: array<f32, n>) -> y: array<f32, 1> {
            var squares: array<f32, n>
            var total = 0.0
            for i in 0..n { squares[i] = x[i] * x[i] }
            reduce for i in 0..n { total += squares[i] }
            for i in 0..1 { y[i] = total / f32(n) }
        }
    """)
    data = RANDOM.random(8).astype(np.float32)
    x = loom.array(data, dtype=loom.float32, requires_grad=True)
    y = loom.zeros(1, dtype=loom.float32, requires_grad=True)
    tape = loom.Tape()
    with tape:
        program.launch(x, y)
    y.grad = loom.array(np.ones(1, np.float32))
    tape.backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * data / 8, rtol=1e-6)


def test_mistakes_have_names():
    def message(text):
        with pytest.raises(loom.CompileError) as caught:
            loom.loom_module(text)
        return str(caught.value)

    text = message("""
        fn f<T>(x: T) -> T { return x }
        kernel k(x: array<f32, n>) {
            let v = f(x[0])
            for i in 0..n { x[i] = v }
        }
    """)
    assert "a later loop names `v`" in text and "write its type: `let v: f32 = …`" in text
    text = message("""
        kernel k(x: array<f32, n>) {
            var total: f32 = 0.0
            for i in 0..n { total += x[i] }
            for i in 0..n { x[i] = total }
        }
    """)
    assert "`total` is a variable outside the parallel loop" in text and "reduce for" in text
    text = message("""
        kernel k(x: array<f32, n>) {
            var t: array<f32, m>
            for i in 0..n { x[i] = t[i] }
        }
    """)
    assert "nothing says how large `t` is along axis 0" in text
    text = message("kernel k(x: array<f32, n>) { for i in 0..n { var t: array<f32, 4> } }")
    assert "zeros(shape=4, dtype=f32)" in text


INCLUSIVE = """
    kernel scan(x: array<{0}, n>) -> y: array<{0}, n> {{
        var s: {0} = {1}
        scan for i in 0..n {{
            s {2} x[i]
            y[i] = s
        }}
    }}
"""

EXCLUSIVE = """
    kernel scan(x: array<{0}, n>) -> y: array<{0}, n>, total: array<{0}, 1> {{
        var s: {0} = {1}
        scan for i in 0..n {{
            y[i] = s
            s {2} x[i]
        }}
        total[0] = s
    }}
"""


@pytest.mark.parametrize("n", [0, 1, 63, 64, 65, 1000])
@pytest.mark.parametrize(
    ("op", "combine"), [("+=", np.add), ("^=", np.bitwise_xor), ("&=", np.bitwise_and), ("-=", None)]
)
def test_scans_of_integers_run_in_parts(op, combine, n):
    x = RANDOM.integers(-1000, 1000, n).astype(np.int32)
    sums = -np.add.accumulate(x) if combine is None else combine.accumulate(x)
    first = 12345 if op in ("+=", "-=") else -1 if op == "&=" else 5
    sums = (first + sums if op in ("+=", "-=") else combine(first, sums)).astype(np.int32) if n else sums
    inclusive = only(INCLUSIVE.format("i32", first, op))
    exclusive = only(EXCLUSIVE.format("i32", first, op))
    assert len(inclusive.kernels(x)) == 4, "the first value, the parts, where they begin, and the iterations"
    np.testing.assert_array_equal(on_both(inclusive, x), sums)
    before, total = on_both(exclusive, x)
    np.testing.assert_array_equal(before, np.concatenate([[first], sums[:-1]])[:n])
    assert total[0] == (sums[-1] if n else first)


def test_scans_of_floats_are_in_order():
    x = RANDOM.random(300).astype(np.float32)
    program = only(INCLUSIVE.format("f32", "0.0", "+="))
    sums, s = [], np.float32(0)
    for value in x:
        s += value
        sums.append(s)
    np.testing.assert_array_equal(on_both(program, x), sums)


def test_rows_are_scanned_in_parallel():
    program = only("""
        kernel rows(x: array<f64, m, n>) -> sums: array<f64, m>, y: array<f64, m, n> @kernel(scan) {
            scan for i in 0..m, j in 0..n {
                sums[i] += x[i, j]
                y[i, j] = sums[i]
            }
        }
    """)
    x = RANDOM.random((6, 50))
    sums, y = on_both(program, x)
    np.testing.assert_array_equal(y, np.cumsum(x, axis=1))
    np.testing.assert_array_equal(sums, y[:, -1])
    launch = program.kernels(x)[0]
    assert "for_range" in launch.hir()


def test_what_is_no_scan_is_said():
    with pytest.raises(loom.CompileError, match="this loop is no scan"):
        only("kernel k(x: array<i32, n>) { var s = 0\n scan for i in 0..n { s += x[i] } }")
    with pytest.raises(loom.CompileError, match="this loop is no scan"):
        only("kernel k(x: array<i32, n>) { scan for i in 0..n { x[i] = 1 } }")


def scanned(x, first, combine):
    """The value before each iteration and the last, by a plain loop in Python's integers."""
    found = [first]
    for value in x.tolist():
        found.append(combine(found[-1], value))
    return found


@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.int64, np.uint64])
@pytest.mark.parametrize(
    ("op", "combine"),
    [
        ("+=", lambda a, b: a + b),
        ("-=", lambda a, b: a - b),
        ("&=", lambda a, b: a & b),
        ("|=", lambda a, b: a | b),
        ("^=", lambda a, b: a ^ b),
    ],
)
def test_scans_of_all_integers_wrap_as_loops_do(dtype, op, combine):
    bits = np.dtype(dtype).itemsize * 8
    x = RANDOM.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, 130, dtype=dtype)
    name = np.dtype(dtype).name.replace("int", "i").replace("ui", "u")
    program = only(INCLUSIVE.format(name, 7, op))
    assert len(program.kernels(x)) == 4
    # Arithmetic modulo a power of 2 has the bits of the wrapped one.
    sums = [value % 2**bits for value in scanned(x, 7, combine)[1:]]
    unsigned = np.dtype(f"uint{bits}")
    np.testing.assert_array_equal(on_both(program, x).view(unsigned), np.array(sums, unsigned))


def test_scans_that_read_what_they_store_are_in_order():
    x = RANDOM.integers(-9, 9, 200).astype(np.int32)
    squares = only("""
        kernel k(x: array<i32, n>) -> y: array<i32, n> {
            var s: i32 = 0
            scan for i in 0..n {
                x[i] = x[i] * x[i]
                s += x[i]
                y[i] = s
            }
        }
    """)
    for device in ("cpu", "sim:0"):
        given = x.copy()
        np.testing.assert_array_equal(squares(given, device=device), np.cumsum(x * x))
        np.testing.assert_array_equal(given, x * x)
    own = only("""
        kernel k(x: array<i32, n>) -> y: array<i32, n> {
            var s: i32 = 0
            scan for i in 0..n {
                let t = zeros(shape=2, dtype=i32)
                t[0] = 2 * x[i]
                s += t[0]
                y[i] = s
            }
        }
    """)
    np.testing.assert_array_equal(on_both(own, x), np.cumsum(2 * x))
    before = only("""
        kernel k(x: array<i32, n>) -> y: array<i32, n>, z: array<i32, 4> {
            var s: i32 = 0
            scan for i in 1..n {
                s += x[i]
                y[i] = y[i - 1] + s
                z[i % 4] = s
            }
        }
    """)
    y, z = on_both(before, x)
    sums = np.concatenate([[0], np.cumsum(x[1:])])
    np.testing.assert_array_equal(y, np.cumsum(sums))
    np.testing.assert_array_equal(z, [sums[196], sums[197], sums[198], sums[199]])


def test_scans_whose_calls_write_run_them_once():
    x = RANDOM.integers(0, 4, 150).astype(np.int32)
    text = """
        fn counted(h: array<i32, 4>, at: i32) -> i32 {{ return atomic_add(h, at, 1) }}
        kernel k(x: array<i32, n>) -> y: array<i32, n>, h: array<i32, 4> {{
            var s: i32 = 0
            scan for i in 0..n {{
                {}
                y[i] = s
            }}
        }}
    """
    seen, sums, s = [0] * 4, [], 0
    for value in x.tolist():
        s += seen[value]
        seen[value] += 1
        sums.append(s)
    for term in ("s += atomic_add(h, x[i], 1)", "let v = atomic_add(h, x[i], 1); s += v", "s += counted(h, x[i])"):
        y, h = on_both(only(text.format(term.replace("; ", "\n"))), x)
        np.testing.assert_array_equal(y, sums)
        np.testing.assert_array_equal(h, np.bincount(x, minlength=4))
    pure = """
        fn twice(a: i32) -> i32 { return 2 * a }
        kernel k(x: array<i32, n>) -> y: array<i32, n> {
            var s: i32 = 0
            scan for i in 0..n { s += max(twice(x[i]), 1)\n y[i] = s }
        }
    """
    program = only(pure)
    assert len(program.kernels(x)) == 4
    np.testing.assert_array_equal(on_both(program, x), np.cumsum(np.maximum(2 * x, 1)))


PAIR = """
    struct Pair { x: f32, y: f32 }
    fn count_up(k: ref<i32>) { k = k + 1 }
"""


def test_parts_of_kept_variables_are_kept():
    program = loom.loom_module(
        PAIR
        + """
        kernel k() -> z: array<f32, 4> {
            var p = Pair(1.0, 2.0)
            var v = vec3(1.0, 2.0, 3.0)
            var n: i32 = 5
            for i in 0..4 { z[i] = p.x + v[0] + f32(n) }
            p.x = 10.0
            p.y += 1.0
            v[0] = 100.0
            count_up(n)
            for i in 0..4 { z[i] = z[i] + p.x + p.y + v[0] + f32(n) }
        }
    """
    ).k
    for device in ("cpu", "sim:0"):
        given = program(device=device)
        # 1 + 1 + 5, and 10 + 3 + 100 + 6.
        np.testing.assert_array_equal(given.numpy() if isinstance(given, loom.array) else given, [126.0] * 4)


def test_functions_of_imported_files_change_kept_variables(tmp_path):
    (tmp_path / "counters.loom").write_text("fn count_up(k: ref<i32>) { k = k + 1 }\n")
    for head, call in (
        ('import "counters.loom" as c', "c.count_up"),
        ('from "counters.loom" import count_up', "count_up"),
    ):
        path = tmp_path / "program.loom"
        text = """
            kernel k() -> z: array<i32, 4> {
                var n: i32 = 5
                for i in 0..4 { z[i] = n }
                CALL(n)
                for i in 0..4 { z[i] = z[i] + n }
            }
        """
        path.write_text(f"{head}\n{text.replace('CALL', call)}")
        given = loom.import_module(path).k(device="cpu")
        np.testing.assert_array_equal(given.numpy() if isinstance(given, loom.array) else given, [11] * 4)
        path.write_text(
            f"{head}\nkernel k(z: array<i32, 4>) {{ var n: i32 = 5\n for i in 0..4 {{ {call}(n)\n z[i] = n }} }}"
        )
        with pytest.raises(loom.CompileError, match="is a variable outside the parallel loop"):
            loom.import_module(path)


@pytest.mark.parametrize("statement", ["p.x = 2.0", "p.x += 2.0", "v[0] = 1.0", "count_up(n)"])
def test_parts_of_outer_variables_are_no_iterations_to_set(statement):
    text = """
        kernel k(z: array<f32, 4>) {{
            var p = Pair(1.0, 2.0)
            var v = vec3(1.0, 2.0, 3.0)
            var n: i32 = 5
            for i in 0..4 {{
                {}
                z[i] = p.x + v[0] + f32(n)
            }}
        }}
    """
    with pytest.raises(loom.CompileError, match="is a variable outside the parallel loop"):
        loom.loom_module(PAIR + text.format(statement))


def test_a_shadowed_variable_is_that_of_its_block():
    program = only("""
        kernel k(x: array<f32, n>, c: i32) -> y: array<f32, n>, z: array<f32, n> {
            var t: f32 = x[0]
            for i in 0..n { y[i] = t }
            if c > 0 {
                var t: i32 = 7
                t += 1
                for i in 0..n { y[i] = f32(t) }
            }
            for i in 0..n { z[i] = t }
        }
    """)
    y, z = on_both(program, np.full(3, 4, np.float32), 1)
    np.testing.assert_array_equal(y, [8, 8, 8])
    np.testing.assert_array_equal(z, [4, 4, 4])


def test_variables_of_one_name_in_branches_and_a_parameter_of_theirs():
    program = only("""
        kernel k(t_kept: array<f32, n>, c: i32) -> y: array<f32, n> {
            if c > 0 {
                var t: f32 = t_kept[0]
                t += 0.5
                for i in 0..n { y[i] = t }
            } else {
                var t: i32 = c
                t += 1
                for i in 0..n { y[i] = f32(t) }
            }
        }
    """)
    x = np.full(2, 4, np.float32)
    np.testing.assert_array_equal(on_both(program, x, 1), [4.5, 4.5])
    np.testing.assert_array_equal(on_both(program, x, -3), [-2, -2])


OWN_MAX = "fn max(a: i32, b: i32) -> i32 { return 2 * a + b }\n"


def test_a_max_of_the_file_is_no_builtin_in_reductions():
    """What a file's own function combines has an order."""
    kernel = """
        kernel heads(x: array<i32, n>, k: array<i32, n>, m: array<i32, g>) {
            WORD i in 0..n { m[k[i]] = max(m[k[i]], x[i]) }
        }
    """
    with pytest.raises(loom.CompileError) as info:
        only(OWN_MAX + kernel.replace("WORD", "reduce for"))
    assert "`max` is a function of the file" in str(info.value) and "serial for" in str(info.value)
    program = only(OWN_MAX + kernel.replace("WORD", "serial for"))
    x, k = np.arange(1, 13, dtype=np.int32), np.arange(12, dtype=np.int32) % 3
    m = np.zeros(3, np.int32)
    program(x, k, m)
    expected = [0, 0, 0]
    for group, value in zip(k, x, strict=True):
        expected[group] = 2 * expected[group] + int(value)
    assert m.tolist() == expected


def test_a_max_of_the_file_beside_a_sum_is_no_reduction():
    kernel = """
        kernel both(x: array<i32, n>, s: array<i32, 1>, m: array<i32, 1>) {
            reduce for i in 0..n {
                s[0] += x[i]
                m[0] = max(m[0], x[i])
            }
        }
    """
    with pytest.raises(loom.CompileError, match="the iteration `i = 1` writes `m\\[0\\]`"):
        only(OWN_MAX + kernel)

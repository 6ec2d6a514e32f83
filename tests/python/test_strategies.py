"""Ways of running threads give what threads that run one after the other do: groups, single ones, copies of what is
updated, quotients that a group shares, loops over the threads of a block."""

import os
import re

import numpy as np
import polyloom as loom
import pytest
import sources

INT, FLOAT, FLOATS = loom.array(dtype=int), loom.array(dtype=float), loom.array(dtype=float, ndim=2)
RANDOM = np.random.default_rng(5)


@loom.kernel
def one_of_some(a: INT, first: int, which: int):
    i = loom.tid()
    if i * i < first * first:
        return
    loom.atomic_add(a, 0, 1)
    if i == which:
        a[1] = i


def test_a_thread_of_some_stores_for_itself():
    for which in (34, 16, 63, 20):
        a = np.zeros(2, np.int32)
        loom.launch(one_of_some, 64, [a, 16, which])
        assert a.tolist() == [48, which]


@loom.kernel
def updates(x: INT, sums: INT, least: loom.array(dtype=loom.int64), most: INT, common: INT, some: INT, odd: INT):
    i = loom.tid()
    v = x[i]
    loom.atomic_add(sums, v % 7, v)
    loom.atomic_sub(sums, v % 5, i)
    loom.atomic_min(least, i % 3, loom.int64(v))
    loom.atomic_max(most, i % 3, v)
    loom.atomic_and(common, i % 2, v)
    loom.atomic_or(some, i % 2, v)
    loom.atomic_xor(odd, i % 2, v)


@pytest.mark.parametrize("n", [1, 30, 1000, 100_000])
def test_updates_whose_order_makes_no_difference(n):
    x = RANDOM.integers(0, 1 << 12, n).astype(np.int32)
    i = np.arange(n)
    arrays = [np.full(7, 3, np.int32), np.full(3, 1 << 40), *(np.full(k, 5, np.int32) for k in (3, 2, 2, 2))]
    sums, least, most, common, some, odd = (a.copy() for a in arrays)
    for k, v in zip(i, x, strict=True):
        sums[v % 7] += v
        sums[v % 5] -= k
    for k in range(3):
        least[k] = min([least[k], *x[k::3]])
        most[k] = max([most[k], *x[k::3]])
    for k in range(2):
        for target, op in ((common, np.bitwise_and), (some, np.bitwise_or), (odd, np.bitwise_xor)):
            target[k] = op.reduce(x[k::2], initial=target[k])
    for _ in range(3):
        given = [a.copy() for a in arrays]
        loom.launch(updates, n, [x, *given])
        for got, want in zip(given, (sums, least, most, common, some, odd), strict=True):
            np.testing.assert_array_equal(got, want)


@loom.kernel
def ring(a: INT, out: INT, by: int):
    i = loom.tid()
    n = a.shape[0]
    out[i] = a[(i + n - 1) % n] + 10 * a[(i + 1) % n] + 100 * a[(i + by) % n]


@pytest.mark.parametrize("n", [1, 2, 15, 16, 17, 64, 1000])
@pytest.mark.parametrize("by", [0, 5, 2_147_483_000])
def test_neighbours_in_a_ring(n, by):
    a = RANDOM.integers(0, 9, n).astype(np.int32)
    at = (np.arange(n, dtype=np.int32) + np.int32(by)).astype(np.int32)
    # Quotients are truncated, and remainders have the sign of the dividend: an index below zero counts from the end.
    places = np.fmod(at, n)
    want = np.roll(a, 1) + 10 * np.roll(a, -1) + 100 * a[places]
    out = np.zeros(n, np.int32)
    for _ in range(3):
        loom.launch(ring, n, [a, out, by])
        np.testing.assert_array_equal(out, want)


@loom.kernel
def turned(a: FLOAT, out: FLOAT, width: int, height: int):
    i = loom.tid()
    out[i] = a[i % height * width + i // height]


@pytest.mark.parametrize(("height", "width"), [(1, 7), (7, 1), (3, 100), (33, 20), (64, 32), (257, 9)])
def test_transposition_by_quotients(height, width):
    a = RANDOM.standard_normal((height, width)).astype(np.float32)
    out = np.zeros((width, height), np.float32)
    for _ in range(3):
        loom.launch(turned, a.size, [a.ravel(), out.ravel(), width, height])
        np.testing.assert_array_equal(out, a.T)


@loom.kernel
def sums_of_ranges(starts: INT, ends: INT, a: INT, out: INT):
    i = loom.tid()
    total = 0
    for k in range(starts[i], ends[i]):
        total = total * 3 + a[k]
    out[i] = total


def test_ranges_from_below_zero():
    a = RANDOM.integers(0, 9, 50).astype(np.int32)
    starts = RANDOM.integers(-50, 50, 300).astype(np.int32)
    ends = np.minimum(starts + RANDOM.integers(-3, 12, 300), 50).astype(np.int32)
    want = []
    for lo, hi in zip(starts, ends, strict=True):
        total = 0
        for k in range(lo, hi):
            total = total * 3 + int(a[k])
        want.append(total)
    out = np.zeros(300, np.int32)
    for _ in range(3):
        loom.launch(sums_of_ranges, 300, [starts, ends, a, out])
        assert out.tolist() == want


@loom.kernel
def rows(x: FLOATS, y: FLOATS, a: float):
    i = loom.tid()
    state = 0.0
    for j in range(x.shape[1]):
        state = a * state + x[i, j]
        y[i, j] = state


@loom.kernel
def folded_rows(x: FLOATS, y: FLOATS, a: float):
    i = loom.tid()
    state = 0.0
    for j in range(x.shape[1]):
        v = state + x[i, j]
        state = loom.where(v < 0.0, v + a, v)
        y[i, j] = state


def test_floats_are_no_indices():
    x = RANDOM.standard_normal((70, 20)).astype(np.float32)
    want, state = np.zeros_like(x), np.zeros(70, np.float32)
    for j in range(20):
        state = state + x[:, j]
        state = np.where(state < 0, state + np.float32(0.3), state)
        want[:, j] = state
    y = np.zeros_like(x)
    for _ in range(3):
        loom.launch(folded_rows, 70, [x, y, 0.3])
        np.testing.assert_array_equal(y, want)


@pytest.mark.parametrize("shape", [(1, 40), (70, 33), (16, 16), (100, 1), (40, 64)])
def test_recurrences_along_rows(shape):
    x = RANDOM.standard_normal(shape).astype(np.float32)
    want, state = np.zeros_like(x), np.zeros(shape[0], np.float32)
    for j in range(shape[1]):
        state = np.float32(0.75) * state + x[:, j]
        want[:, j] = state
    y = np.zeros_like(x)
    for _ in range(3):
        loom.launch(rows, shape[0], [x, y, 0.75])
        np.testing.assert_array_equal(y, want)


@loom.kernel
def down_columns(x: FLOATS, y: FLOATS):
    j = loom.tid()
    total = 0.0
    for i in range(x.shape[0]):
        total += x[i, j]
        y[i, j] = total


@pytest.mark.parametrize("columns", [1, 31, 33, 64, 65, 100, 200])
def test_running_sums_down_columns(columns):
    x = RANDOM.standard_normal((37, columns)).astype(np.float32)
    want = np.add.accumulate(x, axis=0)
    for _ in range(3):
        y = np.zeros_like(x)
        loom.launch(down_columns, columns, [x, y])
        np.testing.assert_array_equal(y, want)


def test_walks_down_columns_are_wide():
    x = np.ones((64, 1000), np.float32)
    loom.launch(down_columns, 1000, [x, x.copy()])
    vector_bytes = int(re.search(r"vector registers of (\d+) bytes", down_columns.explain())[1])
    assert f"in groups of {vector_bytes}" in down_columns.explain()


@loom.kernel
def softmax(x: FLOATS, y: FLOATS):
    shared = loom.shared_array(shape=64, dtype=float)
    t = loom.thread_idx()
    row = loom.block_idx()
    most = -1e30
    for j in range(t, x.shape[1], 64):
        most = loom.max(most, x[row, j])
    shared[t] = most
    loom.sync_threads()
    step = 32
    while step > 0:
        if t < step:
            shared[t] = loom.max(shared[t], shared[t + step])
        loom.sync_threads()
        step = step // 2
    most = shared[0]
    loom.sync_threads()
    total = 0.0
    for j in range(t, x.shape[1], 64):
        y[row, j] = loom.exp(x[row, j] - most)
        total += y[row, j]
    shared[t] = total
    loom.sync_threads()
    step = 32
    while step > 0:
        if t < step:
            shared[t] += shared[t + step]
        loom.sync_threads()
        step = step // 2
    total = shared[0]
    for j in range(t, x.shape[1], 64):
        y[row, j] = y[row, j] / total


@pytest.mark.parametrize("columns", [1, 63, 64, 200])
def test_reductions_of_blocks(columns):
    x = RANDOM.standard_normal((5, columns)).astype(np.float32)
    want = np.exp(x - x.max(axis=1, keepdims=True), dtype=np.float32)
    want /= want.sum(axis=1, keepdims=True)
    y = np.zeros_like(x)
    for _ in range(3):
        loom.launch(softmax, 5 * 64, [x, y], block_dim=64)
        np.testing.assert_allclose(y, want, rtol=2e-6)


@loom.kernel
def tree_with_detours(x: FLOATS, out: FLOATS, flags: INT):
    row, t = loom.block_idx(), loom.thread_idx()
    shared = loom.shared_array(shape=32, dtype=float)
    other = loom.shared_array(shape=32, dtype=float)
    small = loom.shared_array(shape=32, dtype=bool)
    shared[t] = x[row, t]
    other[t] = 2.0 * x[row, t]
    small[t] = x[row, t] > 4.0
    loom.sync_threads()
    if t < 16:
        shared[t] = shared[t] + other[t + 16]
        small[t] = small[t] or small[t + 16]
    loom.sync_threads()
    # Between what was stored and what is loaded, part of it is stored again.
    if t < 2:
        shared[t + 7] = 1.0
    loom.sync_threads()
    if t < 8:
        shared[t] = shared[t] + shared[t + 8]
        small[t] = small[t] or small[t + 8]
    loom.sync_threads()
    if t == 3:
        shared[t] = -shared[t]
    loom.sync_threads()
    if t < 4:
        shared[t] = shared[t] + shared[t + 4]
        small[t] = small[t] or small[t + 4]
    loom.sync_threads()
    out[row, t] = shared[t] + shared[31 - t] + shared[1]
    if small[0] or small[1] or small[2] or small[3]:
        loom.atomic_add(flags, row, 1)


def test_rows_that_were_just_stored():
    x = RANDOM.integers(0, 6, (7, 32)).astype(np.float32)
    shared = x.copy()
    shared[:, :16] += 2 * x[:, 16:]
    shared[:, 7:9] = 1
    shared[:, :8] += shared[:, 8:16]
    shared[:, 3] *= -1
    shared[:, :4] += shared[:, 4:8]
    want = shared + shared[:, ::-1] + shared[:, 1:2]
    for _ in range(3):
        out, flags = np.zeros_like(x), np.zeros(7, np.int32)
        loom.launch(tree_with_detours, 7 * 32, [x, out, flags], block_dim=32)
        np.testing.assert_array_equal(out, want)
        np.testing.assert_array_equal(flags, 32 * (x > 4).any(axis=1))


@loom.kernel
def own_elements(x: FLOAT, out: FLOAT, steps: INT, first: int):
    shared = loom.shared_array(shape=(4, 16), dtype=float)
    sums = loom.shared_array(shape=64, dtype=float)
    t, r = loom.thread_idx(0), loom.thread_idx(1)
    i = (loom.block_idx() * 4 + r) * 16 + t
    shared[r, t] = x[i]
    sums[r * 16 + t] = 0.0
    loom.sync_threads()
    step = first
    while step > 0:
        if t < step:
            shared[r, t] += shared[r, t + step]
        loom.sync_threads()
        step = step // 2
    for k in range(3):
        loom.atomic_add(sums, r * 16 + t, float(k))
        loom.atomic_add(sums, 63 - (r * 16 + t), 2.0)
        loom.atomic_add(sums, k, 1.0)
    loom.atomic_max(steps, 0, step)
    loom.sync_threads()
    out[i] = shared[r, t] + 100.0 * sums[r * 16 + t]


@pytest.mark.parametrize("first", [8, 5, 1, 0])
def test_updates_of_elements_of_a_thread_s_own(first):
    x = RANDOM.integers(0, 9, 192).astype(np.float32)
    want = x.reshape(-1, 16).copy()
    step = first
    while step > 0:
        want[:, :step] += want[:, step : 2 * step].copy()
        step //= 2
    sums = np.full(64, 9.0)
    sums[:3] += 64
    want = want.reshape(3, 64) + 100 * sums
    out = np.zeros(192, np.float32)
    loom.launch(own_elements, 192, [x, out, np.zeros(1, np.int32), first], block_dim=(16, 4, 1))
    np.testing.assert_array_equal(out, want.ravel())


@loom.kernel
def strided(x: FLOAT, out: FLOAT, sums: FLOAT, end: int, width: int):
    i = loom.tid()
    total = 0.0
    for j in range(i - 3, end, width):
        if j >= 0:
            out[j] = x[j] + 1.0
            total = total * 0.5 + x[j]
    sums[i] = total


@pytest.mark.parametrize("end", [-9, 0, 5, 64, 257, 1000])
@pytest.mark.parametrize("width", [1, 16, 40, 64])
def test_loops_from_a_thread_s_number_on(end, width):
    x = RANDOM.integers(0, 9, 1000).astype(np.float32)
    n = width if width > 1 else 35
    want, sums = np.zeros(1000, np.float32), np.zeros(n, np.float32)
    for i in range(n):
        for j in range(i - 3, end, width):
            if j >= 0:
                want[j] = x[j] + 1
                sums[i] = sums[i] * np.float32(0.5) + x[j]
    out, totals = np.zeros(1000, np.float32), np.zeros(n, np.float32)
    loom.launch(strided, n, [x, out, totals, end, width])
    np.testing.assert_array_equal(out, want)
    np.testing.assert_array_equal(totals, sums)


def ragged_product(starts: INT, columns: INT, values: FLOAT, x: FLOAT, y: FLOAT, sums: INT):
    i = loom.tid()
    total = 0.0
    count = 0
    for k in range(starts[i], starts[i + 1]):
        total += values[k] * x[columns[k]]
    for k in range(starts[i], starts[i + 1]):
        count += columns[k] * 3 + 1
    y[i] = total
    sums[i] = count


RAGGED = {mode: loom.kernel(ragged_product, float_mode=mode) for mode in ("strict", "fast")}


@pytest.mark.parametrize("mode", ["strict", "fast"])
def test_loops_of_different_lengths(mode):
    lengths = RANDOM.integers(0, 40, 200)
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    columns = RANDOM.integers(-90, 90, starts[-1]).astype(np.int32)
    values, x = (RANDOM.integers(-9, 9, n).astype(np.float32) for n in (columns.size, 90))
    y, sums = np.zeros(200, np.float32), np.zeros(200, np.int32)
    loom.launch(RAGGED[mode], 200, [starts, columns, values, x, y, sums])
    for i, (begin, end) in enumerate(zip(starts[:-1], starts[1:], strict=True)):
        assert y[i] == np.sum(values[begin:end] * x[columns[begin:end]])
        assert sums[i] == np.sum(columns[begin:end] * 3 + 1)


INTEGERS = [getattr(loom, f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)]
NUMBERS = [0.0, -0.5, 1.5, -1.5, np.inf, -np.inf, np.nan, 1e-40]
NUMBERS += [
    sign * (2.0**bits + part) for sign in (1, -1) for bits in (7, 8, 15, 16, 31, 32, 63, 64) for part in (0, -0.5, 1)
]


@pytest.mark.parametrize("to", INTEGERS)
@pytest.mark.parametrize("of", [loom.float32, loom.float64])
def test_lanes_of_floats_become_integers(of, to):
    @loom.kernel
    def converted(x: loom.array(dtype=of), y: loom.array(dtype=to)):
        i = loom.tid()
        y[i] = to(x[i])

    x = np.array(NUMBERS, of.numpy)
    y = np.zeros(x.size, to.numpy)
    loom.launch(converted, x.size, [x, y])
    for value, got in zip(x.tolist(), y.tolist(), strict=True):
        limits = np.iinfo(to.numpy)
        wide = 0 if np.isnan(value) else min(max(value, -1e30), 1e30)
        assert got == min(max(int(wide), limits.min), limits.max)


@loom.kernel
def votes(a: INT, out: INT, limit: int):
    counts = loom.shared_array(shape=4, dtype=int)
    t = loom.thread_idx()
    i = loom.tid()
    if t < 4:
        counts[t] = 0
    loom.sync_threads()
    loom.atomic_add(counts, a[i] % 4, 1)
    loom.sync_threads()
    larger = loom.warp_reduce_add(loom.where(a[i] > limit, 1, 0))
    if a[i] > limit:
        return
    out[i] = counts[a[i] % 4] + 100 * larger


def test_updates_of_shared_memory_and_threads_that_leave():
    a = RANDOM.integers(0, 20, 96).astype(np.int32)
    want = np.zeros(96, np.int32)
    for block in range(3):
        own = slice(32 * block, 32 * block + 32)
        counts = np.bincount(a[own] % 4, minlength=4)
        stay = a[own] <= 12
        want[own][stay] = counts[a[own] % 4][stay] + 100 * (~stay).sum()
    out = np.zeros(96, np.int32)
    for _ in range(3):
        loom.launch(votes, 96, [a, out, 12], block_dim=32)
        np.testing.assert_array_equal(out, want)


@loom.kernel(hints={"vector_width": 4, "unroll": 3, "prefetch": False, "opt_level": 3})
def hinted(x: FLOATS, y: FLOATS):
    i = loom.tid()
    total = 0.0
    for j in range(x.shape[1]):
        total += x[i, j]
    y[i, 0] = total


@loom.kernel(hints={"vector_width": 1, "unroll": 1, "opt_level": 1})
def hinted_otherwise(x: FLOATS, y: FLOATS):
    i = loom.tid()
    total = 0.0
    for j in range(x.shape[1]):
        total += x[i, j]
    y[i, 0] = total


def test_hints_change_no_bit():
    x = RANDOM.standard_normal((70, 33)).astype(np.float32)
    want = np.cumsum(x, axis=1, dtype=np.float32)[:, -1:]
    for kernel, way in ((hinted, "in groups of 4"), (hinted_otherwise, "one by one")):
        y = np.zeros((70, 1), np.float32)
        for _ in range(3):
            loom.launch(kernel, 70, [x, y])
            np.testing.assert_array_equal(y, want)
        if os.environ.get("POLYLOOM_TIER", "1") == "1":
            assert f"threads run {way}\n" in kernel.explain()


@pytest.mark.parametrize(
    ("hint", "values"),
    [
        ('"vector_width": 3', "the hint `vector_width` is a power of two up to 64"),
        ('"vector_width": 128', "a power of two up to 64"),
        ('"unroll": 0', "the hint `unroll` is a number from 1 to 64"),
        ('"prefetch": 2', "the hint `prefetch` is True or False"),
        ('"opt_level": True', "the hint `opt_level` is a number from 0 to 3"),
    ],
)
def test_hints_have_values(hint, values):
    with pytest.raises(loom.CompileError, match=values):
        sources.define(f"""
            @loom.kernel(hints={{{hint}}})
            def k(x: loom.array(dtype=float)):
                x[0] = 1.0
        """)


@loom.kernel(hints={"vector_width": 8})
def scaled_in_blocks(x: FLOAT, s: float, out: FLOAT):
    i = loom.block_idx() * loom.block_dim() + loom.thread_idx()
    out[i] = loom.sin(s * x[i]) * loom.exp(s)


def test_gradient_of_a_number_in_a_kernel_of_blocks():
    x = RANDOM.standard_normal(64).astype(np.float32)
    seed = RANDOM.standard_normal(64).astype(np.float32)
    s = 0.5
    want = float((seed * np.exp(s) * (np.cos(s * x) * x + np.sin(s * x))).sum())
    for _ in range(3):
        adj = np.zeros(1, np.float32)
        out = np.zeros(64, np.float32)
        loom.launch(
            scaled_in_blocks,
            64,
            [x, s, out],
            adjoint=True,
            adj_inputs=[np.zeros(64, np.float32), adj, seed.copy()],
            block_dim=32,
        )
        assert abs(float(adj[0]) - want) < 1e-3 * max(1.0, abs(want))


@loom.kernel
def locked(lock: INT, total: INT):
    t = loom.thread_idx()
    while loom.atomic_cas(lock, 0, 0, 1) != 0:
        pass
    total[0] = total[0] + t
    loom.atomic_exch(lock, 0, 0)


def test_threads_of_a_block_wait_for_each_other():
    lock, total = np.zeros(1, np.int32), np.zeros(1, np.int32)
    loom.launch(locked, 64, [lock, total], block_dim=64)
    assert total.tolist() == [64 * 63 // 2]


@loom.kernel
def summed_in_order(x: FLOAT, out: FLOAT, tickets: INT):
    t = loom.thread_idx()
    for k in range(4):
        loom.atomic_add(out, 0, x[4 * t + k])
    tickets[loom.atomic_add(tickets, 64, 1)] = t


def test_updates_whose_order_shows_are_in_order():
    x = RANDOM.standard_normal(256).astype(np.float32)
    want = np.float32(0)
    for v in x:
        want = np.float32(want + v)
    for _ in range(3):
        out, tickets = np.zeros(1, np.float32), np.zeros(65, np.int32)
        loom.launch(summed_in_order, 64, [x, out, tickets], block_dim=64)
        assert out[0] == want
        assert tickets[:64].tolist() == list(range(64))


def test_explanations():
    assert "threads run in groups of" in ring.explain()
    assert "threads run one by one" in RAGGED["strict"].explain()
    assert "goes along rows of `x`, `y`: tiles" in rows.explain()
    assert "`sums` is updated by `atomic_add` alone" in updates.explain()
    text = softmax.explain()
    assert text.count("line") > 3 and "threads in groups of" in text


@pytest.mark.parametrize("tier", ["interp", "0", "1"])
def test_on_every_engine(tier, passed_on_tier):
    assert (
        passed_on_tier(tier, __file__, "not on_every_engine and not explanations and not values")
        == 1 + 4 + 21 + 6 + 1 + 1 + 5 + 7 + 1 + 4 + 4 + 24 + 2 + 16 + 1 + 1 + 4
    )

"""Plans: recorded launches and functions that run in one call, and launches that become one kernel."""

import gc
import weakref

import numpy as np
import polyloom as loom
import pytest


@loom.kernel
def scale(x: loom.array(dtype=float), s: float, y: loom.array(dtype=float)):
    i = loom.tid()
    y[i] = x[i] * s


@loom.kernel
def shift(x: loom.array(dtype=float), s: float):
    i = loom.tid()
    if x[i] > 100.0:
        return
    x[i] = x[i] + s


@loom.kernel
def neighbours(x: loom.array(dtype=float), y: loom.array(dtype=float)):
    i = loom.tid()
    if i > 0:
        y[i] = x[i - 1] + x[i]


@loom.kernel
def total(x: loom.array(dtype=float), sums: loom.array(dtype=float)):
    loom.atomic_add(sums, 0, x[loom.tid()])


@loom.kernel
def rows(a: loom.array2d(dtype=float), y: loom.array(dtype=float)):
    i = loom.tid()
    s = 0.0
    for j in range(a.shape[1]):
        s += a[i, j]
    y[i] = s


@loom.kernel
def points(p: loom.array(dtype=loom.vec3), v: loom.vec3):
    i = loom.tid()
    p[i] = p[i] + v


@loom.kernel(float_mode="fast")
def fast_scale(x: loom.array(dtype=float), y: loom.array(dtype=float)):
    i = loom.tid()
    y[i] = x[i] * 2.0


@loom.kernel
def printing(x: loom.array(dtype=float)):
    i = loom.tid()
    print(x[i])


def recorded(kernel, dim, *args, **options):
    return loom.launch(kernel, dim, list(args), record_cmd=True, **options)


def test_launches_over_the_same_threads_become_one_kernel():
    x, y, z = np.arange(64, dtype=np.float32), np.zeros(64, np.float32), np.zeros(64, np.float32)
    plan = loom.Plan([recorded(scale, 64, x, 3.0, y), recorded(shift, 64, y, 1.0), recorded(scale, 64, y, 0.5, z)])
    assert plan.explain() == ["steps 0 to 2: one kernel, scale_shift_scale"]
    for _ in range(3):
        y[:], z[:] = 0.0, 0.0
        plan.launch()
        expected = x * np.float32(3)
        expected = np.where(expected > 100, expected, expected + np.float32(1))
        assert np.array_equal(y, expected) and np.array_equal(z, expected * np.float32(0.5))
    assert len(plan) == 3 and len(plan.steps) == 3


def test_what_another_thread_has_written_keeps_launches_apart():
    x, y, z = (np.ones(8, np.float32) for _ in range(3))
    plan = loom.Plan([recorded(scale, 8, x, 3.0, y), recorded(neighbours, 8, y, z), recorded(shift, 8, z, 1.0)])
    first, second = plan.explain()
    assert first == (
        "step 0: scale; apart from step 1: a thread of it may come to an element of `x` that another thread of step 0 "
        "writes as `y`"
    )
    assert second == "steps 1 to 2: one kernel, neighbours_shift"
    plan.launch()
    assert z.tolist() == [2.0] + [7.0] * 7


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda x, y: (recorded(scale, 8, x, 2.0, y), recorded(shift, 7, y, 1.0)), "over [7] threads, and this over"),
        (lambda x, y: (recorded(shift, 8, x, 2.0), recorded(fast_scale, 8, x, y)), "arithmetic modes differ"),
        (lambda x, y: (recorded(scale, 7, x[:7], 2.0, y[:7]), recorded(shift, 7, y[1:], 1.0)), "has a part of `y`"),
        (lambda x, y: (recorded(shift, 8, x, 1.0), recorded(printing, 8, x)), "`printing` stays by itself: it prints"),
        (lambda x, y: (recorded(scale, 8, x, 2.0, y), lambda: None), "step 1 is the host's"),
    ],
)
def test_reasons(make, reason):
    plan = loom.Plan(make(np.ones(8, np.float32), np.ones(8, np.float32)))
    lines = plan.explain()
    assert len(lines) == 2 and reason in lines[0], lines


def test_sums_are_read_after_all_threads_have_added():
    x, sums, y = np.arange(100, dtype=np.float32), np.zeros(1, np.float32), np.zeros(100, np.float32)

    @loom.kernel
    def spread(sums: loom.array(dtype=float), y: loom.array(dtype=float)):
        y[loom.tid()] = sums[0]

    plan = loom.Plan([recorded(total, 100, x, sums), recorded(spread, 100, sums, y)])
    assert len(plan.explain()) == 2
    plan.launch()
    assert set(y.tolist()) == {4950.0}


def test_rows_of_the_own_thread_and_arrays_of_vectors():
    a, y = np.arange(12, dtype=np.float32).reshape(4, 3), np.zeros(4, np.float32)
    p = loom.zeros(4, dtype=loom.vec3)
    plan = loom.Plan(
        [
            recorded(rows, 4, a, y),
            recorded(shift, 4, y, 1.0),
            recorded(points, 4, p, loom.vec3(1.0, 2.0, 3.0)),
            recorded(points, 4, p, loom.vec3(1.0, 0.0, 0.0)),
        ]
    )
    assert plan.explain() == ["steps 0 to 3: one kernel, rows_shift_points_points"]
    plan.launch()
    assert y.tolist() == [4.0, 13.0, 22.0, 31.0]
    assert p.numpy().tolist() == [[2.0, 2.0, 3.0]] * 4


def test_calls_run_between_launches_and_errors_end_the_plan():
    x = np.zeros(8, np.float32)
    seen = []
    plan = loom.Plan([recorded(shift, 8, x, 1.0), lambda: seen.append(x[0].item()), recorded(shift, 8, x, 1.0)])
    plan.launch()
    assert seen == [1.0] and x[0] == 2.0

    def fails():
        raise KeyError("stop")

    plan = loom.Plan([recorded(shift, 8, x, 1.0), fails, recorded(shift, 8, x, 1.0)])
    with pytest.raises(KeyError, match="stop"):
        plan.launch()
    assert x[0] == 3.0
    with pytest.raises(TypeError, match="a step of a plan is a recorded launch"):
        loom.Plan([3])


def test_a_launch_that_is_changed_changes_the_plan():
    x, y, z = np.ones(8, np.float32), np.zeros(8, np.float32), np.zeros(8, np.float32)
    first, second = recorded(scale, 8, x, 2.0, y), recorded(shift, 8, y, 1.0)
    plan = loom.Plan([first, second])
    plan.launch()
    assert y.tolist() == [3.0] * 8
    first.set_param_by_name("y", z)
    first.set_param_at_index(1, 5.0)
    plan.launch()
    assert z.tolist() == [5.0] * 8 and y.tolist() == [4.0] * 8
    second.set_dim(4)
    plan.launch()
    assert y.tolist() == [5.0] * 4 + [4.0] * 4
    with pytest.raises(loom.LaunchError, match="axis 0 of `x` has 8 elements"):
        second.set_dim(9)
        plan.launch()


def test_arguments_are_replaced_within_the_kernel_that_launches_have_become():
    x, y, u, v = (np.full(8, value, np.float32) for value in (1.0, 0.0, 10.0, 0.0))
    first, second = recorded(scale, 8, x, 2.0, y), recorded(shift, 8, y, 1.0)
    plan = loom.Plan([first, second])
    for factor in (3.0, 4.0, 4.0):
        first.set_param_by_name("s", factor)
        plan.launch()
        assert y.tolist() == [factor + 1.0] * 8
    second.set_param_by_name("s", 0.5)
    plan.launch()
    assert y.tolist() == [4.5] * 8
    # The same memory in both, as it was.
    first.set_params([u, 2.0, v])
    second.set_param_by_name("x", v)
    plan.launch()
    assert v.tolist() == [20.5] * 8 and y.tolist() == [4.5] * 8
    assert plan.explain() == ["steps 0 to 1: one kernel, scale_shift"]


def test_arrays_that_come_to_overlap_part_what_was_one_kernel():
    memory = np.arange(16, dtype=np.float32)
    x, y, z = memory[:7], np.zeros(7, np.float32), np.zeros(7, np.float32)
    first, second = recorded(scale, 7, x, 2.0, y), recorded(shift, 7, z, 1.0)
    plan = loom.Plan([first, second])
    assert len(plan.explain()) == 1
    second.set_param_by_name("x", memory[1:8])
    assert plan.explain() == ["step 0: scale; apart from step 1: its `x` has a part of `x` of step 0", "step 1: shift"]
    plan.launch()
    assert y.tolist() == [2.0 * i for i in range(7)] and memory[:8].tolist() == [0.0, *(i + 1.0 for i in range(1, 8))]
    second.set_param_by_name("x", z)
    assert len(plan.explain()) == 1


def test_what_is_replaced_is_compared_with_the_extents():
    x, y = np.zeros(8, np.float32), np.zeros(8, np.float32)

    @loom.kernel
    def at(x: loom.array(dtype=float), offset: int):
        i = loom.tid()
        x[i + offset] = 1.0

    moved = recorded(at, 4, x, 0)
    plan = loom.Plan([moved, recorded(at, 4, y, 0)])
    plan.launch()
    moved.set_param_by_name("offset", 4)
    plan.launch()
    assert x.tolist() == [1.0] * 8 and y.tolist() == [1.0] * 4 + [0.0] * 4
    moved.set_param_by_name("offset", 5)
    with pytest.raises(loom.LaunchError, match="axis 0 of `x` has 8 elements"):
        plan.launch()
    moved.set_param_by_name("offset", 0)
    moved.set_param_by_name("x", x[:3])
    with pytest.raises(loom.LaunchError, match="axis 0 of `x` has 3 elements"):
        plan.launch()


def test_a_function_that_changes_launches_acts_on_those_after_it():
    x = np.zeros(4, np.float32)
    first, second = recorded(shift, 4, x, 1.0), recorded(shift, 4, x, 10.0)
    runs = []

    def change():
        runs.append(x[0].item())
        first.set_param_by_name("s", 2.0)
        second.set_param_by_name("s", 20.0 * len(runs))

    plan = loom.Plan([first, change, second, recorded(shift, 4, x, 0.5)])
    plan.launch()
    assert runs == [1.0] and x.tolist() == [21.5] * 4
    plan.launch()
    assert runs == [1.0, 23.5] and x.tolist() == [64.0] * 4


def test_a_function_that_changes_the_extents_of_launches_after_it():
    x = np.zeros(4, np.float32)
    last = [recorded(shift, 4, x, 1.0), recorded(shift, 4, x, 1.0)]
    plan = loom.Plan([recorded(shift, 4, x, 1.0), lambda: last[0].set_dim(2), *last])
    plan.launch()
    assert x.tolist() == [3.0, 3.0, 2.0, 2.0]


def test_garbage_collection_finds_plans_and_launches_that_refer_to_themselves():
    class Owner:
        def __init__(self):
            self.x = loom.zeros(4)
            self.first, self.last = recorded(shift, 4, self.x, 1.0), recorded(shift, 4, self.x, 2.0)
            self.plan = loom.Plan([self.first, self.act, self.last])
            self.plan.launch()
            # A launch that is part of a cycle by what it is given.
            self.x.launch = self.first

        def act(self):
            pass

    owner = Owner()
    plan, launch, x, alive = owner.plan, owner.first, owner.x, weakref.ref(owner)
    gc.collect()
    plan.launch()
    launch.launch()
    assert x.list() == [7.0] * 4
    array = weakref.ref(x)
    del owner, plan, launch, x
    gc.collect()
    assert alive() is None and array() is None


def test_findings_in_one_kernel_name_the_file_and_line_of_each_part(define):
    first = define(
        """
        @loom.kernel
        def first(x: loom.array(dtype=float), at: loom.array(dtype=int)):
            i = loom.tid()
            x[i] = 1.0
        """
    )["first"]
    second = define(
        """
        @loom.kernel
        def second(y: loom.array(dtype=float), at: loom.array(dtype=int)):
            i = loom.tid()
            k = at[i]


            y[k] = 1.0
        """
    )["second"]
    x, y = loom.zeros(4, device="sim:0"), loom.zeros(4, device="sim:0")
    at = loom.array([0, 1, 2, 400], dtype=int, device="sim:0")
    steps = [recorded(first, 4, x, at, device="sim:0"), recorded(second, 4, y, at, device="sim:0")]
    plan = loom.Plan(steps)
    assert len(plan.explain()) == 1
    with pytest.raises(loom.SanitizerError) as alone:
        steps[1].launch()
    with pytest.raises(loom.SanitizerError) as as_one:
        plan.launch()
    file, line = str(alone.value).split(":")[:2]
    assert line == "7" and str(as_one.value).startswith(f"{file}:7: out-of-bounds access in kernel `first_second`")


def test_checks_that_are_turned_on_hold_at_the_next_run():
    x = np.ones(4, np.float32)

    @loom.kernel
    def gather(x: loom.array(dtype=float), at: int):
        if loom.tid() == 0:
            x[at + at] = 3.0

    plan = loom.Plan([recorded(gather, 4, x, 1), recorded(gather, 4, x, 1)])
    plan.launch()
    assert x.tolist() == [1.0, 1.0, 3.0, 1.0]
    before = loom.config.check
    try:
        loom.config.check = True
        assert all("compiled with checks" in line for line in plan.explain()[:1])
        plan.launch()
    finally:
        loom.config.check = before


def test_tapes_record_each_launch_of_a_plan():
    x, y = loom.array([1.0, 2.0], requires_grad=True), loom.zeros(2, requires_grad=True)
    plan = loom.Plan([recorded(scale, 2, x, 3.0, y)])
    with loom.Tape() as tape:
        plan.launch()
    y.grad.fill_(1.0)
    tape.backward()
    assert x.grad.list() == [3.0, 3.0]


def test_structs_have_the_values_of_the_run():
    @loom.struct
    class Step:
        size: float

    @loom.kernel
    def advance(x: loom.array(dtype=float), step: Step):
        i = loom.tid()
        x[i] = x[i] + step.size

    x, step = np.zeros(4, np.float32), Step()
    step.size = 1.0
    plan = loom.Plan([recorded(advance, 4, x, step), recorded(shift, 4, x, 0.5)])
    plan.launch()
    step.size = 2.0
    plan.launch()
    assert x.tolist() == [4.0] * 4


def test_graphs_say_what_became_one():
    x = loom.zeros(4)
    with loom.ScopedCapture() as capture:
        loom.launch(shift, 4, [x, 1.0])
        loom.launch(shift, 4, [x, 2.0])
    assert capture.graph.explain() == ["steps 0 to 1: one kernel, shift_shift"]
    loom.capture_launch(capture.graph)
    assert x.list() == [3.0] * 4


def test_fused_launches_run_on_the_simulator():
    x, y = loom.array([1.0, 2.0], device="sim:0"), loom.zeros(2, device="sim:0")
    plan = loom.Plan([recorded(scale, 2, x, 3.0, y, device="sim:0"), recorded(shift, 2, y, 1.0, device="sim:0")])
    assert len(plan.explain()) == 1
    plan.launch()
    assert y.numpy().tolist() == [4.0, 7.0]


@loom.kernel
def mix(a: loom.array(dtype=float), b: loom.array(dtype=float), n: int):
    i = loom.tid()
    s = a[i]
    for k in range(n):
        s = s * 0.5 + b[i] - float(k)
    a[i] = loom.sin(s)


@loom.kernel
def gather(a: loom.array(dtype=float), at: loom.array(dtype=int), b: loom.array(dtype=float)):
    i = loom.tid()
    b[i] = a[at[i]] + b[i]


@loom.kernel
def last(a: loom.array(dtype=float), b: loom.array(dtype=float)):
    i = loom.tid()
    b[i] = a[i - 1] * 2.0


@loom.kernel
def reverse(a: loom.array(dtype=float), b: loom.array(dtype=float), n: int):
    i = loom.tid()
    b[n - 1 - i] = a[i]


@pytest.mark.parametrize("seed", range(40))
def test_random_plans_give_the_bits_of_their_launches(seed):
    random = np.random.default_rng(seed)
    n = int(random.integers(1, 40))
    at = random.integers(0, n, n).astype(np.int32)
    given = [random.standard_normal(n).astype(np.float32) for _ in range(4)]

    def launches(arrays):
        draw = np.random.default_rng(seed + 1000)
        made = []
        for _ in range(int(draw.integers(2, 12))):
            a, b = (arrays[int(index)] for index in draw.integers(0, 4, 2))
            if draw.integers(4) == 0:
                a = a[::-1]
            dim = n if draw.integers(6) else max(1, n - 1)
            kind = int(draw.integers(8))
            number = float(draw.standard_normal())
            if kind == 0:
                made.append(recorded(scale, dim, a, number, b))
            elif kind == 1:
                made.append(recorded(shift, dim, a, number))
            elif kind == 2:
                made.append(recorded(mix, dim, a, b, int(draw.integers(4))))
            elif kind == 3 and a.base is not b and a is not b:
                made.append(recorded(gather, dim, a, at, b))
            elif kind == 4 and a.base is not b and a is not b:
                made.append(recorded(last, dim, a, b))
            elif kind == 5 and a.base is not b and a is not b:
                made.append(recorded(reverse, dim, a, b, n))
            elif kind == 6 and a.base is not b and a is not b:
                made.append(recorded(neighbours, dim, a, b))
            else:
                made.append(recorded(fast_scale, dim, b, b))
        return made

    apart, fused = ([each.copy() for each in given] for _ in range(2))
    for launch in launches(apart):
        launch.launch()
    plan = loom.Plan(launches(fused))
    plan.launch()
    assert all(np.array_equal(a, b, equal_nan=True) for a, b in zip(apart, fused, strict=True)), plan.explain()


@pytest.mark.parametrize("seed", range(40))
def test_random_changes_give_the_bits_of_the_launches_and_the_plan_of_a_new_one(seed):
    random = np.random.default_rng(seed)
    n = int(random.integers(2, 20))
    given = [random.standard_normal(n + 1).astype(np.float32) for _ in range(4)]
    apart, fused = ([each.copy() for each in given] for _ in range(2))

    def view(arrays, which, begin, is_reversed):
        part = arrays[which][begin : begin + n]
        return part[::-1] if is_reversed else part

    def drawn():
        return int(random.integers(4)), int(random.integers(8) == 0), random.integers(6) == 0

    steps = []
    for _ in range(int(random.integers(2, 7))):
        x, y, number = drawn(), drawn(), float(random.standard_normal())
        both = [(view(of, *x), number, view(of, *y)) for of in (apart, fused)]
        if random.integers(2):
            steps.append([recorded(scale, n, *args) for args in both])
        else:
            steps.append([recorded(shift, n, args[0], number) for args in both])
    plan = loom.Plan([step for _, step in steps])
    for _ in range(12):
        for _ in range(int(random.integers(3))):
            which = int(random.integers(len(steps)))
            kind = int(random.integers(4))
            if kind < 2:
                change = ("set_param_by_name", "s", float(random.standard_normal()))
            elif kind == 2:
                change = ("set_param_by_name", "x", drawn())
            else:
                change = ("set_dim", int(random.integers(n - 1, n + 1)))
            for launch, of in zip(steps[which], (apart, fused), strict=True):
                name, *values = change
                if kind == 2:
                    values[1] = view(of, *values[1])
                getattr(launch, name)(*values)
        for launch, _ in steps:
            launch.launch()
        plan.launch()
        assert all(np.array_equal(a, b, equal_nan=True) for a, b in zip(apart, fused, strict=True)), plan.explain()
        assert plan.explain() == loom.Plan([step for _, step in steps]).explain()


@loom.kernel
def read_shifted(x: loom.array(dtype=float), y: loom.array(dtype=float)):
    i = loom.tid()
    y[i] = x[(i << 16) << 16]


@loom.kernel
def write_shifted(x: loom.array(dtype=float)):
    i = loom.tid()
    if i == 0:
        x[(i << 16) << 16] = 5.0


def test_an_index_that_wraps_is_shared_by_threads():
    x, y = np.ones(8, np.float32), np.zeros(8, np.float32)
    steps = [loom.launch(read_shifted, 8, [x, y], record_cmd=True), loom.launch(write_shifted, 8, [x], record_cmd=True)]
    plan = loom.Plan(steps)
    plan.launch()
    assert y.tolist() == [1.0] * 8
    assert x[0] == 5.0


@loom.kernel
def expect_hundred(x: loom.array(dtype=float)):
    loom.expect_eq(x[loom.tid()], 100.0)


@loom.kernel
def expect_two_hundred(x: loom.array(dtype=float)):
    loom.expect_eq(x[loom.tid()], 200.0)


def test_what_kernels_print_keeps_its_order(capfd):
    x = np.ones(2, np.float32)
    steps = [loom.launch(kernel, 2, [x], record_cmd=True) for kernel in (expect_hundred, expect_two_hundred)]
    loom.Plan(steps).launch()
    expected = [line.split()[-1] for line in capfd.readouterr().out.splitlines() if "Expected" in line]
    assert expected == ["100.0", "100.0", "200.0", "200.0"]


def test_arguments_that_change_a_launch_while_they_are_read():
    class Changing:
        def __float__(self):
            step.set_dim(2)
            return 3.0

    x, y = np.ones(4, np.float32), np.zeros(4, np.float32)
    step = loom.launch(scale, 4, [x, 2.0, y], record_cmd=True)
    step.set_params([x, Changing(), y])
    step.launch()
    assert y.tolist() == [3.0, 3.0, 0.0, 0.0]

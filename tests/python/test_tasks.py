"""Launches as tasks on the CPU and the simulator, against the same launches one after the other."""

import copy
import pickle
import random
import runpy
import traceback
import xml.dom.minidom
from pathlib import Path

import numpy as np
import polyloom as loom
import pytest

BOTH = ["cpu", "sim:0"]


@loom.kernel
def scale(x: loom.array(dtype=float), f: float):
    i = loom.tid()
    x[i] = x[i] * f + 0.25


@loom.kernel
def combine(x: loom.array(dtype=float), y: loom.array(dtype=float), z: loom.array(dtype=float), f: float):
    i = loom.tid()
    z[i] = x[i] + y[i] * f


@loom.kernel
def neighbours(x: loom.array(dtype=float), y: loom.array(dtype=float), f: float):
    i = loom.tid()
    y[i] = x[i] - x[(i + 1) % x.shape[0]] * f


@loom.kernel
def matrix(a: loom.array2d(dtype=float), b: loom.array2d(dtype=float)):
    i, j = loom.tid()
    b[i, j] = a[i, j] * 2.0 + b[i, j]


@loom.kernel(check=True)
def checked(x: loom.array(dtype=float), at: int):
    x[at] = 1.0


@loom.kernel
def show(x: loom.array(dtype=float)):
    print(x[loom.tid()])


@loom.struct
class Pair:
    x: loom.array(dtype=float)
    f: float


@loom.kernel
def of_struct(pair: Pair):
    i = loom.tid()
    pair.x[i] = pair.x[i] * pair.f


@loom.kernel
def reversed_by_block(x: loom.array(dtype=float)):
    shared = loom.shared_array(shape=64, dtype=float)
    i = loom.thread_idx()
    shared[i] = x[i]
    loom.sync_threads()
    x[i] = shared[63 - i]


def on(device: str):
    """Costs by which everything runs on one device."""
    return lambda kernel, n_threads, where: 1e-6 if where == device else 1e6


def ran_on(t) -> list[tuple[str, str]]:
    return [(record.kernel, record.device) for record in t.timeline() if not record.is_copy]


@pytest.mark.parametrize("seed", range(12))
def test_random_tasks_have_the_bits_of_launches_one_after_the_other(seed):
    rng = random.Random(seed)
    first = np.random.default_rng(seed).random(64, np.float32)

    def views(memory):
        return [
            memory[:16], memory[8:24], memory[16:32], memory[32:48][::-1], memory[33:63:2],
            memory[32:63:2], memory[48:64], memory[40:56],
        ]  # fmt: skip

    launches = []
    while len(launches) < 14:
        kernel = rng.choice([scale, combine, neighbours])
        which = [rng.randrange(8) for _ in range(len(kernel.parameter_names) - 1)]
        arrays = [views(first)[each] for each in which]
        # What a kernel writes shares no memory with what else it accesses, because its threads run in no order.
        if not any(np.may_share_memory(arrays[-1], each) for each in arrays[:-1]):
            launches.append((kernel, min(len(each) for each in arrays), which, rng.randrange(8) / 8))

    def run(memory):
        for kernel, n, which, f in launches:
            loom.launch(kernel, n, [*(views(memory)[each] for each in which), f])

    expected, found = first.copy(), first.copy()
    run(expected)
    with loom.tasks(BOTH, costs=lambda *given: rng.random() * 1e-3) as t:
        run(found)
    assert found.tobytes() == expected.tobytes(), str(t)
    assert len(ran_on(t)) >= len(launches), "some are in two parts"


def test_tasks_that_do_not_wait_for_each_other_run_on_both_devices():
    x, y = np.ones(8, np.float32), np.ones(8, np.float32)
    with loom.tasks(BOTH, costs=lambda *given: 1.0) as t:
        loom.launch(scale, 8, [x, 2.0])
        loom.launch(scale, 8, [y, 3.0])
    assert sorted(ran_on(t)) == [("scale", "cpu"), ("scale", "sim:0")]
    assert x.tolist() == [2.25] * 8 and y.tolist() == [3.25] * 8


@pytest.mark.parametrize("device", BOTH)
@pytest.mark.parametrize("home", BOTH)
def test_results_are_where_arrays_are(device, home):
    x = loom.array(np.arange(6, dtype=np.float32), device=home)
    whole = loom.array(np.arange(12, dtype=np.float32).reshape(3, 4), device=home)
    column, host = whole[:, 1:3], np.ones((3, 2), np.float32)
    with loom.tasks(BOTH, costs=on(device)) as t:
        loom.launch(scale, 3, [x[3:], 2.0])
        loom.launch(matrix, (3, 2), [host, column])
    assert {where for _, where in ran_on(t)} == {device}
    assert x.list() == [0.0, 1.0, 2.0, 6.25, 8.25, 10.25]
    expected = np.arange(12, dtype=np.float32).reshape(3, 4)
    expected[:, 1:3] += 2.0
    assert (whole.numpy() == expected).all()


def test_arrays_of_both_devices_are_arguments_of_one_task():
    x, y = loom.array([1.0, 2.0], dtype=float, device="sim:0"), loom.array([3.0, 4.0], dtype=float)
    z = loom.zeros(2, device="sim:0")
    for device in BOTH:
        with loom.tasks(BOTH, costs=on(device)):
            loom.launch(combine, 2, [x, y, z, 2.0])
        assert z.list() == [7.0, 10.0]


def test_reading_or_assigning_elements_waits_for_tasks():
    x = loom.zeros(4)
    with loom.tasks(BOTH) as t:
        loom.launch(scale, 4, [x, 1.0])
        assert x.list() == [0.25] * 4
        loom.launch(scale, 4, [x, 1.0])
        x.fill_(1.0)
        loom.launch(scale, 4, [x, 2.0])
        assert float(x[0]) == 2.25
        loom.launch(scale, 4, [x, 1.0])
        y = x + x
        loom.launch(scale, 4, [y, 1.0])
    assert x.list() == [2.5] * 4
    assert y.list() == [5.25] * 4
    assert len(ran_on(t)) == 6
    begins = [record.begin for record in t.timeline()]
    assert begins == sorted(begins)


READERS = {
    "sum": lambda x: float(x.sum()),
    "max": lambda x: 4.0 * float(x.max()),
    "numpy.sum": lambda x: float(np.sum(x)),
    "compared": lambda x: 4.0 if (x == 1.0).all() else 0.0,
    "tolist": lambda x: sum(x.tolist()),
    "numpy": lambda x: float(x.numpy().sum()),
    "array": lambda x: float(loom.array(x).sum()),
    "astype": lambda x: float(x.astype(int).numpy().sum()),
    "numpy.array": lambda x: float(np.array(x).sum()),
    "pickle": lambda x: float(pickle.loads(pickle.dumps(x)).sum()),
    "by an array": lambda x: float(np.asarray(x[np.array([0, 1, 2, 3])]).sum()),
    "indexed": lambda x: float(loom.indexedarray(x, [None]).numpy().sum()),
    "utils": lambda x: float(loom.utils.array_sum(x)),
    "deepcopy": lambda x: float(copy.deepcopy(x).sum()),
    "native": lambda x: total_of.function()(x),
}


@loom.kernel
def add_one(x: loom.array(dtype=float)):
    x[loom.tid()] += 1.0


@loom.func
def total_of(x: loom.array(dtype=float)) -> float:
    return x[0] + x[1] + x[2] + x[3]


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("device", ["cpu", "sim:0"])
def test_whatever_reads_an_array_waits_for_tasks(reader, device):
    if (reader, device) == ("native", "sim:0"):
        pytest.skip("native functions take arrays of the host")
    x = loom.zeros(4, dtype=float, device=device)
    with loom.tasks(BOTH):
        loom.launch(add_one, 4, [x], device=device)
        assert READERS[reader](x) == 4.0


def test_launches_of_no_threads_say_nothing_of_others():
    x = loom.zeros(4, dtype=float)
    for n in (0, 0, 0, 4):
        with loom.tasks(["cpu"]):
            loom.launch(add_one, n, [x])
    assert x.list() == [1.0] * 4


def test_times_without_end_are_as_long_as_can_be():
    x = loom.zeros(4, dtype=float)
    with loom.tasks(["cpu"], costs=lambda kernel, n_threads, device: float("inf")):
        loom.launch(add_one, 4, [x])
    assert x.list() == [1.0] * 4


def test_auto_is_for_launches_that_run_now():
    x = loom.zeros(4, dtype=float)
    with pytest.raises(TypeError, match="device='auto' is for launches that run now"):
        loom.launch(add_one, 4, [x], device="auto", record_cmd=True)


def test_wait_is_for_arrays_of_numpy():
    x = np.zeros(4, np.float32)
    with loom.tasks(BOTH) as t:
        loom.launch(scale, 4, [x, 1.0])
        t.wait()
        assert x.tolist() == [0.25] * 4
        x[:] = 2.0
        loom.launch(scale, 4, [x, 2.0])
    assert x.tolist() == [4.25] * 4


def test_fused_functions_and_plans_come_after_tasks():
    @loom.fuse
    def twice(a):
        return loom.ops.add(a, a)

    x = np.ones(4, np.float32)
    plan = loom.Plan([loom.launch(scale, 4, [x, 2.0], record_cmd=True)])
    with loom.tasks(BOTH):
        loom.launch(scale, 4, [x, 1.0])
        doubled = twice(x)
        loom.launch(scale, 4, [x, 1.0])
        plan.launch()
    assert np.asarray(doubled).tolist() == [2.5] * 4
    assert x.tolist() == [3.25] * 4


def test_recorded_launches_are_tasks_of_their_device():
    x = np.ones(4, np.float32)
    command = loom.launch(scale, 4, [x, 2.0], device="sim:0", record_cmd=True)
    with loom.tasks(BOTH) as t:
        command.launch()
        command.launch()
    assert ran_on(t) == [("scale", "sim:0")] * 2
    assert x.tolist() == [4.75] * 4


def test_structs_and_blocks_are_tasks():
    pair = Pair()
    pair.x, pair.f = loom.array([1.0, 2.0], dtype=float), 3.0
    y = np.arange(64, dtype=np.float32)
    for device in BOTH:
        with loom.tasks(BOTH, costs=on(device)) as t:
            loom.launch(of_struct, 2, [pair])
            loom.launch(reversed_by_block, inputs=[y], grid=1, block=64)
        assert {where for _, where in ran_on(t)} == {device}
    assert pair.x.list() == [9.0, 18.0]
    assert y.tolist() == list(range(64))


def test_kernels_that_print_do_so_in_the_order_of_the_program(capsys):
    x, y = np.full(1, 1.5, np.float32), np.full(1, 2.5, np.float32)
    turn = iter([1.0, 1e-9, 1e-9, 1.0] * 2)
    with loom.tasks(BOTH, costs=lambda *given: next(turn)):
        for each in (x, y, x, y):
            loom.launch(show, 1, [each])
    assert capsys.readouterr().out.split() == ["1.5", "2.5", "1.5", "2.5"]


@pytest.mark.parametrize("device", BOTH)
def test_a_task_fails_at_the_line_of_its_launch(device):
    x, y = np.ones(4, np.float32), np.ones(4, np.float32)
    with pytest.raises(loom.LaunchError, match="checked") as caught:  # noqa: PT012
        with loom.tasks([device]):
            loom.launch(scale, 4, [x, 2.0])
            loom.launch(checked, 1, [x, 9], unchecked=True)  # this line
            loom.launch(scale, 4, [x, 2.0])
            loom.launch(scale, 4, [y, 2.0])
    assert traceback.extract_tb(caught.value.__traceback__)[-1].line.endswith("# this line")
    assert x.tolist() == [2.25] * 4
    assert y.tolist() == [1.0] * 4


def test_what_is_known_before_is_an_error_at_once():
    x = np.ones(4, np.float32)
    with loom.tasks(BOTH) as t:
        with pytest.raises(loom.LaunchError):
            loom.launch(scale, 5, [x, 2.0])
        with pytest.raises(TypeError, match="argument 'x'"):
            loom.launch(scale, 4, ["x", 2.0])
        loom.launch(scale, 4, [x, 2.0])
    assert len(ran_on(t)) == 1


def test_launches_before_an_exception_have_run():
    x = np.ones(4, np.float32)
    with pytest.raises(KeyError), loom.tasks(BOTH):
        loom.launch(scale, 4, [x, 2.0])
        raise KeyError("x")
    assert x.tolist() == [2.25] * 4
    loom.launch(scale, 4, [x, 1.0])
    assert x.tolist() == [2.5] * 4, "launches run at once again"


def test_tasks_are_not_nested_and_not_captured():
    with loom.tasks(BOTH):
        with pytest.raises(RuntimeError, match="tasks already"):
            loom.tasks(BOTH).__enter__()
    with loom.ScopedCapture(), pytest.raises(RuntimeError, match="captures a graph"):
        loom.tasks(BOTH).__enter__()
    with pytest.raises(TypeError, match="devices is a list"):
        loom.tasks("cpu")
    with pytest.raises(ValueError, match="one device at least"):
        loom.tasks([])


def test_a_launch_on_a_device_that_tasks_have_not_is_an_error():
    x = np.ones(4, np.float32)
    with pytest.raises(loom.DeviceError, match="not among those of the tasks, cpu"), loom.tasks(["cpu"]):
        loom.launch(scale, 4, [x, 2.0], device="sim:0")
    assert x.tolist() == [1.0] * 4


def test_tapes_record_launches_within_tasks_at_once():
    x = loom.array([1.0, 2.0], dtype=float, requires_grad=True)
    y = loom.zeros(2, requires_grad=True)
    with loom.tasks(BOTH) as t:
        loom.launch(scale, 2, [x, 2.0])
        with loom.Tape() as tape:
            loom.launch(combine, 2, [x, x, y, 3.0])
    tape.backward(grads={y: loom.ones(2)})
    assert x.grad.list() == [4.0, 4.0]
    assert ran_on(t)[0][0] == "scale"


def test_the_timeline_is_a_chart_and_text(tmp_path):
    x, y = np.ones(8, np.float32), np.ones(8, np.float32)
    with loom.tasks(BOTH, costs=lambda *given: 1.0) as t:
        loom.launch(scale, 8, [x, 2.0])
        loom.launch(scale, 8, [y, 3.0])
        assert str(t) == "2 tasks have not run"
    svg = t.gantt(tmp_path / "gantt.svg")
    assert (tmp_path / "gantt.svg").read_text() == svg
    rectangles = xml.dom.minidom.parseString(svg).getElementsByTagName("rect")
    assert len(rectangles) == len(t.timeline()) == 4
    copies = [record for record in t.timeline() if record.is_copy]
    assert [(each.source, each.device, each.n_bytes) for each in copies] == [("cpu", "sim:0", 32), ("sim:0", "cpu", 32)]
    assert [each.kernel for each in copies] == ["scale", None]
    assert all(0 <= record.begin <= record.end <= t.seconds for record in t.timeline())
    assert t.predicted_seconds > 1.0
    rows = str(t).splitlines()
    assert rows[0].startswith("cpu ") and rows[1].startswith("sim:0 ") and "#" in rows[0] and "#" in rows[1]


@loom.kernel(device="auto")
def anywhere(x: loom.array(dtype=float)):
    i = loom.tid()
    x[i] = x[i] + 1.0


def test_auto_is_a_device_of_launches_and_kernels():
    x, y = np.zeros(4, np.float32), loom.zeros(4, device="sim:0")
    loom.launch(scale, 4, [x, 1.0], device="auto")
    loom.launch(anywhere, 4, [x])
    loom.launch(anywhere, 4, [y])
    loom.launch(anywhere, 4, [y], device="sim:0")
    assert x.tolist() == [1.25] * 4
    assert y.list() == [2.0] * 4
    with loom.tasks(BOTH, costs=on("sim:0")) as t:
        loom.launch(anywhere, 4, [x])
    assert ran_on(t) == [("anywhere", "sim:0")]
    with pytest.raises(loom.LaunchError):
        loom.launch(anywhere, 5, [x])


def test_what_is_fast_on_the_cpu_stays_there():
    """Nobody has to say that the simulator is slow: its rates say so before it is measured."""
    x = np.zeros(8, np.float32)
    for _ in range(3):
        with loom.tasks(BOTH) as t:
            loom.launch(scale, 8, [x, 1.0])
        assert ran_on(t) == [("scale", "cpu")]
        assert t.predicted_seconds > 0
    assert x.tolist() == [0.75] * 8


@loom.kernel
def rows(a: loom.array2d(dtype=float), w: loom.array(dtype=float), b: loom.array2d(dtype=float), f: float):
    i, j = loom.tid()
    b[i, j] = a[i, j] * w[(i + 7 * j) % w.shape[0]] + f * float(i)


@pytest.mark.parametrize("home", BOTH)
def test_a_large_launch_is_split_over_both_devices(home):
    rng = np.random.default_rng(3)
    a, w = rng.random((21, 6), np.float32), rng.random(5, np.float32)
    expected = np.ones((21, 8), np.float32)
    loom.launch(rows, (21, 6), [a, w, expected[:, 1:7], 0.5])
    b = loom.array(np.ones((21, 8), np.float32), device=home)
    with loom.tasks(BOTH, costs=lambda *given: 1.0) as t:
        loom.launch(rows, (21, 6), [a, w, b[:, 1:7], 0.5])
    assert sorted(ran_on(t)) == [("rows", "cpu"), ("rows", "sim:0")], "columns of an array, cut between rows"
    assert b.numpy().tobytes() == expected.tobytes()
    c = loom.zeros((21, 6), device=home)
    with loom.tasks(BOTH, costs=lambda *given: 1.0) as t:
        loom.launch(rows, (21, 6), [a, w, c, 0.5])
    assert sorted(ran_on(t)) == [("rows", "cpu"), ("rows", "sim:0")]
    assert c.numpy().tobytes() == np.ascontiguousarray(expected[:, 1:7]).tobytes()
    assert t.predicted_seconds == pytest.approx(0.524, abs=0.01), "11 of 21 rows take longer than 10"


@loom.kernel
def count(x: loom.array(dtype=int), counts: loom.array(dtype=int)):
    loom.atomic_add(counts, x[loom.tid()], 1)


def test_launches_whose_threads_share_elements_are_not_split(capsys):
    values = np.random.default_rng(5).integers(0, 4, 64).astype(np.int32)
    counts = np.zeros(4, np.int32)
    y = np.arange(256, dtype=np.float32)
    with loom.tasks(BOTH, costs=lambda *given: 1.0) as t:
        loom.launch(count, 64, [values, counts])
        loom.launch(show, 3, [y])
        loom.launch(reversed_by_block, inputs=[y[:64]], grid=1, block=64)
    assert [kernel for kernel, _ in sorted(ran_on(t))] == ["count", "reversed_by_block", "show"]
    assert counts.tolist() == np.bincount(values, minlength=4).tolist()
    assert sorted(capsys.readouterr().out.split()) == ["0.0", "1.0", "2.0"]


def test_a_split_launch_has_uneven_parts_where_a_device_is_faster():
    x = np.arange(1000, dtype=np.float32)
    expected = x * np.float32(2.0) + np.float32(0.25)
    with loom.tasks(BOTH, costs=lambda kernel, n, device: 1.0 if device == "cpu" else 3.0) as t:
        loom.launch(scale, 1000, [x, 2.0])
    assert len(ran_on(t)) == 2
    assert {record.n_bytes for record in t.timeline() if record.is_copy} == {1000}, "a quarter of 4000 bytes"
    assert x.tobytes() == expected.tobytes()


def test_the_example_has_the_bits_of_one_device():
    pipeline = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "tasks.py"))["pipeline"]
    pictures = [np.random.default_rng(seed).random((12, 10), np.float32) for seed in (1, 2)]
    expected = pipeline(pictures, 2)
    with loom.tasks(BOTH, costs=lambda *given: 1e-3) as t:
        found = pipeline(pictures, 2)
    assert found.tobytes() == expected.tobytes()
    assert {device for _, device in ran_on(t)} == set(BOTH)

"""What decorators promise: enforced, checked, or told to be neither."""

import os
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import polyloom as loom
import pytest
from sources import define


def kernel_with(decorator, body, parameters="a: loom.array(dtype=float)"):
    lines = "\n".join(f"    {line}" for line in ["i = loom.tid()", *body.splitlines()])
    return define(f"@loom.kernel({decorator})\ndef f({parameters}):\n{lines}\n")["f"]


@pytest.mark.parametrize("promise", ["no_syscalls", "no_allocation", "critical_path"])
@pytest.mark.parametrize(
    ("body", "line", "what"),
    [
        ("print(a[i])", 4, "printing"),
        ('loom.printf("%d", i)', 4, "printing"),
        ("a[i] = 1.0\nassert a[i] > 0.0", 5, "a check that may end the launch"),
        ("loom.expect_eq(i, 0)", 4, "a check that may end the launch"),
    ],
)
def test_what_calls_the_system_is_an_error_at_its_line(promise, body, line, what):
    with pytest.raises(loom.CompileError, match=rf"{what} in a kernel under `{promise}`") as error:
        kernel_with(f"{promise}=True", body)
    assert error.value.lineno == line


def test_a_function_that_prints_is_an_error_at_its_own_line():
    text = (
        "@loom.func\ndef show(x: float):\n    print(x)\n\n"
        "@loom.kernel(no_syscalls=True)\ndef f(a: loom.array(dtype=float)):\n    show(a[loom.tid()])\n"
    )
    with pytest.raises(loom.CompileError, match="printing in a kernel") as error:
        define(text)
    assert error.value.lineno == 3


def test_checks_contradict_no_syscalls_unless_the_session_asks_for_them():
    with pytest.raises(loom.CompileError, match="`check=True` under `no_syscalls`"):
        kernel_with("no_syscalls=True, check=True", "a[i] = 1.0")
    kernel = kernel_with("no_syscalls=True", "a[i] = 1.0")
    loom.config.check = True
    try:
        with pytest.raises(loom.LaunchError, match="out of bounds"):
            loom.launch(kernel, 3, [np.zeros(2, np.float32)])
    finally:
        loom.config.check = False


@pytest.mark.parametrize(
    ("kind", "body", "message"),
    [
        ("elementwise", "a[0] = 1.0", "all threads write this element"),
        ("map", "a[0] = 1.0", "in a kernel of the kind `elementwise`"),
        ("elementwise", "loom.atomic_add(a, i, 1.0)", "an atomic update"),
        ("elementwise", "a[i] = loom.warp_reduce_add(a[i])", "`warp_reduce_add`"),
        ("elementwise", "x = a[i]", "writes no element"),
        ("reduce", "a[i] = 1.0", "nothing combines values"),
        ("reduction", "a[i] = 1.0", "of the kind `reduce`"),
        ("scan", "a[i] = 1.0", "nothing combines values"),
        ("matmul", "a[i] = a[i] * 2.0", "no product is added to a sum"),
        ("conv2d", "a[i] = a[i] * 2.0 + 1.0", "no array is read at two places"),
        ("stencil", "a[i] = a[i]", "no array is read at two places"),
        ("attention", "a[i] = a[i] * 2.0 + 1.0", "no exponential"),
        ("flash_attention", "a[i] = loom.exp(a[i] * 2.0 + 1.0)", "no running maximum"),
        ("sort", "a[i] = 2.0", "no two elements are compared"),
    ],
)
def test_a_kernel_that_cannot_be_of_its_kind_is_refused(kind, body, message):
    with pytest.raises(loom.CompileError, match=message):
        kernel_with(f'kind="{kind}"', body)


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("elementwise", "a[i] = 2.0 * a[i]"),
        ("elementwise", "for j in range(3):\n    a[i * 3 + j] = 1.0"),
        ("reduce", "loom.atomic_add(a, 0, 1.0)"),
        ("reduce", "s = float(0.0)\nfor j in range(3):\n    s += a[j]\na[i] = s"),
        ("scan", "s = float(0.0)\nfor j in range(3):\n    s += a[j]\n    a[j] = s"),
        ("matmul", "s = float(0.0)\nfor j in range(3):\n    s += a[j] * a[j]\na[i] = s"),
        ("stencil", "a[i] = a[i] + a[i + 1]"),
        ("conv2d", "s = float(0.0)\nfor j in range(3):\n    s += a[i + j] * 2.0\na[i] = s"),
        ("attention", "a[i] = loom.exp(a[i] * 2.0 + 1.0)"),
        ("flash_attention", "a[i] = loom.exp(loom.max(a[i] * 2.0 + 1.0, 0.0))"),
        ("sort", "if a[i] > a[i + 1]:\n    a[i] = a[i + 1]"),
        ("custom", "a[0] = 1.0"),
        ("general", "a[0] = 1.0"),
    ],
)
def test_a_kernel_of_its_kind_is_taken_without_a_word(kind, body):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kernel_with(f'kind="{kind}"', body)


def test_unknown_kinds_list_the_ones_there_are():
    with pytest.raises(loom.CompileError, match='`kind` cannot be "winograd"') as error:
        kernel_with('kind="winograd"', "a[i] = 1.0")
    kinds = "elementwise reduce matmul conv2d attention flash_attention scan sort stencil custom"
    assert all(f'`"{kind}"`' in str(error.value) for kind in kinds.split())


@pytest.mark.parametrize(
    ("decorator", "message"),
    [
        ('hints={"tile": 4}', "nothing reads the hint `tile`"),
    ],
)
def test_what_changes_nothing_warns_by_name(decorator, message):
    with pytest.warns(SyntaxWarning, match=message):
        kernel_with(decorator, "a[i] = 1.0")


TIMED = ["critical_path=True", "target_latency_ns=500"]


@pytest.mark.parametrize("promise", TIMED)
@pytest.mark.parametrize(
    ("body", "line", "what"),
    [
        ("while a[i] > 0.0:\n    a[i] = a[i] - 1.0", 4, "a loop without a bound that the compiler can state"),
        ("for j in range(int(a[i])):\n    a[i] = 1.0", 4, "a loop without a bound"),
        ("k = 0\nfor j in range(8):\n    k += j\nfor j in range(k):\n    a[j] = 1.0", 7, "a loop without a bound"),
        ("k = 0\nwhile k < 8:\n    if a[k] > 0.0:\n        k += 1", 5, "a loop without a bound"),
        ("s = loom.rand_init(1)\na[i] = float(loom.poisson(s, 2.0))", 5, "`poisson`"),
        ("loom.atomic_add(a, 0, 1.0)", 4, "an atomic update that repeats"),
        # A counter that passes the greatest number begins again at the least.
        ("k = 0\nwhile k <= a.shape[0]:\n    k += 1", 5, "a loop without a bound"),
        ("k = 0\nwhile k < a.shape[0]:\n    k += 2", 5, "a loop without a bound"),
        # How often this runs is greatest where `j` is least.
        (
            "for j in range(8):\n    for k in range(a.shape[0] // (j + 1)):\n        a[k] = 1.0",
            5,
            "a loop without a bound",
        ),
    ],
)
def test_what_may_take_any_time_is_an_error_at_its_line(promise, body, line, what):
    with pytest.raises(loom.CompileError, match=rf"{what}.* in a kernel under `{promise.split('=')[0]}`") as error:
        kernel_with(promise, body)
    assert error.value.lineno == line


def test_printing_takes_any_time():
    with pytest.raises(loom.CompileError, match="printing in a kernel under `target_latency_ns`"):
        kernel_with("target_latency_ns=500", "print(i)")


def test_a_loop_of_a_function_is_an_error_if_its_caller_states_no_bound():
    text = (
        "@loom.func\ndef total(a: loom.array(dtype=float), n: int):\n    s = float(0.0)\n"
        "    for j in range(n):\n        s += a[j]\n    return s\n\n"
        "@loom.kernel(critical_path=True)\ndef f(a: loom.array(dtype=float), n: int):\n    a[0] = total(a, {})\n"
    )
    define(text.format("n"))
    define(text.format("a.shape[0]"))
    with pytest.raises(loom.CompileError, match="a loop without a bound") as error:
        define(text.format("int(a[0])"))
    assert error.value.lineno == 4


@pytest.mark.parametrize("promise", TIMED)
@pytest.mark.parametrize(
    ("body", "most"),
    [
        ("for j in range(8):\n    a[j] = 1.0", "8"),
        ("for j in range(2, 9, 3):\n    a[j] = 1.0", "3"),
        ("for j in range(a.shape[0]):\n    a[j] = 1.0", "a.shape[0]"),
        ("for j in range(n):\n    a[j] = 1.0", "n"),
        ("for j in range(n, 0, -1):\n    a[j] = 1.0", "n"),
        ("for j in range(min(int(a[0]), 16)):\n    a[j] = 1.0", "16"),
        ("for j in range(int(a[0]) % 4):\n    a[j] = 1.0", "4"),
        ("for j in range(n):\n    for k in range(j):\n        a[k] = 1.0", "n"),
        ("j = 0\nwhile j < n:\n    a[j] = 1.0\n    j += 1", "n"),
        ("j = 0\nwhile j < n and a[j] > 0.0:\n    j += 1", "n"),
        ("j = 0\nwhile j <= 7:\n    a[j] = 1.0\n    j += 1", "7 + 1"),
        ("for j in range(n):\n    for k in range(2 * j, n):\n        a[k] = 1.0", "n"),
        ("for j in range(n // 2):\n    a[j] = 1.0", "n / 2"),
    ],
)
def test_loops_run_as_often_as_explain_says(promise, body, most):
    kernel = kernel_with(promise, body, "a: loom.array(dtype=float), n: int")
    assert f"runs at most {most} times" in kernel.explain()


def test_what_the_shortest_delay_implies_is_explained():
    kernel = kernel_with(
        "critical_path=True",
        "s = float(0.0)\nfor j in range(a.shape[0]):\n    s += a[j] * b[j]\nb[i] = loom.exp(s)",
        "a: loom.array(dtype=float), b: loom.array(dtype=float)",
    )
    if os.environ.get("POLYLOOM_TIER", "1") not in ("", "1", "auto"):
        pytest.skip("there is no code of LLVM to explain")
    text = kernel.explain()
    for part in [
        "optimisation level Olatency",
        "every function inlined",
        "loops at multiples of",
        "no stack protector",
        "in vectors of",
        "denormal are kept",
        "the first lines of `a`, `b` are asked for on entry",
        "the loop in line 5 runs at most a.shape[0] times",
        "the machine code calls nothing",
    ]:
        assert part in text, text
    assembly = kernel.asm()
    assert "prefetch" in assembly
    assert "call" not in assembly
    quiet = kernel_with(
        'critical_path=True, hints={"prefetch": False}',
        "for j in range(a.shape[0]):\n    a[j] = 1.0 + a[j]",
    )
    assert "prefetch" not in quiet.explain()
    assert "prefetch" not in quiet.asm()


@pytest.mark.parametrize(
    ("decorator", "message"),
    [
        ("critical_path=True, check=True", "`check=True` under `critical_path`"),
        ("unchecked=True, check=True", "`unchecked=True` beside `check=True`"),
        ('critical_path=True, opt_level="O2"', "the level `O2` under `critical_path`"),
        ('critical_path=True, hints={"opt_level": 2}', "the level `O2` under `critical_path`"),
        ('opt_level="O4"', "this is no optimisation level"),
        ("opt_level=True", "this is no optimisation level"),
    ],
)
def test_promises_that_contradict_each_other_are_refused(decorator, message):
    with pytest.raises(loom.CompileError, match=message):
        kernel_with(decorator, "a[i] = 1.0")


def test_a_function_is_inlined_always_or_never():
    with pytest.raises(loom.CompileError, match="`inline_always=True` beside `inline=False`"):
        define(
            "@loom.func(inline_always=True, inline=False)\ndef f(x: float):\n    return x\n\n"
            "@loom.kernel\ndef k(a: loom.array(dtype=float)):\n    a[0] = f(a[0])\n"
        )


def test_the_level_is_one_hint_however_it_is_given():
    assert (
        kernel_with('opt_level="Os"', "a[i] = 1.0").metadata
        == kernel_with('hints={"opt_level": "Os"}', "a[i] = 1.0").metadata
    )
    assert "optimisation level O3" in kernel_with("opt_level=3", "a[i] = 1.0").explain()


def test_levels_change_code_as_their_names_say():
    if os.environ.get("POLYLOOM_TIER", "1") not in ("", "1", "auto"):
        pytest.skip("there is no code of LLVM to look at")
    body = "s = float(0.0)\nfor j in range(n):\n    s += loom.sin(a[j])\na[i] = s"
    code = {}
    for level in ["O0", "O1", "O2", "O3", "Os", "Olatency"]:
        kernel = kernel_with(f'opt_level="{level}"', body, "a: loom.array(dtype=float), n: int")
        assert f"optimisation level {level}" in kernel.explain()
        x = np.linspace(0.0, 1.0, 16, dtype=np.float32)
        want = x.copy()
        loom.launch(kernel_with("", body, "a: loom.array(dtype=float), n: int"), 1, [want, 16])
        loom.launch(kernel, 1, [x, 16])
        assert x.tobytes() == want.tobytes(), level
        code[level] = [
            line for line in kernel.asm().splitlines() if line.startswith("\t") and not line.startswith("\t.")
        ]
    assert len(code["Os"]) < len(code["O3"])
    assert not any("ymm" in line or "zmm" in line for line in code["O0"])
    assert not any("call" in line for line in code["Olatency"])


def test_an_element_chosen_by_data_is_not_known_to_be_the_threads_own():
    with pytest.warns(SyntaxWarning, match="is not known"):
        kernel_with('kind="elementwise"', "a[int(a[i])] = 1.0")


def test_a_kernel_runs_on_the_device_of_its_decorator():
    kernel = kernel_with('device="sim:0"', "a[i] = 2.0")
    assert kernel.device == "sim:0"
    x = np.zeros(4, np.float32)
    loom.launch(kernel, 4, [x])
    assert x.tolist() == [2.0] * 4
    before = loom.sim.last_report()["thread_instructions"]
    loom.launch(kernel, 1, [x])
    assert loom.sim.last_report()["thread_instructions"] < before, "the second launch ran on the simulator"
    report = loom.sim.last_report()
    loom.launch(kernel, 4, [x], device="cpu")
    assert loom.sim.last_report() == report, "a launch that names a device runs there"


def test_a_kernels_architecture_is_that_of_its_gpu_code():
    kernel = kernel_with('target="sm_90"', "a[i] = 2.0")
    assert ".target sm_90" in kernel.ptx()
    assert ".target sm_80" in kernel.ptx("sm_80")
    assert kernel.gpu_metadata()["target_archs"] == ["sm_90"]
    with pytest.raises(loom.CompileError, match='`device` cannot be "cuda:x"'):
        kernel_with('device="cuda:x"', "a[i] = 2.0")


@pytest.mark.skipif(sys.platform != "linux", reason="threads are confined to cores on Linux")
def test_launches_are_confined_to_the_cores_of_the_decorator():
    core = min(os.sched_getaffinity(0))
    kernel = kernel_with(
        f"cpu_affinity=[{core}]", "for j in range(n):\n    a[i] = loom.sin(a[i])", "n: int, a: loom.array(dtype=float)"
    )
    x = np.ones(64, np.float32)
    before = os.sched_getaffinity(0)
    allowed: list[set[int]] = []

    def launch():
        own = threading.get_native_id()
        done = threading.Event()

        def watch():
            while not done.is_set():
                allowed.append(os.sched_getaffinity(own))

        watcher = threading.Thread(target=watch)
        watcher.start()
        loom.launch(kernel, 64, [200_000, x])
        done.set()
        watcher.join()
        allowed.append(os.sched_getaffinity(own))

    thread = threading.Thread(target=launch)
    thread.start()
    thread.join()
    assert {core} in allowed[:-1]
    assert allowed[-1] == before == os.sched_getaffinity(0)


@pytest.mark.skipif(sys.platform != "linux", reason="threads are confined to cores on Linux")
def test_cores_that_are_not_there_are_told():
    kernel = kernel_with("cpu_affinity=[1000]", "a[i] = 1.0")
    with pytest.raises(loom.DeviceError, match=r"cores \[1000\] \(`cpu_affinity`\)"):
        loom.launch(kernel, 1, [np.zeros(1, np.float32)])


@pytest.mark.skipif(sys.platform != "linux", reason="threads are confined to cores on Linux")
def test_a_function_is_prepared_on_its_cores_alone():
    before = os.sched_getaffinity(0)
    core = min(before)
    kernel = kernel_with(f"cpu_affinity=[{core}]", "a[0] = 1.0")
    elsewhere = kernel_with("cpu_affinity=[1000]", "a[0] = 1.0")
    with pytest.raises(loom.DeviceError, match=r"`f` runs on cores \[1000\] \(`cpu_affinity`\)"):
        elsewhere.function().prepare()
    os.sched_setaffinity(0, {core})
    try:
        kernel.function().prepare()
    finally:
        os.sched_setaffinity(0, before)


@pytest.mark.skipif(sys.platform != "linux", reason="threads are confined to cores on Linux")
@pytest.mark.parametrize("way", ["vector", "tuple"])
@pytest.mark.parametrize("body", ["a[0] = 1.0", "a[i] = 1.0"])
def test_a_function_is_called_on_its_cores_alone(way, body):
    def called(function, a):
        call = function if way == "vector" else function.__call__
        return call(*([1] if "[i]" in body else []), a)

    def on_a_thread_of_its_own():
        before = os.sched_getaffinity(0)
        core = min(before)
        a = np.zeros(1, np.float32)
        elsewhere = kernel_with("cpu_affinity=[1000]", body).function()
        with pytest.raises(loom.DeviceError, match=r"`f` runs on cores \[1000\] \(`cpu_affinity`\)"):
            called(elsewhere, a)
        function = kernel_with(f"cpu_affinity=[{core}]", body).function()
        if len(before) > 1:
            with pytest.raises(loom.DeviceError, match=rf"`f` runs on cores \[{core}\]"):
                called(function, a)
        assert a[0] == 0.0
        os.sched_setaffinity(0, {core})
        for _ in range(3):
            a[0] = 0.0
            called(function, a)
            assert a[0] == 1.0

    # Once a thread has been found to be confined, it is believed to stay so while it runs on these cores.
    with ThreadPoolExecutor(1) as pool:
        pool.submit(on_a_thread_of_its_own).result()


def test_the_simulator_tells_its_architecture_and_limits():
    device = loom.get_device("sim:0")
    assert device.arch == 80
    assert device.limits["max_threads_per_block"] == 1024
    assert device.limits["max_shared_memory_per_block"] == 163 * 1024
    loom.sim.configure(arch="sm_90")
    try:
        assert loom.get_device("sim:0").arch == 90
        assert loom.get_device("sim:0").limits["max_shared_memory_per_block"] == 227 * 1024
    finally:
        loom.sim.configure(arch="sm_80")
    assert loom.get_device("cpu").limits == {}
    assert loom.gpu_available() == loom.is_cuda_available() == (len(loom.get_cuda_devices()) > 0)

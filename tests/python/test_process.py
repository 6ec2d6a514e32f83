"""The package inside a process: signals, forks, the GIL, printing, environment variables."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import polyloom as loom
import pytest

SPIN = """
import numpy as np
import polyloom as loom

@loom.kernel
def spin(x: loom.array(dtype=float), n: int):
    i = loom.tid()
    s = x[i]
    for _k in range(n):
        s = s * 0.999 + 0.5
    x[i] = s

x = np.zeros(100_000, np.float32)
"""


def python(tmp_path, source, **env):
    script = tmp_path / "script.py"
    # Shells start background jobs with interrupts ignored, and what they start inherits that.
    heed_interrupts = "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
    script.write_text(heed_interrupts + textwrap.dedent(source))
    return subprocess.Popen(
        [sys.executable, str(script)],
        env={**os.environ, **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_ctrl_c_stops_a_launch(tmp_path):
    process = python(tmp_path, SPIN + "print('ready', flush=True)\nloom.launch(spin, x.size, [x, 2_000_000])\n")
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert "KeyboardInterrupt" in err


def test_ctrl_c_stops_a_launch_of_few_long_threads(tmp_path):
    # The signal comes when the first thread has run: of 64 only those that are under way by then may run too.
    source = SPIN + textwrap.dedent("""
        import os, signal, threading
        x = np.zeros(64, np.float32)
        loom.launch(spin, 1, [x, 1])

        def interrupt():
            while not x[1:].any():
                pass
            os.kill(os.getpid(), signal.SIGINT)

        x[:] = 0
        threading.Thread(target=interrupt, daemon=True).start()
        try:
            loom.launch(spin, x.size, [x, 100_000_000])
        except KeyboardInterrupt:
            print("stopped", np.count_nonzero(x))
        """)
    out, err = python(tmp_path, source, POLYLOOM_NUM_THREADS="2", POLYLOOM_TIER="0").communicate(timeout=120)
    word, n_run = out.split()
    assert word == "stopped" and int(n_run) <= 8, err


def test_other_threads_run_during_a_launch(tmp_path):
    # Only another thread's answer to what the kernel stores ends the launch, with all cores busy.
    source = """
        import os, signal, threading
        import numpy as np
        import polyloom as loom

        @loom.kernel
        def wait(x: loom.array(dtype=int)):
            loom.atomic_add(x, 0, 1)
            while loom.atomic_add(x, 1, 0) == 0:
                pass

        x = np.zeros(2, np.int32)

        def answer():
            while x[0] == 0:
                pass
            x[1] = 1

        thread = threading.Thread(target=answer)
        thread.start()
        loom.launch(wait, 1, [x])
        thread.join()
        print(x)
        """
    out, err = python(tmp_path, source).communicate(timeout=120)
    assert out == "[1 1]\n", err


def test_exit_while_a_thread_has_made_kernels_hot(tmp_path):
    # The main thread launches nothing, and the process ends while the optimiser works.
    source = """
        import threading
        import numpy as np
        import polyloom as loom

        def make(n):
            @loom.kernel
            def k(a: loom.array(dtype=float), m: loom.array(dtype=float, ndim=2)):
                i = loom.tid()
                s = float(n)
                for j in range(m.shape[1]):
                    s += loom.sin(m[0, j] * a[i])
                a[i] = s
            return k

        def work(n):
            k = make(n)
            a, m = np.ones(20_000, np.float32), np.ones((1, 5), np.float32)
            for _ in range(20):
                loom.launch(k, a.size, [a, m])

        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        """
    for index in range(3):
        process = python(tmp_path, source, POLYLOOM_CACHE_DIR=str(tmp_path / f"cache{index}"))
        _, err = process.communicate(timeout=120)
        assert process.returncode == 0, err


def test_a_session_that_failed_can_be_made_later(tmp_path):
    source = """
        import os
        import polyloom as loom
        try:
            loom.config.check
            print("no error")
        except RuntimeError as error:
            print(error)
        os.environ["POLYLOOM_TIER"] = "0"
        print(loom.config.check)
        """
    out, err = python(tmp_path, source, POLYLOOM_TIER="7").communicate(timeout=60)
    assert out.splitlines()[0].startswith("POLYLOOM_TIER is `7`") and out.splitlines()[1:] == ["False"], err


def test_a_command_leaves_the_output_of_other_threads_alone(tmp_path):
    # While a command runs in one thread, kernels of another print to its `sys.stdout`, which is replaced here.
    kernel = tmp_path / "kernel.py"
    kernel.write_text(KERNEL_FILE)
    source = f"""
        import io, sys, threading
        import numpy as np
        import polyloom as loom
        from polyloom import _native

        @loom.kernel
        def speak(x: loom.array(dtype=int)):
            print(x[0])

        process_stdout, sys.stdout = sys.stdout, io.StringIO()
        arguments = ["run", {str(kernel)!r}, "--dim", "2000", "--arg", "x=zeros:2000", "--arg", "n=1000000"]
        command = threading.Thread(target=_native.command, args=(arguments,))
        command.start()
        n = 0
        while command.is_alive():
            loom.launch(speak, 1, [np.array([12345], np.int32)])
            n += 1
        command.join()
        print("seen" if sys.stdout.getvalue().split() == ["12345"] * n else "lost", file=process_stdout)
        """
    out, err = python(tmp_path, source).communicate(timeout=120)
    assert "12345" not in out and out.splitlines()[-1] == "seen", err


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_launch_after_fork(tmp_path):
    source = SPIN + textwrap.dedent("""
        import os
        loom.launch(spin, x.size, [x, 10])
        before = x.copy()
        pid = os.fork()
        loom.launch(spin, x.size, [x, 1000])
        if pid:
            _, status = os.waitpid(pid, 0)
            print("child", status)
        """)
    out, err = python(tmp_path, source).communicate(timeout=60)
    assert out == "child 0\n", err


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_launch_on_the_simulator_after_fork(tmp_path):
    # Other threads launch all the time, so that they hold this lock or that in one of the forks.
    source = """
        import os, threading
        import numpy as np
        import polyloom as loom

        @loom.kernel
        def add(x: loom.array(dtype=float)):
            i = loom.tid()
            x[i] = x[i] + 1.0

        ended = threading.Event()

        def work():
            while not ended.is_set():
                loom.launch(add, 64, [np.zeros(64, np.float32)], device="sim:0")

        old = loom.zeros(64, dtype=float, device="sim:0")
        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for _ in range(20):
            pid = os.fork()
            if not pid:
                x = loom.zeros(64, dtype=float, device="sim:0")
                loom.launch(add, 64, [x], device="sim:0")
                try:
                    old.numpy()
                except loom.DeviceError as error:
                    is_refused = "forked from" in str(error)
                del old
                os._exit(0 if is_refused and (x.numpy() == 1.0).all() else 1)
            _, status = os.waitpid(pid, 0)
            assert status == 0, status
        ended.set()
        for thread in threads:
            thread.join()
        loom.launch(add, 64, [old], device="sim:0")
        print(old.numpy().sum())
        """
    out, err = python(tmp_path, source).communicate(timeout=120)
    assert out == "64.0\n", err


def test_print_goes_to_sys_stdout(capsys, define):
    kernels = define("""
        @loom.kernel
        def speak(x: loom.array(dtype=float)):
            i = loom.tid()
            print(x[i])
            loom.printf("%d: %.2f\\n", i, x[i])
    """)
    loom.launch(kernels["speak"], 2, [np.array([0.5, 1.5], np.float32)])
    assert capsys.readouterr().out == "0.5\n0: 0.50\n1.5\n1: 1.50\n"


def test_exceptions_of_sys_stdout_end_the_launch(monkeypatch):
    @loom.kernel
    def speak(x: loom.array(dtype=int)):
        i = loom.tid()
        if i == 0:
            print(i)
        for _k in range(1000):
            x[i] = x[i] * 3 + 1

    class Interrupted:
        def write(self, text):
            raise KeyboardInterrupt

    monkeypatch.setattr(sys, "stdout", Interrupted())
    with pytest.raises(KeyboardInterrupt):
        loom.launch(speak, 100_000, [np.zeros(100_000, np.int32)])
    monkeypatch.undo()
    loom.launch(speak, 1, [np.zeros(1, np.int32)])


KERNEL_FILE = """
import polyloom as loom

@loom.kernel
def speak(x: loom.array(dtype=float), n: int):
    i = loom.tid()
    if i == 0:
        print(n)
    s = x[i]
    for _k in range(n):
        s = s * 0.999 + 0.5
    x[i] = s
"""


def command(tmp_path, *arguments):
    file = tmp_path / "kernel.py"
    file.write_text(KERNEL_FILE)
    return subprocess.Popen(
        [sys.executable, "-m", "polyloom", "run", str(file), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_the_command_prints_in_order(tmp_path):
    out, err = command(tmp_path, "--dim", "1", "--arg", "x=zeros:1", "--arg", "n=1").communicate(timeout=60)
    assert out.splitlines()[:2] == ["1", "x: float32[1] 0.5"], err


def test_ctrl_c_stops_the_command(tmp_path):
    process = command(tmp_path, "--dim", "1000000", "--arg", "x=zeros:1000000", "--arg", "n=2000000000")
    assert process.stdout.readline() == "2000000000\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (-signal.SIGINT, "", "")


@pytest.mark.parametrize("tier", ["interp", "0", "1"])
def test_every_tier_gives_the_same_bits(tmp_path, tier):
    source = SPIN + "loom.launch(spin, 1000, [x, 100])\nprint(x[:1000].tobytes().hex())\n"
    out, err = python(tmp_path, source, POLYLOOM_TIER=tier).communicate(timeout=120)
    x = np.zeros(1, np.float32)
    for _ in range(100):
        x = x * np.float32(0.999) + np.float32(0.5)
    assert out.strip() == (np.repeat(x, 1000)).tobytes().hex(), err


@pytest.mark.parametrize(
    ("name", "value"), [("POLYLOOM_TIER", "7"), ("POLYLOOM_CHECK", "maybe"), ("POLYLOOM_NUM_THREADS", "0")]
)
def test_environment_variables_without_meaning_are_errors(tmp_path, name, value):
    out, err = python(tmp_path, SPIN, **{name: value}).communicate(timeout=60)
    assert "RuntimeError" in err and name in err and value in err


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="this system does not list threads in /proc")
def test_importing_starts_nothing(tmp_path):
    source = """
        import os
        import numpy
        before = os.listdir("/proc/self/task")
        import polyloom
        print(os.listdir("/proc/self/task") == before)
    """
    # A session would refuse this variable's value.
    out, err = python(tmp_path, source, POLYLOOM_TIER="nonsense").communicate()
    assert out == "True\n", err


def test_config():
    assert loom.config.num_threads >= 1
    assert "float_mode='strict'" in repr(loom.config)
    with pytest.raises(ValueError, match="contract"):
        loom.config.float_mode = "sloppy"
    with pytest.raises(TypeError, match="check must be True or False, not 3"):
        loom.config.check = 3
    for wrong in (-1, 0, 10**9, 10**30):
        with pytest.raises(ValueError, match=f"from 1 to 4096, and is {wrong}"):
            loom.config.num_threads = wrong

"""The package inside a process: signals, forks, the GIL, printing, environment variables."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
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
    script.write_text(textwrap.dedent(source))
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


def test_other_threads_run_during_a_launch():
    @loom.kernel
    def spin(x: loom.array(dtype=float), n: int):
        i = loom.tid()
        s = x[i]
        for _k in range(n):
            s = s * 0.999 + 0.5
        x[i] = s

    x = np.zeros(20_000, np.float32)
    running = threading.Event()
    done = threading.Event()

    def work():
        running.set()
        loom.launch(spin, x.size, [x, 100_000])
        done.set()

    thread = threading.Thread(target=work)
    thread.start()
    running.wait()
    ticks = 0
    while not done.is_set():
        ticks += 1
        time.sleep(0.001)
    thread.join()
    assert ticks > 3


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

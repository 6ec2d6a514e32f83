"""Functions and kernels take part in Python's garbage collection."""

import gc
import linecache
import subprocess
import sys
import types
import weakref
from typing import Any

import numpy as np
import polyloom as loom
import pytest
from polyloom import ops
from sources import define

DEFINITIONS = {
    "func": "@loom.func\ndef h(v: float):\n    return v + 1.0\n",
    "overloads": "@loom.func\ndef h(v: float):\n    return v\n@loom.func\ndef h(v: int):\n    return v\n",
    "gradient": (
        "@loom.func\ndef h(v: float):\n    return v * v\n"
        "@loom.func_grad(h)\ndef h_grad(v: float, adj: float):\n    loom.adjoint[v] += adj\n"
    ),
    "generic": "@loom.kernel\ndef k(x: loom.array(dtype=Any)):\n    i = loom.tid()\n    x[i] = x[i] + x[i]\n",
    "generic with a function": (
        "@loom.func\ndef h(v: Any):\n    return v + v\n"
        "@loom.kernel\ndef k(x: loom.array(dtype=Any)):\n    i = loom.tid()\n    x[i] = h(x[i])\n"
        "loom.launch(k, 1, [loom.zeros(1, dtype=float)])\n"
    ),
    "kernel": "@loom.kernel\ndef k(x: loom.array(dtype=float)):\n    x[loom.tid()] = 1.0\n",
    "deferred": "@loom.kernel\ndef k(x: loom.array(dtype=float)):\n    x[0] = later\nlater = 3.0\n",
    "static": "n = 3\n@loom.func\ndef h(v: Any):\n    return v + loom.static(n + 1)\n",
}
HEAD = "import polyloom as loom\nfrom typing import Any\n"


class Mark:
    pass


@pytest.mark.parametrize("what", DEFINITIONS)
def test_modules_are_freed(what):
    text, marks = HEAD + DEFINITIONS[what], []
    for number in range(5):
        name = f"<{what} {number}>"
        linecache.cache[name] = (len(text), None, text.splitlines(True), name)
        module = types.ModuleType("made")
        module.mark = Mark()
        marks.append(weakref.ref(module.mark))
        exec(compile(text, name, "exec"), vars(module))
        del module
    gc.collect()
    assert [mark() for mark in marks] == [None] * 5


@pytest.mark.parametrize("what", DEFINITIONS)
def test_files_of_a_script_are_written_at_its_end(what, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(HEAD + "log = open('log.txt', 'w')\n" + DEFINITIONS[what] + "log.write('hello')\n")
    subprocess.run([sys.executable, str(script)], cwd=tmp_path, check=True)
    assert (tmp_path / "log.txt").read_text() == "hello"


MANY = """
import gc, linecache, types
import polyloom as loom

TEXT = (
    "import polyloom as loom\\n"
    "@loom.func\\ndef h(v: float):\\n    return v + {n}.0\\n"
    "@loom.kernel\\ndef k(x: loom.array(dtype=float)):\\n    x[loom.tid()] = h(x[0])\\n"
)

def define(n):
    text, name = TEXT.format(n=n), f"<text {n}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    module = types.ModuleType(name)
    module.large = bytearray(200_000)
    exec(compile(text, name, "exec"), vars(module))
    loom.launch(module.k, 1, [loom.zeros(1, dtype=float)])
    del linecache.cache[name]

def resident():
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096

for n in range(50):
    define(n)
before = resident()
for n in range(50, 350):
    define(n)
print((resident() - before) // 300)
"""


def test_kernels_that_are_dropped_take_no_memory():
    done = subprocess.run([sys.executable, "-c", MANY], capture_output=True, text=True, check=True)
    # What their modules hold alone is 200,000 bytes each.
    assert int(done.stdout) < 60_000


def test_what_a_kernel_captured_lives_as_long_as_the_kernel():
    def make():
        n = 3

        @loom.func
        def inner(v):
            return v + loom.static(n + 1)

        @loom.func
        def outer(v):
            return inner(v)

        @loom.kernel
        def k(x: loom.array(dtype=Any)):
            x[0] = outer(x[0])

        return k

    kernel = make()
    gc.collect()
    for dtype in (loom.float32, loom.float64, loom.int32):
        x = loom.zeros(1, dtype=dtype)
        loom.launch(kernel, 1, [x])
        assert x.numpy()[0] == 4


def test_a_collection_while_functions_are_made_finds_nothing_unfinished():
    text = "\n".join(
        f"@loom.func\ndef f{n}(x: float):\n    return x + {n}.0\n\n"
        f"@loom.kernel\ndef k{n}(x: loom.array(dtype=float)):\n"
        f"    x[loom.tid()] = f{n}(1.0)\n"
        for n in range(30)
    )
    before = gc.get_threshold()
    gc.set_threshold(1)
    try:
        found = define(text)
    finally:
        gc.set_threshold(*before)
    x = np.zeros(1, np.float32)
    loom.launch(found["k29"], 1, [x])
    assert x[0] == 30.0


def test_fused_functions_with_kernels_in_a_cycle_are_freed():
    @loom.kernel
    def doubled(x: loom.array(dtype=float), y: loom.array(dtype=float)):
        i = loom.tid()
        y[i] = 2.0 * x[i]

    class Big:
        pass

    def make():
        big, holder = Big(), []
        twice = loom.op(doubled, shape=lambda x: (holder and x.shape) or x.shape)

        @loom.fuse
        def f(x):
            return ops.add(ops.exp(twice(ops.exp(x))), 1.0)

        holder.append((f, big))
        f(np.ones(3, np.float32))
        return weakref.ref(big)

    made = [make() for _ in range(5)]
    gc.collect()
    assert not any(each() is not None for each in made)

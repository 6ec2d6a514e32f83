"""Programs of the kinds that `torch.compile` got wrong without a word, in our own words, fused and as they are written.

They follow PyTorch issues 195422 (an op that returns the memory of its argument), 196173 (state that depends on
identity), 139789 (arguments that overlap in a later call), 94773 (a full slice, and memory that is replaced) and
191449 (a view that changes its shape).
"""

import numpy as np
import polyloom as loom
import pytest
from fused_functions import loaded


def compare(text, *calls):
    """Calls a function several times over arguments made anew, as it is written and fused."""
    namespace = loaded(text)
    seen = []
    for function in (namespace["f"], loom.fuse(namespace["f"])):
        rows = []
        for make in calls:
            arguments = make()
            result = function(*arguments)
            rows.append((repr(result), repr(arguments)))
        seen.append(rows)
    assert seen[0] == seen[1]


def arrays(*n):
    return lambda: [np.arange(4.0) + each for each in n]


def test_an_op_that_returns_the_memory_of_its_argument_is_written_through():
    compare(
        "def f(x, b):\n    y = ops.reshape(x, (4,))\n    y += b\n    z = ops.add(x, b)\n"
        "    return ops.relu(z), y.base is x\n",
        arrays(0, 1),
    )
    compare(
        "def f(a, b):\n    x = ops.add(a, b)\n    y = ops.reshape(x, (4,))\n    y *= 2\n    return ops.relu(x)\n",
        arrays(0, -2),
    )


class Recent:
    def __init__(self):
        self.last, self.hits = None, 0

    def __repr__(self):
        return f"{self.last} {self.hits}"

    def notify(self):
        self.last += 1.0


STATEFUL = """
def f(a, b, state):
    x = ops.add(a, b)
    y = ops.relu(x)
    if state.last is a:
        state.hits += 1
        y = ops.negative(ops.add(y, a))
    state.last = a
    return y
"""


def test_control_flow_by_the_identity_of_an_object_keeps_its_state():
    state = [Recent(), Recent()]
    a = np.arange(4.0)

    def call():
        return [a, a + 1, state[0]]

    namespace = loaded(STATEFUL)
    fused = loom.fuse(namespace["f"])
    for _ in range(3):
        expected = namespace["f"](*call())
        assert np.array_equal(expected, fused(a, a + 1, state[1]))
    assert state[0].hits == state[1].hits == 2


def test_a_hook_that_writes_the_stored_result_is_seen():
    text = (
        "def f(a, b, state):\n    x = ops.add(a, b)\n    state.last = x\n    state.notify()\n    return ops.relu(x)\n"
    )
    compare(text, lambda: [np.arange(4.0), np.ones(4), Recent()])


@pytest.mark.parametrize("statement", ["a *= 2", "a[1:] += b[1:]", "b[:] = 0", "np_view = a[::-1]; np_view += 1"])
def test_arguments_that_overlap_in_a_later_call(statement):
    def apart():
        return [np.ones(4), np.ones(4)]

    def overlapping():
        base = np.arange(8.0)
        return [base[:4], base[2:6]]

    def same():
        a = np.arange(4.0)
        return [a, a]

    text = (
        f"def f(a, b):\n    x = ops.add(a, b)\n    {statement}\n    y = ops.multiply(x, b)\n    return ops.add(y, a)\n"
    )
    compare(text, apart, overlapping, same, apart)


def test_a_full_slice_is_an_alias():
    compare(
        "def f(a, b):\n    v = a[:]\n    x = ops.add(v, b)\n    v *= 3\n    return ops.relu(ops.add(x, a)), v\n",
        arrays(0, 1),
    )
    compare(
        "def f(a, b):\n    x = ops.add(a, b)\n    v = x[:]\n    v[0] = -9\n    return ops.relu(x), v\n",
        arrays(0, 1),
    )


def test_memory_that_is_replaced_leaves_its_views():
    text = (
        "def f(h, b):\n    v = h.data[:]\n    x = ops.add(v, b)\n    h.data = b\n"
        "    y = ops.multiply(x, v)\n    return ops.add(y, h.data)\n"
    )

    class Holder:
        def __init__(self):
            self.data = np.arange(4.0)

        def __repr__(self):
            return repr(self.data)

    compare(text, lambda: [Holder(), np.full(4, 7.0)])


def test_a_view_that_changes_its_shape_leaves_the_base():
    compare(
        "def f(a, b):\n    x = ops.add(a, b)\n    v = ops.reshape(x, (2, 2))\n    v.shape = (4, 1)\n"
        "    v += 1\n    return ops.relu(x), v\n",
        arrays(0, 1),
    )


def test_a_method_that_may_write_in_place_ends_a_chain():
    compare(
        "def f(a, b):\n    x = ops.add(a, b)\n    x.byteswap(True)\n    return ops.multiply(x, 0.0), x\n",
        arrays(0, 1),
    )


UNPACKED = {
    "a shape": "def f(a, b):\n    n, m = a.shape\n    return ops.multiply(ops.add(a, 1.0), n)\n",
    "a parameter": "def f(x, p):\n    a, b = p\n    return ops.add(ops.multiply(x, a), b)\n",
    "the rest": "def f(x, p):\n    a, *b, c = p\n    return ops.add(ops.multiply(x, 2.0), c)\n",
    "a loop": """def f(x, p):
    for i, w in enumerate(p):
        x = ops.add(ops.multiply(x, 2.0), w)
    return x
""",
    "items": """def f(x, p):
    for k, w in dict([p]).items():
        x = ops.add(ops.multiply(x, k), w)
    return x
""",
    "nested": """def f(x, p):
    for i, (a, b) in enumerate([p]):
        x = ops.add(ops.multiply(x, a), b)
    return x
""",
    "a sequence": """def f(x, p):
    match p:
        case (a, b):
            return ops.add(ops.multiply(x, a), b)
""",
    "a mapping": """def f(x, p):
    match {"u": p[0], "w": p[1]}:
        case {"u": a, "w": b}:
            return ops.add(ops.multiply(x, a), b)
""",
    "a split": "def f(x, p):\n    q, r = np.split(x, 2)\n    return ops.add(ops.multiply(q, 2.0), r)\n",
}


@pytest.mark.parametrize("text", UNPACKED.values(), ids=UNPACKED)
def test_names_that_are_unpacked_hold_different_values(text):
    compare("import numpy as np\n" + text, lambda: [np.arange(8.0).reshape(2, 4), (3.0, 100.0)])


def test_a_name_that_holds_a_result_on_some_paths_has_it_there():
    text = """
def f(a, b, flag):
    t = ops.absolute(a)
    y = ops.maximum(ops.minimum(b, t), a)
    for _ in [0]:
        if flag:
            break
        t = ops.flip(b)
    x = ops.subtract(a, y)
    return x, y, t
"""
    for flag in (True, False):
        compare(text, lambda flag=flag: [np.arange(4) - 1, np.arange(4) * 2, flag])

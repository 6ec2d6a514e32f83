"""Names in files that are given to the command line: taken as they stand where the kernel is defined, as in Python, or
refused."""

from __future__ import annotations

import importlib.util
import re
import sys

import numpy as np
import polyloom as loom
import pytest
from polyloom import _native

KERNEL = "@loom.kernel\ndef k(x: loom.array(dtype=float)):\n    x[0] = {}\n"
HELPER = "@loom.func\ndef {}(a: {}):\n    return {}\n"


def file(*parts: str, head: str = "import polyloom as loom\n") -> str:
    return head + "\n".join(parts) + "\n"


# Each with what of it is not known without running it.
FILES = {
    "constant": file("C = 1.0", KERNEL.format("C"), "C = 2.0"),
    "constant set twice before": file("C = 1.0", "C = 3.0", KERNEL.format("C"), "C = 2.0"),
    "swap": file("A, B = 3.0, 4.0", "A, B = B, A", KERNEL.format("A * 10.0 + B")),
    "swap of lists": file("[A, B] = [3.0, 4.0]", "[A, B] = [B, A]", KERNEL.format("A * 10.0 + B")),
    "rotation": file("A, B, C = 1.0, 2.0, 3.0", "A, B, C = B, C, A", KERNEL.format("A * 100.0 + B * 10.0 + C")),
    "value of a value": file("A = 1.0", "B = A + 1.0", "A = 5.0", KERNEL.format("A * 10.0 + B")),
    "function": file(
        HELPER.format("f", "float", "a + 10.0"), KERNEL.format("f(0.0)"), HELPER.format("f", "float", "a + 20.0")
    ),
    "overload that comes later": file(
        HELPER.format("f", "float", "a + 10.0"), KERNEL.format("f(2.0) + f(3)"), HELPER.format("f", "int", "float(a)")
    ),
    "function that comes later": file(KERNEL.format("f(2.0)"), HELPER.format("f", "float", "a + C"), "C = 7.0"),
    "function of a constant": file(
        "C = 1.0", HELPER.format("f", "float", "a + C"), "C = 2.0", KERNEL.format("f(C)"), "C = 3.0"
    ),
    "constant then function": file("f = 3.0", KERNEL.format("f"), HELPER.format("f", "float", "a")),
    "import after a constant": file("e = 1.0", "from math import e", KERNEL.format("e")),
    "import before a constant": file("from math import e", "e = 1.0", KERNEL.format("e")),
    "import below": file("e = 1.0", KERNEL.format("e"), "from math import e"),
    "class": file("class C:\n    n = 1.0", KERNEL.format("C.n"), "class C:\n    n = 2.0"),
    "attribute": file("class C:\n    n = 1.0", "C.n = 2.0", KERNEL.format("C.n"), "C.n = 3.0"),
    "setattr": file("class C:\n    n = 1.0", "setattr(C, 'n', 2.0)", KERNEL.format("C.n")),
    "globals": file("C = 1.0", "globals()['C'] = 2.0", KERNEL.format("C"), "globals()['C'] = 3.0"),
    "global": file("C = 1.0", "def f():\n    global C\n    C = 2.0\n", "f()", KERNEL.format("C")),
    "global in a function that is called below": file(
        "C = 1.0", "def f():\n    global C\n    C = 2.0\n", KERNEL.format("C"), "f()"
    ),
    "global in a function that nobody calls": file(
        "C = 1.0", "def f():\n    global C\n    C = 2.0\n", KERNEL.format("C"), "if __name__ == '__main__':\n    f()\n"
    ),
    "globals in a function": file("C = 1.0", "def f():\n    globals()['C'] = 2.0\n", "f()", KERNEL.format("C")),
    "setattr of the module": file(
        "import sys", "C = 1.0", "setattr(sys.modules[__name__], 'C', 2.0)", KERNEL.format("C")
    ),
    "walrus": file("D = (C := 1.0) + 1.0", KERNEL.format("C + D"), "C = 5.0"),
    "in a function": file(
        "def make():\n    C = 1.0\n\n    @loom.kernel\n    def k(x: loom.array(dtype=float)):\n        x[0] = C\n"
        "\n    C = 2.0\n    return k\n",
        "k = make()",
    ),
    "try": file(
        KERNEL.format("4.0"),
        head="try:\n    import polyloom as loom\nexcept ImportError:\n    loom = None\n",
    ),
    "star": file(
        "@kernel\ndef k(x: array(dtype=float)):\n    x[0] = sin(0.5) + float32(1.0)\n", head="from polyloom import *\n"
    ),
    "alias of a decorator": file("kern = loom.kernel", "@kern\ndef k(x: loom.array(dtype=float)):\n    x[0] = 5.0\n"),
    "array of Python": file(
        "import numpy as np", "K = np.outer([1.0, 2.0], [1.0, 2.0]) / 9", KERNEL.format("float(K[1, 1])")
    ),
}
ASSIGNS = "def s(*a):\n    global C\n    C = 2.0\n    return [1]\n"
METHODS = (
    "class Z:\n    def __init__(self):\n        self.x = 1\n\n    def go(self):\n        global C\n        C = 2.0\n"
)
FILES |= {
    f"changed by {what}": file("import sys", "C = 1.0", *parts, KERNEL.format("C"))
    for what, parts in {
        "a function that calls another": [ASSIGNS, "def main():\n    s()\n", "main()"],
        "a constructor": [METHODS.replace("self.x = 1", "global C\n        C = 2.0"), "Z()"],
        "a method": [METHODS, "z = Z()", "z.go()"],
        "the body of a class": ["class Z:\n    global C\n    C = 2.0\n"],
        "the body of a class that calls": [ASSIGNS, "class Z:\n    x = s()\n"],
        "a default argument": [ASSIGNS, "def z(a=s()):\n    pass\n"],
        "a pattern": ["match 2.0:\n    case C:\n        pass\n"],
        "update": ["globals().update(C=2.0)"],
        "an alias of the names": ["names = globals()", "names['C'] = 2.0"],
        "vars": ["vars()['C'] = 2.0"],
        "the module": ["sys.modules[__name__].C = 2.0"],
        "exec": ["exec('C = 2.0')"],
        "a lambda": ["(lambda: globals().update(C=2.0))()"],
        "a context": [
            METHODS.replace("go(self)", "__enter__(self)") + "\n    def __exit__(self, *a):\n        pass\n",
            "with Z():\n    pass\n",
        ],
        "an operator": [METHODS.replace("go(self)", "__neg__(self)"), "z = -Z()"],
        "a key": [ASSIGNS, "sorted([1, 2], key=s)"],
    }.items()
}
FILES["not by a method of a program"] = file(
    "C = 1.0", METHODS, KERNEL.format("C"), "if __name__ == '__main__':\n    Z().go()\n"
)
UNKNOWN = {"global", "globals in a function", "setattr of the module", "array of Python"}
UNKNOWN |= {what for what in FILES if what.startswith("changed by")}


def of_python(path) -> float:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    del sys.modules[path.stem]
    x = np.zeros(1, np.float32)
    loom.launch(module.k, 1, [x])
    return float(x[0])


@pytest.mark.filterwarnings("ignore::SyntaxWarning")
@pytest.mark.parametrize("what", FILES)
def test_names_are_taken_as_they_stand_at_the_definition(what, tmp_path, capfd):
    path = tmp_path / f"{re.sub('[^a-z]', '_', what)}.py"
    path.write_text(FILES[what])
    wanted = of_python(path)
    capfd.readouterr()
    status = _native.command(["run", str(path), "--kernel", "k", "--dim", "1", "--arg", "x=zeros:1"])
    out, err = capfd.readouterr()
    if what in UNKNOWN:
        assert status == 1 and "PL0206" in err
    else:
        assert status == 0, err
        assert float(re.search(r"x: float32\[1\] (\S+)", out)[1]) == pytest.approx(wanted, rel=1e-6)

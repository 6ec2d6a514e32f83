"""Random programs, and what they and the cases of capture use."""

import ast
import operator
import random
import re
from functools import partial

import numpy as np

from . import texts


class Stop(Exception):
    pass


class Box:
    pass


class World:
    """What programs call that analysis knows nothing of. It keeps, reads and writes what it can get at."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.kept = []
        self.log = []

    def reachable(self, value, depth=0):
        if type(value) is np.ndarray:
            return [value]
        if depth > 4:
            return []
        if isinstance(value, dict):
            return [t for v in value.values() for t in self.reachable(v, depth + 1)]
        if isinstance(value, (list, tuple)):
            return [t for v in value for t in self.reachable(v, depth + 1)]
        if isinstance(value, Box):
            return self.reachable(vars(value), depth + 1)
        return []

    def foo(self, *arguments, **named):
        self.kept += [*arguments, *named.values()]
        for argument in list(self.kept):
            if callable(argument) and self.random.random() < 0.7:
                try:
                    argument()
                except TypeError:
                    pass
        tensors = self.reachable(self.kept)
        self.log.append([t.tolist() for t in tensors])
        for tensor in tensors:
            if self.random.random() < 0.6 and tensor.flags.writeable:
                tensor += 1
        choice = self.random.random()
        if choice < 0.1:
            raise Stop
        if choice < 0.6 and tensors:
            return self.random.choice(tensors)
        return np.array([1, 2, 3, 4])


class Manager:
    def __init__(self, world):
        self.world = world

    def __enter__(self):
        return self.world.foo()

    def __exit__(self, *_):
        self.world.foo()
        return self.world.random.random() < 0.3


UNARY = ["relu", "negative", "absolute", "square", "sign"]
BINARY = ["add", "subtract", "multiply", "maximum", "minimum"]


class RealOps(ast.NodeTransformer):
    """Puts ops of the package in the place of numbered ones, by the number of their operands."""

    def visit_Call(self, node):
        self.generic_visit(node)
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if name.startswith("op") and name[2:].isdigit():
            number = int(name[2:])
            if any(isinstance(operand, (ast.List, ast.Tuple)) for operand in node.args):
                node.func.attr = "concat"
            else:
                named = {1: UNARY, 3: ["clip"]}.get(len(node.args), BINARY)
                node.func.attr = named[number % len(named)]
        return node


_RULES = [
    (r"ops\.view\d+", "ops.flip"),
    (r"\.item\(\)", "[0].item()"),
    (r"= ([a-z]) and 1", r"= (\1.sum() > 3) and 1"),
    (r"if ([xyztabc]):", r"if \1.sum() % 2:"),
    (r"w or ([xyztabc])\]", r"w or \1.sum()]"),
    (r"d\[([xyztabc])\] = 1", r"d['z'] = \1"),
]


def program(writer):
    """A random program for arrays of NumPy."""
    text = writer.program()
    for pattern, replacement in _RULES:
        text = re.sub(pattern, replacement, text)
    return ast.unparse(RealOps().visit(ast.parse(text)))


def random_world(seed):
    """Makes what a random program is called with."""

    def make(text):
        world = World(seed)
        a, b, c = (np.arange(i, i + 4) for i in range(3))
        if seed % 3 == 0:
            b = a[::-1]
        box = Box()
        box.v = random.Random(seed).choice([a, c])
        names = {"Stop": Stop, "foo": world.foo, "Manager": Manager}
        namespace = texts.loaded(text, names)
        namespace["G"].append(a)
        world.kept += [a, b, c, box, namespace["G"]]
        return namespace, [a, b, c, seed % 2, box, world], {}, world.log

    return make


class State:
    """An object with attributes that cases read, write and notify."""

    def __init__(self, value):
        self.last = self.x = self.w = self.cache = value
        self.count = 0
        self.items = [value]

    def notify(self):
        self.last += 1

    def update(self, value):
        self.last = value


def case_world(case, variant):
    """Makes what a case of capture is called with. Variants differ in flags, aliases, and the shape of an operand."""

    def make(text):
        random_ = random.Random(variant)
        flag = bool(variant % 2)
        a, b, c, d = (np.array([[1.5, -2.0], [3.0, 0.25]]) * (n + 1) for n in range(4))
        if variant % 4 == 2:
            b = a
        if variant % 4 == 3:
            c = np.ones((2, 3))
        state = State(c)
        seen = []

        def unknown(*arguments, **named):
            seen.append([repr(each) for each in arguments])
            for each in [*arguments, *named.values()]:
                if type(each) is np.ndarray and random_.random() < 0.7:
                    each += 1
                elif callable(each):
                    try:
                        each()
                    except TypeError:
                        pass
            return next((each for each in arguments if type(each) is np.ndarray or callable(each)), None)

        names = {"np": np, "operator": operator, "partial": partial, "loom": _loom(), "ops": _loom().ops}
        for name in _unknown_names(text):
            names.setdefault(name, unknown)
        namespace = texts.loaded(text, names)
        values = {
            "a": a, "b": b, "c": c, "d": d, "flag": flag, "ts": [a, b], "items": [a, c], "state": state, "self": state,
            "x": a, "out": np.zeros((2, 2)), "log": seen, "kw": {}, "ops": _loom().ops,
        }  # fmt: skip
        code = getattr(namespace["f"], "__wrapped__", namespace["f"]).__code__
        arguments = [values[name] for name in code.co_varnames[: code.co_argcount]]
        return namespace, arguments, {}, [seen, state]

    return make


def _loom():
    import polyloom

    return polyloom


def _unknown_names(text):
    import ast
    import builtins

    tree = ast.parse(text)
    loaded = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return sorted(name for name in loaded if not hasattr(builtins, name))

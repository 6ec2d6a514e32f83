"""Random Python functions, run with every access watched, against the groups and moments that capture finds for them.

    cargo build -p polyloom-frontend --example capture_json
    python scripts/capture_oracle.py --programs 2000 --seed 1

A group is wrong if, in a run, one of its moments has an input with other contents than its call read, or an output that
something outside has read or written before. Exits with 1 at the first wrong group, and prints the program.
"""

import argparse
import json
import random
import subprocess
import sys

EXAMPLE = "target/debug/examples/capture_json"


class Clock:
    now = 0

    @classmethod
    def tick(cls):
        cls.now += 1
        return cls.now


class Buffer:
    """Memory, with its contents at all times and who touched it when."""

    def __init__(self, values):
        self.values = list(values)
        self.created = Clock.tick()
        self.history = [(self.created, tuple(self.values))]
        self.touches = []

    def touch(self, call=None):
        self.touches.append((Clock.tick(), call))

    def write(self, index, value):
        self.touch()
        self.values[index] = value
        self.history.append((Clock.tick(), tuple(self.values)))

    def at(self, time):
        return next((values for when, values in reversed(self.history) if when <= time), None)


class Scalar:
    """A number that Python has read from a tensor."""

    def __init__(self, value):
        self.value = value
        self.created = Clock.tick()

    def __add__(self, other):
        return Scalar(self.value + number(other))


def number(value):
    return value.value if isinstance(value, Scalar) else value


class Tensor:
    """A tensor of four integers, or a view of one."""

    def __init__(self, buffer, indices):
        self.buffer, self.indices = buffer, list(indices)
        self.created = Clock.tick()

    @staticmethod
    def new(values):
        values = list(values)
        return Tensor(Buffer(values), range(len(values)))

    def peek(self):
        return [self.buffer.values[i] for i in self.indices]

    def read(self, call=None):
        self.buffer.touch(call)
        return self.peek()

    def operand(self, other, length):
        if isinstance(other, Tensor):
            values = other.read()
            return [values[i % len(values)] for i in range(length)]
        return [number(other)] * length

    def __add__(self, other):
        mine = self.read()
        return Tensor.new(x + y for x, y in zip(mine, self.operand(other, len(mine)), strict=False))

    __radd__ = __mul__ = __rmul__ = __sub__ = __add__

    def __neg__(self):
        return Tensor.new(-x for x in self.read())

    def __iadd__(self, other):
        values = [x + y for x, y in zip(self.read(), self.operand(other, len(self.indices)), strict=False)]
        for i, value in zip(self.indices, values, strict=False):
            self.buffer.write(i, value)
        return self

    __imul__ = __isub__ = __iadd__

    def __getitem__(self, key):
        self.buffer.touch()
        indices = self.indices[key] if isinstance(key, slice) else [self.indices[key % len(self.indices)]]
        return Tensor(self.buffer, indices or self.indices[:1])

    def __setitem__(self, key, value):
        indices = self.indices[key] if isinstance(key, slice) else [self.indices[key % len(self.indices)]]
        for i, v in zip(indices, self.operand(value, len(indices)), strict=False):
            self.buffer.write(i, v)

    def __iter__(self):
        self.buffer.touch()
        return iter([Tensor(self.buffer, [i]) for i in self.indices])

    def __bool__(self):
        return sum(self.read()) % 2 == 0

    def __repr__(self):
        return f"T{self.read()}"

    @property
    def T(self):
        self.buffer.touch()
        return Tensor(self.buffer, self.indices[::-1])

    @property
    def shape(self):
        return (len(self.indices),)

    def item(self):
        return Scalar(self.read()[0])

    def sum(self):
        return Tensor.new([sum(self.read())])

    def copy(self):
        return Tensor.new(self.read())

    def reshape(self, *_):
        return self[:]

    def fill(self, value):
        self[:] = value


class Ops:
    """Ops that note what they are called with."""

    def __init__(self):
        self.log = []

    def __getattr__(self, name):
        def op(*operands):
            values = []
            for operand in operands:
                for each in operand if isinstance(operand, (list, tuple)) else [operand]:
                    values.append(each)
            time = Clock.tick()
            seen = [value.read(name) if isinstance(value, Tensor) else number(value) for value in values]
            if name.startswith("view") and isinstance(values[0], Tensor):
                result = Tensor(values[0].buffer, values[0].indices[::-1])
            else:
                salt = sum(map(ord, name))
                flat = [x for s in seen for x in (s if isinstance(s, list) else [s])]
                result = Tensor.new((salt + 31 * i + sum(flat) * (i + 7)) % 100003 for i in range(4))
            self.log.append((name, time, values, result))
            return result

        return op


class Stop(Exception):
    pass


class World:
    """What the programs call that capture knows nothing of."""

    def __init__(self, seed, arguments):
        self.random = random.Random(seed)
        self.kept = list(arguments)

    def reachable(self, value, depth=0):
        if isinstance(value, Tensor):
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
        """Keeps, reads and writes what it can get at."""
        arguments = list(arguments) + list(named.values())
        self.kept += arguments
        for argument in self.kept:
            if callable(argument) and self.random.random() < 0.7:
                try:
                    argument()
                except TypeError:
                    pass
        tensors = self.reachable(self.kept)
        for tensor in tensors:
            if self.random.random() < 0.6:
                tensor += 1
        choice = self.random.random()
        if choice < 0.1:
            raise Stop
        if choice < 0.6 and tensors:
            return self.random.choice(tensors)
        return Tensor.new([1, 2, 3, 4])


class Box:
    pass


class Manager:
    def __init__(self, world):
        self.world = world

    def __enter__(self):
        return self.world.foo()

    def __exit__(self, *_):
        self.world.foo()
        return self.world.random.random() < 0.3


class Writer:
    """Writes random programs."""

    NAMES = ["x", "y", "z", "t", "a", "b", "c"]

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.n_ops = 0
        self.n_functions = 0
        self.helpers = []
        self.functions = []

    def name(self):
        return self.random.choice(self.NAMES)

    def target(self):
        return self.random.choice(self.NAMES[:5])

    def op(self, depth=0):
        kind = "view" if self.random.random() < 0.12 else "op"
        self.n_ops += 1
        name = f"ops.{kind}{self.n_ops}"

        def operand():
            return self.op(depth + 1) if depth < 2 and self.random.random() < 0.2 else self.name()

        choice = self.random.random()
        if choice < 0.08:
            return f"{name}([{operand()}, {operand()}], {self.random.choice(['1', 'k', 'b'])})"
        if choice < 0.14:
            return f"{name}({operand()}, ({self.target()} := {operand()}), {self.name()})"
        if choice < 0.2:
            return f"{name}({self.name()} + 1, {operand()})"
        if choice < 0.25:
            other = self.random.choice(["k", "l[-1]", "d['k']", "box.v", "a[0:2]", "foo()"])
            return f"{name}({self.name()}, {other})"
        return f"{name}({operand()}, {self.name()})" if self.random.random() < 0.6 else f"{name}({operand()})"

    def simple(self):
        t, n, m = self.target(), self.name(), self.name()
        return self.random.choice(
            [
                f"{t} = {n}",
                f"{t} = {n} + {m}",
                f"{t} += {m}",
                f"{t}[0] = 1",
                f"{t}[1:3] += {n}",
                f"{t} = {n}[0:3]",
                f"{t} = {n}.T",
                f"{t} = {n}.reshape(4)",
                f"{t} = {n}.copy()",
                f"k = {n}.item()",
                "k = k + 1",
                "k = 2",
                f"l.append({n})",
                "l[0] += 1",
                f"{t} = l[-1]",
                f"l = [{n}, {m}]",
                f"d['k'] = {n}",
                "d['k'] += 1",
                f"{t} = d['k']",
                f"d = {{'k': {n}}}",
                f"box.v = {n}",
                "box.v += 1",
                f"{t} = box.v",
                f"foo({n})",
                "foo()",
                f"{t} = foo({n})",
                f"{t} = foo()",
                f"s = f'{{{n}}}'",
                f"s = {n}.shape",
                f"s = {n}.sum()",
                f"{t} = {n} if flag else {m}",
                f"{t}, {self.target()} = {n}, {m}",
                "x, y = y, x",
                f"{t}.fill(3)",
                f"({t},) = [{n}]",
                f"p, *r = {n}, {m}",
                "r[0] += 1",
                f"{t} = (lambda u: u)({n})",
                f"s = [w for w in {n}]",
                "[w.fill(1) for w in l]",
                f"l = [{n}] + l",
                f"s = {n} is {m}",
                f"{t} = max([{n}], key=id)",
                f"G.append({n})",
                "s = len(l)",
                f"s = repr({n})",
                f"{t} = -{n}",
                "for w in l: w += 1",
                f"for w in {n}: w += 1",
                f"foo(*[{n}])",
                f"foo(k={n})",
                f"l += [{n}]",
                f"s = {n} and 1",
                f"e = (w for w in [{n}])",
                "foo(*e)",
                f"{t} = ident({n})",
                f"bump({n})",
                f"{t} = l.pop() if len(l) > 1 else {n}",
                f"h = {n}.fill",
                "h(2)",
                "items = list(d.values())",
                "items[0] += 1",
                f"{t} = dict(q={n})['q']",
                f"d.update(k={n})",
                f"{t} = d.get('k')",
                f"{t} = G[-1]",
                f"l[0] = {n}",
                f"l[0:1] = [{n}]",
                f"ident.tag = {n}",
                f"d[{n}] = 1",
                "for w in d: w = w",
                f"type({n}).fill({m}, 2)",
                f"m = {n}.fill; foo(m)",
                f"s = [{n} for {n} in [{m}]]",
                f"{t} = [w for w in [{n}]][0]",
                f"{t} = ({n}, {m})[1]",
            ]
        )

    def statements(self, indent, depth, n):
        lines = []
        pad = "    " * indent
        for _ in range(n):
            choice = self.random.random()
            if choice < 0.42:
                lines.append(f"{pad}{self.target()} = {self.op()}")
            elif choice < 0.82 or depth > 2:
                lines.append(pad + self.simple())
            elif choice < 0.86:
                lines.append(f"{pad}if {self.random.choice(['flag', 'k', self.name(), 'not flag'])}:")
                lines += self.statements(indent + 1, depth + 1, self.random.randint(1, 3))
                if self.random.random() < 0.5:
                    lines.append(f"{pad}else:")
                    lines += self.statements(indent + 1, depth + 1, self.random.randint(1, 2))
            elif choice < 0.9:
                head = self.random.choice(
                    [
                        "for i in range(3):",
                        f"for {self.target()} in [{self.name()}, {self.name()}]:",
                        "for i, w in enumerate(list(l)):",
                    ]
                )
                lines.append(pad + head)
                lines += self.statements(indent + 1, depth + 1, self.random.randint(1, 4))
                if self.random.random() < 0.3:
                    lines.append(f"{pad}    if flag: {self.random.choice(['break', 'continue'])}")
                    lines += self.statements(indent + 1, depth + 1, 1)
            elif choice < 0.93:
                self.n_functions += 1
                name = f"g{self.n_functions}"
                default = self.random.choice(["", f"u={self.name()}"])
                lines.append(f"{pad}def {name}({default}):")
                if indent == 1 and self.random.random() < 0.6:
                    lines.append(f"{pad}    nonlocal {', '.join(self.NAMES[:4])}, l, d, k")
                    lines += self.statements(indent + 1, 3, self.random.randint(1, 3))
                elif default:
                    lines.append(f"{pad}    u += 1")
                else:
                    lines.append(
                        f"{pad}    {self.random.choice(['return ', ''])}{self.random.choice(['z', 'y', 'c'])}.fill(2)"
                    )
                if self.random.random() < 0.7:
                    lines.append(
                        f"{pad}{self.random.choice([f'{name}()', f'foo({name})', f'{self.target()} = foo({name})'])}"
                    )
            elif choice < 0.96:
                lines.append(f"{pad}try:")
                lines += self.statements(indent + 1, depth + 1, self.random.randint(1, 3))
                if self.random.random() < 0.7:
                    lines.append(f"{pad}except Stop:")
                    lines += self.statements(indent + 1, depth + 1, 1)
                else:
                    lines.append(f"{pad}finally:")
                    lines += self.statements(indent + 1, depth + 1, 1)
            elif choice < 0.98:
                lines.append(f"{pad}with Manager(world) as {self.random.choice(['w', self.target()])}:")
                lines += self.statements(indent + 1, depth + 1, self.random.randint(1, 3))
            elif depth and self.random.random() < 0.3:
                lines.append(f"{pad}if flag: return {self.name()}")
            else:
                lines.append(f"{pad}s = [{self.op()} for w in range(2) if w or {self.name()}]")
        return lines

    def helper(self):
        self.n_ops += 1
        return (
            self.random.choice(
                [
                    ["def ident(u):", "    return u"],
                    ["def ident(u):", f"    return ops.op{self.n_ops}(u)"],
                    ["def ident(u):", "    G.append(u)", "    return u[0:2]"],
                    ["def ident(u):", "    if len(G) > 1:", "        return u", "    return G[0]"],
                    ["def ident(u):", "    try:", "        return u", "    finally:", "        u += 1"],
                    [
                        "def ident(u):",
                        "    for v in [u, G]:",
                        "        try:",
                        "            if v is G: break",
                        "        finally:",
                        "            u = G[0]",
                        "    return u",
                    ],
                ]
            )
            + ["def bump(u, kept=[]):"]
            + self.random.choice([["    u += 1"], ["    kept.append(u)", "    kept[0] += 1"], ["    return u"]])
        )

    def program(self):
        lines = ["from polyloom import ops", "G = []"] + self.helper()
        lines += [
            "def f(a, b, c, flag, box, world):",
            "    x, y, z, t = a, b, c, a",
            "    k, l, d, s = 1, [a], {'k': b}, None",
            "    p, r, e, h, items = None, [a], (), c.fill, [a]",
        ]
        lines += self.statements(1, 0, self.random.randint(4, 12))
        lines += ["    return x, y, z, t, l, d"]
        return "\n".join(lines) + "\n"


def run(source, seed):
    """Runs a program, and returns what its ops were called with."""
    Clock.now = 0
    ops = Ops()
    a, b, c = (Tensor.new(range(i, i + 4)) for i in range(3))
    if seed % 3 == 0:
        b = Tensor(a.buffer, [3, 2, 1, 0])
    box = Box()
    box.v = random.Random(seed).choice([a, c])
    world = World(seed, [a, b, c, box])
    scope = {"ops": ops, "Stop": Stop, "foo": world.foo, "Manager": Manager}
    body = source.replace("from polyloom import ops\n", "\n")
    exec(compile(body, "oracle.py", "exec"), scope)
    world.kept.append(scope["G"])
    scope["G"].append(a)
    try:
        scope["f"](a, b, c, seed % 2, box, world)
    except Exception as error:  # what a random program raises is its own business
        return ops.log, error
    return ops.log, None


def instances(log, names):
    """Finds the runs of a group: each call once, from one run of the first to the next."""
    current = None
    for entry in log:
        if entry[0] == names[0]:
            if current and len(current) == len(names):
                yield current
            current = {entry[0]: entry}
        elif current is not None and entry[0] in names:
            current.setdefault(entry[0], entry)
    if current and len(current) == len(names):
        yield current


def contents(tensor, time):
    values = tensor.buffer.at(time)
    return None if values is None else [values[i] for i in tensor.indices]


def wrong_moment(group, names, moment):
    """Says what is wrong with running a group at a moment, in one run of it."""
    time = group[names[0] if moment == "first" else names[-1]][1]
    results = {name: group[name][3] for name in names}
    fresh = {id(result.buffer): name for name, result in results.items() if not name.startswith("view")}
    for name in names:
        _, when, operands, result = group[name]
        for operand in operands:
            if isinstance(operand, Scalar) and operand.created > time:
                return f"{name}: a number is made after {moment}"
            if not isinstance(operand, Tensor):
                continue
            maker = next((m for m in names if results[m] is operand and group[m][1] < when), None)
            if maker is not None:
                if contents(operand, when) != contents(operand, operand.created):
                    return f"{name}: the result of {maker} has been written"
                continue
            if id(operand.buffer) in fresh and group[fresh[id(operand.buffer)]][1] < when:
                return f"{name}: an operand shares memory with a result of the group"
            if operand.created > time:
                return f"{name}: an operand is made after {moment}"
            if contents(operand, time) != contents(operand, when):
                return f"{name}: an operand has other contents at {moment}"
        if moment == "last" and id(result.buffer) in fresh:
            for touched, call in result.buffer.touches:
                if when < touched < time and call not in names:
                    return f"{name}: its result is touched at {touched}, before {moment}"
    return None


def check(source, report, seed):
    log, _ = run(source, seed)
    n_checked = 0
    for group, moments in zip(report["groups"], report["exec_at"], strict=False):
        if len(group) == 1:
            continue
        names = [report["calls"][call] for call in group]
        for instance in instances(log, names):
            n_checked += 1
            for moment in moments:
                wrong = wrong_moment(instance, names, moment)
                if wrong:
                    return n_checked, f"group {group} at {moment}: {wrong}"
    return n_checked, None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--example", default=EXAMPLE)
    parser.add_argument("--all", action="store_true", help="go on after a wrong group")
    arguments = parser.parse_args()
    sources = [Writer(arguments.seed * 1_000_003 + i).program() for i in range(arguments.programs)]
    done = subprocess.run([arguments.example], input=json.dumps(sources), capture_output=True, text=True, check=True)
    reports = json.loads(done.stdout)
    n_groups = n_runs = n_wrong = n_incomplete = 0
    for i, (source, report) in enumerate(zip(sources, reports, strict=False)):
        if report is None:
            continue
        n_incomplete += report["incomplete"]
        n_groups += sum(len(group) > 1 for group in report["groups"])
        # A helper that is called twice has its op twice, which runs do not tell apart.
        if len(set(report["calls"])) < len(report["calls"]):
            continue
        for seed in range(6):
            checked, wrong = check(source, report, seed)
            n_runs += checked
            if wrong:
                n_wrong += 1
                print(
                    f"program {i}, run {seed}: {wrong}\n{json.dumps(report['groups'])} {json.dumps(report['exec_at'])}"
                )
                print(f"{json.dumps(report['calls'])}\n{source}")
                if not arguments.all:
                    sys.exit(1)
                break
    counts = f"{len(sources)} programs ({n_incomplete} given up), {n_groups} groups of several calls"
    print(f"{counts}, {n_runs} runs of them, {n_wrong} wrong")
    sys.exit(n_wrong > 0)


if __name__ == "__main__":
    main()

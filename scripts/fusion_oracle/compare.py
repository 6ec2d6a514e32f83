"""Runs a function as it is written and fused, and says what differs: results, arguments, output, exceptions."""

import contextlib
import io
import re
import sys
import traceback

import numpy as np

from . import texts


class Recorder:
    """Describes values so that equal descriptions mean equal values, with the same objects in the same places."""

    def __init__(self):
        self.numbers = {}
        self.arrays = []
        self.kept = []

    def describe(self, value, depth=0):
        if isinstance(value, str):
            # Addresses differ from run to run.
            return re.sub(r"0x[0-9a-f]{6,}", "0x", value)
        if isinstance(value, (type(None), bool, int, bytes)):
            return value
        if isinstance(value, (float, complex, np.generic)):
            return type(value).__name__, repr(value)
        self.kept.append(value)
        known = id(value) in self.numbers
        number = self.numbers.setdefault(id(value), len(self.numbers))
        if known or depth > 6:
            return "again", number
        if isinstance(value, np.ndarray):
            self.arrays.append(value)
            return "array", number, value.dtype.str, value.shape, value.tobytes()
        if isinstance(value, (list, tuple)):
            return type(value).__name__, number, [self.describe(each, depth + 1) for each in value]
        if isinstance(value, (set, frozenset)):
            return type(value).__name__, number, len(value)
        if isinstance(value, dict):
            items = [(self.describe(key, depth + 1), self.describe(each, depth + 1)) for key, each in value.items()]
            return "dict", number, items
        if hasattr(value, "__dict__") and not callable(value):
            return type(value).__name__, number, self.describe(vars(value), depth + 1)
        return "object", type(value).__name__

    def shared(self):
        """The pairs of arrays that share memory."""
        pairs = []
        for i, a in enumerate(self.arrays[:24]):
            pairs += [(i, j) for j, b in enumerate(self.arrays[:i]) if np.may_share_memory(a, b)]
        return pairs


def outcome(text, name, make_world, decorate, make_recorder=Recorder):
    """Everything that can be seen of calls of a function of a text."""
    namespace, arguments, named, world = make_world(text)
    function = decorate(namespace[name])
    file = namespace[name].__code__.co_filename
    printed = io.StringIO()
    recorder = make_recorder()
    seen = []
    ops = sys.modules["polyloom.ops"]
    before = dict(vars(ops))
    with contextlib.redirect_stdout(printed):
        try:
            result = function(*arguments, **named)
        except Exception as error:
            places = []
            for frame, line in traceback.walk_tb(error.__traceback__):
                if frame.f_code.co_filename == file:
                    places.append((frame.f_code.co_name, line))
            seen.append(("raised", type(error).__name__, str(error), places))
        else:
            seen.append(("returned", recorder.describe(result)))
    texts.restored(ops, before)
    seen.append(("arguments", recorder.describe(list(arguments)), recorder.describe(named)))
    seen.append(("world", recorder.describe(world)))
    seen.append(("shared", recorder.shared()))
    seen.append(("printed", recorder.describe(printed.getvalue().replace(file, "<file>"))))
    return seen, function


def difference(text, name, make_world, fuse, make_recorder=Recorder):
    """What differs, as text, or nothing; and the fused function."""
    plain, _ = outcome(
        text, name, make_world, lambda function: getattr(function, "__wrapped__", function), make_recorder
    )
    fused, function = outcome(text, name, make_world, fuse, make_recorder)
    for a, b in zip(plain, fused, strict=True):
        if repr(a) != repr(b):
            return f"plain {a}\nfused {b}", function
    return None, function

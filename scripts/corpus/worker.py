"""One module of the corpus, in a process of its own: `python -m corpus.worker MODULE OUTPUT SECONDS TIMES`.

The launches are recorded in this process. They are replayed in a forked one, which begins anew with the next kernel
where one takes too long or ends the process.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
from functools import partial
from pathlib import Path
from typing import Any

import warp as wp

from corpus import recorder, scope, timing

SECONDS_PER_UNIT = 30


def main() -> None:
    name, output, seconds, n_times = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    wp.config.kernel_cache_dir = os.environ["WARP_CORPUS_CACHE"]
    wp.config.log_level = 40
    wp.config.enable_backward = False
    # Quick to compile, and no products and sums contracted into one rounding.
    wp.config.optimization_level = 0
    wp.config.cpu_compiler_flags = ""
    wp.init()
    record = recorder.Recorder()
    record.install()

    def expire(*_: Any) -> None:
        raise recorder.TimeLimit

    signal.signal(signal.SIGALRM, expire)
    signal.alarm(seconds)
    stopped = recorder.run_module(name, is_example=name.startswith("warp.examples"))
    signal.alarm(0)
    units = record.all_units()
    rows = [_row(unit) for unit in units]
    chosen = [i for i, row in enumerate(rows) if row["scope"] == "core" and row["warp"] is None]
    for index, outcome in _replay([units[i] for i in chosen]).items():
        rows[chosen[index]]["outcome"] = outcome
    times = _times(units, rows, n_times) if n_times else []
    output.write_text(json.dumps({"module": name, "stopped": stopped, "units": rows, "times": times}))


def _times(units: list[recorder.Unit], rows: list[dict[str, Any]], n: int) -> list[dict[str, Any]]:
    """Compile times of `n` definitions, spread over the module."""
    found: dict[Any, int] = {}
    for index, row in enumerate(rows):
        if row.get("outcome", {}).get("seconds") and row["file"].startswith(("tests", "examples")):
            found.setdefault((row["file"], row["line"]), index)
    indices = list(found.values())
    chosen = indices[:: max(1, -(-len(indices) // n))]
    times = []
    for index in chosen:
        row = rows[index]
        # Of two, the better: the first compilation of the process prepares Warp's headers.
        try:
            theirs = min(timing.warp_seconds(units[index].kernel) for _ in range(2))
        except Exception:  # what needs the rest of its module
            continue
        place = {"file": row["file"], "line": row["line"], "name": row["name"]}
        times.append(place | {"seconds": row["outcome"]["seconds"], "warp_seconds": theirs})
    return times


def _row(unit: recorder.Unit) -> dict[str, Any]:
    kernel = unit.kernel
    code = kernel.func.__code__
    root = str(Path(wp.__file__).parent)
    file = code.co_filename
    row: dict[str, Any] = {
        "file": file[len(root) + 1 :] if file.startswith(root) else "generated",
        "line": code.co_firstlineno,
        "name": kernel.func.__qualname__,
        "generic": kernel.generic_parent is not None,
        "launches": unit.n_launches,
        "replayed": len(unit.launches),
        "not_recorded": unit.not_recorded,
        "warp": None,
    }
    try:
        row["scope"] = scope.out_of_scope(kernel) or ("gradients" if scope.uses_gradients(kernel) else "core")
        row["custom_gradient"] = scope.has_custom_gradient(kernel)
        row["calls"] = scope.called(kernel)
    except Exception as error:
        row["scope"] = f"not understood: {type(error).__name__}"
        return row
    if not unit.n_launches:
        row["warp"] = unit.error or scope.warp_rejects(kernel)
    return row


def _replay(units: list[recorder.Unit]) -> dict[int, Any]:
    outcomes: dict[int, Any] = {}
    start = 0
    while start < len(units):
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read)
            _replay_from(units, start, write)
            os._exit(0)
        os.close(write)
        end = None
        buffer = b""
        while end is None:
            ready, _, _ = select.select([read], [], [], SECONDS_PER_UNIT)
            data = os.read(read, 1 << 16) if ready else b""
            if not ready:
                os.kill(child, signal.SIGKILL)
                end = "time limit"
            elif not data:
                end = "the process ended"
            buffer += data
            *lines, buffer = buffer.split(b"\n")
            for line in lines:
                index, outcome = json.loads(line)
                outcomes[index] = outcome
        os.close(read)
        _, status = os.waitpid(child, 0)
        last = max(outcomes, default=-1)
        start = max(last + 1, start)
        if not outcomes.get(last, {}).pop("pending", False) and start < len(units):
            signalled = f", signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) and end != "time limit" else ""
            outcomes[start] = {"stage": "crash", "code": "", "reason": f"{end}{signalled}"}
            start += 1
    return outcomes


def _replay_from(units: list[recorder.Unit], start: int, write: int) -> None:
    # Imported here: the process that records has no threads of Polyloom's.
    from corpus.replay import replay
    from corpus.translate import Translator

    translator = Translator()
    with os.fdopen(write, "wb", buffering=0) as pipe:

        def write_outcome(index: int, outcome: dict[str, Any]) -> None:
            pipe.write(json.dumps([index, outcome], default=str).encode() + b"\n")

        for index in range(start, len(units)):
            try:
                outcome: dict[str, Any] = replay(translator, units[index], partial(write_outcome, index))
                if outcome["stage"] in ("agree", "compiled", "differ"):
                    outcome["seconds"] = timing.polyloom_seconds(units[index].kernel)
            except Exception as error:
                reason = f"{type(error).__name__}: {error}"
                outcome = {"stage": "script", "code": "", "reason": reason}
            write_outcome(index, outcome)


if __name__ == "__main__":
    main()

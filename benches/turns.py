"""Processes of peers that take turns, so that what disturbs the machine hits all alike, and how runs are timed in them.

Every peer is a process of its own per number of threads. A turn is the median of a few runs. One thread means pinned
to one core with every pool set to 1.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

# Runs of a turn go on for so many seconds; a run that is longer than the second number is the only one.
TURN, VERY_LONG_RUN = 0.05, 1.0


def environment(threads: int, cache: Path) -> dict[str, str]:
    """That of a peer's process: nothing is cached from one to the next."""
    env = dict(os.environ, POLYLOOM_CACHE="0", JAX_PLATFORMS="cpu")
    for name in ("OMP", "MKL", "OPENBLAS", "NUMBA", "POLYLOOM"):
        env[f"{name}_NUM_THREADS"] = str(threads)
    env["WARP_CACHE_PATH"] = str(cache / "warp")
    env["NUMBA_CACHE_DIR"] = str(cache / "numba")
    return env


def pinned(threads: int) -> list[str]:
    """What stands before the command of a process of so many threads."""
    return ["taskset", "-c", "0"] if threads == 1 and shutil.which("taskset") else []


def answers() -> TextIO:
    """Standard output, which is for answers alone from here on: Warp reports on it."""
    stream = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return stream


def answer(stream: TextIO, value: Any) -> None:
    """Tells the process that this one serves."""
    print(json.dumps(value), file=stream, flush=True)


def settle(run: Callable[[], Any], seconds: float = 0.75) -> None:
    """Runs until tiers and caches have settled."""
    started = time.perf_counter()
    while time.perf_counter() - started < seconds:
        run()


def turn(run: Callable[[], Any], prepare: Callable[[], Any] = lambda: None) -> float:
    """Median seconds of the runs of one turn, the first of which refills the caches and counts only if it is long."""
    samples: list[float] = []
    while not samples or (samples[0] < VERY_LONG_RUN and (len(samples) < 4 or sum(samples) < TURN)):
        prepare()
        before = time.perf_counter()
        run()
        samples.append(time.perf_counter() - before)
    return statistics.median(samples[1:] or samples)


class Server:
    """A peer's process: it says what it has, then takes a turn for every line that it is given."""

    def __init__(self, peer: str, threads: int, cache: Path, script: Path, *arguments: str) -> None:
        self.peer = peer
        self.process = subprocess.Popen(
            [*pinned(threads), sys.executable, str(script), *arguments],
            env=environment(threads, cache),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.has: Any = self.answer()

    def answer(self) -> Any:
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.peer} failed: exit status {self.process.wait()}")
        return json.loads(line)

    def turn(self, line: str) -> float:
        # Idle workers of the peer before may still be spinning.
        time.sleep(0.02)
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return float(self.answer())

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()


def in_turn(all_of_them: list[Any], index: int) -> list[Any]:
    """In the order of a round: another goes first in each."""
    shift = index % len(all_of_them)
    return all_of_them[shift:] + all_of_them[:shift]


def pretty(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if abs(seconds) >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"

"""Measures how long gradients take, against Warp, JAX and PyTorch: `python benches/gradients.py [--quick]`.

Every peer computes the result alone, and the result with its gradient with respect to all arrays: how long the latter
takes is what is compared, since some peers do more on the way forward to have less to do on the way back. For Polyloom
it is the launch and the backward launch, which writes the gradients, for Warp these and setting the gradients to zero
that it adds to, for JAX a compiled function of `jax.vjp`, for PyTorch the function and `torch.autograd.grad`. PyTorch's
gradient of `y` in `a * x + y` is that of the result, in the same memory, of which the others make a copy. Nothing is
measured whose gradient is not Polyloom's; what Warp gets wrong is said to be wrong.

Processes and turns are those of `turns.py`, medians those of `run.py`. The memory of the time loop is what
`tape.memory.loops` says of Polyloom, and of JAX the temporary memory of the compiled gradient
(`memory_analysis().temp_size_in_bytes`), which is known before it runs and includes everything but arguments and
results.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import gradient_workloads
import turns
from turns import Server, pretty

HERE = Path(__file__).resolve().parent
PEERS = ["polyloom", "warp", "jax", "torch"]
OWN, OTHERS = PEERS[0], PEERS[1:]
WORKLOADS = ["saxpy", "nbody", "stencil", "time loop"]
# Sums of thousands of float32 are added in another order by each peer.
TOLERANCE = 2e-3
# Of the elements, which are compared: a pendulum that nearly stands on its head makes anything of a rounding.
COMPARED = 0.99
WRONG = "wrong"


def serve(peer: str, scale: float, expected: Path) -> None:
    """Builds and checks a peer's workloads, says what there is, then takes a turn for every line read."""
    import numpy as np

    stream = turns.answers()
    try:
        workloads = gradient_workloads.BUILDERS[peer](scale)
    except ImportError as error:
        turns.answer(stream, {"missing": str(error)})
        return
    states, memory = {}, {}
    for name, workload in workloads.items():
        workload.prepare()
        workload.gradient()
        states[name] = "right"
        path = expected / f"{name.split(',')[0]}.npz"
        found = [np.array(each) for each in workload.gradients()]
        if peer == OWN and "," not in name:
            np.savez(path, *found)
        wanted = np.load(path).values()
        errors = []
        for a, b in zip(found, wanted, strict=True):
            size = np.abs(b)
            errors.append(float(np.quantile(np.abs(a - b) / np.maximum(size, np.median(size)), COMPARED)))
        error = float(np.max(errors))
        # Also if it is not a number.
        if not error < TOLERANCE:
            states[name] = WRONG
            print(f"{peer}: {name}: the gradient is off by {error:.1e}", file=sys.stderr, flush=True)
            assert peer != OWN, name
        if workload.memory is not None:
            memory[name] = workload.memory
        turns.settle(lambda workload=workload: (workload.forward(), workload.prepare(), workload.gradient()))
    turns.answer(stream, {"states": states, "memory": memory})
    for line in sys.stdin:
        kind, _, name = line.strip().partition(" ")
        workload = workloads[name]
        run = workload.forward if kind == "forward" else workload.gradient
        turns.answer(stream, turns.turn(run, workload.prepare))


class Found(NamedTuple):
    # By peer, number of threads and workload: seconds of the forward pass alone, and with the way back, by round.
    rounds: dict[tuple[str, int, str], list[tuple[float, float]]]
    states: dict[tuple[str, str], str]
    memory: dict[tuple[str, str], int]
    missing: dict[str, str]

    def forward(self, *key: Any) -> float:
        return statistics.median(forward for forward, _ in self.rounds[key])

    def both(self, *key: Any) -> float:
        return statistics.median(both for _, both in self.rounds[key])

    def backward_over_forward(self, *key: Any) -> float:
        return statistics.median((both - forward) / forward for forward, both in self.rounds[key])

    def over_own(self, peer: str, threads: int, name: str) -> float:
        pairs = zip(self.rounds[peer, threads, name], self.rounds[OWN, threads, name], strict=True)
        return statistics.median(theirs / own for (_, theirs), (_, own) in pairs)


def collect(rounds: int, scale: float) -> Found:
    found = Found({}, {}, {}, {})
    with tempfile.TemporaryDirectory() as folder:
        for threads in (1, 2):
            servers = {}
            for peer in PEERS:
                print(f"gradients, {threads} thread(s): {peer}", file=sys.stderr, flush=True)
                arguments = ("--child", peer, str(scale), folder)
                server = Server(peer, threads, Path(folder), HERE / "gradients.py", *arguments)
                if "missing" in server.has:
                    print(f"gradients: {peer} is left out: {server.has['missing']}", file=sys.stderr, flush=True)
                    found.missing[peer] = server.has["missing"]
                    continue
                servers[peer] = server
                found.states.update({(peer, name): state for name, state in server.has["states"].items()})
                found.memory.update({(peer, name): size for name, size in server.has["memory"].items()})
            names = list(dict.fromkeys(name for server in servers.values() for name in server.has["states"]))
            for name in names:
                has_turns = [peer for peer in servers if found.states.get((peer, name)) == "right"]
                for index in range(rounds):
                    for peer in turns.in_turn(has_turns, index):
                        times = tuple(servers[peer].turn(f"{kind} {name}") for kind in ("forward", "gradient"))
                        found.rounds.setdefault((peer, threads, name), []).append(times)
            for server in servers.values():
                server.close()
    return found


def section(rounds: int = 15, scale: float = 1.0) -> list[str]:
    """The rows for the scoreboard."""
    from importlib.metadata import version

    found = collect(rounds, scale)
    present = [peer for peer in OTHERS if peer not in found.missing]
    versions = ", ".join(f"{peer} {version('warp-lang' if peer == 'warp' else peer)}" for peer in present)
    lines = [
        "",
        "## Gradients",
        "",
        "A result and its gradient: how long both take, and in brackets how many times as long as the result alone the",
        "way back takes beside it; of peers, too, how many times as long as Polyloom (`benches/gradients.py`). Peers:",
        f"{versions or 'none'}." + "".join(f" {peer} is not installed." for peer in found.missing),
        "",
    ]
    for threads in (1, 2):
        lines += [
            f"| {threads} thread{'s' * (threads > 1)} | result alone | with its gradient | "
            + " | ".join(present)
            + " |",
            "|---|---|---|" + "---|" * len(present),
        ]
        for name in WORKLOADS:
            own = (OWN, threads, name)
            row = [
                pretty(found.forward(*own)),
                f"{pretty(found.both(*own))} ({found.backward_over_forward(*own):.2f}×)",
            ]
            for peer in present:
                key = (peer, threads, name)
                if found.states[peer, name] == WRONG:
                    row.append("its gradient is wrong")
                else:
                    back = found.backward_over_forward(*key)
                    row.append(f"{pretty(found.both(*key))} ({back:.2f}×): **{found.over_own(*key):.2f}×**")
            lines.append(f"| {name} | " + " | ".join(row) + " |")
        lines.append("")
    lines += [
        f"What the way back through the time loop of {gradient_workloads.STEPS} steps keeps of the forward pass:",
        "",
        "| | memory | result and gradient, 1 thread | 2 threads |",
        "|---|---|---|---|",
    ]
    for (peer, name), size in found.memory.items():
        label = peer + name.removeprefix("time loop")
        times = " | ".join(pretty(found.both(peer, threads, name)) for threads in (1, 2))
        lines.append(f"| {label} | {size / 1e6:.3g} MB | {times} |")
    return lines


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        peer, scale, folder = sys.argv[2:]
        return serve(peer, float(scale), Path(folder))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small arrays and few rounds: whether it works")
    quick = parser.parse_args().quick
    print("\n".join(section(3, 0.01) if quick else section()))


if __name__ == "__main__":
    main()

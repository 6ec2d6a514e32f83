"""The first call of a process that opens a database with 10,000 tuned graphs; part of `planner.py`.

One function is profiled, and the rest of the database is copies of its rows by other names, so that look-ups go through
as many as there are. Each start is a process of its own, which imports first and then takes the time of its first call:
the function is analysed, the database opened, the path looked up, compiled or loaded from the cache of code, and run.

    python benches/warm_start.py [--graphs 10000] [--starts 9]
"""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAM = """
import json, sys, time
import numpy as np
import polyloom as loom
from polyloom import _native, _plan_report, ops


@loom.fuse(policy="fastest")
def layer(x, w):
    return ops.relu(ops.matmul(x, w))


g = np.random.default_rng(1)
x, w = (g.standard_normal(shape).astype(np.float32) for shape in ((64, 48), (48, 32)))
if sys.argv[2] == "profile":
    loom.config.database = sys.argv[1]
    print(layer.plan(x, w, measure=8))
else:
    begin, used = time.perf_counter(), time.process_time()
    loom.config.database = sys.argv[1]
    first = layer(x, w)
    end, used = time.perf_counter(), time.process_time() - used
    np.testing.assert_allclose(first, np.maximum(x @ w, 0), rtol=1e-4, atol=1e-5)
    statements = _native.n_database_statements()
    (group,) = layer.plan(x, w).groups
    print(json.dumps({"seconds": end - begin, "used": used, "statements": statements, "why": group["why"]}))
"""

# Copies of the one graph that is there, with its workloads, recipes and measurements.
COPIES = """
create temp table copies as with recursive n (k) as (select 1 union all select k + 1 from n where k < :n)
    select k + (select max(id) from canonical_graphs) as id from n;
insert into canonical_graphs select c.id, randomblob(32), mathematics_hash, canonical_text, mathematics_text
    from canonical_graphs g, copies c where g.id = (select min(id) from canonical_graphs);
insert into workloads (graph_id, workload_hash, arguments) select c.id, workload_hash, arguments
    from workloads w, copies c where w.graph_id = (select min(id) from canonical_graphs);
insert into implementations (graph_id, recipe_hash, recipe_version, identity, is_default, recipe)
    select c.id, recipe_hash, recipe_version, identity, is_default, recipe
    from implementations i, copies c where i.graph_id = (select min(id) from canonical_graphs);
insert into benchmark_traces
    select null, randomblob(32), c.id, w.id, environment_id, policy, i.id, code_hash, session, status, measured_at,
    n_samples, n_outliers, min_ps, p05_ps, median_ps, p95_ps, max_ps, mean_ps, mad_ps, n_warm_ups, error, reason,
    runner, observations, warm_ups, samples
    from benchmark_traces t
    join workloads ow on ow.id = t.workload_id
    join implementations oi on oi.id = t.implementation_id
    join copies c
    join workloads w on w.graph_id = c.id and w.workload_hash = ow.workload_hash
    join implementations i on i.graph_id = c.id and i.recipe_hash = oi.recipe_hash
    where t.graph_id = (select min(id) from canonical_graphs);
"""


def fill(database: Path, n_graphs: int) -> int:
    """Fills up a database that knows one graph, and returns the rows of measurements."""
    with sqlite3.connect(database) as connection:
        for statement in COPIES.strip().split(";\n"):
            connection.execute(statement, {"n": n_graphs - 1} if ":n" in statement else {})
        assert connection.execute("select count(*) from canonical_graphs").fetchone()[0] == n_graphs
        return int(connection.execute("select count(*) from benchmark_traces").fetchone()[0])


def run(program: Path, database: Path, what: str) -> str:
    command = [sys.executable, str(program), str(database), what]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "POLYLOOM_DATABASE": ""})
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)
    return done.stdout


def measure(n_graphs: int, n_starts: int) -> dict[str, object]:
    """The seconds of first calls, with what a start asks of the database."""
    folder = Path(tempfile.mkdtemp())
    program, database = folder / "warm.py", folder / "benchmarks.db"
    program.write_text(PROGRAM)
    run(program, database, "profile")
    n_traces = fill(database, n_graphs)
    starts = [json.loads(run(program, database, "start")) for _ in range(n_starts)]
    return {
        "graphs": n_graphs,
        "measurements": n_traces,
        "seconds": statistics.median(each["seconds"] for each in starts),
        "used": statistics.median(each["used"] for each in starts),
        "statements": starts[0]["statements"],
        "why": starts[0]["why"],
    }


def line(found: dict[str, object]) -> str:
    return (
        f"the first call of a process takes {float(str(found['seconds'])) * 1e3:.1f} ms with a database of "
        f"{found['graphs']:,} tuned graphs and {found['measurements']:,} measurements, imports not counted, and "
        f"{float(str(found['used'])) * 1e3:.1f} ms of processors; it asks {found['statements']} statements of it"
        f" ({found['why']})"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--graphs", type=int, default=10_000)
    parser.add_argument("--starts", type=int, default=9)
    options = parser.parse_args()
    print(line(measure(options.graphs, options.starts)))

"""Paths of fused functions: policies, what is measured and remembered, and databases that fail."""

import json
import os
import sqlite3
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import polyloom as loom
import pytest
from polyloom import _backends, _native, _planner, ops

G = np.random.default_rng(5)
X, Y = (G.standard_normal((40, 30)).astype(np.float32) for _ in range(2))


@pytest.fixture(autouse=True)
def database(tmp_path):
    """A database of each test's own, and the policy of the process as it was."""
    loom.config.database = tmp_path / "benchmarks.db"
    yield tmp_path / "benchmarks.db"
    loom.policy("default")
    loom.config.database = None


def fused(policy=None, **options):
    @loom.fuse(policy=policy, **options)
    def f(x, y):
        return ops.multiply(ops.add(x, y), x)

    return f


EXPECTED = (X + Y) * X
# On a machine that does much else, all samples may be too noisy, and predictions decide.
REASONS = ("measured:", "nothing is predicted", "predicted:")


def chosen(function, *values):
    (only,) = function.plan(*values).chosen()
    return only


def rows(database, query):
    with sqlite3.connect(database) as connection:
        return connection.execute(query).fetchall()


# Policies.


def test_the_default_policy_runs_the_plan_and_touches_no_database(database):
    f = fused()
    assert np.array_equal(f(X, Y), EXPECTED)
    assert not database.exists()
    found = chosen(f, X, Y)
    assert found["is_default"] and found["backends"] == ["CPU_NATIVE"]


@pytest.mark.parametrize("mode", ["default", "heuristic", "fastest"])
def test_all_policies_give_the_same_bits(mode):
    f = fused(mode)
    for _ in range(3):
        assert np.array_equal(f(X, Y), EXPECTED)
    with loom.policy(mode):
        assert np.array_equal(fused()(X, Y), EXPECTED)


def test_policies_are_of_the_process_or_of_a_function():
    assert repr(loom.policy()) == "Policy('default')"
    f, g = fused(), fused("default")
    with loom.policy("heuristic") as policy:
        assert policy.mode == "heuristic" and repr(loom.policy()) == "Policy('heuristic')"
        with loom.policy("fastest", tolerance=1e-6):
            assert repr(loom.policy()) == "Policy('fastest', tolerance=1e-06)"
        assert repr(loom.policy()) == "Policy('heuristic')"
        assert "default policy" not in f.plan(X, Y).groups[0]["why"]
        assert "default policy" in g.plan(X, Y).groups[0]["why"]
    assert "default policy" in f.plan(X, Y).groups[0]["why"]


def test_wrong_policies_are_refused():
    with pytest.raises(ValueError, match="'quick'"):
        loom.policy("quick")
    with pytest.raises(ValueError, match="'quick'"):
        loom.fuse(policy="quick")
    with pytest.raises(ValueError, match="tolerance"):
        loom.Policy("fastest", tolerance=-1.0)
    with pytest.raises(ValueError, match="budget"):
        loom.Policy("explore", budget=0)
    with pytest.raises(TypeError, match=r"write policy\('fastest', tolerance=1e-5\)"):
        loom.policy(tolerance=1.0)


def test_arguments_of_all_packages_give_results_of_theirs():
    policy = loom.Policy("heuristic", backends=[loom.Backend.CPU_NUMPY])
    f = fused(policy)
    assert isinstance(f(loom.array(X), loom.array(Y)), loom.array)
    assert np.array_equal(f(loom.array(X), loom.array(Y)).numpy(), EXPECTED)
    assert np.array_equal(f(X[::2, ::-1], Y[::2, ::-1]), EXPECTED[::2, ::-1])


def test_paths_go_through_pytorch():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")

    def g(x, y):
        return ops.relu(ops.matmul(x, ops.transpose(y)))

    backends = [loom.Backend.CPU_TORCH]
    f = loom.fuse(g, policy=loom.Policy("fastest", tolerance=1e-5, backends=backends))
    report = f.plan(X, Y, measure=60)
    measured = [each for each in report.groups[0]["candidates"] if "CPU_TORCH" in each["backends"]]
    assert any(each["status"] in ("ok", "too_noisy") for each in measured), report
    fast = loom.fuse(g, policy=loom.Policy("heuristic", backends=backends), float_mode="fast")
    for one in (f, fast):
        np.testing.assert_allclose(one(X, Y), np.maximum(X @ Y.T, 0), rtol=1e-4, atol=1e-5)
        found = one(torch.from_numpy(X), torch.from_numpy(Y))
        assert isinstance(found, torch.Tensor)
        np.testing.assert_allclose(found.numpy(), np.maximum(X @ Y.T, 0), rtol=1e-4, atol=1e-5)


def test_numbers_are_given_at_each_run():
    @loom.fuse(policy=loom.Policy("heuristic", backends=[loom.Backend.CPU_NUMPY]))
    def f(x, rate):
        return ops.add(ops.multiply(x, rate), x)

    for rate in (0.25, 3.5, 7):
        assert np.array_equal(f(X, rate), X * np.float32(rate) + X)


def test_results_that_are_views_keep_their_memory():
    @loom.fuse(policy="heuristic")
    def f(x):
        return ops.reshape(x, (-1,)), ops.add(x, 1.0)

    flat, _ = f(X)
    assert np.shares_memory(flat, X)


def test_results_share_no_memory_that_they_do_not_share_by_default():
    @loom.fuse(policy=loom.Policy("heuristic", backends=[loom.Backend.CPU_NUMPY]))
    def f(x):
        y = ops.add(x, 1.0)
        return ops.contiguous(x), y, ops.contiguous(y)

    copy, y, other = f(X)
    assert np.array_equal(copy, X) and np.array_equal(other, X + 1)
    assert not any(np.shares_memory(a, b) for a, b in ((copy, X), (y, other)))


# Measuring, and remembering.


def test_candidates_are_measured_and_remembered(database):
    f = fused("fastest")
    report = f.plan(X, Y, measure=60)
    (group,) = report.groups
    measured = [each for each in group["candidates"] if each["measured_ns"] is not None]
    assert {tuple(each["backends"]) for each in measured} >= {("CPU_NATIVE",), ("CPU_NUMPY",)}
    assert any(each["is_default"] for each in measured)
    assert all(each["error"] == 0 or each["error"] < 1e-6 for each in measured)
    assert len(report.chosen()) == 1
    assert group["why"].startswith(REASONS)
    assert rows(database, "select count(*) from benchmark_traces")[0][0] >= 3
    assert rows(database, "select count(*) from canonical_graphs")[0][0] == 1
    assert np.array_equal(f(X, Y), EXPECTED)


def test_reports_are_text_data_and_a_chart():
    report = fused("fastest").plan(X, Y, measure=3)
    text = str(report)
    assert text.startswith("f: 1 group planned\nf_0(float32[40, 30], float32[40, 30])")
    assert "predicted" in text and "CPU_NATIVE (add+multiply) (default)" in text and "chosen: " in text
    json.dumps(report.json())
    assert report._repr_html_().startswith("<svg") and report.chart().count("<rect") > 3


def test_exploring_is_off_the_path_of_the_caller(database):
    f = fused("explore")
    assert np.array_equal(f(X, Y), EXPECTED)
    with_default = f.plan(X, Y).groups[0]["why"]
    assert "being measured" in with_default or with_default.startswith("measured") or "settle" in with_default
    assert _planner.wait_until_explored(60)
    assert rows(database, "select count(*) from benchmark_traces where status in ('ok', 'too_noisy')")[0][0] >= 1
    assert np.array_equal(f(X, Y), EXPECTED)
    why = f.plan(X, Y).groups[0]["why"]
    assert why.startswith("measured") or "settle" in why


def test_the_cost_of_rounding_is_asked_for():
    def g(x, y):
        return ops.sum(ops.exp(ops.add(x, y)), axes=1)

    strict = loom.fuse(g, policy="fastest").plan(X, Y, measure=60)
    assert all(each["keeps_bits"] for group in strict.groups for each in group["candidates"])
    tolerant = loom.fuse(g, policy=loom.Policy("fastest", tolerance=1e-5)).plan(X, Y, measure=60)
    (group,) = tolerant.groups
    assert not all(each["keeps_bits"] for each in group["candidates"])
    for each in group["candidates"]:
        if each["is_chosen"] and not each["keeps_bits"]:
            assert each["error"] <= 1e-5
    fast = loom.fuse(g, policy="fastest", float_mode="fast")
    np.testing.assert_allclose(fast(X, Y), np.exp(X + Y).sum(1), rtol=1e-5)


# Kernels of others.


@pytest.fixture
def kernel():
    """Registers kernels, and takes them away."""
    made = []

    def register(op, **options):
        def decorate(function):
            made.append((op, options.get("name", function.__qualname__)))
            return loom.register_kernel(op, **options)(function)

        return decorate

    yield register
    for op, name in made:
        _planner.unregister_kernel(op, loom.Backend.CPU_NUMPY, name)


def test_registered_kernels_take_part(kernel):
    calls = []

    @kernel("add", name="own_add", keeps_bits=True)
    def own_add(x, y):
        calls.append(x.shape)
        return np.add(x, y)

    f = fused("fastest")
    report = f.plan(X, Y, measure=60)
    assert calls
    # Some path goes by the kernel, and is right.
    stored = rows(loom.config.database, "select recipe from implementations")
    assert any('"kernel":"own_add"' in recipe for (recipe,) in stored)
    assert np.array_equal(f(X, Y), EXPECTED) and report.groups
    with pytest.raises(ValueError, match="already"):
        loom.register_kernel("add", name="own_add")(own_add)
    with pytest.raises(ValueError, match="no_op"):
        loom.register_kernel("no_op")(own_add)
    with pytest.raises(ValueError, match="plans its own"):
        loom.register_kernel("add", loom.Backend.CPU_NATIVE)(own_add)


def test_a_planted_wrong_path_is_never_chosen(kernel):
    @kernel("add", name="wrong_add", keeps_bits=True)
    def wrong_add(x, y):
        result = np.add(x, y)
        result.reshape(-1)[:1] += 1
        return result

    f = fused("fastest")
    report = f.plan(X, Y, measure=60)
    wrong = [each for group in report.groups for each in group["candidates"] if each["status"] == "wrong"]
    assert wrong and all(not each["is_chosen"] and each["measured_ns"] is None for each in wrong)
    assert "element" in wrong[0]["reason"]
    assert np.array_equal(f(X, Y), EXPECTED)
    # Nor by the cost model, which now knows that it is wrong.
    assert np.array_equal(fused("heuristic")(X, Y), EXPECTED)


def test_a_planted_slow_path_is_never_chosen(kernel):
    @kernel("add", name="slow_add", keeps_bits=True)
    def slow_add(x, y):
        time.sleep(0.002)
        return np.add(x, y)

    report = fused("fastest").plan(X, Y, measure=60)
    chosen = report.chosen()[0]
    slow = rows(loom.config.database, "select recipe from implementations")
    assert any("slow_add" in recipe for (recipe,) in slow)
    assert chosen["measured_ns"] is None or chosen["measured_ns"] < 1e6


def test_a_path_that_fails_when_it_runs_gives_way_to_the_default(kernel):
    fails = False

    @kernel("add", name="failing_add", keeps_bits=True)
    def failing_add(x, y):
        if fails:
            raise RuntimeError("gone")
        return np.add(x, y)

    policy = loom.Policy("heuristic", backends=[loom.Backend.CPU_NUMPY])
    f = fused(policy)
    assert np.array_equal(f(X, Y), EXPECTED)
    fails = True
    assert np.array_equal(f(X, Y), EXPECTED)
    g = fused(policy)
    assert np.array_equal(g(X, Y), EXPECTED)


# Databases that fail.


def corrupt(path):
    path.write_bytes(b"no database at all" * 100)


def newer(path):
    fused("fastest").plan(X, Y, measure=1)
    with sqlite3.connect(path) as connection:
        connection.execute(
            "insert into schema_version select 999, name, checksum, applied_at from schema_version limit 1"
        )


def as_folder(path):
    path.mkdir()


@pytest.mark.parametrize("spoil", [corrupt, newer, as_folder])
@pytest.mark.parametrize("mode", ["fastest", "explore"])
def test_a_database_that_fails_is_told_once_and_fails_no_call(database, spoil, mode, tmp_path):
    spoil(database)
    loom.config.database = database
    f = fused(mode)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for _ in range(3):
            assert np.array_equal(f(X, Y), EXPECTED)
        assert _planner.wait_until_explored(60)
        assert np.array_equal(f(X, Y), EXPECTED)
        f.plan(X, Y)
    told = [str(each.message) for each in found if "benchmark database" in str(each.message)]
    assert len(told) == len(set(told)) and len(told) in (1, 2), told


def test_a_locked_database_fails_no_call(database):
    f = fused("fastest")
    f.plan(X, Y, measure=1)
    with sqlite3.connect(database, isolation_level=None) as connection:
        connection.execute("begin exclusive")
        g = fused("fastest")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert np.array_equal(g(X, Y), EXPECTED)


def test_no_database_is_no_failure(database):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        f = fused("fastest")
        assert np.array_equal(f(X, Y), EXPECTED)
    assert not database.exists()


# Several processes.

SCRIPT = """
import sys
import numpy as np
import polyloom as loom
from polyloom import ops

@loom.fuse(policy="fastest")
def f(x, y):
    return ops.multiply(ops.add(x, y), x)

x = np.ones((40, 30), np.float32)
"""


def run_script(database, text, **variables):
    environment = {**os.environ, "POLYLOOM_DATABASE": str(database), **variables}
    script = textwrap.dedent(SCRIPT) + textwrap.dedent(text)
    folder = Path(database).parent
    file = folder / "program.py"
    file.write_text(script)
    done = subprocess.run([sys.executable, str(file)], env=environment, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_two_processes_share_a_database(database):
    first = run_script(database, "print(f.plan(x, x, measure=60).chosen()[0]['hash'])")
    # The other one measures nothing, and runs what the first one has found.
    second = run_script(
        database,
        """
        report = f.plan(x, x)
        print(report.chosen()[0]["hash"])
        assert np.array_equal(f(x, x), (x + x) * x)
        assert all(each["measured_ns"] for each in report.groups[0]["candidates"] if each["is_default"])
        """,
    )
    assert first == second
    n_before = rows(database, "select count(*) from benchmark_traces")[0][0]
    workers = [threading.Thread(target=run_script, args=(database, "f.plan(x, x, measure=60)")) for _ in range(2)]
    [each.start() for each in workers]
    [each.join() for each in workers]
    assert rows(database, "select count(*) from benchmark_traces")[0][0] > n_before


def test_what_is_seen_is_recorded_and_profiled_offline(database):
    run_script(database, "f(x, x)\nf(x[:20], x[:20])", POLYLOOM_RECORD="1")
    assert rows(database, "select count(*) from workloads")[0][0] == 2
    assert rows(database, "select count(*) from benchmark_traces")[0][0] == 0
    environment = {**os.environ, "POLYLOOM_DATABASE": str(database)}
    command = [sys.executable, "-m", "polyloom", "profile", "--offline", "--per-graph", "3", "--json"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["n_done"] == 2 and found["n_failed"] == 0 and found["n_measurements"] >= 4
    again = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert json.loads(again.stdout)["n_done"] == 0
    run_script(
        database,
        """
        candidates = f.plan(x, x).groups[0]["candidates"]
        assert all(each["measured_ns"] for each in candidates if each["is_default"]), candidates
        """,
    )


def test_the_command_explains_plans(database):
    run_script(database, "")
    file = f"{Path(database).parent / 'program.py'}:f"
    environment = {**os.environ, "POLYLOOM_DATABASE": str(database)}

    def command(*arguments):
        whole = [sys.executable, "-m", "polyloom", "plan", *arguments]
        return subprocess.run(whole, env=environment, capture_output=True, text=True)

    shapes = ["--shape", "x=40x30", "--shape", "y=40x30"]
    done = command("explain", file, *shapes)
    assert done.returncode == 0, done.stderr
    assert "CPU_NATIVE (add+multiply) (default)" in done.stdout and "chosen:" in done.stdout
    listed = command("paths", file, *shapes, "--json")
    assert {tuple(each["backends"]) for each in json.loads(listed.stdout)["groups"][0]["candidates"]} >= {
        ("CPU_NATIVE",),
        ("CPU_NUMPY",),
    }
    missing = command("explain", file, "--shape", "x=40x30")
    assert missing.returncode == 1 and "`y` has no value" in missing.stderr
    dictionary = Path(database).parent / "dictionary.py"
    dictionary.write_text(
        "import polyloom as loom\nfrom polyloom import ops\n"
        "def g(x, layer):\n    return ops.add(x, layer['w'])\n"
        "@loom.kernel\ndef k(x: loom.array(dtype=float)):\n    x[0] = 1.0\n"
    )
    entries = command("explain", f"{dictionary}:g", "--shape", "x=4x5", "--shape", "layer.w=4x5")
    assert entries.returncode == 0 and "chosen:" in entries.stdout, entries.stderr
    for arguments, message in (
        ([f"{dictionary}:k"], "is no function of tensors, but Kernel"),
        ([file, "--shape", "x=40,30"], "--shape x=40,30: a shape is written as 4x5"),
        ([file, "--shape", "x=4", "--number", "y=2q"], "`2q` is no number"),
        ([file, "--shape", "x=4", "--shape", "y=5"], "the function fails with these arguments: ValueError"),
    ):
        failed = command("explain", *arguments)
        assert failed.returncode == 1 and message in failed.stderr and "Traceback" not in failed.stderr
    assert command("explain", "program.py").returncode == 2
    assert command("explain", file.replace(":f", ":g"), *shapes).returncode == 1


def test_a_process_ends_while_something_is_measured(database):
    run_script(database, "loom.policy('explore')\ng = loom.fuse(f.__wrapped__)\ng(x, x)\n")


def test_numbers_of_a_policy_are_shared():
    assert loom.Policy("fastest")._number == loom.Policy("fastest")._number
    assert loom.Policy("fastest")._number != loom.Policy("fastest", tolerance=1e-3)._number
    assert loom.Policy()._number == 0
    with pytest.raises(ValueError, match="no policy"):
        _native.path_policy("quick", None, None, 1.0)


# Paths by name, tuned kernels, and what other processes find.


def test_each_path_can_be_named_and_is_right():
    from polyloom._fusion_text import FUSION

    f = fused("fastest")
    candidates = f.plan(X, Y).groups[0]["candidates"]
    (group,) = f.__dict__[FUSION].analysed().groups
    assert len(candidates) >= 3
    for each in candidates:
        group.native._pin_path(None if each["is_default"] else each["recipe"])
        assert np.array_equal(f(X, Y), EXPECTED)
        pinned = f.plan(X, Y)
        assert "named it" in pinned.groups[0]["why"]
        assert pinned.chosen()[0]["hash"] == each["hash"]
    with pytest.raises(ValueError, match="recipe"):
        group.native._pin_path("{}")


def test_kernels_are_tuned_and_keep_their_bits(database):
    g = np.random.default_rng(6)
    a, b = g.standard_normal((150, 90)).astype(np.float32), g.standard_normal((90, 70)).astype(np.float32)

    def product(a, b):
        return ops.relu(ops.matmul(a, b))

    expected = loom.fuse(product, policy="default")(a, b)
    f = loom.fuse(product, policy="fastest")
    report = f.plan(a, b, measure=60)
    stored = rows(database, "select recipe from implementations")
    tuned = [recipe for (recipe,) in stored if '"tile"' in recipe]
    assert len(tuned) >= 2
    # Their measurements are kept, and compared with nothing but themselves.
    searched = rows(database, "select status from benchmark_traces where policy like '%-search'")
    assert len(searched) >= len(tuned) and {status for (status,) in searched} <= {"ok", "too_noisy", "timed_out"}
    assert f(a, b).tobytes() == expected.tobytes(), report
    from polyloom._fusion_text import FUSION

    (group,) = f.__dict__[FUSION].analysed().groups
    for recipe in tuned[:4]:
        group.native._pin_path(recipe)
        assert f(a, b).tobytes() == expected.tobytes(), recipe


def test_what_another_process_measures_is_seen(database):
    f = fused("fastest")
    assert np.array_equal(f(X[:30], Y[:30]), EXPECTED[:30])
    before = f.plan(X[:30], Y[:30]).groups[0]["why"]
    assert not before.startswith("measured")
    run_script(database, "f.plan(x[:30], x[:30], measure=60)")
    # A thread looks now and then, and may have been first.
    _native.look_for_news()
    after = f.plan(X[:30], Y[:30]).groups[0]["why"]
    assert after.startswith("measured") or after == before
    assert np.array_equal(f(X[:30], Y[:30]), EXPECTED[:30])
    assert not _native.look_for_news()


def test_a_first_call_asks_a_large_database_little(database):
    run_script(database, "f.plan(x, x, measure=60)")
    copies = """
        create temp table copies as with recursive n (k) as (select 1 union all select k + 1 from n where k < 10000)
            select k + (select max(id) from canonical_graphs) as id from n;
        insert into canonical_graphs select c.id, randomblob(32), mathematics_hash, canonical_text, mathematics_text
            from canonical_graphs g, copies c where g.id = 1;
        insert into workloads (graph_id, workload_hash, arguments) select c.id, workload_hash, arguments
            from workloads w, copies c where w.graph_id = 1;
    """

    def statements():
        return int(
            run_script(database, "f(x, x)\nfrom polyloom import _native\nprint(_native.n_database_statements())")
        )

    before = statements()
    with sqlite3.connect(database) as connection:
        connection.executescript(copies)
    assert statements() == before <= 5


def test_tensors_of_pytorch_on_a_gpu_take_part(monkeypatch):
    pytest.importorskip("torch", reason="PyTorch is not installed")
    # The CPU stands for a GPU: what goes there is copied, and copied back.
    copied = []

    def on_gpu(tensor):
        copied.append(tuple(tensor.shape))
        return tensor.clone()

    monkeypatch.setattr(_backends, "GPU", "cpu")
    monkeypatch.setattr(_backends, "on_gpu", on_gpu)
    monkeypatch.setattr(_backends, "_has_torch_gpu", lambda: True)

    def g(x, y):
        return ops.relu(ops.matmul(x, ops.transpose(y)))

    f = loom.fuse(g, policy=loom.Policy("fastest", tolerance=1e-5, backends=[loom.Backend.GPU_TORCH]))
    measured = [each for each in f.plan(X, Y, measure=60).groups[0]["candidates"] if each["measured_ns"] is not None]
    assert any(each["backends"] == ["GPU_TORCH"] for each in measured), measured
    assert X.shape in copied
    np.testing.assert_allclose(f(X, Y), np.maximum(X @ Y.T, 0), rtol=1e-4, atol=1e-5)

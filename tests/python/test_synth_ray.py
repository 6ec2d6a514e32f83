"""`polyloom.synth.produce(engine="ray")` on two nodes of a local cluster: the rows are those of one run."""

import json
import os
import shutil
import signal
import threading
import time
from pathlib import Path

import pytest
from polyloom import _native, _synth_ray, synth

ray = pytest.importorskip("ray", reason="Ray is not installed (PyPI: ray)")
cluster_utils = pytest.importorskip("ray.cluster_utils")

SETTINGS = {"seed": 8, "verify": "run", "indices_per_file": 40}
SETTINGS["columns"] = ["id", "kernel_name", "category", "python_source", "metadata"]
COUNT = 400


@pytest.fixture(scope="module")
def cluster():
    cluster = cluster_utils.Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    cluster.add_node(num_cpus=1)
    # Workers have to find the package where this process does.
    paths = {"PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    ray.init(address=cluster.address, runtime_env={"env_vars": paths}, log_to_driver=False)
    yield cluster
    ray.shutdown()
    cluster.shutdown()


def files(folder: Path) -> dict[str, bytes]:
    """All files but that which says how long the run took."""
    found = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "stats.json")
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    folder = tmp_path_factory.mktemp("local") / "set"
    synth.produce(COUNT, folder, **SETTINGS)
    return files(folder)


def test_two_nodes_make_what_one_run_makes(cluster, local, tmp_path):
    told = []
    statistics = synth.produce(
        COUNT, tmp_path / "set", engine="ray", progress=lambda rows, rejects, seconds: told.append(rows), **SETTINGS
    )
    assert statistics["total_pairs"] == COUNT
    assert len(told) >= COUNT / 40 and told == sorted(told)
    assert files(tmp_path / "set") == local
    assert not (tmp_path / "set.shards").exists()
    with pytest.raises(FileExistsError, match="holds a data set already"):
        synth.produce(COUNT, tmp_path / "set", engine="ray", **SETTINGS)


def workers() -> list[int]:
    """The processes that are making a shard."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and b"ray::_make" in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def test_a_worker_that_is_killed_loses_nothing(cluster, local, tmp_path):
    killed = []

    def kill():
        # In the middle: some shards are there, and one is being made.
        while len(killed) < 2:
            some = list((tmp_path / "set.shards").glob("shard-?????"))
            if len(some) > len(killed) and (making := workers()):
                os.kill(making[0], signal.SIGKILL)
                killed.append(making[0])
            time.sleep(0.02)

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    synth.produce(COUNT, tmp_path / "set", engine="ray", **SETTINGS)
    assert len(killed) == 2
    assert files(tmp_path / "set") == local


def test_a_driver_that_is_lost_goes_on(cluster, local, tmp_path):
    def stop(rows, rejects, seconds):
        if rows > COUNT / 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        synth.produce(COUNT, tmp_path / "set", engine="ray", progress=stop, **SETTINGS)
    with pytest.raises(FileExistsError, match="resume goes on"):
        synth.produce(COUNT, tmp_path / "set", engine="ray", **SETTINGS)
    with pytest.raises(ValueError, match="seed: 8 there, 9 here"):
        synth.produce(COUNT, tmp_path / "set", engine="ray", resume=True, **(SETTINGS | {"seed": 9}))
    synth.produce(COUNT, tmp_path / "set", engine="ray", resume=True, **SETTINGS)
    assert files(tmp_path / "set") == local


def test_columns_that_merging_needs_are_asked_for(cluster, tmp_path):
    with pytest.raises(ValueError, match="without the columns kernel_name, category"):
        synth.produce(COUNT, tmp_path / "set", engine="ray", columns=["id", "python_source", "metadata"])


def test_a_worker_of_another_version_is_refused(tmp_path):
    with pytest.raises(RuntimeError, match="install the same"):
        _synth_ray._make({}, str(tmp_path), 0, 1, [], ("0.0.0", 1))


@pytest.mark.parametrize("resume", [False, True])
def test_a_folder_that_holds_something_else_is_refused_before_anything_is_made(cluster, tmp_path, resume):
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "notes.txt").write_text("mine")
    with pytest.raises(FileExistsError, match="is not empty"):
        synth.produce(COUNT, tmp_path / "set", engine="ray", resume=resume, **SETTINGS)
    assert [path.name for path in tmp_path.iterdir()] == ["set"]


def test_resume_of_what_is_finished_reads_its_settings(cluster, tmp_path):
    settings = SETTINGS | {"verify": "parse"}
    made = synth.produce(40, tmp_path / "set", **settings)
    before = files(tmp_path / "set")
    assert synth.produce(40, tmp_path / "set", engine="ray", resume=True, **settings) == made
    with pytest.raises(ValueError, match="seed: 8 there, 9 here"):
        synth.produce(40, tmp_path / "set", engine="ray", resume=True, **(settings | {"seed": 9}))
    assert files(tmp_path / "set") == before
    manifest = json.loads((tmp_path / "set" / "manifest.json").read_text())
    (tmp_path / "set" / "manifest.json").write_text(json.dumps(manifest | {"is_finished": False}))
    with pytest.raises(ValueError, match="the same engine goes on"):
        synth.produce(40, tmp_path / "set", engine="ray", resume=True, **settings)
    assert not (tmp_path / "set.shards").exists()


def alike(count: int, most_alike: int) -> dict:
    """Settings of kernels of which a few are much like all others."""
    settings = json.loads(_native.dataset_settings(count, 3))
    columns = SETTINGS["columns"]
    return settings | {
        "categories": ["tensor_core"],
        "verify": "parse",
        "columns": columns,
        "indices_per_chunk": 250,
        "most_alike": most_alike,
    }


def test_rounds_go_on_until_there_are_enough(cluster, tmp_path, monkeypatch):
    merges = []
    merge = _native.merge_datasets

    def noting(folders, output, count):
        merges.append(len(folders))
        return merge(folders, output, count)

    monkeypatch.setattr(_native, "merge_datasets", noting)
    _synth_ray.produce(alike(1500, 1), str(tmp_path / "set"), jobs=1, resume=False)
    assert json.loads((tmp_path / "set" / "stats.json").read_text())["total_pairs"] == 1500
    assert merges == sorted(set(merges)) and len(merges) <= 6


@pytest.mark.parametrize("engine", ["local", "ray"])
def test_a_run_that_finds_no_more_rows_ends(cluster, tmp_path, engine):
    settings, target = alike(1500, 0), str(tmp_path / "set")
    with pytest.raises(
        RuntimeError, match="gave no row .*nearly_alike.* there is no more to find, or something is wrong"
    ):
        if engine == "ray":
            _synth_ray.produce(settings, target, jobs=1, resume=False)
        else:
            _native.produce_dataset(json.dumps(settings), target, 2, False, [], None, None, None)


def test_a_run_whose_ranges_have_no_more_rows_for_each_other_ends(cluster, tmp_path, monkeypatch):
    def merge(folders, output, count):
        chunks = [
            {
                "first": 250 * chunk,
                "end": 250 * (chunk + 1),
                "rows": 0 if chunk else 200,
                "rejects": {"duplicate": 250} if chunk else {},
            }
            for chunk in range(len(folders))
        ]
        Path(output).mkdir()
        Path(output, "manifest.json").write_text(json.dumps({"chunks": chunks}))
        return 200

    monkeypatch.setattr(_native, "merge_datasets", merge)
    with pytest.raises(
        RuntimeError, match=r"1000 indices in a row gave no row \(duplicate 1000\).*200 rows are before"
    ):
        _synth_ray.produce(alike(1500, 50), str(tmp_path / "set"), jobs=1, resume=False)


def test_barren_ranges_count_in_order_and_only_before_the_rows_that_are_wanted():
    found = _synth_ray._Barren(10)
    for rows in (5, 0, 0, 1, 0, 0):
        found.add(400, rows, {"duplicate": 400})
    with pytest.raises(RuntimeError, match=r"1200 .*\(duplicate 1200\).* 6 rows"):
        found.add(400, 0, {"duplicate": 400})
    enough = _synth_ray._Barren(5)
    for rows in (5, 0, 0, 0):
        enough.add(400, rows, {})


def test_only_another_attempt_has_one_removed(tmp_path, monkeypatch):
    settings, versions = alike(250, 50), _synth_ray._versions()

    def fail(attempt, target):
        raise PermissionError("read-only")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", fail)
        with pytest.raises(PermissionError, match="read-only"):
            _synth_ray._make(settings, str(tmp_path), 0, 1, [], versions)
    (attempt,) = tmp_path.iterdir()
    assert (attempt / "stats.json").exists()

    rename = Path.rename

    def second(attempt, target):
        shutil.copytree(attempt, target)
        return rename(attempt, target)

    shutil.rmtree(attempt)
    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", second)
        rows, rejects = _synth_ray._make(settings, str(tmp_path), 0, 1, [], versions)
    assert [path.name for path in tmp_path.iterdir()] == ["shard-00000"]
    assert rows > 0 and rows + sum(rejects.values()) >= 250

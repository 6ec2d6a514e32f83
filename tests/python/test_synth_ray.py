"""`polyloom.synth.produce(engine="ray")` on two nodes of a local cluster: the rows are those of one run."""

import os
import signal
import threading
import time
from pathlib import Path

import pytest
from polyloom import _synth_ray, synth

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

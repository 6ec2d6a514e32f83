"""Data sets made by the machines of a Ray cluster: ``polyloom.synth.produce(engine="ray")``.

A task makes the rows of one range of indices, which depend on nothing else, in a folder of its own that gets its name
when it is complete. A task whose worker is lost is made again; what is merged in the end is what one run would have
made.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from polyloom import _native

Progress = Callable[[int, int, float], object]

# The columns by which merging counts rows.
_COUNTED = ("kernel_name", "category", "python_source", "metadata")


def produce(
    settings: dict[str, Any],
    output: str,
    *,
    jobs: int,
    resume: bool,
    exclude: Sequence[str] = (),
    progress: Progress | None = None,
) -> None:
    """Writes the data set of these settings to a folder that all machines of the cluster see.

    Parameters
    ----------
    settings : dict
        Those of a run that makes ``settings["count"]`` rows by itself.
    output : str
        The folder. What tasks make is in another beside it, named after it, until all is merged.
    jobs : int
        The cores that a task has.
    resume : bool
        Whether to go on with what an earlier run has left.
    exclude : sequence of str
        Files of kernels that no row may be like; all machines have to see them.
    progress : callable, optional
        Called when a task is done, with rows, rejects and seconds.
    """
    try:
        import ray  # type: ignore[import-not-found,unused-ignore]
    except ImportError as error:
        raise ImportError("engine='ray' needs Ray: pip install 'polyloom[ray]'") from error
    if not ray.is_initialized():
        ray.init(address=os.environ.get("RAY_ADDRESS"), log_to_driver=False)
    lacking = [name for name in _COUNTED if name not in settings["columns"]]
    if lacking:
        raise ValueError(f"shards cannot be put together without the columns {', '.join(lacking)}")
    target = Path(output).absolute()
    if Path(target, "manifest.json").exists():
        if resume:
            return
        raise FileExistsError(f"{target} holds a data set already")
    shards = _begin(target.with_name(f"{target.name}.shards"), settings, resume)
    # A worker that is lost takes its task with it, whatever the task's fault was: no more than a few times.
    make = ray.remote(num_cpus=jobs, max_retries=10)(_make)
    started = time.monotonic()
    n_indices: int = settings["indices_per_chunk"]
    count: int = settings["count"]
    rows: dict[int, int] = {}
    rejects = 0
    n_chunks = -(-count // n_indices)
    while True:
        first = len(rows)
        waiting = {
            make.remote(settings, str(shards), chunk, jobs, list(exclude), _versions()): chunk
            for chunk in range(first, n_chunks)
        }
        while waiting:
            (done,), _ = ray.wait(list(waiting), num_returns=1)
            n_rows, n_rejects = ray.get(done)
            rows[waiting.pop(done)] = n_rows
            rejects += n_rejects
            if progress is not None:
                progress(sum(rows.values()), rejects, time.monotonic() - started)
        n_merged = 0
        if sum(rows.values()) >= count:
            folders = [str(shards / _name(chunk)) for chunk in range(n_chunks)]
            merged = shards / f"merged-{uuid.uuid4().hex}"
            n_merged = _native.merge_datasets(folders, str(merged), count)
            if n_merged >= count:
                break
            shutil.rmtree(merged)
        # Some were rejected, or known from another range: so many are missing, and a few more.
        missing = count - (n_merged or sum(rows.values()))
        n_chunks += 1 + missing // n_indices
    # An interrupted run may have left an empty folder.
    if target.exists():
        target.rmdir()
    merged.rename(target)
    shutil.rmtree(shards)


def _begin(shards: Path, settings: dict[str, Any], resume: bool) -> Path:
    """The folder of what tasks make, which is for these settings alone."""
    known = shards / "settings.json"
    if known.exists():
        if not resume:
            raise FileExistsError(f"{shards} holds shards of an earlier run: resume goes on with them")
        before = json.loads(known.read_text())
        differing = [name for name in settings if before.get(name) != settings[name]]
        differences = [f"{name}: {before.get(name)} there, {settings[name]} here" for name in differing]
        if differences:
            raise ValueError(f"{shards} was begun with other settings:\n  " + "\n  ".join(differences))
        return shards
    shards.mkdir(parents=True, exist_ok=True)
    temporary = shards / "settings.json.tmp"
    temporary.write_text(json.dumps(settings))
    temporary.replace(known)
    return shards


def _name(chunk: int) -> str:
    return f"shard-{chunk:05}"


def _versions() -> tuple[str, int]:
    """What two machines must have alike to make the same rows."""
    settings = json.loads(_native.dataset_settings(0, 0))
    return settings["polyloom"], settings["generator"]


def _make(
    settings: dict[str, Any], shards: str, chunk: int, jobs: int, exclude: list[str], versions: tuple[str, int]
) -> tuple[int, int]:
    """Makes one range of indices, unless it is there; gives its rows and its rejects. Runs on a worker."""
    if _versions() != tuple(versions):
        raise RuntimeError(f"a worker has polyloom {_versions()}, the driver {tuple(versions)}: install the same")
    folder = Path(shards, _name(chunk))
    if not folder.exists():
        n_indices = settings["indices_per_chunk"]
        own = settings | {"count": None, "first": chunk * n_indices, "end": (chunk + 1) * n_indices}
        # Of a task that is made twice at once, each attempt has a folder.
        attempt = folder.with_name(f"{folder.name}.{uuid.uuid4().hex}")
        _native.produce_dataset(json.dumps(own), str(attempt), jobs, False, exclude, None, None, None)
        try:
            attempt.rename(folder)
        except OSError:
            # Another attempt was first, and has made the same.
            shutil.rmtree(attempt)
    statistics = json.loads(Path(folder, "stats.json").read_text())
    return statistics["total_pairs"], sum(statistics["rejects"].values())


def main() -> int:
    """What ``polyloom dataset produce --engine ray`` starts, with the settings on its standard input."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", required=True)
    parser.add_argument("--jobs", type=int, required=True)
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--exclude", action="append", default=[])
    arguments = parser.parse_args()

    def progress(rows: int, rejects: int, seconds: float) -> None:
        print(f"{rows} rows, {rows / max(seconds, 1e-3):.0f} a second, {rejects} rejected", file=sys.stderr)

    try:
        produce(
            json.load(sys.stdin),
            arguments.output,
            jobs=arguments.jobs,
            resume=arguments.resume,
            exclude=arguments.exclude,
            progress=progress,
        )
    except (ImportError, OSError, ValueError, RuntimeError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

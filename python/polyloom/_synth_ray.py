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
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from polyloom import _native

Progress = Callable[[int, int, float], object]

# After so many indices without a row a run ends, as one of the local engine does.
_MOST_BARREN = 1000


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

    Raises
    ------
    ValueError
        If shards with these columns cannot be put together, or `resume` finds other settings.
    FileExistsError
        If the folder, or that of an earlier run's tasks, is in the way.
    RuntimeError
        If a thousand indices in a row, of ranges without a row, give none.
    """
    try:
        import ray  # type: ignore[import-not-found,unused-ignore]
    except ImportError as error:
        raise ImportError("engine='ray' needs Ray: pip install 'polyloom[ray]'") from error
    lacking = _native.dataset_columns_to_merge_by(settings["columns"])
    if lacking:
        raise ValueError(f"shards cannot be put together without the columns {', '.join(lacking)}")
    target = Path(output).absolute()
    # Shards without these kernels are others.
    settings = settings | {"excluded": _native.dataset_exclusion(list(exclude))}
    if _is_finished(target, settings, jobs, resume, exclude):
        return
    if not ray.is_initialized():
        ray.init(address=os.environ.get("RAY_ADDRESS"), log_to_driver=False)
    shards = _begin(target.with_name(f"{target.name}.shards"), settings, resume)
    # A worker that is lost takes its task with it, whatever the task's fault was: no more than a few times.
    make = ray.remote(num_cpus=jobs, max_retries=10)(_make)
    started = time.monotonic()
    n_indices: int = settings["indices_per_chunk"]
    count: int = settings["count"]
    rows: dict[int, int] = {}
    rejects: dict[int, Mapping[str, int]] = {}
    in_order = _Barren(count)
    n_in_order = 0
    n_rejects = 0
    n_chunks = -(-count // n_indices)
    while True:
        first = len(rows)
        waiting = {
            make.remote(settings, str(shards), chunk, jobs, list(exclude), _versions()): chunk
            for chunk in range(first, n_chunks)
        }
        try:
            while waiting:
                (done,), _ = ray.wait(list(waiting), num_returns=1)
                chunk = waiting.pop(done)
                rows[chunk], rejects[chunk] = ray.get(done)
                n_rejects += sum(rejects[chunk].values())
                while n_in_order in rows:
                    in_order.add(n_indices, rows[n_in_order], rejects.pop(n_in_order))
                    n_in_order += 1
                if progress is not None:
                    progress(sum(rows.values()), n_rejects, time.monotonic() - started)
        except BaseException:
            # Nobody waits for these any more.
            for task in waiting:
                ray.cancel(task)
            raise
        given = [rows[chunk] for chunk in range(n_chunks)]
        if sum(given) >= count:
            folders = [str(shards / _name(chunk)) for chunk in range(n_chunks)]
            merged = shards / f"merged-{uuid.uuid4().hex}"
            if _native.merge_datasets(folders, str(merged), count) >= count:
                break
            chunks = json.loads((merged / "manifest.json").read_text())["chunks"]
            shutil.rmtree(merged)
            given = [chunk["rows"] for chunk in chunks]
            together = _Barren(count)
            for chunk, n_rows in zip(chunks, given, strict=True):
                together.add(chunk["end"] - chunk["first"], n_rows, chunk["rejects"])
        # Some were rejected, or known from another range, which are more and more: so many ranges are missing at the
        # rate of the last ones. No more than are there, for a rate that is hardly any may be a chance.
        last = given[-max(1, n_chunks // 4) :]
        missing = (count - sum(given)) * len(last) // max(1, sum(last))
        n_chunks += min(n_chunks, 1 + missing)
    # An interrupted run may have left an empty folder.
    if target.exists():
        target.rmdir()
    merged.rename(target)
    shutil.rmtree(shards)


class _Barren:
    """Ends a run that finds no more rows, by what ranges of indices gave, in order.

    Parameters
    ----------
    count : int
        How many rows are wanted. What comes after these does not matter.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self.rows = 0
        self.n_indices = 0
        self.rejects: Counter[str] = Counter()

    def add(self, n_indices: int, rows: int, rejects: Mapping[str, int]) -> None:
        """Takes what the next range gave; raises RuntimeError if there were too many without a row."""
        self.rows += rows
        if rows:
            self.n_indices = 0
            self.rejects.clear()
            return
        self.n_indices += n_indices
        self.rejects.update(rejects)
        if self.n_indices >= _MOST_BARREN and self.rows < self.count:
            why = ", ".join(f"{reason} {n}" for reason, n in self.rejects.most_common(3))
            raise RuntimeError(
                f"{self.n_indices} indices in a row gave no row ({why}): there is no more to find, or something is "
                f"wrong; {self.rows} rows are before them"
            )


def _is_finished(target: Path, settings: dict[str, Any], jobs: int, resume: bool, exclude: Sequence[str]) -> bool:
    """Whether the data set is there. What else there may be is refused."""
    known = target / "manifest.json"
    if known.exists():
        if not resume:
            raise FileExistsError(f"{target} holds a data set already: resume goes on with it")
        if not json.loads(known.read_text()).get("is_finished"):
            raise ValueError(f"{target} holds a data set that engine='local' began: the same engine goes on with it")
        # It has nothing to make, but refuses other settings.
        _native.produce_dataset(json.dumps(settings), str(target), jobs, True, list(exclude), None, None, None)
        return True
    if target.exists() and any(target.iterdir()):
        raise FileExistsError(f"{target} is not empty, and what is in it is no data set")
    return False


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
) -> tuple[int, dict[str, int]]:
    """Makes one range of indices, unless it is there; gives its rows and its rejects by reason. Runs on a worker."""
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
            # Another attempt may have been first, and has made the same.
            if not folder.exists():
                raise
            shutil.rmtree(attempt)
    statistics = json.loads(Path(folder, "stats.json").read_text())
    return statistics["total_pairs"], statistics["rejects"]


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

"""Every planted bug is found, of the right kind and at the right line, and nothing is found in a corrected twin."""

from __future__ import annotations

import numpy as np
import polyloom as loom
import pytest
from planted import (
    CASES,
    CHECK,
    COMPILE,
    RACE,
    UNINITIALISED,
    Case,
    barriers,
    bounds,
    by_hand,
    copies,
    global_races,
    shared_races,
    uninitialised,
)

MODULES = [shared_races, global_races, bounds, barriers, uninitialised, copies]


@pytest.fixture(autouse=True)
def all_checks():
    loom.sim.configure(sanitize="all")
    yield
    loom.sim.configure(sanitize="default")


def launch(case: Case, function, shared_bytes: int) -> None:
    kernel = loom.kernel(check=case.kind == CHECK, block_dim=case.block)(function)
    # The simulator is to find what the launch knows before.
    loom.launch(
        kernel,
        grid=case.grid,
        block=case.block,
        inputs=case.fresh_args(),
        shared_bytes=shared_bytes,
        device="sim:0",
        unchecked=True,
    )


def name(case: Case) -> str:
    return case.bug.__name__


@pytest.mark.parametrize("case", CASES, ids=name)
def test_bug_is_found(case: Case):
    lines = case.lines()
    assert lines
    if case.kind == COMPILE:
        with pytest.raises(loom.CompileError) as refused:
            launch(case, case.bug, case.shared_bytes)
        found = {diagnostic.line for diagnostic in refused.value.diagnostics}
        assert found and found <= lines
    elif case.kind == CHECK:
        with pytest.raises(loom.LaunchError) as failed:
            launch(case, case.bug, case.shared_bytes)
        assert failed.value.line in lines
    else:
        with pytest.raises(loom.SanitizerError) as caught:
            launch(case, case.bug, case.shared_bytes)
        # What a missing barrier lets a thread read too early may also be memory that nobody has written yet.
        kinds = {finding.kind for finding in caught.value.findings}
        assert case.kind in kinds and kinds <= {case.kind, UNINITIALISED}
        for finding in caught.value.findings:
            assert finding.file == case.bug.__code__.co_filename and finding.line in lines, finding
            assert (finding.other is not None) == (finding.kind == RACE), finding
            assert finding.other is None or finding.other[1] in lines, finding


@pytest.mark.parametrize("case", CASES, ids=name)
def test_twin_is_clean(case: Case):
    launch(case, case.twin, case.shared_bytes if case.twin_shared_bytes is None else case.twin_shared_bytes)


def test_there_are_enough():
    assert len(CASES) >= 40
    assert len({case.bug.__name__ for case in CASES}) == len(CASES)


def reversed_by(text: str) -> np.ndarray:
    x = np.arange(64, dtype=np.uint32)
    loom.sim.Module(text).kernel("reversed").launch(1, 64, [x])
    return x


def test_divergent_barrier_of_ptx_by_hand_is_found():
    with pytest.raises(loom.SanitizerError) as caught:
        reversed_by(by_hand.DIVERGENT)
    (finding,) = caught.value.findings
    assert finding.kind == "divergent barrier"
    # It names no source, so that the line is the text's own.
    assert f"PTX line {by_hand.bug_line(by_hand.DIVERGENT)}" in str(caught.value), caught.value


def test_twin_of_ptx_by_hand_is_clean():
    assert reversed_by(by_hand.TWIN).tolist() == [*range(47, -1, -1), *range(48, 64)]

"""The cases of capture, run as they are written and fused: same results, arguments, side effects and exceptions."""

import json
from pathlib import Path

import polyloom as loom
import pytest
from fused_functions import compare, n_runs, programs

FOLDER = Path(__file__).parents[1] / "cases"
CASES = [
    case for file in ("mutation_cases", "capture_cases") for case in json.loads((FOLDER / f"{file}.json").read_text())
]


def has_ops(case):
    return all(hasattr(loom.ops, name) for name in case["calls"])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_a_case_does_fused_what_it_does_as_it_is_written(case):
    text = case["source"]
    if "async def f" in text or "yield" in text:
        pytest.skip("it is refused, which test_fuse_functions.py checks")
    if not has_ops(case):
        pytest.skip("the package has no such op")
    for variant in range(6):
        wrong, _ = compare.difference(text, "f", programs.case_world(case, variant), loom.fuse)
        assert wrong is None, f"variant {variant}\n{text}\n{wrong}"


def test_most_groups_of_the_cases_run():
    n_groups = n_rewritten = n_ran = 0
    for case in CASES:
        text = case["source"]
        if "async def f" in text or "yield" in text or not has_ops(case):
            continue
        _, function = compare.difference(text, "f", programs.case_world(case, 1), loom.fuse)
        n_groups += sum(len(group) > 1 for group in case["expected_groups"])
        n_rewritten += sum(len(group.calls) > 1 for group in function.groups)
        n_ran += n_runs(function) > 0
    assert n_rewritten >= 0.6 * n_groups, (n_groups, n_rewritten, n_ran)
    assert n_ran >= 0.5 * n_rewritten, (n_groups, n_rewritten, n_ran)

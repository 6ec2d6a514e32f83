"""A pytest plugin: `pytest --polyloom-gpu` runs tests of GPU code on the driver over the simulator.

It is a package of its own because pytest imports it in every run, and Polyloom only where the option is given.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from typing import Any

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("polyloom", "GPU code without a GPU")
    group.addoption("--polyloom-gpu", action="store_true", help="run GPU code on Polyloom's simulated driver")
    group.addoption("--polyloom-gpu-arch", default="", metavar="ARCH", help="what is simulated (default sm_86)")
    group.addoption(
        "--polyloom-gpu-sanitize",
        default="all",
        metavar="CHECKS",
        help="checks by name, as `polyloom gpu run --sanitize` has them (default all); a test that has a finding fails",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    given = early_config.known_args_namespace
    if not given.polyloom_gpu:
        return
    os.environ["POLYLOOM_GPU_SANITIZE"] = given.polyloom_gpu_sanitize
    if given.polyloom_gpu_arch:
        os.environ["POLYLOOM_GPU_ARCH"] = given.polyloom_gpu_arch
    try:
        import polyloom.gpu  # noqa: F401
    except (ImportError, FileNotFoundError) as error:
        raise pytest.UsageError(f"--polyloom-gpu: {error}") from error


def pytest_report_header(config: pytest.Config) -> str | None:
    if not config.getoption("polyloom_gpu"):
        return None
    arch = os.environ.get("POLYLOOM_GPU_ARCH") or "sm_86"
    return f"polyloom gpu: a simulated {arch}, checks: {config.getoption('polyloom_gpu_sanitize')}"


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, None]:
    if not item.config.getoption("polyloom_gpu"):
        yield
        return
    from polyloom.gpu import findings

    before = len(findings())
    outcome = yield
    found = findings()[before:]
    if not found:
        return
    text = "\n".join(found)
    if outcome.excinfo is None:
        outcome.force_exception(pytest.fail.Exception(f"the GPU's checks found:\n{text}", pytrace=False))
    else:
        item.add_report_section("call", "polyloom gpu", text)

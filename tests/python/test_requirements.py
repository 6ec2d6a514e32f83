"""What the tests ask for is listed for pip's users as for `make setup`'s."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_the_test_extra_is_part_of_the_development_environment():
    tomllib = pytest.importorskip("tomllib")
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    development = (ROOT / "python" / "requirements-dev.txt").read_text().splitlines()
    assert set(extras["test"]) <= set(development)
    assert {"nvidia-cuda-nvcc", "nvidia-cuda-nvrtc"} <= {line.split("=")[0] for line in extras["test"]}

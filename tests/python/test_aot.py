"""A library built ahead of time, used by programs in C, C++, Rust and Python: `examples/aot`."""

import pathlib
import shutil
import subprocess
import sys

import pytest

EXAMPLE = pathlib.Path(__file__).parents[2] / "examples" / "aot"


def test_four_languages_print_the_same_bits(tmp_path):
    for tool in ["bash", "cc", "c++", "cargo"]:
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    command = [EXAMPLE / "run.sh", sys.executable, tmp_path]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("==> all four print the same bits\n")
    assert "gather refused" in done.stdout


def test_the_loader_is_small_and_needs_no_polyloom(tmp_path):
    build = [sys.executable, "-m", "polyloom", "build", EXAMPLE / "kernels.py", "-o", tmp_path / "small"]
    subprocess.run([*build, "--kernel", "scale_add"], check=True)
    assert (tmp_path / "small" / "small.py").stat().st_size < 6000
    program = (
        f"import sys; sys.path.insert(0, {str(tmp_path / 'small')!r})\n"
        "import numpy as np, small\n"
        "x, y = np.ones(3, np.float32), np.zeros(6, np.float32)\n"
        "small.scale_add(3, 2.0, x, y[::2])\n"
        "assert y.tolist() == [2, 0, 2, 0, 2, 0], y\n"
        "assert 'polyloom' not in sys.modules\n"
        "try: small.scale_add(3, 2.0, x.astype(float), y[::2])\n"
        "except TypeError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "x must be a NumPy array of float32, not float64\n"

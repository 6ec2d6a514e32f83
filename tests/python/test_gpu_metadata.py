"""What is said of GPU code beside the code."""

import json
import subprocess
import sys

import polyloom as loom
import pytest


@loom.kernel
def plain(a: float, x: loom.array(dtype=float), m: loom.array(dtype=loom.mat33, ndim=2), flag: bool):
    i = loom.tid()
    if flag:
        x[i] = a * m[i, 0][0, 0]


@loom.kernel(block_dim=128, max_registers=64, check=True, float_mode="fast")
def blocks(x: loom.array(dtype=int), sums: loom.array(dtype=int)):
    part = loom.shared_array(shape=16, dtype=int)
    more = loom.dynamic_shared(shape=4, dtype=int)
    t = loom.thread_idx()
    if t < 16:
        part[t] = 0
    if t < 4:
        more[t] = x[t]
    loom.sync_threads()
    loom.atomic_add(part, t % 16, more[t % 4])
    loom.sync_threads()
    if t < 16:
        loom.atomic_add(sums, t, part[t])
    loom.printf("%d\n", t)


@loom.kernel(launch_bounds=(256, 2))
def copied(x: loom.array(dtype=float)):
    tile = loom.shared_array(shape=256, dtype=float)
    t = loom.thread_idx()
    loom.async_copy(tile[t], x[loom.tid()], count=1)
    loom.async_commit()
    loom.async_wait()
    x[loom.tid()] = tile[t] * 2.0


def test_a_plain_kernel():
    found = plain.gpu_metadata("sm_90")
    assert found["kernel"] == "plain" and found["entry_points"] == ["plain_cuda_kernel_forward"]
    assert found["target_archs"] == ["sm_90"] and found["ptx_version"] == "7.8" and found["least_arch"] == "sm_75"
    assert found["required_features"] == {} and found["constant_memory"] == {} and found["device_functions"] == []
    assert found["shared_memory"] == {"static_bytes": 0, "is_dynamic": False, "dynamic_bytes": 0}
    assert found["address_spaces"] == {"global": 1}
    assert found["launch_bounds"] == {
        "max_threads": None, "required_block": None, "min_blocks_per_multiprocessor": None
    }  # fmt: skip
    assert found["max_registers"] is None and not found["checked"] and found["float_mode"] == "strict"
    # An array of matrices has two more axes: an address, four extents and four strides.
    sizes = {parameter["name"]: parameter["bytes"] for parameter in found["parameters"]}
    assert sizes == {"a": 4, "x": 24, "m": 72, "flag": 1}
    assert [p["type"] for p in found["parameters"]][0] == "float32"
    assert found["generator"] == f"polyloom {loom.__version__}"


def test_what_a_kernel_demands():
    found = blocks.gpu_metadata("sm_80", ptx_version="8.0", grid_stride=False)
    assert found["launch_bounds"]["required_block"] == [128, 1, 1] and found["max_registers"] == 64
    assert found["shared_memory"] == {"static_bytes": 64, "is_dynamic": True, "dynamic_bytes": 0}
    assert {"global": 1, "shared": 3, "local": 5}.items() <= found["address_spaces"].items()
    assert found["external_functions"] == ["vprintf"] and found["ptx_version"] == "8.0"
    assert found["checked"] and found["float_mode"] == "fast"
    assert sum(found["global_memory"].values()) >= len("%d\n")


def test_what_not_every_architecture_has():
    found = copied.gpu_metadata("sm_86")
    assert found["least_arch"] == "sm_80" and found["required_features"]["async_copy"] == "sm_80"
    bounds = found["launch_bounds"]
    assert (bounds["max_threads"], bounds["min_blocks_per_multiprocessor"]) == (256, 2)
    with pytest.raises(loom.CompileError, match="needs sm_80"):
        copied.gpu_metadata("sm_75")


def test_whether_a_gpu_was_there_is_said():
    found = plain.gpu_metadata()
    assert found["cuda_available_at_generation"] == loom.is_cuda_available() == (not found["codegen_only"])


@pytest.mark.parametrize("emit", ["ptx", "cuda"])
def test_the_command_line_writes_it(tmp_path, emit):
    script = tmp_path / "program.py"
    script.write_text(
        "import polyloom as loom\n\n@loom.kernel\ndef one(x: loom.array(dtype=float)):\n    x[loom.tid()] = 1.0\n"
    )
    command = [sys.executable, "-m", "polyloom", "compile", str(script), "--arch", "sm_90"]
    written = tmp_path / "one.json"
    done = subprocess.run([*command, "--emit", emit, "--metadata", str(written)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "one_cuda_kernel_forward" in done.stdout
    found = json.loads(written.read_text())
    assert found["kernel"] == "one" and found["target_archs"] == ["sm_90"] and "codegen_only" in found
    assert found["grid"] == ("one_thread_each" if emit == "ptx" else "grid_stride")
    assert ("ptx_version" in found) == ("device_functions" in found) == (emit == "ptx")
    done = subprocess.run([*command, "--emit", "hir", "--metadata", str(written)], capture_output=True, text=True)
    assert done.returncode == 2 and "--metadata is of GPU code" in done.stderr

"""`polyloom.synth`: generated kernels, their code, and data sets of them."""

import json
import linecache
import subprocess
import sys
from pathlib import Path

import numpy as np
import nvidia
import polyloom as loom
import pytest
from polyloom import synth


def test_the_same_seed_gives_the_same_kernel():
    for category in synth.CATEGORIES:
        assert synth.generate_kernel(category, 11) == synth.generate_kernel(category, 11)
        assert synth.generate_kernel(category, 11).source != synth.generate_kernel(category, 12).source


@pytest.mark.parametrize("category", synth.CATEGORIES)
def test_generated_kernels_are_kernels(category):
    for seed in range(5):
        made = synth.generate_kernel(category, seed)
        kernel = made.kernel()
        assert kernel.name == made.name
        assert made.source.startswith(("import ", "from "))
        assert '"""' in made.source


def test_generated_kernels_leave_nothing_behind():
    before = len(sys.modules), len(linecache.cache)
    for seed in range(5):
        synth.generate_kernel("function", seed).kernel()
    assert (len(sys.modules), len(linecache.cache)) == before


def test_a_generated_kernel_runs():
    made = synth.generate_kernel("arithmetic", 3)
    kernel = made.kernel()
    rank = 1 + kernel.hir().count("tid 1") + kernel.hir().count("tid 2")
    args = []
    for parameter in kernel.signature.partition("(")[2].split(": ")[1:]:
        if parameter.startswith("array"):
            dtype = np.int32 if "int32" in parameter else np.float32
            args.append(np.full((4,) * rank, 2, dtype))
        else:
            args.append(2)
    before = [np.copy(arg) for arg in args]
    loom.launch(kernel, (4,) * rank, args)
    assert any(not np.array_equal(a, b) for a, b in zip(before, args, strict=True))


def test_an_unknown_category_is_named():
    with pytest.raises(ValueError, match="there is no category `poetry`; there are arithmetic"):
        synth.generate_kernel("poetry", 0)


@loom.kernel
def scaled(x: loom.array(dtype=float), y: loom.array(dtype=float), a: float):
    i = loom.tid()
    y[i] = a * x[i]


@loom.kernel
def counted(x: loom.array(dtype=int), y: loom.array(dtype=int)):
    i = loom.tid()
    y[i] = x[i] + 1


def test_the_code_of_any_kernel():
    both = synth.extract_ir(scaled)
    assert both["kernel_name"] == "scaled" and "kernel @scaled" in both["hir"]
    assert "scaled_cuda_kernel_forward" in both["cuda_forward"]
    assert "scaled_cuda_kernel_backward" in both["cuda_backward"]
    assert "scaled_cpu_kernel_backward" in both["cpp_backward"]
    assert ".target sm_80" in both["ptx_forward"]
    assert 'target triple = "nvptx64-nvidia-cuda"' in both["llvm_ir_forward"]
    assert both["python_source"].startswith("import polyloom as loom\n\n\n@loom.kernel\ndef scaled(")
    assert "counted" not in both["python_source"]
    assert "cuda_forward" not in synth.extract_ir(scaled, device="cpu")
    assert ".target sm_90" in synth.extract_ir(scaled, device="cuda", arch="sm_90")["ptx_backward"]
    with pytest.raises(ValueError, match="there is no device 'tpu'"):
        synth.extract_ir(scaled, device="tpu")


@pytest.mark.parametrize("device", ["cuda", "cpu", "both"])
def test_code_says_what_it_is_for(device):
    metadata = synth.extract_ir(scaled, device=device)["metadata"]
    is_available = loom.gpu_available()
    assert metadata["device"] == device
    assert metadata["cuda_available"] == is_available
    assert metadata["codegen_only"] == (device != "cpu" and not is_available)
    assert ("target_archs" in metadata) == (device != "cpu")


def command(*arguments):
    run = subprocess.run([sys.executable, "-m", "polyloom", *map(str, arguments)], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_the_command_takes_short_names(tmp_path):
    command("dataset", "produce", "-n", 4, "-o", tmp_path / "a", "--categories", "arithmetic", "stencil", "--seed", 5)
    commas = ["--count", 4, "--output", tmp_path / "b", "--categories", "arithmetic,stencil", "--seed", 5]
    command("dataset", "produce", *commas)
    assert rows_of(tmp_path / "a") == rows_of(tmp_path / "b")
    compilers = {row["metadata"]["cuda_compiler"] for row in rows_of(tmp_path / "a")}
    assert len(compilers) == 1 and compilers <= {"nvrtc", "clang++", "g++", None}
    told = command("dataset", "validate", "--input", tmp_path / "a")
    assert "quality\n  different by text       100.0 %" in told and "forward lines, mean" in told
    if compilers != {None}:
        assert f"CUDA C++ of 4 rows went through {compilers.pop()} when they were made" in told
    command("dataset", "produce", "-n", 2, "-o", tmp_path / "c", "--codegen-only")
    for row in rows_of(tmp_path / "c"):
        assert row["metadata"]["verified"] == "compile" and row["metadata"]["cuda_compiler"] is None


def test_a_data_set_of_the_kernels_of_files(tmp_path):
    sources = tmp_path / "sources"
    sources.mkdir()
    (sources / "some.py").write_text(
        "import warp as wp\n\nunused = open('nothing')\n\n\n@wp.kernel\n"
        "def halved(x: wp.array(dtype=float), y: wp.array(dtype=float)):\n    i = wp.tid()\n    y[i] = 0.5 * x[i]\n"
    )
    (sources / "broken.py").write_text("def f(:\n")
    statistics = synth.produce(None, tmp_path / "set", source=sources, category="mine", license="MIT")
    assert statistics["by_category"] == {"mine": 1} and statistics["rejects"] == {"rejected": 1}
    files = (tmp_path / "set" / "data").glob("*.jsonl")
    (row,) = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    assert row["kernel_name"] == "halved" and "unused" not in row["python_source"]
    assert row["metadata"]["origin"] == "some.py:7" and row["metadata"]["license"] == "MIT"
    with pytest.raises(ValueError, match="say how many rows"):
        synth.produce(None, tmp_path / "none")
    with pytest.raises(OSError, match="nowhere"):
        synth.produce(None, tmp_path / "none", source=tmp_path / "nowhere")


def test_columns_of_nvidias_tools(tmp_path):
    nvidia.ptxas()
    if nvidia.find("lib/libnvrtc.so.13") is None:
        pytest.skip("NVRTC is not installed (PyPI: nvidia-cuda-nvrtc)")
    extra = ["nvrtc_ptx_forward", "nvrtc_ptx_backward", "ptxas_forward", "ptxas_backward"]
    columns = ["id", "category", "metadata", *extra]
    # One row of each category; `full` has the simulator run NVRTC's PTX, too.
    synth.produce(len(synth.CATEGORIES), tmp_path / "set", seed=3, columns=columns)
    rows = rows_of(tmp_path / "set")
    assert len({row["category"] for row in rows}) == len(synth.CATEGORIES)
    for row in rows:
        assert list(row) == columns
        assert "Compiler Build ID" in row["nvrtc_ptx_forward"] and "registers" in row["ptxas_forward"]
        assert (row["nvrtc_ptx_backward"] is None) == (row["ptxas_backward"] is None)
        assert (row["ptxas_backward"] is not None) == row["metadata"]["has_backward"]
    # The tools' versions are settings: with another one nobody goes on.
    path = tmp_path / "set" / "manifest.json"
    manifest = json.loads(path.read_text())
    tools = manifest["settings"]["tools"]
    assert sorted(tools) == ["nvrtc", "ptxas"] and all(version[0].isdigit() for version in tools.values())
    tools["nvrtc"] = "1.0"
    path.write_text(json.dumps(manifest))
    with pytest.raises(ValueError, match=r'tools: .*"nvrtc":"1.0".* there'):
        synth.produce(len(synth.CATEGORIES), tmp_path / "set", seed=3, columns=columns, resume=True)


def test_nvrtc_compiles_rows_of_the_highest_level(tmp_path):
    if nvidia.find("lib/libnvrtc.so.13") is None:
        pytest.skip("NVRTC is not installed (PyPI: nvidia-cuda-nvrtc)")
    settings = {"categories": ["arithmetic"], "columns": ["id", "kernel_name", "category", "python_source"]}
    synth.produce(3, tmp_path / "with", **settings)
    synth.produce(3, tmp_path / "without", nvrtc=False, **settings)
    synth.produce(3, tmp_path / "lower", verify="grad", **settings)
    # It has no bearing on the rows.
    assert rows_of(tmp_path / "with") == rows_of(tmp_path / "without")
    versions = [
        json.loads((tmp_path / name / "manifest.json").read_text())["chunks"][0].get("nvrtc")
        for name in ("with", "without", "lower")
    ]
    assert versions[0].startswith("13.") and versions[1:] == [None, None]
    said = f"NVRTC {versions[0]} has compiled the CUDA C++ of 3 rows"
    assert said in (tmp_path / "with" / "README.md").read_text()
    assert "NVRTC" not in (tmp_path / "without" / "README.md").read_text()


def test_parts_make_together_what_one_run_makes(tmp_path):
    columns = ["id", "kernel_name", "category", "python_source", "metadata"]
    settings = {"seed": 4, "verify": "compile", "columns": columns, "indices_per_file": 20}
    synth.produce(100, tmp_path / "whole", **settings)
    for number in range(2):
        synth.produce(100, tmp_path / f"part-{number}", shard=(number, 2), **settings)
    merged = synth.merge([tmp_path / "part-0", tmp_path / "part-1"], tmp_path / "merged", 100)
    assert merged["total_pairs"] == 100
    for name in ("manifest.json", "README.md"):
        assert (tmp_path / "merged" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    synth.produce(None, tmp_path / "some", index_range=(30, 40), **settings)
    some = {row["id"] for row in rows_of(tmp_path / "some")}
    assert some == {row["id"] for row in rows_of(tmp_path / "whole") if 30 <= row["metadata"]["index"] < 40}


@pytest.mark.parametrize(
    ("count", "settings", "message"),
    [
        (5, {"verify": "most"}, "there is no level 'most'; there are 'parse', 'compile', 'run', 'grad' and 'full'"),
        (5, {"dedup": "names"}, "there is no dedup 'names'"),
        (5, {"format": "csv"}, "there is no format 'csv'"),
        (5, {"device": "tpu"}, "there is no device 'tpu'; there are 'cuda', 'cpu' and 'both'"),
        (5, {"engine": "spark"}, "there is no engine 'spark'; there are 'local' and 'ray'"),
        (5, {"seed": -1}, "the seed is -1: it is from 0"),
        (5, {"jobs": -2}, "jobs is -2"),
        (5, {"indices_per_file": 0}, "indices_per_file is 0"),
        (-5, {}, "the count is -5"),
        (2**70, {}, "the count is 1180591620717411303424"),
        (5, {"shard": (2, 2)}, "there is no shard 2 of 2"),
        (5, {"index_range": (0, 5)}, "index_range is a first index and a greater one, with neither count nor shard"),
        (None, {"index_range": (5, 5)}, "index_range is a first index and a greater one"),
    ],
)
def test_settings_that_there_are_not(tmp_path, count, settings, message):
    with pytest.raises(ValueError, match=message):
        synth.produce(count, tmp_path / "set", **settings)
    assert not (tmp_path / "set").exists()


def test_numbers_are_numbers(tmp_path):
    # A seed may be any integer, NumPy's too.
    assert synth.generate_kernel("math", np.int64(7)) == synth.generate_kernel("math", 7)
    for seed in ("1", 1.5):
        with pytest.raises(TypeError, match="cannot be interpreted as an integer"):
            synth.generate_kernel("math", seed)
    for count, settings in (("5", {}), (5, {"seed": "1"}), (5, {"shard": "02"})):
        with pytest.raises(TypeError, match="cannot be interpreted as an integer"):
            synth.produce(count, tmp_path / "set", **settings)


def test_what_is_no_kernel_has_no_code():
    with pytest.raises(ValueError, match="there is no emitter 'nvcc'"):
        synth.extract_ir(scaled, emitter="nvcc")
    with pytest.raises(TypeError, match="a kernel is wanted, not str"):
        synth.extract_ir("x = 1")


def test_rows_say_how_long_they_took_if_they_are_asked(tmp_path):
    settings = {"verify": "compile", "columns": ["id", "metadata"]}
    synth.produce(5, tmp_path / "timed", timings=True, **settings)
    assert all(row["metadata"]["generation_time_ms"] > 0 for row in rows_of(tmp_path / "timed"))
    there = [row["metadata"]["cuda_available_at_generation"] for row in rows_of(tmp_path / "timed")]
    assert there == [loom.is_cuda_available()] * 5
    synth.produce(5, tmp_path / "plain", **settings)
    for row in rows_of(tmp_path / "plain"):
        # What is not the same on all machines.
        assert row["metadata"]["generation_time_ms"] is None
        assert row["metadata"]["cuda_available_at_generation"] is None and row["metadata"]["codegen_only"]


def rows_of(folder: Path) -> list[dict]:
    files = sorted((folder / "data").glob("*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def test_a_data_set_from_python(tmp_path):
    told = []
    statistics = synth.produce(
        60,
        tmp_path / "set",
        seed=4,
        verify="grad",
        columns=["id", "python_source", "cuda_forward", "metadata"],
        progress=lambda rows, rejects, seconds: told.append(rows),
    )
    assert statistics["total_pairs"] == 60 and statistics["unique_ratio"]["structure"] == 1.0
    assert told[-1] == 60
    rows = rows_of(tmp_path / "set")
    assert len(rows) == 60 and list(rows[0]) == ["id", "python_source", "cuda_forward", "metadata"]
    with pytest.raises(FileExistsError, match="holds 60 rows"):
        synth.produce(60, tmp_path / "set", seed=4)
    with pytest.raises(ValueError, match="seed: 4 there, 5 here"):
        synth.produce(60, tmp_path / "set", seed=5, resume=True)
    with pytest.raises(ValueError, match="there is no column 'score'"):
        synth.produce(60, tmp_path / "other", columns=["score"])


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ({"emitter": "nvcc"}, ValueError, "there is no emitter 'nvcc'; there are 'polyloom' and 'warp'"),
        ({"engine": "dask"}, ValueError, "there is no engine 'dask'; there are 'local' and 'ray'"),
        ({"jobs": 0}, ValueError, "jobs is 0: rows are made by one thread at least"),
        ({"columns": []}, ValueError, "a row has one column at least"),
        ({"categories": "scan"}, TypeError, "categories is a list, not one string or path"),
        ({"exclude": "known.py"}, TypeError, "exclude is a list, not one string or path"),
        ({"columns": [None]}, TypeError, "categories and columns are lists of names"),
        ({"timings": None}, TypeError, "timings is True or False, not None"),
        ({"arch": 80}, TypeError, "arch is a name such as 'sm_80', not 80"),
        ({"index_range": (0, 5)}, ValueError, "index_range is a first index and a greater one"),
    ],
)
def test_settings_that_there_are_not_are_named(tmp_path, wrong, error, message):
    with pytest.raises(error, match=message):
        synth.produce(1, tmp_path / "set", **wrong)
    assert not (tmp_path / "set").exists()


def test_numbers_of_numpy_are_numbers(tmp_path):
    path = tmp_path / "set"
    settings = {"verify": "parse", "columns": ["id", "python_source", "metadata"], "jobs": np.int32(1)}
    made = synth.produce(
        None, path, index_range=(np.int64(0), np.int64(6)), indices_per_file=np.int64(3), seed=np.uint64(4), **settings
    )
    assert made["total_pairs"] == 6
    assert (path / "data" / "train-00001.jsonl").exists()


def test_folders_that_are_none_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="the folder to write to has no name"):
        synth.produce(2, "", verify="parse")
    with pytest.raises(TypeError, match="shards is a list, not one string or path"):
        synth.merge("shard-0", "whole")
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_is_ended_goes_on(tmp_path):
    def stop(rows, rejects, seconds):
        raise KeyboardInterrupt

    settings = {"verify": "run", "columns": ["id", "python_source", "metadata"]}
    with pytest.raises(KeyboardInterrupt):
        synth.produce(400, tmp_path / "ended", progress=stop, **settings)
    synth.produce(400, tmp_path / "ended", resume=True, **settings)
    synth.produce(400, tmp_path / "whole", **settings)
    assert rows_of(tmp_path / "ended") == rows_of(tmp_path / "whole")


@pytest.mark.parametrize("format", ["jsonl", "jsonl.zst", "parquet"])
def test_hugging_face_reads_it_offline(tmp_path, monkeypatch, format):
    datasets = pytest.importorskip("datasets")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    folder = tmp_path / "set"
    synth.produce(
        120, folder, verify="run", columns=["id", "python_source", "cuda_backward", "metadata"], format=format
    )
    read = datasets.load_dataset(str(folder), cache_dir=str(tmp_path / "cache"))
    assert sum(len(part) for part in read.values()) == 120
    row = read["train"][0]
    assert row["metadata"]["verified"] == "run"
    assert {"name", "dtype", "shape", "values"} <= set(row["metadata"]["inputs"][0])
    if format == "parquet":
        synth.produce(
            120, tmp_path / "lines", verify="run", columns=["id", "python_source", "cuda_backward", "metadata"]
        )
        lines = {row["id"]: row for row in rows_of(tmp_path / "lines")}
        for part in read.values():
            for row in part:
                expected = lines[row["id"]]
                assert row["python_source"] == expected["python_source"]
                assert row["cuda_backward"] == expected["cuda_backward"]
                assert row["metadata"]["ops"] == expected["metadata"]["ops"]
                names = [one["name"] for one in expected["metadata"]["inputs"]]
                assert [one["name"] for one in row["metadata"]["inputs"]] == names
                assert [one["shape"] for one in row["metadata"]["inputs"]] == [
                    one["shape"] for one in expected["metadata"]["inputs"]
                ]


def test_a_kernel_of_integers_has_no_backward_code() -> None:
    @loom.kernel
    def count_up(x: loom.array(dtype=int), y: loom.array(dtype=int)):
        i = loom.tid()
        y[i] = x[i] + 1

    code = synth.extract_ir(count_up)
    assert code["cuda_forward"] is not None
    assert [code[name] for name in ("cuda_backward", "ptx_backward", "cpp_backward")] == [None, None, None]

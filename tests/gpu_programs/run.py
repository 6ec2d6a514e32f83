"""Runs GPU programs of others over the simulated driver and writes what came of it to a table.

    .venv/bin/python tests/gpu_programs/run.py --python .venv-gpu-programs/bin/python --write docs/gpu_programs.md

It fails if a program fails that is not known to.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from polyloom import gpu

HERE = Path(__file__).parent


def run(python, arguments, sources, timeout=900, **variables):
    """Runs a program in Python: its output, the counts of its kernels, and what was found."""
    return run_command([python, "-W", "ignore", *arguments], HERE, sources, timeout, **variables)


def run_command(command, place, sources, timeout=900, libraries=(), **variables):
    """Runs a program in a folder, with folders of libraries of its own."""
    folder = tempfile.mkdtemp(dir=sources)
    report = Path(folder) / "report"
    environment = {**os.environ, **gpu.environment(folder), "POLYLOOM_GPU_REPORT": str(report), **variables}
    # The program's Python has other packages than this one.
    environment.pop("PYTHONPATH", None)
    environment["LD_LIBRARY_PATH"] = os.pathsep.join([environment["LD_LIBRARY_PATH"], *map(str, libraries)])
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=timeout, cwd=place)
        output, status = done.stdout + done.stderr, done.returncode
    except subprocess.TimeoutExpired as error:
        output, status = f"{error.stdout or ''}\nended after {timeout} s", 124
    launches = instructions = 0
    findings = []
    for line in report.read_text().splitlines() if report.exists() else []:
        kind, *fields = line.split("\t")
        if kind == "kernel":
            launches += int(fields[1])
            instructions += int(fields[2])
        elif kind == "finding":
            findings.append(fields[0])
    return output, status, launches, instructions, findings


def row(name, result, passed, failed, what):
    _, _, launches, instructions, findings = result
    return f"| {name} | {passed} | {failed} | {launches:,} | {instructions:,} | {len(findings)} | {what} |"


def checked(output):
    """Counts the program's own checks that held and that did not, by its lines."""
    return len(re.findall(r"^ok ", output, re.M)), re.findall(r"^failed (.*)$", output, re.M)


def tinygrad_source(python, folder):
    """tinygrad's source package, which has its test of everything in small."""
    command = [python, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", "tinygrad", "tinygrad==0.14.0"]
    subprocess.run([*command, "--dest", folder], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with tarfile.open(next(Path(folder).glob("tinygrad-*.tar.gz"))) as archive:
        archive.extractall(folder, filter="data")
    return next(Path(folder).glob("tinygrad-*/test/test_tiny.py"))


CUDARC_EXAMPLES = [
    "01-allocate",
    "02-copy",
    "03-launch-kernel",
    "04-streams",
    "05-device-repr",
    "06-threading",
    "09-constant-memory",
    "10-function-attributes",
    "12-context-config",
    "matmul-kernel",
    "nvrtc-compile",
]


def cudarc(python, sources):
    """cudarc's own examples of one GPU that need the driver and NVRTC alone, built from its package."""
    metadata = subprocess.run(
        ["cargo", "metadata", "--format-version", "1"], cwd=HERE, capture_output=True, text=True, check=True
    )
    package = next(each for each in json.loads(metadata.stdout)["packages"] if each["name"] == "cudarc")
    folder = Path(sources) / "cudarc"
    shutil.copytree(Path(package["manifest_path"]).parent, folder)
    features = "std,driver,nvrtc,cuda-13000,dynamic-loading"
    build = ["cargo", "build", "--quiet", "--no-default-features", "--features", features, "--target-dir", "target"]
    build += [part for name in CUDARC_EXAMPLES for part in ("--example", name)]
    subprocess.run(build, cwd=folder, check=True)
    find = "import importlib.util as u; print(u.find_spec('nvidia').submodule_search_locations[0])"
    nvidia = subprocess.run([python, "-c", find], capture_output=True, text=True, check=True).stdout.strip()
    libraries = [Path(nvidia) / "cu13" / "lib"]
    failed, launches, instructions, findings = [], 0, 0, []
    for name in CUDARC_EXAMPLES:
        result = run_command(
            [f"target/debug/examples/{name}"], folder, sources, libraries=libraries, POLYLOOM_GPU_SANITIZE="all"
        )
        failed += [f"cudarc {name}: {result[0][-2000:]}"] * (result[1] != 0)
        launches, instructions, findings = launches + result[2], instructions + result[3], findings + result[4]
    return failed, ("", 0, launches, instructions, findings)


def numba(python, sources):
    """numba-cuda's own tests, a module at a time: how many ran, and which did not pass."""
    find = "import importlib.util as u; print(u.find_spec('numba_cuda').submodule_search_locations[0])"
    package = subprocess.run([python, "-c", find], capture_output=True, text=True, check=True).stdout.strip()
    tests = Path(package) / "numba" / "cuda" / "tests"
    ran, wrong, launches, instructions = 0, [], 0, 0
    for path in sorted(path for part in ("cudadrv", "cudapy", "nrt") for path in (tests / part).glob("test_*.py")):
        name = f"numba.cuda.tests.{path.parent.name}.{path.stem}"
        output, status, new_launches, new_instructions, _ = run(
            python, ["-m", "unittest", "-v", name], sources, timeout=180
        )
        launches += new_launches
        instructions += new_instructions
        n = int(found[1]) if (found := re.search(r"^Ran (\d+) test", output, re.M)) else 0
        ran += n
        if status != 0:
            failed = sum(int(count) for count in re.findall(r"(?:failures|errors)=(\d+)", output.splitlines()[-1]))
            wrong.append((name.removeprefix("numba.cuda.tests."), failed or n or 1))
    return ran, wrong, launches, instructions


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", required=True, help="the interpreter that has the programs' packages")
    parser.add_argument("--write", type=Path, help="the page to write")
    programs = ["triton", "hopper", "race", "tinygrad", "tiny", "quadrants", "cudarc", "numba"]
    parser.add_argument("--only", nargs="*", default=programs)
    given = parser.parse_args()
    rows, problems = [], []
    with tempfile.TemporaryDirectory() as sources:

        def program(*arguments, **options):
            return run(given.python, arguments, sources, **options)

        if "triton" in given.only:
            for name, variables in (("", {}), (", all checks", {"POLYLOOM_GPU_SANITIZE": "all"})):
                result = program("triton_kernels.py", **variables)
                passed, failed = checked(result[0])
                problems += [f"triton: {result[0][-2000:]}"] * (result[1] != 0) + result[4]
                rows.append(row(f"Triton 3.9, kernels of the tutorials' kinds{name}", result, passed, len(failed), ""))
        if "hopper" in given.only:
            result = program("triton_hopper.py", POLYLOOM_GPU_ARCH="sm_90", POLYLOOM_GPU_SANITIZE="all")
            passed, failed = checked(result[0])
            problems += [f"triton on sm_90: {result[0][-2000:]}"] * (result[1] != 0) + result[4]
            name = "Triton 3.9 on sm_90, warp groups and tensor maps, all checks"
            rows.append(row(name, result, passed, len(failed), ""))
        if "race" in given.only:
            result = program("triton_race.py", POLYLOOM_GPU_SANITIZE="all")
            has_line = any("triton_race.py:14: data race" in finding for finding in result[4])
            problems += [] if has_line else [f"the planted race is not found: {result[0]}"]
            rows.append(
                row("Triton 3.9, a planted race", result, int(has_line), int(not has_line), "named by its line")
            )
        if "tinygrad" in given.only:
            result = program("tinygrad_workloads.py", DEV="CUDA:PTX")
            passed, failed = checked(result[0])
            problems += failed + [f"tinygrad: {result[0][-2000:]}"] * (result[1] != 0)
            rows.append(row("tinygrad 0.14, workloads over its API", result, passed, len(failed), ""))
        if "tiny" in given.only:
            test = tinygrad_source(given.python, sources)
            result = program("-m", "pytest", "-q", str(test), "-p", "no:cacheprovider", DEV="CUDA:PTX")
            passed = int(found[1]) if (found := re.search(r"(\d+) passed", result[0])) else 0
            failed = int(found[1]) if (found := re.search(r"(\d+) failed", result[0])) else 0
            problems += [f"test_tiny: {result[0][-2000:]}"] * (result[1] != 0)
            rows.append(row("tinygrad 0.14, its own `test_tiny.py`", result, passed, failed, ""))
        if "quadrants" in given.only:
            result = program("quadrants_workloads.py")
            passed, failed = checked(result[0])
            problems += failed + [f"quadrants: {result[0][-2000:]}"] * (result[1] != 0) + result[4]
            rows.append(row("Quadrants 1.3, workloads over its API", result, passed, len(failed), ""))
        if "cudarc" in given.only:
            failed, result = cudarc(given.python, sources)
            problems += failed + result[4]
            n_passed = len(CUDARC_EXAMPLES) - len(failed)
            rows.append(row("cudarc 0.19, its own examples, all checks", result, n_passed, len(failed), ""))
        if "numba" in given.only:
            ran, wrong, launches, instructions = numba(given.python, sources)
            failed = sum(count for _, count in wrong)
            result = ("", 0, launches, instructions, [])
            share = f"{100 * (ran - failed) / max(ran, 1):.1f} % pass"
            rows.append(row("numba-cuda 0.30, its own tests", result, ran - failed, failed, share))
            print("\n".join(f"{name}: {count} do not pass" for name, count in wrong))
    table = "\n".join(
        [
            "| program | passed | failed | launches | thread instructions | findings | |",
            "|---|---|---|---|---|---|---|",
            *rows,
        ]
    )
    print(table)
    if given.write and given.write.exists():
        text = given.write.read_text()
        head, _, rest = text.partition("<!-- table -->\n")
        _, _, tail = rest.partition("<!-- end -->")
        given.write.write_text(f"{head}<!-- table -->\n{table}\n\n<!-- end -->{tail}")
    if problems:
        sys.exit("\n".join(problems))


if __name__ == "__main__":
    main()

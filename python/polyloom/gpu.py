"""GPU programs on machines with no GPU.

Importing this module puts a driver over the PTX simulator in the place of NVIDIA's: whatever asks for `libcuda.so.1`
afterwards, in this process and in those it starts, gets it. Triton, tinygrad, Numba's CUDA target and others then run
their kernels on the simulator, with its checks. Import it before them. The command does the same for a whole program:

    polyloom gpu run --sanitize all -- python program.py

Environment variables say what is simulated: `POLYLOOM_GPU_ARCH` (`sm_86`), `POLYLOOM_GPU_SANITIZE` (checks by name, as
in `loom.sim.configure`), `POLYLOOM_GPU_LIMIT` (the most instructions of one launch), `POLYLOOM_GPU_MEMORY` (bytes) and
`POLYLOOM_GPU_THREADS` (threads of the host).
"""

from __future__ import annotations

import argparse
import atexit
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

__all__ = ["environment", "findings", "library", "run"]

# Stands in for NVIDIA's assembler, which some compilers insist on: its "machine code" is PTX, which the driver reads.
_PTXAS = """#!/bin/sh
output=
input=
while [ $# -gt 0 ]; do
  case "$1" in
    --version | -V) echo "ptxas: NVIDIA (R) Ptx optimizing assembler, Polyloom's stand-in"
                    echo "Cuda compilation tools, release 12.9, V12.9.41"; exit 0 ;;
    -o | --output-file) output=$2; shift ;;
    --output-file=*) output=${1#--output-file=} ;;
    -*) ;;
    *) input=$1 ;;
  esac
  shift
done
[ -n "$input" ] || { echo "ptxas: there is no input file" >&2; exit 1; }
grep -q '^[[:space:]]*\\.version' "$input" || { echo "ptxas: $input is no PTX" >&2; exit 1; }
cp "$input" "${output:-elf.o}"
"""

_NVIDIA_SMI = """#!/bin/sh
arch=${POLYLOOM_GPU_ARCH:-sm_86}
case "$*" in
  *-L*) echo "GPU 0: Polyloom simulator, $arch (UUID: GPU-706f6c79-6c6f-6f6d-2d73-696d2d677075)" ;;
  *compute_cap*) number=${arch#sm_}; number=${number%[af]}; echo "${number%?}.${number#"${number%?}"}" ;;
  *--query-gpu=name*) echo "Polyloom simulator, $arch" ;;
  *) echo "Polyloom simulator, $arch: kernels run on the CPU"; echo "Driver Version: 580.00   CUDA Version: 13.0" ;;
esac
"""


def library() -> Path:
    """Returns where the driver is.

    Raises
    ------
    FileNotFoundError
        If the package was built without it.
    """
    given = os.environ.get("POLYLOOM_GPU_LIBRARY")
    path = Path(given) if given else Path(__file__).parent / "_gpu" / "libcuda.so.1"
    if not path.exists():
        raise FileNotFoundError(
            f"{path} is not there: this build of Polyloom has no simulated driver. Build it with "
            "`cargo build --release -p polyloom-cuda-sim` and set POLYLOOM_GPU_LIBRARY to libpolyloom_cuda_sim.so"
        )
    return path.resolve()


def _executable(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def environment(folder: str | os.PathLike[str]) -> dict[str, str]:
    """Returns the variables by which programs find the driver, and puts what they name into a folder.

    Parameters
    ----------
    folder
        An empty folder, which has to stay for as long as programs run.
    """
    place = Path(folder)
    for name in ("libcuda.so.1", "libcuda.so"):
        (place / name).symlink_to(library())
    _executable(place / "ptxas", _PTXAS)
    _executable(place / "nvidia-smi", _NVIDIA_SMI)
    cache = os.environ.get("POLYLOOM_CACHE_DIR") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "polyloom"
    )

    def before(name: str) -> str:
        return os.pathsep.join(filter(None, [str(place), os.environ.get(name)]))

    return {
        "LD_LIBRARY_PATH": before("LD_LIBRARY_PATH"),
        "PATH": before("PATH"),
        "TRITON_LIBCUDA_PATH": str(place),
        "TRITON_PTXAS_PATH": str(place / "ptxas"),
        "TRITON_PTXAS_BLACKWELL_PATH": str(place / "ptxas"),
        # The stand-in makes no machine code: kernels for a GPU are kept elsewhere.
        "TRITON_CACHE_DIR": os.environ.get("TRITON_CACHE_DIR") or os.path.join(cache, "triton"),
    }


def _load() -> None:
    """Loads the driver into this process, and sets up those that it starts."""
    folder = tempfile.mkdtemp(prefix="polyloom-gpu-")
    atexit.register(shutil.rmtree, folder, True)
    os.environ.update(environment(folder))
    # It is found by its soname from now on, because the loader's path is read when a process begins.
    loaded = ctypes.CDLL(os.path.join(folder, "libcuda.so.1"), mode=ctypes.RTLD_GLOBAL)
    found = ctypes.CDLL("libcuda.so.1")
    places = [ctypes.cast(each.cuInit, ctypes.c_void_p).value for each in (loaded, found)]
    if places[0] != places[1]:
        raise ImportError(
            "NVIDIA's driver is loaded in this process already: import polyloom.gpu before what uses a GPU, or use "
            "`polyloom gpu run`"
        )


def findings() -> list[str]:
    """Returns what the checks have found in this process, each finding once, in the order of time.

    Returns
    -------
    list of str
        Empty if no program has started the driver yet.
    """
    driver = ctypes.CDLL("libcuda.so.1")
    count = ctypes.c_uint(0)
    if driver.polyloomGpuFindingCount(ctypes.byref(count)) != 0:
        return []
    text = ctypes.create_string_buffer(1 << 16)
    found = []
    for index in range(count.value):
        if driver.polyloomGpuFinding(text, ctypes.c_uint(len(text)), ctypes.c_uint(index)) == 0:
            found.append(text.value.decode(errors="replace"))
    return found


def _count(n: int, noun: str) -> str:
    plural = f"{noun}es" if noun.endswith("ch") else f"{noun}s"
    return f"{n} {noun if n == 1 else plural}"


def _summary(report: Path) -> str:
    """Says what a program did, by the report of its driver."""
    kernels: dict[str, list[float]] = {}
    findings: list[str] = []
    missing: dict[str, int] = {}
    text = report.read_text() if report.exists() else ""
    for line in text.splitlines():
        fields = [field.replace("\\t", "\t").replace("\\n", "\n").replace("\\\\", "\\") for field in line.split("\t")]
        if fields[0] == "kernel":
            totals = kernels.setdefault(fields[1], [0, 0, 0, 0])
            kernels[fields[1]] = [total + float(each) for total, each in zip(totals, fields[2:], strict=True)]
        elif fields[0] == "finding":
            if fields[1] not in findings:
                findings.append(fields[1])
        elif fields[0] == "missing":
            missing[fields[1]] = missing.get(fields[1], 0) + int(fields[2])
    launches, instructions = (int(sum(totals[index] for totals in kernels.values())) for index in (0, 1))
    seconds = sum(totals[3] for totals in kernels.values())
    lines = [
        f"{_count(len(kernels), 'kernel')}, {_count(launches, 'launch')}, {instructions:,} thread instructions "
        f"in {seconds:.2f} s",
    ]
    busiest = sorted(kernels.items(), key=lambda item: -item[1][1])
    for name, totals in busiest[:10]:
        lines.append(
            f"  {name}: {_count(int(totals[0]), 'launch')}, {int(totals[1]):,} instructions, {totals[3]:.3f} s"
        )
    if len(busiest) > 10:
        lines.append(f"  and {len(busiest) - 10} more")
    for name, calls in sorted(missing.items()):
        lines.append(f"missing: {name}, {_count(calls, 'call')}")
    lines.append(_count(len(findings), "finding") + (":" if findings else ""))
    lines += [f"  {finding}" for finding in findings]
    return "\n".join(f"polyloom gpu: {line}" for line in lines)


def run(command: list[str], arch: str = "", sanitize: str = "", limit: str = "", quiet: bool = False) -> int:
    """Runs a program with the simulated driver, and prints to standard error what its kernels did.

    Parameters
    ----------
    command
        The program and its arguments.
    arch
        The architecture that is simulated, such as ``sm_86``.
    sanitize
        The checks, by their names.
    limit
        The most instructions that the threads of one launch may execute.
    quiet
        True if only what is wrong is printed.

    Returns
    -------
    int
        The program's exit status, or 1 if that is zero and something was found.
    """
    with tempfile.TemporaryDirectory(prefix="polyloom-gpu-") as folder:
        report = Path(folder) / "report"
        variables = {**os.environ, **environment(folder), "POLYLOOM_GPU_REPORT": str(report)}
        given = {"ARCH": arch, "SANITIZE": sanitize, "LIMIT": limit}
        variables.update({f"POLYLOOM_GPU_{name}": value for name, value in given.items() if value})
        # Ctrl-C is the program's: it ends, and then there is something to say.
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            status = subprocess.Popen(command, env=variables, preexec_fn=_take_interrupts).wait()
        except FileNotFoundError:
            print(f"polyloom gpu: there is no program {command[0]}", file=sys.stderr)
            return 127
        finally:
            signal.signal(signal.SIGINT, before)
        summary = _summary(report)
        has_findings = not summary.endswith(": 0 findings")
        if has_findings or not quiet:
            print(summary, file=sys.stderr)
        return status if status != 0 else int(has_findings)


def _take_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="polyloom gpu", description="Run GPU programs without a GPU.")
    commands = parser.add_subparsers(dest="command", required=True)
    runs = commands.add_parser(
        "run", help="run a program with a simulated driver", usage="%(prog)s [options] -- COMMAND …"
    )
    runs.add_argument("--arch", default="", help="the architecture that is simulated (default sm_86)")
    runs.add_argument("--sanitize", default="", help="checks by name: races, uninitialised, barriers, async; or all")
    runs.add_argument("--limit", default="", help="the most instructions of one launch, such as 1e9")
    runs.add_argument("--quiet", action="store_true", help="print only what is wrong")
    runs.add_argument("program", nargs=argparse.REMAINDER, metavar="COMMAND", help="the program and its arguments")
    commands.add_parser("env", help="print where the driver is")
    given = parser.parse_args(arguments)
    if given.command == "env":
        print(library())
        return 0
    program = given.program[1:] if given.program[:1] == ["--"] else given.program
    if not program:
        runs.error("a program is wanted, as in: polyloom gpu run -- python program.py")
    return run(program, given.arch, given.sanitize, given.limit, given.quiet)


if __name__ == "__main__":
    try:
        sys.exit(_main(sys.argv[1:]))
    except FileNotFoundError as error:
        sys.exit(f"polyloom gpu: {error}")
else:
    _load()

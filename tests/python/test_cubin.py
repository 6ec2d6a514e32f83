"""Cubins, PTX assembled by whatever assembler of NVIDIA's there is, and fat binaries that hold them."""

import os
import pathlib
import struct
import subprocess
import sys

import polyloom as loom
import pytest

ELF = b"\x7fELF"
# The machine that an ELF file is for: e_machine of NVIDIA's GPUs.
EM_CUDA = 190

PROGRAM = """
import pathlib, sys, polyloom as loom

if "--without-packages" in sys.argv:
    sys.path[:] = [path for path in sys.path if not (pathlib.Path(path) / "nvidia").is_dir()]

@loom.kernel
def double(x: loom.array(dtype=float)):
    i = loom.tid()
    x[i] = 2.0 * x[i]

sys.stdout.buffer.write(double.cubin(sys.argv[1]))
"""


@loom.kernel
def double(x: loom.array(dtype=float)):
    i = loom.tid()
    x[i] = 2.0 * x[i]


def cubin(arch="sm_80", backward=False):
    try:
        return double.cubin(arch, backward=backward)
    except RuntimeError as error:
        if "no assembler" in str(error):
            pytest.skip(str(error))
        raise


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90", "sm_90a", "sm_120"])
def test_code_for_every_architecture(arch):
    made = cubin(arch)
    assert made[:4] == ELF and int.from_bytes(made[18:20], "little") == EM_CUDA
    assert b"double_cuda_kernel_forward" in made
    assert double.cubin(arch) == made


def test_lines_of_the_source_are_in_it():
    assert pathlib.Path(__file__).name.encode() in cubin()


def test_what_cannot_be_had_is_said():
    with pytest.raises(ValueError, match="no architecture `sm_81`"):
        double.cubin("sm_81")
    with pytest.raises(RuntimeError, match="PTX 7.0 does not know sm_90a"):
        double.cubin("sm_90a", ptx_version="7.0")


def run(tmp_path, arguments, **variables):
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    environment = {name: os.environ[name] for name in ("HOME", "LD_LIBRARY_PATH", "PYTHONPATH") if name in os.environ}
    environment |= {"POLYLOOM_CACHE": "0", "CUDA_HOME": "", "CUDA_PATH": ""} | variables
    return subprocess.run([sys.executable, *arguments(script)], capture_output=True, env=environment, cwd=tmp_path)


def test_the_program_on_path_comes_first(tmp_path):
    program = tmp_path / "bin" / "ptxas"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\nfor last; do :; done\nprintf "assembled $1" > "$last"\n')
    program.chmod(0o755)
    done = run(tmp_path, lambda script: [script, "sm_80"], PATH=f"{program.parent}:/usr/bin:/bin")
    assert done.stdout == b"assembled --gpu-name=sm_80", done.stderr


def test_a_program_that_fails_is_quoted(tmp_path):
    program = tmp_path / "bin" / "ptxas"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho fatal: out of luck >&2\nexit 1\n")
    program.chmod(0o755)
    done = run(tmp_path, lambda script: [script, "sm_80"], PATH=f"{program.parent}:/usr/bin:/bin")
    assert done.returncode == 1
    assert b"RuntimeError" in done.stderr and b"does not take the code for sm_80: fatal: out of luck" in done.stderr


def test_what_was_looked_for_is_said_if_nothing_was_found(tmp_path):
    done = run(tmp_path, lambda script: [script, "sm_80", "--without-packages"], PATH="", CUDA_HOME="/opt/cuda-99")
    if done.returncode == 0:
        pytest.skip("an assembler is where the system keeps them")
    message = done.stderr.decode().splitlines()[-1]
    assert message.startswith("RuntimeError: no assembler for PTX was found: looked for the program ptxas on PATH; ")
    assert "/opt/cuda-99" in message and "pip install nvidia-cuda-nvcc" in message


def test_the_command_line_writes_a_file(tmp_path):
    cubin()

    def compile(*options):
        return lambda script: ["-m", "polyloom", "compile", script, "--emit", "cubin", *options]

    done = run(tmp_path, compile("--arch", "sm_90"), PATH="")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "double.cubin").read_bytes()[:4] == ELF
    done = run(tmp_path, compile("-o", "other.bin"), PATH="")
    assert done.returncode == 0 and (tmp_path / "other.bin").read_bytes()[:4] == ELF
    assert run(tmp_path, compile("--arch", "sm_90", "--ptx-version", "7.0"), PATH="").returncode == 1


def test_backward_kernels_are_assembled():
    made = cubin(backward=True)
    assert made[:4] == ELF and b"double_cuda_kernel_backward" in made
    assert b"double_cuda_kernel_backward" not in cubin()


def parts(fatbin):
    """The kind of each part of a fat binary, 1 for PTX and 2 for cubins, its architecture and its code."""
    assert fatbin[:4] == b"\x50\xed\x55\xba" and len(fatbin) == 16 + int.from_bytes(fatbin[8:16], "little")
    found, at = [], 16
    while at < len(fatbin):
        kind, _, header, size = struct.unpack_from("<HHIQ", fatbin, at)
        arch = int.from_bytes(fatbin[at + 28 : at + 32], "little")
        found.append((kind, arch, fatbin[at + header : at + header + size]))
        at += header + size
    return found


def test_a_fat_binary_has_ptx_and_cubins_of_all_architectures():
    cubin()
    found = parts(double.fatbin(["sm_80", "sm_90a", "sm_80"]))
    assert [part[:2] for part in found] == [(1, 80), (2, 80), (1, 90), (2, 90)]
    for (_, _, ptx), (_, _, code), arch in ((*found[:2], "sm_80"), (*found[2:], "sm_90a")):
        assert ptx.rstrip(b"\0").decode() == double.ptx(arch) and ptx.endswith(b"\0")
        assert code.rstrip(b"\0") == double.cubin(arch).rstrip(b"\0")
    assert b"double_cuda_kernel_backward" in double.fatbin(["sm_80"], backward=True)


def test_fat_binaries_that_cannot_be_had():
    with pytest.raises(ValueError, match="one architecture at least"):
        double.fatbin([])
    with pytest.raises(ValueError, match="no architecture `sm_81`"):
        double.fatbin(["sm_80", "sm_81"])
    with pytest.raises(TypeError):
        double.fatbin("sm_80")


def test_the_command_line_puts_several_architectures_into_a_fat_binary(tmp_path):
    def compile(*options):
        return lambda script: ["-m", "polyloom", "compile", script, *options]

    two = ("--arch", "sm_80", "--arch", "sm_90")
    done = run(tmp_path, compile("--emit", "fatbin", *two), PATH="")
    assert done.returncode == 0, done.stderr
    found = parts((tmp_path / "double.fatbin").read_bytes())
    assert {part[1] for part in found if part[0] == 1} == {80, 90}
    done = run(tmp_path, compile("--emit", "ptx", *two), PATH="")
    assert done.returncode == 2 and b"several --arch make one fat binary: --emit fatbin" in done.stderr

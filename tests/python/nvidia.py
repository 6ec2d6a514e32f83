"""NVIDIA's compilers from their PyPI packages, which need no GPU."""

from __future__ import annotations

import ctypes
import glob
import os
import shutil
import site

import pytest


def find(pattern: str) -> str | None:
    """A file of one of NVIDIA's packages."""
    for folder in site.getsitepackages():
        if found := glob.glob(f"{folder}/nvidia/cu13/{pattern}"):
            return found[0]
    return None


def ptxas() -> str:
    """ptxas of the PyPI package, or on PATH. Without one the test is skipped, or fails where it is required."""
    found = find("bin/ptxas") or shutil.which("ptxas")
    if found is None:
        assert os.environ.get("POLYLOOM_REQUIRE_PTXAS") != "1", "ptxas is required and not there"
        pytest.skip("ptxas is not installed (PyPI: nvidia-cuda-nvcc)")
    return found


class Nvrtc:
    """The run-time compiler."""

    def __init__(self, path: str) -> None:
        self.library = ctypes.CDLL(path)

    def compile(self, text: str, arch: str, *options: str) -> tuple[str, str]:
        """The log and the PTX of a text."""
        program = ctypes.c_void_p()
        self.library.nvrtcCreateProgram(ctypes.byref(program), text.encode(), b"kernel.cu", 0, None, None)
        given = [f"--gpu-architecture={arch}".encode(), *(option.encode() for option in options)]
        failed = self.library.nvrtcCompileProgram(program, len(given), (ctypes.c_char_p * len(given))(*given))
        log = self._text(program, "nvrtcGetProgramLog")
        ptx = "" if failed else self._text(program, "nvrtcGetPTX")
        self.library.nvrtcDestroyProgram(ctypes.byref(program))
        return log, ptx

    def _text(self, program: ctypes.c_void_p, function: str) -> str:
        size = ctypes.c_size_t()
        getattr(self.library, f"{function}Size")(program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        getattr(self.library, function)(program, buffer)
        return buffer.value.decode()

"""`polyloom gpu run` and `polyloom.gpu`: programs that call NVIDIA's driver, with the simulated one in its place."""

import subprocess
import sys

import polyloom as loom  # noqa: F401
import pytest

PROGRAM = r"""
import ctypes, os, subprocess, sys

driver = ctypes.CDLL("libcuda.so.1")
check = lambda error: error and sys.exit(f"error {error}")
check(driver.cuInit(0))
name = ctypes.create_string_buffer(80)
check(driver.cuDeviceGetName(name, 80, 0))
print(name.value.decode())
context, module, function, memory = (ctypes.c_void_p() for _ in range(4))
check(driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
check(driver.cuCtxSetCurrent(context))
ptx = b'''
.version 7.1
.target sm_80
.address_size 64
.file 1 "counts.cu"
.visible .entry count(.param .u64 out) {
    .reg .b32 %r<3>; .reg .b64 %rd;
    .loc 1 5 0
    ld.param.u64 %rd, [out];
    ld.global.u32 %r1, [%rd];
    add.u32 %r2, %r1, 1;
    .loc 1 6 0
    st.global.u32 [%rd], %r2;
    ret;
}'''
check(driver.cuModuleLoadData(ctypes.byref(module), ptx))
check(driver.cuModuleGetFunction(ctypes.byref(function), module, b"count"))
check(driver.cuMemAlloc_v2(ctypes.byref(memory), 4))
check(driver.cuMemsetD32_v2(memory, 0, 1))
params = (ctypes.c_void_p * 1)(ctypes.addressof(memory))
check(driver.cuLaunchKernel(function, 3, 1, 1, 1, 1, 1, 0, None, params, None))
check(driver.cuCtxSynchronize())
"""


@pytest.fixture(autouse=True)
def _driver():
    done = subprocess.run([sys.executable, "-m", "polyloom.gpu", "env"], capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(done.stderr.strip())


def gpu_run(*arguments):
    return subprocess.run([sys.executable, "-m", "polyloom", "gpu", "run", *arguments], capture_output=True, text=True)


def test_a_program_runs_and_is_summed_up():
    done = gpu_run("--arch", "sm_90", "--", sys.executable, "-c", PROGRAM)
    assert (done.returncode, done.stdout) == (0, "Polyloom simulator, sm_90\n"), done.stderr
    assert "polyloom gpu: 1 kernel, 1 launch, 15 thread instructions in" in done.stderr
    assert "polyloom gpu:   count: 1 launch, 15 instructions" in done.stderr and "0 findings" in done.stderr


def test_findings_have_the_lines_of_the_source_and_fail_the_command():
    done = gpu_run("--sanitize", "races", "--", sys.executable, "-c", PROGRAM)
    assert done.returncode == 1
    assert "counts.cu:6: data race in kernel `count`: write of byte 0 of the 4-byte allocation" in done.stderr


def test_a_limit_ends_a_launch():
    done = gpu_run("--limit", "10", "--quiet", "--", sys.executable, "-c", PROGRAM)
    assert done.returncode == 1 and "error 702" in done.stderr
    assert "instruction limit in kernel `count`: its threads have executed over 10 instructions" in done.stderr


def test_wrong_usage_is_said():
    assert "there is no check 'reces'" in gpu_run("--sanitize", "reces", "--", "true").stderr
    done = gpu_run("--", "no-such-program")
    assert done.returncode == 127 and "there is no program no-such-program" in done.stderr


def test_programs_find_the_stand_ins(tmp_path):
    (tmp_path / "k.ptx").write_text(".version 8.0\n.target sm_80\n")
    (tmp_path / "k.txt").write_text("nothing\n")
    script = (
        "ptxas -v --gpu-name=sm_86 k.ptx -o k.o && cmp k.ptx k.o && ptxas --version && nvidia-smi -L; ptxas k.txt -o x"
    )
    done = subprocess.run(
        [sys.executable, "-m", "polyloom", "gpu", "run", "--quiet", "--", "sh", "-c", script],
        capture_output=True, text=True, cwd=tmp_path,
    )  # fmt: skip
    assert "release 12.9" in done.stdout and "GPU 0: Polyloom simulator, sm_86" in done.stdout
    assert done.returncode == 1 and done.stderr == "ptxas: k.txt is no PTX\n"


def test_importing_the_module_does_the_same():
    done = subprocess.run([sys.executable, "-c", "import polyloom.gpu\n" + PROGRAM], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "Polyloom simulator, sm_86\n"), done.stderr


def test_pytest_runs_tests_on_the_simulated_driver(tmp_path):
    # The plugin is found by its entry point where Polyloom is installed, and by its name here.
    body = PROGRAM.replace("sys.exit(", "pytest.exit(").replace("\n", "\n    ").replace("\n    .", "\n.")
    (tmp_path / "test_gpu.py").write_text(
        f"import ctypes, os, pytest, subprocess, sys\n\ndef test_races():\n    {body}\n\n"
        "def test_nothing():\n    pass\n"
    )
    command = [sys.executable, "-m", "pytest", "-p", "polyloom_pytest", "-p", "no:cacheprovider", "-q", "test_gpu.py"]
    done = subprocess.run([*command, "--polyloom-gpu"], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 1 and "1 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    assert "the GPU's checks found:" in done.stdout and "counts.cu:6: data race" in done.stdout
    lenient = [*command, "--polyloom-gpu", "--polyloom-gpu-sanitize=no-races", "--polyloom-gpu-arch=sm_90"]
    done = subprocess.run(lenient, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0 and "2 passed" in done.stdout, done.stdout + done.stderr

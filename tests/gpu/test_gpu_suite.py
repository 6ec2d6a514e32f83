"""The tests of `tests/python` that are given a device, on `cuda:0`. There they run on the CPU and the simulator."""

import importlib.util
import pathlib

import polyloom as loom
import pytest

FILES = ["test_classic_kernels.py"]

try:
    loom.get_device("cuda:0")
except loom.DeviceError as error:
    pytest.skip(str(error), allow_module_level=True)


@pytest.fixture
def device(cuda):
    return cuda


for file in FILES:
    path = pathlib.Path(__file__).parents[1] / "python" / file
    spec = importlib.util.spec_from_file_location(f"on_cuda_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    tests = {name: value for name, value in vars(module).items() if name.startswith("test_")}
    assert tests
    globals().update(tests)

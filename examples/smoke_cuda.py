"""A kernel on an NVIDIA GPU, where there is one: the same bits as on the CPU, and how fast."""

import time

import numpy as np
import polyloom as loom

N = 1 << 22


@loom.kernel
def wave(x: loom.array(dtype=float), y: loom.array(dtype=float)):
    i = loom.tid()
    y[i] = loom.sin(x[i]) * loom.exp(-x[i] * x[i])


def main() -> None:
    if not loom.is_cuda_available():
        try:
            loom.get_device("cuda:0")
        except loom.DeviceError as error:
            print(f"CUDA is not available: {error}")
        print("skipped; the kernel's PTX for sm_90 is there all the same:", len(wave.ptx("sm_90")), "bytes")
        return
    device = loom.get_device("cuda:0")
    print(f"{device}: {device.name}, sm_{device.arch}, {device.total_memory >> 30} GiB")
    x = np.linspace(-3, 3, N, dtype=np.float32)
    expected = np.zeros_like(x)
    loom.launch(wave, N, [x, expected], device="cpu")
    there, result = loom.array(x, device=device), loom.zeros(N, device=device)
    loom.launch(wave, N, [there, result], device=device)
    same = np.array_equal(result.numpy(), expected)
    print("the bits of the CPU:", "yes" if same else "NO")
    loom.synchronize()
    started = time.perf_counter()
    for _ in range(100):
        loom.launch(wave, N, [there, result], device=device)
    loom.synchronize()
    seconds = (time.perf_counter() - started) / 100
    print(f"{seconds * 1e6:.0f} µs a launch of {N} elements, {2 * x.nbytes / seconds / 1e9:.0f} GB/s")
    if not same:
        raise SystemExit(1)


if __name__ == "__main__":
    main()

"""Memory of a GPU: the pool, its limits and what it says, pinned, registered and managed memory of the host."""

import gc
import os
import re
import subprocess
import sys
import textwrap
import threading

import numpy as np
import polyloom as loom
import pytest

MIB = 1 << 20


@loom.kernel
def add(x: loom.array(dtype=float), value: float):
    i = loom.tid()
    x[i] = x[i] + value


def figures(device):
    return loom.memory_report()["devices"][str(device)]


@pytest.fixture
def fresh(cuda):
    """The device with nothing idle in its pool."""
    gc.collect()
    loom.synchronize()
    loom.release_memory(cuda)
    yield cuda
    loom.set_memory_limit(cuda, None)
    loom.set_mempool_release_threshold(cuda, 0.25)


def run(code, **environment):
    """What a program prints on the same driver with other variables of the simulator's."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_pool_says_what_it_has(fresh):
    before = figures(fresh)
    assert before["idle"] == 0 and before["has_driver_pool"] == loom.is_mempool_enabled(fresh)
    x = loom.zeros(4 * MIB, dtype=loom.uint8)
    now = figures(fresh)
    assert now["used"] == before["used"] + 4 * MIB and now["n_live"] == before["n_live"] + 1
    assert now["used_high"] >= now["used"] and 4 * MIB in now["largest"]
    del x
    then = figures(fresh)
    assert then["used"] == before["used"] and then["idle"] == 4 * MIB
    loom.empty(4 * MIB, dtype=loom.uint8)
    assert figures(fresh)["n_reused"] == then["n_reused"] + 1
    assert loom.get_mempool_used_mem_current(fresh) == before["used"]
    assert loom.get_mempool_used_mem_high(fresh) == figures(fresh)["used_high"]
    loom.release_memory(fresh)
    assert figures(fresh)["idle"] == 0


def test_nothing_leaks(fresh):
    used = figures(fresh)["used"]
    for _ in range(3):
        arrays = [loom.zeros(n, dtype=loom.uint8) for n in range(1, 200_000, 1777)]
        for each in arrays:
            loom.launch(add, 1, [loom.zeros(1), 1.0], stream=loom.Stream(fresh))
            each.fill_(1)
        del arrays, each
        gc.collect()
    loom.synchronize()
    found = figures(fresh)
    assert found["used"] == used
    loom.release_memory(fresh)
    assert figures(fresh)["idle"] == 0


def test_sizes_that_vary_do_not_break_the_memory_into_pieces(fresh):
    """Batches of other sizes all the time: what is idle serves nearly all of them, and is no more than a few
    batches."""
    random, before = np.random.default_rng(3), figures(fresh)
    for _ in range(300):
        n = int(random.integers(1, 3 * MIB))
        arrays = [loom.empty(n, dtype=loom.uint8), loom.empty(max(1, n // 7), dtype=loom.uint8)]
        del arrays
    found = figures(fresh)
    assert found["n_allocated"] - before["n_allocated"] < 60
    assert found["idle"] < 64 * MIB


def test_the_release_threshold_and_the_limit(fresh):
    used = figures(fresh)["used"]
    loom.set_mempool_release_threshold(fresh, 2 * MIB)
    assert loom.get_mempool_release_threshold(fresh) == 2 * MIB
    arrays = [loom.empty(2 * MIB, dtype=loom.uint8) for _ in range(4)]
    del arrays
    assert figures(fresh)["idle"] <= 2 * MIB
    loom.set_memory_limit(fresh, used + 8 * MIB)
    assert figures(fresh)["limit"] == used + 8 * MIB
    kept = [loom.empty(2 * MIB, dtype=loom.uint8) for _ in range(3)]
    with pytest.raises(
        loom.DeviceError, match=r"(?s)out of memory: 4194304 bytes.*the limit is .*largest arrays there:"
    ) as error:
        loom.empty(4 * MIB, dtype=loom.uint8)
    assert f"{6 * MIB} bytes in 3 of uint8[{2 * MIB}]" in str(error.value)
    del kept
    assert loom.empty(4 * MIB, dtype=loom.uint8).size == 4 * MIB
    with pytest.raises(ValueError, match="only supported on CUDA devices"):
        loom.set_memory_limit("cpu", 1)


def test_ten_threads_allocate_and_free(fresh):
    used, wrong = figures(fresh)["used"], []

    def work(seed):
        random, stream = np.random.default_rng(seed), loom.Stream(fresh)
        with loom.ScopedStream(stream):
            for turn in range(12):
                x = loom.full(int(random.integers(1, 5000)), float(seed), device=fresh)
                loom.launch(add, x.shape, [x, float(turn)], device=fresh, stream=stream)
                if not (x.numpy() == seed + turn).all():
                    wrong.append((seed, turn))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(10)]
    # The default device is the process's, which each thread sets and restores.
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    loom.set_device(fresh)
    assert not wrong and figures(fresh)["used"] == used


def test_memory_without_pools_of_the_driver(fresh):
    with loom.ScopedMempool(fresh, False):
        assert not loom.is_mempool_enabled(fresh)
        x = loom.full(1000, 2.0)
        stream = loom.Stream(fresh)
        loom.launch(add, 1000, [x, 1.0], stream=stream)
        assert x.numpy()[0] == 3.0 and not figures(fresh)["has_driver_pool"]
        del x
        loom.release_memory(fresh)
        assert figures(fresh)["idle"] == 0
    assert loom.is_mempool_enabled(fresh) == loom.is_mempool_supported(fresh)


def test_a_driver_without_pools(fresh, is_simulated):
    if not is_simulated(fresh):
        pytest.skip("the driver has what it has")
    code = """
        import polyloom as loom
        with loom.ScopedDevice("cuda:0"):
            x = loom.ones(1000)
            y = loom.full(10, 3.0)
            print(x.numpy().sum(), y.numpy().sum(), loom.memory_report()["devices"]["cuda:0"]["has_driver_pool"])
    """
    assert run(code, POLYLOOM_GPU_FAIL="cuMemPoolCreate=801") == "1000.0 30.0 False\n"


def test_what_is_idle_goes_back_when_the_driver_has_no_more(fresh, is_simulated):
    if not is_simulated(fresh):
        pytest.skip("the failure is injected")
    code = """
        import polyloom as loom
        with loom.ScopedDevice("cuda:0"):
            x = loom.ones(1000)
            del x
            y = loom.zeros(1 << 20)
            print(y.numpy().sum(), loom.memory_report()["devices"]["cuda:0"]["n_flushed"])
    """
    # The second allocation of the driver's fails, and the third does not.
    assert run(code, POLYLOOM_GPU_FAIL="cuMemAllocFromPoolAsync:2=2") == "0.0 1\n"
    code = """
        import polyloom as loom
        with loom.ScopedDevice("cuda:0"):
            big, small = loom.ones(3000), [loom.ones(10) for _ in range(4)]
            try:
                loom.zeros((1 << 20, 3), dtype=loom.vec3)
            except loom.DeviceError as error:
                print(error)
    """
    found = run(code, POLYLOOM_GPU_FAIL="cuMemAllocFromPoolAsync:6=2,cuMemAllocFromPoolAsync:7=2")
    assert "out of memory: 37748736 bytes were asked for" in found
    assert "12000 bytes in 1 of float32[3000]\n  160 bytes in 4 of float32[10]" in found


def test_pinned_arrays(device):
    x = loom.full(1000, 2.0, device="cpu", pinned=True)
    assert x.pinned == loom.gpu_available() and x.device == "cpu" and not loom.zeros(3, device="cpu").pinned
    y = loom.zeros(1000)
    stream = loom.Stream(device)
    loom.copy(y, x, stream=stream)
    loom.launch(add, 1000, [y, 1.0], stream=stream)
    loom.copy(x, y, stream=stream)
    assert x[0] == 3.0 and x[10:20].pinned == x.pinned
    loom.copy(x[10:20], y[:10] * 2.0)
    np.testing.assert_array_equal(x.numpy()[9:21], [3] + 10 * [6] + [3])
    assert loom.zeros_like(x).pinned == x.pinned and loom.array(x, pinned=True)[11] == 6.0
    assert loom.launch(add, 1000, [x, 1.0], device="cpu") is None and x.numpy()[0] == 4.0


def test_pinned_memory_goes_round_when_it_is_done(fresh):
    before = figures(fresh)["pinned"]
    for turn in range(10):
        x = loom.full(100_000, float(turn), device="cpu", pinned=True)
        y = loom.empty(100_000)
        loom.copy(y, x, stream=loom.Stream(fresh))
        # The copy may go on, and nobody else is given the memory meanwhile.
        del x
        assert y.numpy()[-1] == turn
    assert figures(fresh)["pinned"] <= before + 2 * 512 * 1024
    loom.release_memory(fresh)
    assert figures(fresh)["pinned"] <= before


def test_memory_of_numpy_is_pinned(cuda):
    host = np.arange(1000, dtype=np.float32)
    x = loom.pin(host)
    assert x.pinned and x.ptr == host.ctypes.data
    y = loom.zeros(1000)
    loom.copy(y, x)
    loom.copy(x, y + 1.0)
    np.testing.assert_array_equal(x.numpy(), np.arange(1, 1001))
    assert host[0] == 1.0
    with pytest.raises(loom.DeviceError, match="cannot pin memory of the host"):
        loom.pin(host)
    del x
    assert loom.pin(host).pinned
    with pytest.raises(ValueError, match="follow each other"):
        loom.pin(host[::2])


def test_managed_arrays(cuda):
    x = loom.managed((10, 100))
    x.fill_(2.0)
    loom.launch(add, 1000, [x.flatten(), 1.0], stream=loom.Stream(cuda))
    seen = x.host()
    assert seen.device == "cpu" and seen.ptr == x.ptr and x.device == cuda
    np.testing.assert_array_equal(seen.numpy(), np.full((10, 100), 3, np.float32))
    seen[3, 4] = 7.0
    assert x.numpy()[3, 4] == 7.0
    loom.prefetch(x)
    loom.prefetch(x, "cpu", stream=loom.Stream(cuda))
    for advice in ("read_mostly", "preferred", "accessed"):
        loom.advise(x, advice)
        loom.advise(x, advice, False)
    with pytest.raises(ValueError, match="advice on memory is"):
        loom.advise(x, "none")
    with pytest.raises(ValueError, match="not in managed memory"):
        loom.prefetch(loom.zeros(3))


def test_peers(cuda):
    assert loom.is_peer_access_supported(cuda, cuda) and loom.is_peer_access_enabled(cuda, cuda)
    assert not loom.is_peer_access_supported(cuda, "cpu")
    with loom.ScopedPeerAccess(cuda, cuda, True):
        pass
    with pytest.raises(ValueError, match="between CUDA devices"):
        loom.set_peer_access_enabled(cuda, "cpu", True)
    assert loom.is_mempool_access_enabled(cuda, cuda) == loom.is_mempool_supported(cuda)


def test_a_report_names_arrays(device, capsys):
    x = loom.zeros((70, 71), dtype=loom.vec3)
    loom.print_memory_report()
    assert re.search(rf"{x.size * 12} bytes +1 of  vec3\[70, 71\]", capsys.readouterr().out)

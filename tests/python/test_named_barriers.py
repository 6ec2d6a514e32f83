"""Barriers of some warps of a block, and the caches of copies to shared memory."""

import numpy as np
import polyloom as loom
import pytest
from sources import define

PRODUCERS = loom.constant(64)


@loom.kernel(block_dim=128)
def hand_over(x: loom.array(dtype=float), y: loom.array(dtype=float), done: loom.array(dtype=int)):
    """Warps 0 and 1 write a tile, wait for each other alone, and read it; warps 2 and 3 do so with another barrier."""
    t = loom.thread_idx()
    tile = loom.shared_array(shape=128, dtype=float)
    if loom.warp_id() < 2:
        tile[t] = x[t] * 2.0
        loom.sync_threads(id=1, count=64)
        y[t] = tile[63 - t]
    else:
        tile[t] = x[t] * 3.0
        loom.sync_threads(2, 64)
        y[t] = tile[191 - t]
    loom.sync_threads()
    done[t] = 1


@loom.kernel(block_dim=96)
def one_after_the_other(y: loom.array(dtype=int)):
    """One barrier, used by two pairs of warps in turn: warps 0 and 1, then 1 and 2."""
    t = loom.thread_idx()
    box = loom.shared_array(shape=2, dtype=int)
    if loom.warp_id() == 0:
        if t == 0:
            box[0] = 5
        loom.sync_threads(id=3, count=64)
    elif loom.warp_id() == 1:
        loom.sync_threads(id=3, count=64)
        if t == 32:
            box[1] = box[0] + 1
        loom.sync_threads(id=4, count=64)
    else:
        loom.sync_threads(id=4, count=64)
        y[t - 64] = box[1]


@pytest.mark.parametrize("device", ["cpu", "sim:0"])
def test_warps_wait_for_each_other_alone(device):
    x = np.arange(128, dtype=np.float32)
    y, done = np.zeros(128, np.float32), np.zeros(128, np.int32)
    loom.launch(hand_over, 128, [x, y, done], device=device)
    assert y[:64].tolist() == (x[:64] * 2)[::-1].tolist()
    assert y[64:].tolist() == (x[64:] * 3)[::-1].tolist()
    assert done.all()
    z = np.zeros(32, np.int32)
    loom.launch(one_after_the_other, 96, [z], device=device)
    assert z.tolist() == [6] * 32


def test_the_simulator_finds_no_race_across_named_barriers():
    loom.sim.configure(sanitize="all")
    try:
        test_warps_wait_for_each_other_alone("sim:0")
    finally:
        loom.sim.configure(sanitize="default")


def test_barriers_that_nobody_else_comes_to_are_told():
    kernel = define("""
        @loom.kernel(block_dim=64)
        def k(y: loom.array(dtype=int)):
            if loom.warp_id() == 0:
                loom.sync_threads(id=1, count=64)
            y[loom.tid()] = 1
    """)["k"]
    for device in ("cpu", "sim:0"):
        with pytest.raises((loom.LaunchError, RuntimeError)):
            loom.launch(kernel, 64, [np.zeros(64, np.int32)], device=device)


def test_their_code():
    assert "bar.sync" in hand_over.ptx() or "barrier.sync" in hand_over.ptx()
    assert "named_barrier<1, 64>()" in hand_over.cuda()
    assert "named_barrier 1 64" in hand_over.hir()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("id=1", "two constants"),
        ("id=0, count=64", "`id`, 1 to 15"),
        ("id=16, count=64", "`id`, 1 to 15"),
        ("id=1, count=33", "a multiple of 32"),
        ("id=1, count=2048", "up to 1024"),
        ("id=1, count=n", "two constants"),
        ("name=1", "has no argument `name`"),
        ("1, 64, 3", "2 arguments at most"),
    ],
)
def test_wrong_barriers_are_refused(call, message):
    text = f"@loom.kernel(block_dim=64)\ndef k(n: int, y: loom.array(dtype=int)):\n    loom.sync_threads({call})\n"
    with pytest.raises(loom.CompileError, match=message):
        define(text)


def test_a_barrier_in_divergent_code_of_a_warp_is_refused():
    text = (
        "@loom.kernel(block_dim=64)\ndef k(y: loom.array(dtype=int)):\n    if loom.lane_id() == 0:\n"
        "        loom.sync_threads(id=1, count=32)\n"
    )
    with pytest.raises(loom.CompileError, match="PL0601"):
        define(text)


def copying(cache):
    return define(f"""
        @loom.kernel(block_dim=32)
        def k(x: loom.array(dtype=float), y: loom.array(dtype=float)):
            t = loom.thread_idx()
            tile = loom.shared_array(shape=128, dtype=float)
            loom.async_copy(tile[4 * t], x[4 * t], count=4{cache})
            loom.async_commit()
            loom.async_wait()
            loom.sync_threads()
            for i in range(4):
                y[4 * t + i] = tile[127 - 4 * t - i]
    """)["k"]


@pytest.mark.parametrize(
    ("cache", "instruction"),
    [
        ("", "cp.async.ca.shared.global"),
        (', cache="default"', "cp.async.ca.shared.global"),
        (', cache="l1"', "cp.async.ca.shared.global"),
        (', cache="l2"', "cp.async.cg.shared.global"),
        (', cache="streaming"', "cp.async.ca.shared.global.L2::cache_hint"),
        (', cache="streaming"', "createpolicy.fractional.L2::evict_first.b64"),
    ],
)
def test_copies_go_through_the_caches_that_they_name(cache, instruction):
    kernel = copying(cache)
    assert instruction in kernel.ptx()
    x = np.arange(128, dtype=np.float32)
    for device in ("cpu", "sim:0"):
        y = np.zeros(128, np.float32)
        loom.launch(kernel, 32, [x, y], device=device)
        assert y.tolist() == x[::-1].tolist()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("count=4, bypass=True", "has no argument `bypass`"),
        ("count=4, cache='l3'", "there is no cache of this name"),
        ("count=2, cache='l2'", "4, 8 or 16 bytes"),
        ("count=4, volatile=1", "its arguments are target, source, count, cache"),
        ("4, 'l2', 1", "4 arguments at most"),
    ],
)
def test_copies_refuse_what_they_do_not_know(arguments, message):
    text = (
        "@loom.kernel(block_dim=32)\ndef k(x: loom.array(dtype=float)):\n"
        "    tile = loom.shared_array(shape=128, dtype=float)\n"
        f"    loom.async_copy(tile[0], x[0], {arguments})\n"
    )
    with pytest.raises(loom.CompileError, match=message):
        define(text)

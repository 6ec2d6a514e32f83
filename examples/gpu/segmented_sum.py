"""Sums of segments: elements that follow each other and have the same number in `segments` are added up.

A warp sums the parts of segments that it has by a scan that stops where the segment changes; the last lane of each part
adds it to the result.
"""

from __future__ import annotations

import numpy as np
import polyloom as loom

BLOCK = 128


@loom.kernel(block_dim=BLOCK)
def add_segments(
    values: loom.array(dtype=float),
    segments: loom.array(dtype=int),
    sums: loom.array(dtype=float),
):
    i = loom.tid()
    lane = loom.lane_id()
    value = 0.0
    segment = -1
    if i < values.shape[0]:
        value = values[i]
        segment = segments[i]
    for step in range(5):
        distance = 1 << step
        below = loom.shuffle_up(value, distance)
        segment_below = loom.shuffle_up(segment, distance)
        if lane >= distance and segment_below == segment:
            value += below
    next_segment = loom.shuffle_down(segment, 1)
    if segment >= 0 and (lane == 31 or next_segment != segment):
        loom.atomic_add(sums, segment, value)


def segmented_sums(values: np.ndarray, segments: np.ndarray, n_segments: int, device: str = "cpu") -> np.ndarray:
    """The sum of each segment; `segments` ascends."""
    sums = np.zeros(n_segments, np.float32)
    loom.launch(add_segments, grid=-(-values.size // BLOCK), inputs=[values, segments], outputs=[sums], device=device)
    return sums


if __name__ == "__main__":
    random = np.random.default_rng(0)
    values = random.random(10_000).astype(np.float32)
    segments = np.sort(random.integers(0, 100, values.size)).astype(np.int32)
    expected = np.bincount(segments, values.astype(np.float64), 100)
    print("largest error:", np.abs(segmented_sums(values, segments, 100) - expected).max())

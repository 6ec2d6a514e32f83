"""Attention without the matrix of weights: keys and values come by tiles, and sums are rescaled when the maximum grows.

For each head, row i of the result is the mean of all v[j] with the weights exp(q[i] . k[j] / sqrt(DIM)). A thread keeps
one query, its weighted sum so far, the sum of its weights and the exponent both are relative to (Dao et al.,
"FlashAttention", 2022, algorithm 1; the running maximum is that of Milakov and Gimelshein, 2018).
"""

from __future__ import annotations

import math

import numpy as np
import polyloom as loom

DIM = 16
QUERIES = 32
KEYS = 16
SCALE = 1.0 / math.sqrt(DIM)

vector = loom.types.vector(length=DIM, dtype=float)


@loom.kernel(block_dim=QUERIES)
def attend(
    q: loom.array(dtype=vector, ndim=2),
    k: loom.array(dtype=vector, ndim=2),
    v: loom.array(dtype=vector, ndim=2),
    causal: bool,
    out: loom.array(dtype=vector, ndim=2),
):
    tile_k = loom.shared_array(shape=KEYS, dtype=vector)
    tile_v = loom.shared_array(shape=KEYS, dtype=vector)
    head = loom.block_idx(1)
    t = loom.thread_idx(0)
    i = loom.block_idx(0) * QUERIES + t
    query = vector()
    if i < q.shape[1]:
        query = q[head, i] * SCALE
    total = vector()
    weights = 0.0
    greatest = -loom.inf
    for start in range(0, k.shape[1], KEYS):
        if t < KEYS and start + t < k.shape[1]:
            tile_k[t] = k[head, start + t]
            tile_v[t] = v[head, start + t]
        loom.sync_threads()
        end = loom.min(k.shape[1] - start, KEYS)
        if causal:
            end = loom.min(end, i + 1 - start)
        for j in range(end):
            score = loom.dot(query, tile_k[j])
            if score > greatest:
                rescale = loom.exp(greatest - score)
                weights *= rescale
                total *= rescale
                greatest = score
            weight = loom.exp(score - greatest)
            weights += weight
            total += weight * tile_v[j]
        loom.sync_threads()
    if i < q.shape[1]:
        out[head, i] = total / weights


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, causal: bool = False, device: str = "cpu") -> np.ndarray:
    """Attention of queries to keys and values, arrays of float32 by head, place and component."""
    out = np.empty_like(q)
    n_heads, n_queries, _ = q.shape
    grid = (-(-n_queries // QUERIES), n_heads)
    loom.launch(attend, grid=grid, inputs=[q, k, v, causal], outputs=[out], device=device)
    return out


if __name__ == "__main__":
    q, k, v = np.random.default_rng(0).normal(size=(3, 2, 50, DIM)).astype(np.float32)
    scores = np.exp(np.einsum("hid,hjd->hij", q.astype(np.float64), k) * SCALE)
    expected = np.einsum("hij,hjd->hid", scores / scores.sum(axis=2, keepdims=True), v)
    print("largest error:", np.abs(attention(q, k, v) - expected).max())

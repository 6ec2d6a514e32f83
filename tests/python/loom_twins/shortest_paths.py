"""Distances in a graph, by Bellman and Ford."""

import numpy as np
import polyloom as loom


@loom.struct
class Edge:
    from_node: int
    to_node: int
    length: int


@loom.kernel
def relax(edges: loom.array(dtype=Edge), distance: loom.array(dtype=int)):
    edge = edges[loom.tid()]
    known = distance[edge.from_node]
    if known != 1 << 30:
        loom.atomic_min(distance, edge.to_node, known + edge.length)


def arguments(random):
    edges = loom.zeros(40, dtype=Edge)
    records = edges.numpy()
    records["from_node"], records["to_node"] = random.integers(0, 15, (2, 40))
    records["length"] = random.integers(1, 20, 40)
    return edges, 3, 16


def twin(edges, start, n):
    distance = np.full(n, 1 << 30, np.int32)
    distance[start] = 0
    for _ in range(1, n):
        loom.launch(relax, len(edges), [edges, distance])
    return distance


def expected(edges, start, n):
    distance = {start: 0}
    for _ in range(n):
        for a, b, length in edges.numpy().tolist():
            if a in distance:
                distance[b] = min(distance.get(b, 1 << 30), distance[a] + length)
    return np.array([distance.get(node, 1 << 30) for node in range(n)])

"""Workloads over vectors and matrices, once per peer, as in `workloads.py`.

A million float32 elements each. Warp and Polyloom run the same kernels; Numba runs loops over the components, as it has
no vectors, and LAPACK's `svd`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

N = 1_000_000
BONES = 64
SPHERES = 16
DT = 1e-3
GRAVITY = -9.8
BOUNCE = 0.5
FAR = 1e6

Workload = tuple[Callable[[], Any], Callable[[], Any]]


def inputs() -> dict[str, Any]:
    g = np.random.default_rng(11)
    f32 = np.float32

    def unit(shape: tuple[int, ...]) -> Any:
        v = g.standard_normal(shape, dtype=f32)
        return v / np.linalg.norm(v, axis=-1, keepdims=True)

    bones = np.zeros((BONES, 4, 4), f32)
    bones[:, :3] = g.standard_normal((BONES, 3, 4), dtype=f32)
    bones[:, 3, 3] = 1
    weights = g.random((N, 4), dtype=f32)
    inertia = g.random((N, 3), dtype=f32) + 1
    d = {
        "position": g.standard_normal((N, 3), dtype=f32) + np.array([0, 3, 0], f32),
        "velocity": g.standard_normal((N, 3), dtype=f32),
        "body_position": g.standard_normal((N, 3), dtype=f32),
        "body_rotation": unit((N, 4)),
        "body_velocity": g.standard_normal((N, 3), dtype=f32),
        "body_spin": g.standard_normal((N, 3), dtype=f32),
        "inertia": np.einsum("ni,ij->nij", inertia, np.eye(3, dtype=f32)),
        "inverse_inertia": np.einsum("ni,ij->nij", 1 / inertia, np.eye(3, dtype=f32)),
        "torque": g.standard_normal((N, 3), dtype=f32),
        "vertex": g.standard_normal((N, 3), dtype=f32),
        "bone_index": g.integers(0, BONES, (N, 4), dtype=np.int32),
        "bone_weight": weights / weights.sum(1, keepdims=True),
        "bones": bones,
        "skinned": np.zeros((N, 3), f32),
        "origin": g.standard_normal((N, 3), dtype=f32),
        "direction": unit((N, 3)),
        "spheres": np.concatenate(
            [g.standard_normal((SPHERES, 3), dtype=f32) * 4, g.random((SPHERES, 1), dtype=f32) + f32(0.1)], 1
        ),
        "hit": np.zeros(N, f32),
        "matrix": g.standard_normal((N, 3, 3), dtype=f32),
        "u": np.zeros((N, 3, 3), f32),
        "sigma": np.zeros((N, 3), f32),
        "v": np.zeros((N, 3, 3), f32),
    }
    d["new_position"], d["new_velocity"] = np.zeros((N, 3), f32), np.zeros((N, 3), f32)
    d["new_body_position"], d["new_body_rotation"] = np.zeros((N, 3), f32), np.zeros((N, 4), f32)
    d["new_body_spin"] = np.zeros((N, 3), f32)
    return d


# The arrays of a workload, in the order of its parameters.
PARAMETERS = {
    "particles": ["position", "velocity", "new_position", "new_velocity"],
    "rigid_bodies": [
        "body_position",
        "body_rotation",
        "body_velocity",
        "body_spin",
        "inertia",
        "inverse_inertia",
        "torque",
        "new_body_position",
        "new_body_rotation",
        "new_body_spin",
    ],
    "skinning": ["vertex", "bone_index", "bone_weight", "bones", "skinned"],
    "ray_spheres": ["origin", "direction", "spheres", "hit"],
    "svd3": ["matrix", "u", "sigma", "v"],
}
# What each one computes and is checked by.
RESULT = {
    "particles": "new_position",
    "rigid_bodies": "new_body_rotation",
    "skinning": "skinned",
    "ray_spheres": "hit",
    "svd3": "sigma",
}


def workloads(d: dict[str, Any], run: dict[str, Callable[[], Any]]) -> dict[str, Workload]:
    # Singular values may be negative where `u` and `v` are to be rotations.
    results = {name: (lambda key=key: abs(d[key]) if key == "sigma" else d[key]) for name, key in RESULT.items()}
    return {name: (call, results[name]) for name, call in run.items()}


def kernel_workloads(wp: Any, share: Callable[[Any, Any], Any]) -> dict[str, Workload]:
    """The same kernels for Warp and Polyloom: only the import differs."""

    @wp.kernel
    def particles(
        position: wp.array(dtype=wp.vec3),
        velocity: wp.array(dtype=wp.vec3),
        new_position: wp.array(dtype=wp.vec3),
        new_velocity: wp.array(dtype=wp.vec3),
    ):
        i = wp.tid()
        v = velocity[i] + wp.vec3(0.0, GRAVITY, 0.0) * DT
        v = v - v * (0.1 * DT * wp.length(v))
        x = position[i] + v * DT
        if x[1] < 0.0:
            x = wp.vec3(x[0], 0.0, x[2])
            v = wp.vec3(v[0], -BOUNCE * v[1], v[2])
        new_position[i] = x
        new_velocity[i] = v

    @wp.kernel
    def rigid_bodies(
        position: wp.array(dtype=wp.vec3),
        rotation: wp.array(dtype=wp.quat),
        velocity: wp.array(dtype=wp.vec3),
        spin: wp.array(dtype=wp.vec3),
        inertia: wp.array(dtype=wp.mat33),
        inverse_inertia: wp.array(dtype=wp.mat33),
        torque: wp.array(dtype=wp.vec3),
        new_position: wp.array(dtype=wp.vec3),
        new_rotation: wp.array(dtype=wp.quat),
        new_spin: wp.array(dtype=wp.vec3),
    ):
        i = wp.tid()
        q = rotation[i]
        w = wp.quat_rotate_inv(q, spin[i])
        t = wp.quat_rotate_inv(q, torque[i]) - wp.cross(w, inertia[i] * w)
        w1 = wp.quat_rotate(q, w + inverse_inertia[i] * t * DT)
        new_position[i] = position[i] + velocity[i] * DT
        new_rotation[i] = wp.normalize(q + wp.quat(w1[0], w1[1], w1[2], 0.0) * q * (0.5 * DT))
        new_spin[i] = w1

    @wp.kernel
    def skinning(
        vertex: wp.array(dtype=wp.vec3),
        index: wp.array(dtype=wp.vec4i),
        weight: wp.array(dtype=wp.vec4),
        bones: wp.array(dtype=wp.mat44),
        skinned: wp.array(dtype=wp.vec3),
    ):
        i = wp.tid()
        x = vertex[i]
        b = index[i]
        w = weight[i]
        total = wp.vec3(0.0, 0.0, 0.0)
        for k in range(4):
            total += w[k] * wp.transform_point(bones[b[k]], x)
        skinned[i] = total

    @wp.kernel
    def ray_spheres(
        origin: wp.array(dtype=wp.vec3),
        direction: wp.array(dtype=wp.vec3),
        spheres: wp.array(dtype=wp.vec4),
        hit: wp.array(dtype=float),
    ):
        i = wp.tid()
        o = origin[i]
        r = direction[i]
        nearest = float(FAR)
        for k in range(SPHERES):
            s = spheres[k]
            c = wp.vec3(s[0], s[1], s[2]) - o
            b = wp.dot(c, r)
            discriminant = b * b - wp.dot(c, c) + s[3] * s[3]
            if discriminant > 0.0:
                t = b - wp.sqrt(discriminant)
                if t > 0.0 and t < nearest:
                    nearest = t
        hit[i] = nearest

    @wp.kernel
    def svd3(
        matrix: wp.array(dtype=wp.mat33),
        u: wp.array(dtype=wp.mat33),
        sigma: wp.array(dtype=wp.vec3),
        v: wp.array(dtype=wp.mat33),
    ):
        i = wp.tid()
        ui, si, vi = wp.svd3(matrix[i])
        u[i] = ui
        sigma[i] = si
        v[i] = vi

    d = inputs()
    types = {3: wp.vec3, 4: wp.vec4, (3, 3): wp.mat33, (4, 4): wp.mat44}
    special = {"body_rotation": wp.quat, "new_body_rotation": wp.quat, "bone_index": wp.vec4i, "hit": float}

    def array(name: str) -> Any:
        shape = d[name].shape[1:]
        dtype = special.get(name) or types[shape if len(shape) > 1 else shape[0]]
        return share(d[name], dtype)

    kernels = [particles, rigid_bodies, skinning, ray_spheres, svd3]
    run = {}
    for kernel, (name, parameters) in zip(kernels, PARAMETERS.items(), strict=True):
        arrays = [array(p) for p in parameters]
        run[name] = lambda kernel=kernel, arrays=arrays: wp.launch(kernel, N, inputs=arrays, device="cpu")
    return workloads(d, run)


def numba_workloads(fastmath: bool) -> dict[str, Workload]:
    from numba import njit, prange

    jit = njit(parallel=True, fastmath=fastmath)
    inline = njit(inline="always", fastmath=fastmath)
    f = np.float32
    dt, fall, drag, bounce, half_dt = f(DT), f(GRAVITY * DT), f(0.1 * DT), f(-BOUNCE), f(0.5 * DT)
    zero, two, one, far = f(0), f(2), f(1), f(FAR)

    @jit
    def particles(position: Any, velocity: Any, new_position: Any, new_velocity: Any) -> None:
        for i in prange(position.shape[0]):
            vx, vy, vz = velocity[i, 0], velocity[i, 1] + fall, velocity[i, 2]
            k = drag * np.sqrt(vx * vx + vy * vy + vz * vz)
            vx, vy, vz = vx - vx * k, vy - vy * k, vz - vz * k
            x, y, z = position[i, 0] + vx * dt, position[i, 1] + vy * dt, position[i, 2] + vz * dt
            if y < zero:
                y = zero
                vy = bounce * vy
            new_position[i, 0], new_position[i, 1], new_position[i, 2] = x, y, z
            new_velocity[i, 0], new_velocity[i, 1], new_velocity[i, 2] = vx, vy, vz

    @inline
    def rotate(x: Any, y: Any, z: Any, w: Any, a: Any, b: Any, c: Any) -> Any:
        k = two * w * w - one
        s = two * (x * a + y * b + z * c)
        t = two * w
        return (
            a * k + (y * c - z * b) * t + x * s,
            b * k + (z * a - x * c) * t + y * s,
            c * k + (x * b - y * a) * t + z * s,
        )

    @inline
    def times(m: Any, i: Any, a: Any, b: Any, c: Any) -> Any:
        return (
            m[i, 0, 0] * a + m[i, 0, 1] * b + m[i, 0, 2] * c,
            m[i, 1, 0] * a + m[i, 1, 1] * b + m[i, 1, 2] * c,
            m[i, 2, 0] * a + m[i, 2, 1] * b + m[i, 2, 2] * c,
        )

    @jit
    def rigid_bodies(
        position: Any,
        rotation: Any,
        velocity: Any,
        spin: Any,
        inertia: Any,
        inverse_inertia: Any,
        torque: Any,
        new_position: Any,
        new_rotation: Any,
        new_spin: Any,
    ) -> None:
        for i in prange(position.shape[0]):
            x, y, z, w = rotation[i, 0], rotation[i, 1], rotation[i, 2], rotation[i, 3]
            wx, wy, wz = rotate(-x, -y, -z, w, spin[i, 0], spin[i, 1], spin[i, 2])
            tx, ty, tz = rotate(-x, -y, -z, w, torque[i, 0], torque[i, 1], torque[i, 2])
            lx, ly, lz = times(inertia, i, wx, wy, wz)
            tx, ty, tz = tx - (wy * lz - wz * ly), ty - (wz * lx - wx * lz), tz - (wx * ly - wy * lx)
            ax, ay, az = times(inverse_inertia, i, tx, ty, tz)
            wx, wy, wz = rotate(x, y, z, w, wx + ax * dt, wy + ay * dt, wz + az * dt)
            for c in range(3):
                new_position[i, c] = position[i, c] + velocity[i, c] * dt
            qx = x + (wx * w + wy * z - wz * y) * half_dt
            qy = y + (wy * w + wz * x - wx * z) * half_dt
            qz = z + (wz * w + wx * y - wy * x) * half_dt
            qw = w - (wx * x + wy * y + wz * z) * half_dt
            n = one / np.sqrt(qx * qx + qy * qy + qz * qz + qw * qw)
            new_rotation[i, 0], new_rotation[i, 1] = qx * n, qy * n
            new_rotation[i, 2], new_rotation[i, 3] = qz * n, qw * n
            new_spin[i, 0], new_spin[i, 1], new_spin[i, 2] = wx, wy, wz

    @jit
    def skinning(vertex: Any, index: Any, weight: Any, bones: Any, skinned: Any) -> None:
        for i in prange(vertex.shape[0]):
            x, y, z = vertex[i, 0], vertex[i, 1], vertex[i, 2]
            tx, ty, tz = zero, zero, zero
            for k in range(4):
                b, w = index[i, k], weight[i, k]
                tx += w * (bones[b, 0, 0] * x + bones[b, 0, 1] * y + bones[b, 0, 2] * z + bones[b, 0, 3])
                ty += w * (bones[b, 1, 0] * x + bones[b, 1, 1] * y + bones[b, 1, 2] * z + bones[b, 1, 3])
                tz += w * (bones[b, 2, 0] * x + bones[b, 2, 1] * y + bones[b, 2, 2] * z + bones[b, 2, 3])
            skinned[i, 0], skinned[i, 1], skinned[i, 2] = tx, ty, tz

    @jit
    def ray_spheres(origin: Any, direction: Any, spheres: Any, hit: Any) -> None:
        for i in prange(origin.shape[0]):
            rx, ry, rz = direction[i, 0], direction[i, 1], direction[i, 2]
            nearest = far
            for k in range(SPHERES):
                cx, cy, cz = spheres[k, 0] - origin[i, 0], spheres[k, 1] - origin[i, 1], spheres[k, 2] - origin[i, 2]
                b = cx * rx + cy * ry + cz * rz
                discriminant = b * b - (cx * cx + cy * cy + cz * cz) + spheres[k, 3] * spheres[k, 3]
                if discriminant > zero:
                    t = b - np.sqrt(discriminant)
                    if t > zero and t < nearest:
                        nearest = t
            hit[i] = nearest

    @jit
    def svd3(matrix: Any, u: Any, sigma: Any, v: Any) -> None:
        for i in prange(matrix.shape[0]):
            ui, si, vt = np.linalg.svd(matrix[i])
            u[i] = ui
            sigma[i] = si
            v[i] = vt.T

    d = inputs()
    run = {}
    for function, (name, parameters) in zip(
        [particles, rigid_bodies, skinning, ray_spheres, svd3], PARAMETERS.items(), strict=True
    ):
        arrays = [d[p] for p in parameters]
        run[name] = lambda function=function, arrays=arrays: function(*arrays)
    return workloads(d, run)


def expected() -> dict[str, Any]:
    """Results in float64 from NumPy."""
    d = {name: a.astype(np.float64) if a.dtype == np.float32 else a for name, a in inputs().items()}

    v = d["velocity"] + np.array([0, GRAVITY * DT, 0])
    v -= v * (0.1 * DT * np.linalg.norm(v, axis=1, keepdims=True))
    x = d["position"] + v * DT
    x[:, 1] = np.maximum(x[:, 1], 0)

    def quat_multiply(p: Any, q: Any) -> Any:
        pv, pw, qv, qw = p[:, :3], p[:, 3:], q[:, :3], q[:, 3:]
        vector = qv * pw + pv * qw + np.cross(pv, qv)
        return np.concatenate([vector, pw * qw - (pv * qv).sum(1, keepdims=True)], 1)

    conjugate = np.array([-1, -1, -1, 1])

    def rotate(q: Any, a: Any) -> Any:
        pure = np.concatenate([a, np.zeros((N, 1))], 1)
        return quat_multiply(quat_multiply(q, pure), q * conjugate)[:, :3]

    q = d["body_rotation"]
    w = rotate(q * conjugate, d["body_spin"])
    t = rotate(q * conjugate, d["torque"]) - np.cross(w, np.einsum("nij,nj->ni", d["inertia"], w))
    w1 = rotate(q, w + np.einsum("nij,nj->ni", d["inverse_inertia"], t) * DT)
    rotation = q + quat_multiply(np.concatenate([w1, np.zeros((N, 1))], 1), q) * (0.5 * DT)

    skinned = np.zeros((N, 3))
    for k in range(4):
        bone = d["bones"][d["bone_index"][:, k]]
        moved = np.einsum("nij,nj->ni", bone[:, :3, :3], d["vertex"]) + bone[:, :3, 3]
        skinned += d["bone_weight"][:, k : k + 1] * moved

    nearest = np.full(N, FAR)
    for s in d["spheres"]:
        c = s[:3] - d["origin"]
        b = (c * d["direction"]).sum(1)
        discriminant = b * b - (c * c).sum(1) + s[3] * s[3]
        at = b - np.sqrt(np.maximum(discriminant, 0))
        nearest = np.where((discriminant > 0) & (at > 0) & (at < nearest), at, nearest)
    return {
        "particles": x,
        "rigid_bodies": rotation / np.linalg.norm(rotation, axis=1, keepdims=True),
        "skinning": skinned,
        "ray_spheres": nearest,
        "svd3": np.linalg.svd(d["matrix"], compute_uv=False),
    }

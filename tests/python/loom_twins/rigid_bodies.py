"""Free rigid bodies."""

import numpy as np
import polyloom as loom


@loom.struct
class Body:
    position: loom.vec3
    velocity: loom.vec3
    turn: loom.quat
    spin: loom.vec3
    inertia: loom.mat33
    mass: float


@loom.kernel
def move(
    bodies: loom.array(dtype=Body),
    dt: float,
    steps: int,
    noses: loom.array(dtype=loom.vec3),
    energy: loom.array(dtype=float),
):
    i = loom.tid()
    body = bodies[i]
    for _ in range(steps):
        momentum = body.inertia * body.spin
        spin = body.spin + loom.inverse(body.inertia) * loom.cross(momentum, body.spin) * dt
        body.velocity = body.velocity + loom.vec3(0.0, -9.81, 0.0) * dt
        body.position = body.position + body.velocity * dt
        half = loom.quat(spin.x, spin.y, spin.z, 0.0) * (0.5 * dt)
        body.turn = loom.normalize(body.turn + half * body.turn)
        body.spin = spin
    bodies[i] = body
    noses[i] = body.position + loom.quat_rotate(body.turn, loom.vec3(1.0, 0.0, 0.0))
    turning = 0.5 * loom.dot(body.spin, body.inertia * body.spin)
    energy[i] = 0.5 * body.mass * loom.dot(body.velocity, body.velocity) + turning


def arguments(random):
    bodies = loom.zeros(6, dtype=Body)
    records = bodies.numpy()
    for field in ("position", "velocity", "spin"):
        records[field] = random.random((6, 3), dtype=np.float32)
    records["turn"] = (0, 0, 0, 1)
    records["inertia"] = np.diag([1.0, 2.0, 3.0])
    records["mass"] = 2
    return bodies, 0.01, 10


def twin(bodies, dt, steps):
    noses, energy = loom.zeros(6, dtype=loom.vec3), loom.zeros(6, dtype=float)
    loom.launch(move, 6, [bodies, dt, steps, noses, energy])
    return noses, energy

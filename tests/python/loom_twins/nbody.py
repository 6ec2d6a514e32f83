"""One step of bodies that attract each other."""

import numpy as np
import polyloom as loom


@loom.kernel
def nbody(
    position: loom.array(dtype=loom.vec3),
    velocity: loom.array(dtype=loom.vec3),
    mass: loom.array(dtype=float),
    dt: float,
    moved: loom.array(dtype=loom.vec3),
    speed: loom.array(dtype=loom.vec3),
):
    i = loom.tid()
    force = loom.vec3(0.0, 0.0, 0.0)
    for j in range(position.shape[0]):
        between = position[j] - position[i]
        square = loom.dot(between, between) + 0.01
        force += between * (mass[j] / (square * loom.sqrt(square)))
    moved[i] = position[i] + (velocity[i] + force * dt) * dt
    speed[i] = velocity[i] + force * dt


def arguments(random):
    position, velocity = (loom.array(random.random((20, 3), dtype=np.float32), dtype=loom.vec3) for _ in range(2))
    return position, velocity, loom.array(random.random(20, dtype=np.float32), dtype=float), 0.1


def twin(*args):
    moved, speed = (loom.zeros(20, dtype=loom.vec3) for _ in range(2))
    loom.launch(nbody, 20, [*args, moved, speed])
    return moved, speed


def expected(position, velocity, mass, dt):
    position, velocity, mass = (a.numpy().astype(np.float64) for a in (position, velocity, mass))
    between = position - position[:, None]
    square = (between**2).sum(2) + 0.01
    speed = velocity + dt * (between * (mass / square**1.5)[:, :, None]).sum(1)
    return position + speed * dt, speed

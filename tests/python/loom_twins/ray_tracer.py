"""Spheres above a floor, lit by one lamp."""

import numpy as np
import polyloom as loom


@loom.struct
class Sphere:
    centre: loom.vec3
    radius: float
    colour: loom.vec3


LAMP = loom.vec3(4.0, 6.0, -3.0)


@loom.func
def sphere_hit(origin: loom.vec3, direction: loom.vec3, centre: loom.vec3, radius: float) -> float:
    between = origin - centre
    b = loom.dot(between, direction)
    inside = b * b - (loom.dot(between, between) - radius * radius)
    if inside < 0.0:
        return 1.0e30
    root = loom.sqrt(inside)
    if -b - root > 0.001:
        return -b - root
    return -b + root if -b + root > 0.001 else 1.0e30


@loom.func
def first_hit(spheres: loom.array(dtype=Sphere), origin: loom.vec3, direction: loom.vec3):
    nearest = 1.0e30
    normal = loom.vec3(0.0, 1.0, 0.0)
    colour = loom.vec3(0.5, 0.7, 1.0)
    for s in range(spheres.shape[0]):
        distance = sphere_hit(origin, direction, spheres[s].centre, spheres[s].radius)
        if distance < nearest:
            nearest = distance
            normal = loom.normalize(origin + direction * distance - spheres[s].centre)
            colour = spheres[s].colour
    if direction.y < -0.0001:
        distance = -origin.y / direction.y
        if distance > 0.001 and distance < nearest:
            nearest = distance
            point = origin + direction * distance
            shade = 0.2
            if (loom.int32(loom.floor(point.x)) + loom.int32(loom.floor(point.z))) & 1 == 0:
                shade = 0.9
            normal = loom.vec3(0.0, 1.0, 0.0)
            colour = loom.vec3(shade, shade, shade)
    return nearest, normal, colour


@loom.kernel
def trace(spheres: loom.array(dtype=Sphere), image: loom.array2d(dtype=loom.vec3)):
    row, column = loom.tid()
    x = (loom.float32(column) + 0.5) / loom.float32(image.shape[1]) - 0.5
    y = 0.5 - (loom.float32(row) + 0.5) / loom.float32(image.shape[0])
    eye = loom.vec3(0.0, 1.5, -4.0)
    direction = loom.normalize(loom.vec3(x, y, 1.0))
    distance, normal, colour = first_hit(spheres, eye, direction)
    if distance < 1.0e30:
        point = eye + direction * distance
        way = LAMP - point
        to_lamp = loom.normalize(way)
        light = 0.1
        shadow, _, _ = first_hit(spheres, point, to_lamp)
        if shadow > loom.length(way):
            light += 0.9 * loom.max(loom.dot(normal, to_lamp), 0.0)
        colour = colour * light
    image[row, column] = colour


def arguments(random):
    spheres = loom.zeros(3, dtype=Sphere)
    records = spheres.numpy()
    records["centre"] = [(-1, 1, 0), (1, 0.7, 0.5), (0, 0.4, -1)]
    records["radius"] = [1, 0.7, 0.4]
    records["colour"] = random.random((3, 3), dtype=np.float32)
    return spheres, 12, 16


def twin(spheres, height, width):
    image = loom.zeros((height, width), dtype=loom.vec3)
    loom.launch(trace, image.shape, [spheres, image])
    return image

"""Builtins that need more than a table of results: rotations' angles, and what prints."""

import numpy as np
import polyloom as loom
import pytest

SEQUENCES = [(i, j, k) for i in range(3) for j in range(3) for k in range(3) if i != j and j != k]


def turn(axis: int, angle: float) -> np.ndarray:
    """The matrix of a rotation around an axis."""
    i, j = (axis + 1) % 3, (axis + 2) % 3
    matrix = np.eye(3)
    matrix[[i, j], [i, j]] = np.cos(angle)
    matrix[j, i], matrix[i, j] = np.sin(angle), -np.sin(angle)
    return matrix


@loom.kernel
def through_angles(
    q: loom.array(dtype=loom.quatd),
    i: int,
    j: int,
    k: int,
    angles: loom.array(dtype=loom.vec3d),
    back: loom.array(dtype=loom.quatd),
    matrix: loom.array(dtype=loom.mat33d),
):
    n = loom.tid()
    angles[n] = loom.quat_to_euler(q[n], i, j, k)
    back[n] = loom.quat_from_euler(angles[n], i, j, k)
    matrix[n] = loom.quat_to_matrix(q[n])


def rotations() -> np.ndarray:
    """Random ones, and some that turn by multiples of a right angle, where two angles are one."""
    q = np.random.default_rng(0).standard_normal((200, 4))
    q[:40] = np.sign(np.round(q[:40]))
    q[:40, 3] += 1 - np.abs(q[:40]).max(1)
    return q / np.linalg.norm(q, axis=1, keepdims=True)


@pytest.mark.parametrize("axes", SEQUENCES)
def test_angles_of_a_rotation_give_it_back(axes):
    q = rotations()
    n = len(q)
    angles, back, matrix = np.zeros((n, 3)), np.zeros((n, 4)), np.zeros((n, 3, 3))
    loom.launch(through_angles, n, [q, *axes], [angles, back, matrix])
    i, j, k = axes
    last = 3 - i - j if i == k else k
    for one, wanted in zip(angles, matrix, strict=True):
        assert np.allclose(turn(k, one[last]) @ turn(j, one[j]) @ turn(i, one[i]), wanted, atol=1e-12)
    if i != k:
        assert np.allclose(np.abs((back * q).sum(1)), 1, atol=1e-14)


@pytest.mark.parametrize("pitch", [0.3, np.pi / 2, -np.pi / 2, 1.5705])
def test_roll_pitch_yaw_of_a_rotation_give_it_back(pitch):
    q = loom.quat_rpy(0.7, pitch, -1.1)
    back = loom.quat_rpy(*loom.quat_to_rpy(q))
    assert abs(abs(loom.dot(q, back)) - 1) < 1e-6


@pytest.mark.parametrize("a", [(1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 2, -3), (0.1, 0, -5)])
@pytest.mark.parametrize("b", [(1, 0, 0), (0, -2, 0), (0, 0, 1), (-1, -2, 3), (-0.1, 0, 5)])
def test_rotation_between_any_two_directions(a, b):
    a, b = loom.vec3(*a), loom.vec3(*b)
    q = loom.quat_between_vectors(a, b)
    assert abs(loom.length(q) - 1) < 1e-6
    turned = np.asarray(loom.quat_rotate(q, loom.normalize(a)))
    assert np.allclose(turned, np.asarray(loom.normalize(b)), atol=1e-5)


@loom.kernel
def expectations(x: loom.array(dtype=float), v: loom.array(dtype=loom.vec2)):
    i = loom.tid()
    loom.expect_eq(i, 0)
    loom.expect_neq(v[i], loom.vec2(1.0, 2.0))
    loom.expect_near(x[i], 1.0)
    loom.expect_near(v[i], loom.vec2(1.0, 2.0), 0.5)


def test_expectations_print_what_does_not_meet_them(capfd):
    loom.launch(expectations, 1, [np.float32([1.0000001]), np.float32([[1, 2.25]])])
    assert capfd.readouterr().out == ""
    loom.launch(expectations, 1, [np.float32([np.nan]), np.float32([[1, 2]])])
    assert capfd.readouterr().out == (
        "Error, expect_neq() failed:\n\t Expected: [1.0, 2.0]\n\t Actual: [1.0, 2.0]\n"
        "Error, expect_near() failed:\n\t Expected: 1.0\n\t Actual: nan\n"
    )


def test_quaternions_and_transformations_take_their_type_from_their_parts():
    assert loom.quaternion(1.0, 2.0, 3.0, 4.0) == loom.quat(1, 2, 3, 4)
    t = loom.transformation(loom.vec3d(1, 2, 3), loom.quatd(0, 0, 0, 1))
    assert isinstance(t, loom.transformd)
    assert isinstance(loom.quaternion(dtype=loom.float64), loom.quatd)

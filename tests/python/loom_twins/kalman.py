"""A Kalman filter for each track."""

import numpy as np
import polyloom as loom


@loom.kernel
def kalman(
    measured: loom.array2d(dtype=float), dt: float, noise: float, variance: float, states: loom.array2d(dtype=loom.vec2)
):
    t = loom.tid()
    state = loom.vec2(measured[t, 0], 0.0)
    covariance = loom.mat22(1.0, 0.0, 0.0, 1.0)
    for k in range(measured.shape[1]):
        if k > 0:
            step = loom.mat22(1.0, dt, 0.0, 1.0)
            covariance = step * covariance * loom.transpose(step) + loom.mat22(noise * dt, 0.0, 0.0, noise)
            state = step * state
        gain = loom.vec2(covariance[0, 0], covariance[1, 0]) / (covariance[0, 0] + variance)
        surprise = measured[t, k] - state.x
        kept = loom.mat22(1.0 - gain.x, 0.0, -gain.y, 1.0)
        state = state + gain * surprise
        covariance = kept * covariance
        states[t, k] = state


def arguments(random):
    places = np.linspace(0, 3, 12) + 0.1 * random.standard_normal((4, 12))
    return places.astype(np.float32), 0.25, 0.01, 0.04


def twin(measured, *parameters):
    states = loom.zeros(measured.shape, dtype=loom.vec2)
    loom.launch(kalman, len(measured), [measured, *parameters, states])
    return states


def expected(measured, dt, noise, variance):
    step, observed = np.array([[1, dt], [0, 1]]), np.array([1.0, 0.0])
    states = np.zeros((*measured.shape, 2))
    for track, places in enumerate(measured.astype(np.float64)):
        state, covariance = np.array([places[0], 0.0]), np.eye(2)
        for k, place in enumerate(places):
            if k > 0:
                state, covariance = step @ state, step @ covariance @ step.T + np.diag([noise * dt, noise])
            gain = covariance @ observed / (covariance[0, 0] + variance)
            state = state + gain * (place - state[0])
            covariance = covariance - np.outer(gain, observed @ covariance)
            states[track, k] = state
    return states

"""Decompositions of small matrices against NumPy in float64: over all conditions, repeated values, zeros and scales."""

import numpy as np
import polyloom as loom
import pytest

N = 500
# In units of the last place of the largest element; measured are up to 6 for matrices and 9 for values, the errors of
# NumPy's own float64 included.
TOLERANCE = 16


@loom.kernel
def decompose(
    a: loom.array(dtype=loom.mat33),
    u: loom.array(dtype=loom.mat33),
    sigma: loom.array(dtype=loom.vec3),
    v: loom.array(dtype=loom.mat33),
    q: loom.array(dtype=loom.mat33),
    r: loom.array(dtype=loom.mat33),
    vectors: loom.array(dtype=loom.mat33),
    values: loom.array(dtype=loom.vec3),
):
    i = loom.tid()
    u[i], sigma[i], v[i] = loom.svd3(a[i])
    q[i], r[i] = loom.qr3(a[i])
    vectors[i], values[i] = loom.eig3(a[i] + loom.transpose(a[i]))


@loom.kernel
def decompose_float64(
    a: loom.array(dtype=loom.mat33d),
    u: loom.array(dtype=loom.mat33d),
    sigma: loom.array(dtype=loom.vec3d),
    v: loom.array(dtype=loom.mat33d),
    q: loom.array(dtype=loom.mat33d),
    r: loom.array(dtype=loom.mat33d),
    vectors: loom.array(dtype=loom.mat33d),
    values: loom.array(dtype=loom.vec3d),
):
    i = loom.tid()
    u[i], sigma[i], v[i] = loom.svd3(a[i])
    q[i], r[i] = loom.qr3(a[i])
    vectors[i], values[i] = loom.eig3(a[i] + loom.transpose(a[i]))


@loom.kernel
def decompose_2x2(
    a: loom.array(dtype=loom.mat22),
    u: loom.array(dtype=loom.mat22),
    sigma: loom.array(dtype=loom.vec2),
    v: loom.array(dtype=loom.mat22),
):
    i = loom.tid()
    u[i], sigma[i], v[i] = loom.svd2(a[i])


@loom.kernel
def decompose_2x2_float64(
    a: loom.array(dtype=loom.mat22d),
    u: loom.array(dtype=loom.mat22d),
    sigma: loom.array(dtype=loom.vec2d),
    v: loom.array(dtype=loom.mat22d),
):
    i = loom.tid()
    u[i], sigma[i], v[i] = loom.svd2(a[i])


def matrices(n: int) -> dict[str, np.ndarray]:
    """`N` matrices of `n` rows and columns by kind."""
    random = np.random.default_rng(n)
    shape = (N, n, n)

    def rotations():
        return np.linalg.qr(random.standard_normal(shape))[0]

    def with_values(*values):
        return np.einsum("nij,j,nkj->nik", rotations(), values[:n], rotations())

    few = [np.zeros((n, n)), np.eye(n), -np.eye(n), np.ones((n, n)), np.eye(n)[::-1], np.diag(np.arange(n) - 1.0)]
    few += [np.diag(np.arange(1.0, n + 1)), np.diag(np.eye(n)[-1]), np.eye(n, k=1), np.eye(n, k=-1)]
    return {
        "random": random.standard_normal(shape),
        "condition 1e4": with_values(1, 1e-4, 1e-2),
        "condition 1e12": with_values(1, 1e-12, 1e-6),
        "all singular values equal": with_values(1, 1, 1),
        "two singular values equal": with_values(1, 1, 0.3),
        "the smaller two equal": with_values(1, 0.3, 0.3),
        "nearly equal": with_values(1, 1 - 1e-5, 1 - 2e-5),
        "near the identity": np.eye(n) + 1e-6 * random.standard_normal(shape),
        "rank 1": random.standard_normal((N, n, 1)) * random.standard_normal((N, 1, n)),
        "rank 2": random.standard_normal((N, n, 2)) @ random.standard_normal((N, 2, n)),
        "columns of all sizes": random.standard_normal(shape) * 10.0 ** random.uniform(-12, 0, (N, 1, n)),
        "rows of all sizes": random.standard_normal(shape) * 10.0 ** random.uniform(-12, 0, (N, n, 1)),
        "elements of all sizes": random.standard_normal(shape) * 10.0 ** random.uniform(-15, 0, shape),
        "small integers": random.integers(-2, 3, shape).astype(float),
        "many zeros": random.standard_normal(shape) * (random.random(shape) < 0.4),
        "all scales": random.uniform(-1, 1, shape) * 10.0 ** random.uniform(-30, 37, (N, 1, 1)),
        "by hand": np.array(few),
    }


def largest(a: np.ndarray) -> np.ndarray:
    size = np.abs(a).max((1, 2))
    return np.where(size > 0, size, 1)


def within(error: np.ndarray, a: np.ndarray, dtype) -> bool:
    """Whether an error of each matrix of `a` or of its values is one of rounding."""
    worst = (np.abs(error).reshape(len(a), -1).max(1) / largest(a)).max()
    return worst <= TOLERANCE * np.finfo(dtype).eps


def is_orthogonal(q: np.ndarray, dtype) -> bool:
    return within(np.swapaxes(q, 1, 2) @ q - np.eye(q.shape[1]), np.ones_like(q), dtype)


def is_rotation(q: np.ndarray, dtype) -> bool:
    return is_orthogonal(q, dtype) and bool((np.linalg.det(q) > 0).all())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", matrices(3))
def test_decompositions_of_3x3_matrices(kind, dtype):
    a = matrices(3)[kind].astype(dtype)
    out = [np.zeros((len(a), 3, 3)[: 2 if name in ("sigma", "values") else 3], dtype) for name in RESULTS]
    loom.launch(decompose if dtype == np.float32 else decompose_float64, dim=len(a), inputs=[a], outputs=out)
    u, sigma, v, q, r, vectors, values = (x.astype(np.float64) for x in out)
    exact = a.astype(np.float64)

    assert within(u * sigma[:, None] @ np.swapaxes(v, 1, 2) - exact, exact, dtype)
    assert is_rotation(u, dtype)
    assert is_rotation(v, dtype)
    assert (np.diff(np.abs(sigma)) <= 0).all()
    assert (sigma[:, :2] >= 0).all()
    assert within(np.abs(sigma) - np.linalg.svd(exact, compute_uv=False), exact, dtype)

    assert within(q @ r - exact, exact, dtype)
    assert is_rotation(q, dtype)
    assert (np.tril(r, -1) == 0).all()
    assert (r[:, [0, 1], [0, 1]] >= 0).all()

    symmetric = (a + np.swapaxes(a, 1, 2)).astype(np.float64)
    assert within(vectors * values[:, None] @ np.swapaxes(vectors, 1, 2) - symmetric, symmetric, dtype)
    assert is_rotation(vectors, dtype)
    assert within(np.sort(values) - np.linalg.eigvalsh(symmetric), symmetric, dtype)


RESULTS = ("u", "sigma", "v", "q", "r", "vectors", "values")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", matrices(2))
def test_singular_values_of_2x2_matrices(kind, dtype):
    a = matrices(2)[kind].astype(dtype)
    out = [np.zeros((len(a), 2, 2)[:rank], dtype) for rank in (3, 2, 3)]
    loom.launch(decompose_2x2 if dtype == np.float32 else decompose_2x2_float64, dim=len(a), inputs=[a], outputs=out)
    u, sigma, v = (x.astype(np.float64) for x in out)
    exact = a.astype(np.float64)
    assert within(u * sigma[:, None] @ np.swapaxes(v, 1, 2) - exact, exact, dtype)
    assert is_orthogonal(u, dtype)
    assert is_rotation(v, dtype)
    assert (sigma[:, 0] >= sigma[:, 1]).all()
    assert (sigma[:, 1] >= 0).all()
    assert within(sigma - np.linalg.svd(exact, compute_uv=False), exact, dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_small_singular_values_have_all_their_digits(dtype):
    """Where columns differ in size, Jacobi's method finds each singular value to its own precision, unlike others."""
    random = np.random.default_rng(0)
    columns = np.linalg.qr(random.standard_normal((N, 3, 3)))[0] + 0.3 * random.uniform(-1, 1, (N, 3, 3))
    a = (columns * np.array([1e-6, 1, 1e-3])).astype(dtype)
    kernel = decompose if dtype == np.float32 else decompose_float64
    out = [np.zeros((len(a), 3, 3)[: 2 if name in ("sigma", "values") else 3], dtype) for name in RESULTS]
    loom.launch(kernel, dim=len(a), inputs=[a], outputs=out)
    # NumPy's singular values are as good if the columns are brought to one size: what is lost is the smallest.
    product = np.abs(np.linalg.det(a.astype(np.float64) / [1e-6, 1, 1e-3])) * 1e-9
    assert np.allclose(np.abs(out[1].astype(np.float64).prod(1)), product, rtol=40 * np.finfo(dtype).eps, atol=0)


def test_results_of_variables_given():
    """The form with results among the arguments."""
    a = np.random.default_rng(0).standard_normal((4, 2, 2)).astype(np.float32)
    got = np.zeros_like(a)
    loom.launch(rebuild, dim=4, inputs=[a], outputs=[got])
    assert np.allclose(got, a, atol=1e-6)


@loom.kernel
def rebuild(a: loom.array(dtype=loom.mat22), out: loom.array(dtype=loom.mat22)):
    i = loom.tid()
    u = loom.mat22()
    sigma = loom.vec2()
    v = loom.mat22()
    loom.svd2(a[i], u, sigma, v)
    out[i] = u * loom.diag(sigma) * loom.transpose(v)


@loom.kernel
def half(a: loom.mat33h, sigma: loom.array(dtype=loom.vec3h)):
    u, s, v = loom.svd3(a)
    sigma[loom.tid()] = s


def test_float16_is_computed_in_float32():
    a = np.random.default_rng(0).standard_normal((3, 3)).astype(np.float16)
    sigma = np.zeros((1, 3), np.float16)
    loom.launch(half, dim=1, inputs=[loom.mat33h(a)], outputs=[sigma])
    want = np.linalg.svd(a.astype(np.float64), compute_uv=False)
    assert np.allclose(np.abs(sigma[0]), want, rtol=1e-3)
    assert np.sign(sigma[0, 2]) == np.sign(np.linalg.det(a.astype(np.float64)))


def test_nan_is_not_hidden():
    a = np.float32([[[1, 2, np.nan], [2, 5, 6], [np.nan, 6, 9]]])
    out = [np.zeros((1, 3, 3)[: 2 if name in ("sigma", "values") else 3], np.float32) for name in RESULTS]
    loom.launch(decompose, dim=1, inputs=[a], outputs=out)
    assert all(np.isnan(x).any() for x in out)

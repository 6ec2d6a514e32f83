"""What arrays do on the host: copies, pickles, comparisons, reductions, indexing by arrays, and messages about what
they do not take."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
import subprocess
import sys

import numpy as np
import polyloom as loom
import pytest


@loom.struct
class Body:
    mass: float
    position: loom.vec3


@loom.kernel
def double(x: loom.array(dtype=float)):
    x[loom.tid()] *= 2.0


def total(x):
    loom.launch(double, x.shape, [x])
    return float(x.sum())


def pickled(x):
    return pickle.loads(pickle.dumps(x))


def arrays():
    return [
        loom.array([1.0, 2.0]),
        loom.array([[1, 2], [3, 4]], dtype=loom.int64),
        loom.array([[1, 2, 3]], dtype=loom.vec3),
        loom.array([Body(2.0, (1, 2, 3))], dtype=Body),
        loom.array([1, 2], dtype=loom.bfloat16),
        loom.array([1.0, 2.0], device="sim:0"),
        loom.zeros((0, 3)),
    ]


@pytest.mark.parametrize("number", range(len(arrays())))
@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda x: x.copy(), pickled])
def test_copies(number, copied):
    x = arrays()[number]
    y = copied(x)
    assert (y.shape, y.dtype, y.device) == (x.shape, x.dtype, x.device)
    assert y.numpy().tobytes() == x.numpy().tobytes()
    assert y is not x
    if x.size:
        y.zero_()
        assert y.numpy().tobytes() != x.numpy().tobytes()


def test_gradients_are_asked_for_by_copies_too():
    x = loom.array([1.0], requires_grad=True)
    assert copy.copy(x).requires_grad
    assert pickle.loads(pickle.dumps(x)).requires_grad
    assert not x[0:1].requires_grad or copy.deepcopy(x).requires_grad


def test_process_pools():
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.map(total, [loom.array([1.0, 2.0]), loom.array([3.0])]) == [6.0, 6.0]
        assert pool.apply(loom.launch, (double, 1, [loom.zeros(1)])) is None


def test_kernels_that_no_name_leads_to_are_not_pickled():
    @loom.kernel
    def local(x: loom.array(dtype=float)):
        x[0] = 1.0

    assert pickle.loads(pickle.dumps(double)) is double
    assert copy.copy(double) is double
    assert copy.deepcopy(local) is local
    with pytest.raises(pickle.PicklingError, match="kernel 'local' is pickled by its name in a module"):
        pickle.dumps(local)


def test_comparisons_are_elementwise():
    a, b = loom.array([1.0, 2.0, 3.0]), loom.array([1.0, 5.0, 3.0])
    assert (a == b).numpy().tolist() == [True, False, True]
    assert (a != b).numpy().tolist() == [False, True, False]
    assert (a < b).list() == [False, True, False]
    assert (a >= 2).list() == [False, True, True]
    assert (a == np.array([1, 2, 4])).list() == [True, True, False]
    assert (a == b).dtype is loom.bool
    assert (a.to("sim:0") == b.to("sim:0")).device == "sim:0"
    assert ((a == b) == [True, False, True]).all()
    with pytest.raises(ValueError, match=r"any\(\) or of all\(\)"):
        bool(a == b)
    assert a != None  # noqa: E711
    assert (a == "x") is False
    assert {a: 1}[a] == 1
    with pytest.raises(ValueError, match=r"`==` of arrays of the shapes \(3,\) and \(2,\)"):
        _ = a == [1.0, 2.0]
    v = loom.array([[1, 2, 3], [4, 5, 6]], dtype=loom.vec3)
    assert (v == loom.vec3(4, 5, 6)).list() == [False, True]
    assert (v != v).list() == [False, False]
    with pytest.raises(TypeError, match="vec3 are not compared by `<`"):
        _ = v < v


def test_reductions_and_conversions():
    a = loom.array([[1.0, -2.0], [3.0, 4.0]])
    assert (a.sum(), a.mean(), a.min(), a.max()) == (6.0, 1.5, -2.0, 4.0)
    assert a.sum(axis=0).list() == [4.0, 2.0]
    assert a.max(axis=-1).list() == [1.0, 4.0]
    assert (a.any(), a.all(), (a > 9).any()) == (True, True, False)
    assert (a.nbytes, a.itemsize, a.tolist()) == (16, 4, [[1.0, -2.0], [3.0, 4.0]])
    assert abs(a).tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert a.reshape(4, 1).shape == a.reshape((4, 1)).shape == (4, 1)
    assert a.reshape(2, -1).shape == (2, 2)
    assert a.astype(int).dtype is loom.int32
    assert (a.item(1, 1), a[0:1, 0:1].item()) == (4.0, 1.0)
    with pytest.raises(ValueError, match=r"an array of shape \(2, 2\) has 4"):
        a.item()
    with pytest.raises(ValueError, match="no axis 2"):
        a.sum(axis=2)
    v = loom.array([[1, 2, 3], [4, 5, 6]], dtype=loom.vec3)
    assert v.sum() == loom.vec3(5, 7, 9)
    assert v.mean() == loom.vec3(2.5, 3.5, 4.5)
    assert [x[0] for x in v] == [1.0, 4.0]


@pytest.mark.parametrize("device", ["cpu", "sim:0"])
def test_indexing_by_arrays_takes_all_combinations_and_writes_through(device):
    a = loom.array(np.arange(16, dtype=np.float32).reshape(4, 4), device=device)
    i = loom.array([1, 3], dtype=int, device=device)
    assert a[i, i].numpy().tolist() == [[5, 7], [13, 15]]
    assert a[:, i].shape == (4, 2)
    assert a[2, [0, -1]].numpy().tolist() == [8, 11]
    assert a[i][1].numpy().tolist() == [12, 13, 14, 15]
    assert a[i][1, 2] == 14
    a[i].fill_(7.0)
    a[i, np.array([0, 2])] = loom.array([[1, 2], [3, 4]], dtype=float, device=device)
    a[[0]].zero_()
    assert a.numpy().tolist() == [[0, 0, 0, 0], [1, 7, 2, 7], [8, 9, 10, 11], [3, 7, 4, 7]]
    assert a[np.array([True, False, False, True]), 0].list() == [0, 3]
    copied = loom.zeros((2, 4), device=device)
    loom.copy(copied, a[i])
    assert copied.numpy().tolist() == [[1, 7, 2, 7], [3, 7, 4, 7]]
    v = loom.zeros(3, dtype=loom.vec3, device=device)
    v[[0, 2]] = loom.vec3(1, 2, 3)
    assert v.numpy().tolist() == [[1, 2, 3], [0, 0, 0], [1, 2, 3]]


@pytest.mark.parametrize(
    ("index", "message"),
    [
        (np.array([True, False]), r"not bools of shape \(2,\): a mask has one for each of the 3 elements"),
        ([0.5], "the indices of elements are integers, not float64"),
        ([3], "index 3 is out of bounds for an axis of extent 3"),
        ([[0]], "an array of one dimension, not of 2"),
        (([0], [0]), "an array of 1 dimensions is indexed by an index for each"),
    ],
)
def test_indices_that_are_none(index, message):
    with pytest.raises(IndexError, match=message):
        loom.zeros(3)[index]


def test_operators_of_mixed_types_name_the_operands():
    a, b = loom.array([1, 2], dtype=int), loom.array([0.5, 0.5], dtype=float)
    with pytest.raises(TypeError, match=r"an array of int32 \+ an array of float32: .*\.astype"):
        a + b
    with pytest.raises(TypeError, match=r"a value of type float \* an array of int32"):
        0.5 * a
    assert (a**2).list() == [1, 4]
    assert (a**5).list() == [1, 32]
    assert (a**0).list() == [1, 1]
    a **= 3
    assert a.list() == [1, 8]


def test_copies_with_offsets_of_arrays_that_are_not_contiguous():
    source = loom.array(np.arange(12, dtype=np.float32).reshape(3, 4))
    base = loom.zeros((4, 3))
    loom.copy(base.T, source, dest_offset=2, src_offset=1, count=5)
    assert base.T.numpy().ravel().tolist() == [0, 0, 1, 2, 3, 4, 5, 0, 0, 0, 0, 0]
    row = loom.array([9, 0, 9, 0, 9, 0, 9, 0], dtype=int)
    loom.copy(row[::2], loom.array([1, 2, 3, 4], dtype=int), dest_offset=1, src_offset=1, count=2)
    assert row.list() == [9, 0, 2, 0, 3, 0, 9, 0]


def test_copies_with_offsets_have_derivatives():
    source = loom.array(np.arange(6, dtype=np.float32).reshape(2, 3), requires_grad=True)
    dest = loom.zeros((2, 4), requires_grad=True)
    with loom.Tape() as tape:
        loom.copy(dest.T, source.T, dest_offset=1, src_offset=2, count=3)
    weights = np.arange(8, dtype=np.float32).reshape(2, 4)
    tape.backward(grads={dest: loom.array(weights)})
    wanted = np.zeros(6, np.float32)
    wanted[2:5] = weights.T.ravel()[1:4]
    assert source.grad.numpy().T.ravel().tolist() == wanted.tolist()


def test_what_is_no_array_says_what_to_write():
    x, o = np.ma.masked_array(np.ones(3, np.float32), [0, 1, 0]), np.zeros(3, np.float32)
    with pytest.raises(TypeError, match=r"argument 'x' .* is a masked array, .*pass x.filled\(value\), or x.data"):
        loom.launch(double, 3, [x])
    with pytest.raises(TypeError, match=r"array\(\) takes no masked array"):
        loom.array(x)
    with pytest.raises(TypeError, match=r"takes the extents as one tuple: zeros\(\(2, 3\)\)"):
        loom.zeros(2, 3)
    with pytest.raises(ValueError, match="Array shapes must be non-negative"):
        loom.zeros(-1, device="sim:0")
    with pytest.raises(MemoryError, match="more than a device holds"):
        loom.zeros(2**62, device="sim:0")
    assert loom.zeros(n=2).shape == (2,)
    assert loom.array2d(np.zeros((2, 3)), dtype=float).shape == (2, 3)
    assert o.sum() == 0.0


def test_pandas_takes_arrays_and_its_series_say_what_to_pass():
    pandas = pytest.importorskip("pandas")
    a = loom.array([1.0, 2.0])
    assert pandas.DataFrame({"a": a})["a"].tolist() == [1.0, 2.0]
    assert pandas.Series(a).dtype == np.float32
    with pytest.raises(TypeError, match=r"argument 'x' .* but passed value has type Series: pass its .to_numpy\(\)"):
        loom.launch(double, 2, [pandas.Series([1.0, 2.0], dtype="float32")])


def test_capsules_stand_for_one_array_once():
    a = loom.zeros(3)
    capsule = loom.to_dlpack(a)
    loom.from_dlpack(capsule).fill_(5.0)
    assert a.list() == [5.0] * 3
    with pytest.raises(ValueError, match="capsule has been used"):
        loom.from_dlpack(capsule)


def test_plots(tmp_path):
    pytest.importorskip("matplotlib")
    script = "import matplotlib; matplotlib.use('agg')\nimport matplotlib.pyplot as plt, polyloom as loom\n"
    script += "a = loom.array([1.0, 2.0])\nplt.plot(a)\nplt.plot(a, a)\nplt.bar(a, a)\n"
    subprocess.run([sys.executable, "-c", script], check=True)


def test_an_array_is_true_if_it_has_elements_and_a_bool_if_it_is_true():
    assert loom.array([0.0, 0.0]) and not loom.zeros(0)
    assert loom.array([True]) and not loom.array([False])


def test_masked_arrays_are_refused_wherever_elements_are_taken():
    masked, a = np.ma.masked_array(np.ones(3, np.float32), [0, 1, 0]), loom.zeros(3)
    uses = [
        lambda: a.assign(masked),
        lambda: a.__setitem__(slice(None), masked),
        lambda: a == masked,
        lambda: loom.copy(a, masked),
        lambda: loom.zeros(3, device="sim:0").assign(masked),
        lambda: a[np.ma.masked_array([0, 1], [0, 1])],
    ]
    for use in uses:
        with pytest.raises(TypeError, match=r"takes no masked array: pass x.filled\(value\)"):
            use()
    assert a.list() == [0.0] * 3


def test_indexed_arrays_are_pickled():
    made = pickled(loom.array([1.0, 2.0, 3.0])[[2, 0]])
    assert made.numpy().tolist() == [3.0, 1.0]


def test_bits_of_bfloat16_are_bits():
    bits = np.array([0x3F80, 0x4000], np.uint16)
    assert loom.array(bits, dtype=loom.bfloat16).list() == [1.0, 2.0]
    assert loom.from_dlpack(loom.array([1, 2], dtype=loom.bfloat16)).list() == [1.0, 2.0]


def test_bfloat16_goes_through_dlpack():
    torch = pytest.importorskip("torch")
    a = loom.array([1.0, 2.5], dtype=loom.bfloat16)
    tensor = torch.from_dlpack(a)
    assert tensor.dtype is torch.bfloat16 and tensor.tolist() == [1.0, 2.5]
    tensor[0] = 3.0
    assert a.list() == [3.0, 2.5]
    for given in (tensor, torch.utils.dlpack.to_dlpack(tensor), loom.to_dlpack(a)):
        back = loom.from_dlpack(given)
        assert back.dtype is loom.bfloat16 and back.list() == [3.0, 2.5]
    assert loom.array(tensor[::2]).dtype is loom.bfloat16
    back[1] = 4.0
    assert tensor.tolist() == [3.0, 4.0]
    capsule = loom.to_dlpack(a)
    loom.from_dlpack(capsule)
    with pytest.raises(ValueError, match="has been used"):
        loom.from_dlpack(capsule)


def test_bfloat16_comes_from_jax():
    jax = pytest.importorskip("jax")
    given = jax.numpy.asarray([1.0, 2.5], jax.numpy.bfloat16)
    made = loom.from_jax(given)
    assert made.dtype is loom.bfloat16 and made.list() == [1.0, 2.5]
    assert loom.to_jax(loom.array([1.0, 2.5], dtype=loom.bfloat16)).dtype == jax.numpy.bfloat16


def test_results_of_map_have_gradients_where_inputs_do():
    x = loom.array([1.0, 2.0], requires_grad=True)
    with loom.Tape() as tape:
        y = loom.map(lambda a: a * a, x)
    y.grad.fill_(1.0)
    tape.backward()
    assert x.grad.list() == [2.0, 4.0]
    assert not loom.map(lambda a: a * a, loom.zeros(2)).requires_grad


def test_gradients_of_structs_after_a_reset_are_zero():
    @loom.struct
    class Factor:
        k: float

    @loom.kernel
    def scale(p: Factor, x: loom.array(dtype=float), y: loom.array(dtype=float)):
        i = loom.tid()
        y[i] = p.k * x[i]

    p = Factor()
    p.k = 3.0
    x, y = loom.array([1.0, 2.0]), loom.zeros(2, requires_grad=True)
    with loom.Tape() as tape:
        tape.record_scope_begin("scaling")
        loom.launch(scale, 2, [p, x, y])
        tape.record_scope_end()
    assert tape.launches[0].name.startswith("scaling/")
    tape.backward(grads={y: loom.ones(2)})
    assert tape.gradients[p].k == 3.0
    tape.reset()
    assert tape.gradients[p].k == 0.0
    with pytest.raises(RuntimeError, match="record_scope_end"):
        tape.record_scope_end()


def test_functions_over_arrays_take_numpy_axes_from_the_end_and_counts():
    a = loom.array([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]])
    assert loom.utils.array_sum(np.ones(5)) == 5.0
    assert loom.utils.array_sum(a, axis=-1).list() == [3.0, 12.0]
    assert loom.utils.array_sum(a, axis=1, value_count=2).list() == [1.0, 7.0]
    assert loom.utils.array_inner(a, a, axis=-1, count=2).list() == [1.0, 25.0]
    with pytest.raises(TypeError, match="`values` is a list"):
        loom.utils.array_sum([1.0])
    keys, values = loom.array([3, 1, 2, 0, 7, 7, 7, 7], dtype=int), loom.array(np.arange(8, dtype=np.int32))
    ends = [loom.array(each, dtype=int) for each in ([0, 2], [2, 4])]
    loom.utils.segmented_sort_pairs(keys, values, 4, *ends)
    assert (keys.list()[:4], values.list()[:4]) == ([1, 3, 0, 2], [1, 0, 3, 2])


def test_numpys_functions_and_products_of_matrices_take_arrays():
    a = loom.array(np.arange(6, dtype=np.float32).reshape(2, 3))
    assert np.sum(a) == 15.0
    assert np.mean(a, axis=0).numpy().tolist() == [1.5, 2.5, 3.5]
    assert a.sum(axis=1, keepdims=True).shape == (2, 1)
    with pytest.raises(
        TypeError, match=r"`sum` of a loom.array takes axis and keepdims, not dtype: use x.numpy\(\).sum"
    ):
        np.sum(a, dtype=np.float64)
    product = a @ loom.array(np.eye(3, dtype=np.float32))
    assert isinstance(product, loom.array) and np.array_equal(product.numpy(), a.numpy())
    assert np.array_equal((a.numpy() @ a.numpy().T), (a @ a.numpy().T).numpy())


class Elements:
    def __array__(self, dtype=None, copy=None):
        return np.ones(3, np.float32)


@pytest.mark.parametrize("other", [range(1, 4), memoryview(np.array([1.0, 2.0, 3.0])), [1.0, 2.0, 3.0]])
def test_what_has_elements_is_compared_by_them(other):
    a = loom.array([1.0, 2.0, 3.0])
    assert (a == other).numpy().tolist() == [True] * 3
    assert (a != other).numpy().tolist() == [False] * 3
    assert (a == Elements()).numpy().tolist() == [True, False, False]
    assert (a > Elements()).numpy().tolist() == [False, True, True]
    # No elements, and no array.
    assert not (a == None) and not (a == "x")  # noqa: E711


def test_chosen_elements_are_compared_and_summed():
    a = loom.array([1.0, 2.0, 3.0])
    chosen = a[[2, 0]]
    assert (chosen == 1.0).numpy().tolist() == [False, True]
    assert (chosen == chosen).numpy().tolist() == [True, True]  # noqa: PLR0124
    assert (a[:2] == chosen).numpy().tolist() == [False, False]
    assert (chosen < [4.0, 1.0]).numpy().tolist() == [True, False]
    assert float(chosen.sum()) == 4.0 and chosen.tolist() == [3.0, 1.0] and chosen.nbytes == 8
    assert (chosen**2).numpy().tolist() == [9.0, 1.0]
    with pytest.raises(AttributeError, match="contiguous"):
        chosen.absent  # noqa: B018


@pytest.mark.parametrize(("indices", "index"), [([0, 100_000_000], 100_000_000), ([-1, -11], -11)])
def test_indices_without_elements_are_an_error(indices, index):
    with pytest.raises(IndexError, match=f"index {index} is out of bounds for axis 0 with size 3"):
        loom.indexedarray(loom.array([1.0, 2.0, 3.0]), [indices])

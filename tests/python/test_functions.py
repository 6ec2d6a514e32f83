"""Kernels as functions of PyTorch and JAX: gradients against those libraries' own."""

import numpy as np
import polyloom as loom
import pytest

f64 = loom.float64
D = loom.array(dtype=f64)


@loom.kernel
def to_one_element(x: D, y: D):
    y[0] = x[loom.tid()]


@loom.kernel
def oscillate(a: f64, x: D, y: D):
    i = loom.tid()
    y[i] = loom.sin(a * x[i]) * x[i]


@loom.kernel
def gather(index: loom.array(dtype=int), x: D, y: D, n: loom.array(dtype=int)):
    i = loom.tid()
    y[i] = x[index[i]] * x[index[i]]
    n[i] = index[i] + 1


@loom.kernel
def product(a: loom.array(dtype=f64, ndim=2), b: loom.array(dtype=f64, ndim=2), c: loom.array(dtype=f64, ndim=2)):
    i, j = loom.tid()
    s = f64(0.0)
    for k in range(a.shape[1]):
        s += a[i, k] * b[k, j]
    c[i, j] = s


@loom.kernel
def project(axis: loom.vec3d, p: loom.array(dtype=loom.vec3d), q: loom.array(dtype=loom.vec3d), sum: D):
    i = loom.tid()
    q[i] = axis * loom.dot(axis, p[i])
    loom.atomic_add(sum, 0, loom.length(p[i]))


@loom.kernel
def scale(s: loom.array(dtype=loom.Float), x: loom.array(dtype=loom.Float), y: loom.array(dtype=loom.Float)):
    i = loom.tid()
    y[i] = s[0] * x[i]


@loom.kernel
def in_place(x: D):
    i = loom.tid()
    x[i] = x[i] * x[i]


def test_what_is_no_function_is_refused():
    from polyloom._functions import KernelFunction

    x = np.ones(3)
    with pytest.raises(ValueError, match="its last parameters, of \\(a, x, y\\); given are \\(x\\)"):
        KernelFunction(oscillate, "x", None)
    with pytest.raises(ValueError, match="its last parameters"):
        KernelFunction(oscillate, [], None)
    with pytest.raises(TypeError, match="a function of 2 arguments \\(a, x\\), 1 given"):
        KernelFunction(oscillate, "y", None).bind([x])
    with pytest.raises(ValueError, match="writes its input 'x'"):
        KernelFunction(oscillate_twice, ["y"], None).bind([x])
    with pytest.raises(ValueError, match="say the extents of its outputs"):
        KernelFunction(in_place, "x", None).bind([])
    with pytest.raises(ValueError, match="it has no input 'z'"):
        KernelFunction(oscillate, {"y": "z"}, None).bind([1.0, x])
    with pytest.raises(ValueError, match="has 1 dimensions, not 2"):
        KernelFunction(oscillate, {"y": (2, 3)}, None).bind([1.0, x])
    bound = KernelFunction(project, {"q": "p", "sum": 1}, None).bind([(1, 0, 0), np.ones((4, 3))])
    assert bound.dim == (4,) and [each.shape for each in bound.outputs] == [(4, 3), (1,)]
    bound = KernelFunction(scale, "y", lambda s, x: 2 * x.shape[0]).bind(
        [np.ones(1, np.float16), np.ones(4, np.float16)]
    )
    assert bound.dim == (8,) and bound.outputs[0].dtype == np.float16


@loom.kernel
def oscillate_twice(x: D, y: D):
    i = loom.tid()
    x[i] = loom.sin(x[i])
    y[i] = x[i]


class TestTorch:
    @pytest.fixture
    def torch(self):
        return pytest.importorskip("torch", reason="torch is not installed")

    @pytest.fixture
    def function(self, torch):
        from polyloom.torch import function

        return function

    def tensor(self, torch, *shape):
        generator = torch.Generator().manual_seed(7)
        return torch.randn(*shape, dtype=torch.float64, generator=generator).requires_grad_()

    def check(self, torch, ours, theirs, *inputs):
        results = [ours(*inputs), theirs(*inputs)]
        torch.testing.assert_close(*results)
        weights = torch.rand_like(results[0])
        wanted = [each for each in inputs if isinstance(each, torch.Tensor) and each.requires_grad]
        gradients = [torch.autograd.grad((weights * result).sum(), wanted) for result in results]
        torch.testing.assert_close(*gradients)
        torch.autograd.gradcheck(ours, inputs)

    def test_launches_read_tensors_as_they_are(self, torch):
        @loom.kernel
        def doubles(x: loom.array(dtype=loom.float64)):
            i = loom.tid()
            x[i] = x[i] + x[i]

        negative = torch.view_as_complex(torch.ones(3, 2, dtype=torch.float64)).conj().imag
        with pytest.raises(TypeError, match=r"tensor\.resolve_neg\(\)"):
            loom.launch(doubles, 3, [negative])

        @loom.kernel
        def twice(x: loom.array(dtype=loom.bfloat16)):
            i = loom.tid()
            x[i] = x[i] + x[i]

        half = torch.tensor([1.0, 2.0], dtype=torch.bfloat16)
        loom.launch(twice, 2, [half])
        assert half.tolist() == [2.0, 4.0]

    def test_numbers_and_arrays(self, torch, function):
        ours = function(oscillate, outputs="y")
        a = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)

        def theirs(a, x):
            return torch.sin(a * x) * x

        self.check(torch, ours, theirs, a, self.tensor(torch, 5))
        self.check(torch, ours, theirs, 0.7, self.tensor(torch, 5))
        self.check(torch, ours, theirs, a, self.tensor(torch, 5).detach())
        self.check(torch, ours, theirs, a, self.tensor(torch, 5, 3)[:, 1])

    def test_products(self, torch, function):
        ours = function(product, outputs={"c": lambda a, b: (a.shape[0], b.shape[1])})
        a, b = self.tensor(torch, 3, 4), self.tensor(torch, 4, 2)
        self.check(torch, ours, torch.matmul, a, b)
        self.check(torch, ours, torch.matmul, self.tensor(torch, 4, 3).T, b)

    def test_vectors_and_several_results(self, torch, function):
        ours = function(project, outputs={"q": "p", "sum": 1})
        axis, p = self.tensor(torch, 3), self.tensor(torch, 4, 3)

        def all_of(function):
            return lambda axis, p: torch.cat([each.flatten() for each in function(axis, p)])

        def theirs(axis, p):
            return (p @ axis)[:, None] * axis, p.norm(dim=1).sum()

        self.check(torch, all_of(ours), all_of(theirs), axis, p)
        # Of one result alone.
        q, _ = ours(axis, p)
        (found,) = torch.autograd.grad(q.sum(), p)
        torch.testing.assert_close(found, axis.sum() * axis.expand(4, 3))

    def test_integers(self, torch, function):
        ours = function(gather, outputs={"y": "index", "n": "index"})
        index, x = torch.tensor([2, 0, 2], dtype=torch.int32), self.tensor(torch, 3)
        y, n = ours(index, x)
        assert n.tolist() == [3, 1, 3] and not n.requires_grad
        y.sum().backward()
        torch.testing.assert_close(x.grad, 2 * x.detach() * torch.tensor([1, 0, 2]))

    def test_within_a_network(self, torch, function):
        ours = function(scale, outputs={"y": "x"})
        s = torch.tensor([2.0], requires_grad=True)
        x = torch.ones(3, requires_grad=True)
        loss = torch.relu(ours(s, 3.0 * x)).pow(2).sum()
        loss.backward()
        torch.testing.assert_close(x.grad, torch.full((3,), 2 * 6.0 * 6.0))
        torch.testing.assert_close(s.grad, torch.tensor([2 * 6.0 * 3.0 * 3]))
        assert ours(s.half(), x.half()).dtype is torch.float16

    def test_what_torch_sees_is_an_error(self, torch, function):
        ours = function(oscillate, outputs="y")
        x = self.tensor(torch, 5)
        moved = 1.0 * x
        y = ours(0.7, moved)
        moved.add_(1.0)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()
        for y in (ours(0.7, x).sum(), ours(0.7, x).pow(2).sum()):
            (first,) = torch.autograd.grad(y, x, create_graph=True)
            with pytest.raises(
                RuntimeError, match="'oscillate' has no second derivatives in PyTorch: use polyloom.jvp"
            ):
                torch.autograd.grad(x.sum() + first.sum(), x)
        with pytest.raises(TypeError, match="argument 'x'"):
            ours(0.7, x.float())

    def test_arrays_that_change_before_the_way_back(self, torch, function):
        ours = function(product, outputs={"c": lambda a, b: (a.shape[0], b.shape[1])})
        a, b = self.tensor(torch, 2, 2), np.array([[2.0, 3.0], [5.0, 7.0]])
        for given in (b.copy(), loom.array(b, dtype=f64)):
            c = ours(a, given)
            given[0] = 100.0
            (found,) = torch.autograd.grad(c.sum(), a)
            torch.testing.assert_close(found, torch.tensor([[5.0, 12.0], [5.0, 12.0]], dtype=torch.float64))
        axis = loom.vec3d(1.0, 2.0, 3.0)
        p = self.tensor(torch, 4, 3)
        q, _ = function(project, outputs={"q": "p", "sum": 1})(axis, p)
        axis[0] = 100.0
        (found,) = torch.autograd.grad(q.sum(), p)
        torch.testing.assert_close(found, torch.tensor([6.0, 12.0, 18.0], dtype=torch.float64).expand(4, 3))

    def test_arrays_of_our_own_beside_tensors(self, torch, function):
        p = loom.array(np.arange(12.0).reshape(4, 3), dtype=loom.vec3d)
        axis = self.tensor(torch, 3)
        q, _ = function(project, outputs={"q": "p", "sum": 1})(axis, p)
        of_p = torch.tensor(p.numpy())
        torch.testing.assert_close(q, (of_p @ axis)[:, None] * axis)
        (found,) = torch.autograd.grad(q.sum(), axis)
        (wanted,) = torch.autograd.grad(((of_p @ axis)[:, None] * axis).sum(), axis)
        torch.testing.assert_close(found, wanted)
        half = torch.ones(3, dtype=torch.bfloat16)
        y = function(scale, outputs={"y": "x"})(loom.array([2.0], dtype=loom.bfloat16), half)
        assert y.dtype is torch.bfloat16 and y.tolist() == [2.0] * 3
        with pytest.raises(TypeError, match="its argument 'p' is an array of float64, not of float32"):
            function(project, outputs={"q": "p", "sum": 1})(axis, loom.zeros(4, dtype=loom.vec3))
        with pytest.raises(ValueError, match=r"of which the last are \(3,\), not an array of shape \(4,\)"):
            function(project, outputs={"q": "p", "sum": 1})(axis, loom.zeros(4, dtype=loom.float64))

    def test_numbers_whose_memory_holds_their_negatives(self, torch, function):
        x = self.tensor(torch, 3)
        negative = torch.view_as_complex(torch.stack([x, x], 1)).conj().imag
        assert negative.is_neg()
        y = function(oscillate, outputs="y")(0.7, negative)
        torch.testing.assert_close(y, torch.sin(-0.7 * x) * -x)
        # So may the gradient's be that comes back.
        back = torch.view_as_complex(torch.ones(3, 2, dtype=torch.float64)).conj().imag
        (found,) = torch.autograd.grad(y, x, back)
        torch.testing.assert_close(found, -(torch.sin(0.7 * x) + 0.7 * x * torch.cos(0.7 * x)).detach())
        number = torch.view_as_complex(torch.tensor([0.0, 0.7], dtype=torch.float64)).conj().imag
        torch.testing.assert_close(function(oscillate, outputs="y")(number, x), torch.sin(-0.7 * x) * x)
        for share in (loom.from_torch, loom.from_dlpack):
            with pytest.raises(ValueError, match=r"pass tensor\.resolve_neg\(\)"):
                share(negative)
        with loom.Tape(), pytest.raises(ValueError, match=r"pass tensor\.resolve_neg\(\)"):
            loom.launch(in_place, 3, [negative.detach()])

    def test_bfloat16(self, torch, function):
        ours = function(scale, outputs={"y": "x"})
        s, x = (torch.tensor(values, dtype=torch.bfloat16, requires_grad=True) for values in ([3.0], [1.0, 2.0, 5.0]))
        y = ours(s, x)
        assert y.dtype is torch.bfloat16 and y.tolist() == [3.0, 6.0, 15.0]
        y.backward(torch.tensor([1.0, 2.0, 4.0], dtype=torch.bfloat16))
        assert x.grad.tolist() == [3.0, 6.0, 12.0] and s.grad.tolist() == [25.0]
        shared = loom.from_torch(x.detach())
        assert shared.dtype is loom.bfloat16
        shared.fill_(4.0)
        assert x.tolist() == [4.0] * 3

    def test_tensors_on_tapes(self, torch):
        x, loss = torch.ones(3, dtype=torch.float64), torch.zeros(3, dtype=torch.float64)
        with loom.Tape() as tape:
            loom.launch(in_place, 2, [x[1:]])
            loom.launch(oscillate, 3, [0.5, x], [loss])
        tape.backward(grads=[(loss, torch.ones(3, dtype=torch.float64))])
        slope = np.sin(0.5) + 0.5 * np.cos(0.5)
        np.testing.assert_allclose(tape.gradients[x], slope * np.array([1, 2, 2]))
        weight = torch.ones(3, dtype=torch.float64, requires_grad=True)
        shared = loom.from_torch(weight)
        with loom.Tape() as tape:
            loom.launch(oscillate, 3, [0.5, shared], [loss])
        tape.backward(grads=[(loss, torch.ones(3, dtype=torch.float64))])
        np.testing.assert_allclose(weight.grad.numpy(), [slope] * 3)
        np.testing.assert_allclose(loom.to_torch(shared).grad.numpy(), [slope] * 3)


class TestJax:
    @pytest.fixture
    def jax(self):
        jax = pytest.importorskip("jax", reason="jax is not installed")
        jax.config.update("jax_enable_x64", True)
        yield jax
        jax.config.update("jax_enable_x64", False)

    def test_its_arrays_are_read_where_they_are_and_not_written(self, jax):
        @loom.kernel
        def double(x: loom.array(dtype=float), y: loom.array(dtype=float)):
            i = loom.tid()
            y[i] = 2.0 * x[i]

        x, y = jax.numpy.arange(3, dtype=np.float32), np.zeros(3, np.float32)
        loom.launch(double, 3, [x, y])
        np.testing.assert_array_equal(y, [0.0, 2.0, 4.0])
        for output in (x, loom.from_jax(x)):
            with pytest.raises(
                ValueError, match="argument 'y' of kernel 'double' is written by the kernel but read-only"
            ):
                loom.launch(double, 3, [y, output])
        np.testing.assert_array_equal(x, [0.0, 1.0, 2.0])

    @pytest.fixture
    def function(self, jax):
        from polyloom.jax import function

        return function

    def check(self, jax, ours, theirs, *inputs):
        results, pulls = zip(*(jax.vjp(function, *inputs) for function in (ours, theirs)), strict=True)
        leaves = [jax.tree.leaves(result) for result in results]
        for one, other in zip(*leaves, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12)
        rng = np.random.default_rng(5)
        weights = jax.tree.map(lambda leaf: jax.numpy.array(rng.normal(size=leaf.shape)), results[1])
        gradients = [pull(weights) for pull in pulls]
        again = jax.jit(lambda *inputs: jax.vjp(ours, *inputs)[1](weights))(*inputs)
        for found in (gradients[0], again):
            for one, other in zip(found, gradients[1], strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-10)
        jitted = jax.tree.leaves(jax.jit(ours)(*inputs))
        for one, other in zip(jitted, leaves[0], strict=True):
            np.testing.assert_array_equal(one, other)

    def test_numbers_and_arrays(self, jax, function):
        jnp = jax.numpy
        self.check(
            jax, function(oscillate, outputs="y"), lambda a, x: jnp.sin(a * x) * x, 0.7, jnp.linspace(0.0, 1.0, 5)
        )

    def test_products(self, jax, function):
        ours = function(product, outputs={"c": lambda a, b: (a.shape[0], b.shape[1])})
        rng = np.random.default_rng(3)
        a, b = jax.numpy.array(rng.normal(size=(3, 4))), jax.numpy.array(rng.normal(size=(4, 2)))
        self.check(jax, ours, jax.numpy.matmul, a, b)

    def test_vectors_and_several_results(self, jax, function):
        jnp, rng = jax.numpy, np.random.default_rng(3)
        ours = function(project, outputs={"q": "p", "sum": 1})

        def theirs(axis, p):
            return (p @ axis)[:, None] * axis, jnp.sum(jnp.linalg.norm(p, axis=1), keepdims=True)

        self.check(jax, ours, theirs, jnp.array(rng.normal(size=3)), jnp.array(rng.normal(size=(4, 3))))

    def test_integers(self, jax, function):
        jnp = jax.numpy
        ours = function(gather, outputs={"y": "index", "n": "index"})
        index, x = jnp.array([2, 0, 2], jnp.int32), jnp.array([3.0, 5.0, 2.0])
        found = jax.grad(lambda x: ours(index, x)[0].sum())(x)
        np.testing.assert_allclose(found, 2 * x * np.array([1, 0, 2]))
        assert ours(index, x)[1].tolist() == [3, 1, 3]

    def test_what_is_not_differentiated_is_refused_when_it_is_traced(self, jax, function):
        jnp = jax.numpy
        ours, x = function(oscillate, outputs="y"), jnp.linspace(0.0, 1.0, 5)

        def loss(x):
            return (ours(0.7, x) ** 2).sum()

        for second in (jax.hessian(loss), jax.grad(lambda x: jax.grad(loss)(x).sum())):
            with pytest.raises(TypeError, match="has first derivatives alone"):
                jax.jit(second).trace(x)
        one_element = function(to_one_element, outputs={"y": (1,)}, dim="x")
        with pytest.raises(loom.CompileError, match="several threads write different numbers"):
            jax.jit(jax.grad(lambda x: one_element(x).sum())).trace(x)
        assert one_element(x[:1]).shape == (1,)

    def test_arguments_of_other_types_are_refused(self, jax, function):
        jnp = jax.numpy
        ours = function(oscillate, outputs="y")
        with pytest.raises(TypeError, match="its argument 'x' is an array of float64, not of float32"):
            ours(0.7, jnp.zeros(3, jnp.float32))
        with pytest.raises(ValueError, match=r"its argument 'x' is an array of 1 dimensions, not .* of shape \(2, 3\)"):
            ours(0.7, jnp.zeros((2, 3)))
        with pytest.raises(ValueError, match=r"its argument 'a' is a number, not an array of shape \(2,\)"):
            ours(jnp.zeros(2), jnp.zeros(3))
        with pytest.raises(TypeError, match="its argument 'x' is an array or a number, not list"):
            ours(0.7, [1.0, 2.0])
        with pytest.raises(TypeError, match=r"function\(\) needs a kernel"):
            function(len, outputs="y")

    def test_forward_mode(self, jax, function):
        jnp = jax.numpy
        ours, x = function(oscillate, outputs="y"), jnp.linspace(0.0, 1.0, 5)

        def theirs(a, x):
            return jnp.sin(a * x) * x

        moves = (0.3, jnp.cos(x))
        for compiled in (lambda f: f, jax.jit):
            found = compiled(lambda a, x: jax.jvp(ours, (a, x), moves))(0.7, x)
            for each, expected in zip(found, jax.jvp(theirs, (0.7, x), moves), strict=True):
                np.testing.assert_allclose(each, expected, rtol=1e-12)
        still = jax.jvp(lambda x: ours(0.7, x), (x,), (jnp.ones_like(x),))[1]
        np.testing.assert_allclose(still, jnp.sin(0.7 * x) + 0.7 * x * jnp.cos(0.7 * x), rtol=1e-12)
        for jacobian in (jax.jacfwd, jax.jacrev):
            np.testing.assert_allclose(jacobian(ours, 1)(0.7, x), jacobian(theirs, 1)(0.7, x), rtol=1e-12)
        several = function(gather, outputs={"y": "index", "n": "index"})
        index, x = jnp.array([2, 0, 2], jnp.int32), jnp.array([3.0, 5.0, 2.0])
        (_, n), (moved, still) = jax.jvp(lambda x: several(index, x), (x,), (jnp.array([1.0, 2.0, 3.0]),))
        np.testing.assert_allclose(moved, (2 * x * jnp.array([1.0, 2.0, 3.0]))[index])
        assert n.tolist() == [3, 1, 3] and still.dtype == jax.dtypes.float0

    def test_a_linear_map_is_transposed_back(self, jax, function):
        jnp = jax.numpy
        ours, x = function(oscillate, outputs="y"), jnp.linspace(0.1, 1.0, 4)
        _, pull = jax.vjp(lambda x: ours(0.7, x), x)
        back = jax.linear_transpose(lambda w: pull(w)[0], x)(jnp.ones(4))[0]
        np.testing.assert_allclose(back, jax.jvp(lambda x: ours(0.7, x), (x,), (jnp.ones(4),))[1], rtol=1e-12)

    def test_many_at_once(self, jax, function):
        jnp = jax.numpy
        ours = function(oscillate, outputs="y")
        x = jnp.linspace(0.0, 1.0, 6).reshape(2, 3)
        np.testing.assert_allclose(jax.vmap(lambda x: ours(0.7, x))(x), jnp.sin(0.7 * x) * x, rtol=1e-12)
        found = jax.vmap(jax.grad(lambda x: ours(0.7, x).sum()))(x)
        np.testing.assert_allclose(found, jnp.sin(0.7 * x) + 0.7 * x * jnp.cos(0.7 * x), rtol=1e-12)

    def test_arrays_of_jax_on_tapes(self, jax):
        x, y = jax.numpy.array([1.0, 2.0]), np.zeros(2)
        with loom.Tape() as tape:
            loom.launch(oscillate, 2, [0.5, x], [y])
        tape.backward(grads=[(y, jax.numpy.ones(2))])
        x = np.asarray(x)
        np.testing.assert_allclose(
            tape.gradients[loom.from_jax(x)].numpy(), np.sin(0.5 * x) + 0.5 * x * np.cos(0.5 * x)
        )

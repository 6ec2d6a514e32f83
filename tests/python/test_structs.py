"""Structs: made and filled in Python, passed to kernels, stored in arrays."""

import copy
import pickle

import numpy as np
import polyloom as loom
import pytest


@loom.struct
class Pair:
    a: float
    n: int


@loom.struct
class Body:
    mass: float
    position: loom.vec3
    pair: Pair
    frozen: bool


@loom.struct
class Field:
    values: loom.array(dtype=float)
    scale: float


@loom.struct
class World:
    bodies: loom.array(dtype=Body)
    field: Field


def body(mass=1.0, position=(0.0, 0.0, 0.0), a=0.0, n=0, frozen=False):
    made = Body()
    made.mass, made.position, made.frozen = mass, position, frozen
    made.pair.a, made.pair.n = a, n
    return made


def test_an_instance_begins_with_zeros_and_prints_its_fields():
    assert repr(Body()) == ("Body(mass=0.0, position=vec3([0.0, 0.0, 0.0]), pair=Pair(a=0.0, n=0), frozen=False)")
    assert Field().values is None


def test_an_instance_is_made_with_all_fields_or_none():
    assert repr(Pair(1.5, 2)) == repr(Pair(a=1.5, n=2)) == repr(Pair(1.5, n=2)) == "Pair(a=1.5, n=2)"
    for values, named in [
        ((1.0,), {}),
        ((1.0, 2, 3), {}),
        ((), {"a": 1.0}),
        ((1.0, 2), {"a": 1.0}),
        ((1.0,), {"x": 2}),
    ]:
        with pytest.raises(TypeError, match="Pair is made with no values, or with one for each of its fields: a, n"):
            Pair(*values, **named)


def test_fields_hold_values_of_their_types():
    made = Body()
    made.mass = 1
    assert made.mass == 1.0 and isinstance(made.mass, float)
    made.mass = np.float64(0.1)
    assert made.mass == float(np.float32(0.1))
    made.position = [1, 2, 3]
    assert made.position == loom.vec3(1, 2, 3)
    made.position.x = 5
    assert made.position == loom.vec3(5, 2, 3)
    made.pair.n = np.int64(7)
    assert made.pair.n == 7


@pytest.mark.parametrize(
    ("field", "value", "error", "message"),
    [
        ("mass", "heavy", TypeError, "the field 'mass' of Body must be float32, not str"),
        ("mass", None, TypeError, "the field 'mass' of Body must be float32, not NoneType"),
        ("frozen", "1", TypeError, "the field 'frozen' of Body must be bool, not str"),
        ("position", 1.0, TypeError, "the field 'position' of Body must be vec3 or its components, not float"),
        ("position", (1.0, 2.0), ValueError, "the field 'position' of Body is no vec3: vec3 has 3 components, 2 given"),
        ("pair", Body(), TypeError, "the field 'pair' of Body must be Pair, not Body"),
        ("mas", 1.0, AttributeError, "Body has no field 'mas': did you mean 'mass'?"),
    ],
)
def test_a_wrong_field_is_named(field, value, error, message):
    with pytest.raises(error) as caught:
        setattr(Body(), field, value)
    assert str(caught.value) == message


def test_an_integer_field_takes_integers_that_fit():
    with pytest.raises(TypeError, match="the field 'n' of Pair must be int32, not float"):
        Pair().n = 1.5
    with pytest.raises(OverflowError, match="the field 'n' of Pair is 2147483648 does not fit int32"):
        Pair().n = 2**31


def test_array_fields_take_arrays_of_their_type():
    made = Field()
    made.values = np.zeros(3, np.float32)
    made.values = loom.zeros(3, dtype=float)
    with pytest.raises(TypeError, match="Struct field 'values' expects a Warp array, got list"):
        made.values = [1.0]
    with pytest.raises(TypeError, match="Struct field 'values' expects dtype float32, got int32"):
        made.values = loom.zeros(3, dtype=int)


def test_structs_are_copied_when_assigned_and_arrays_are_shared():
    pair, values = Pair(1.0, 2), loom.zeros(1)
    made, field = Body(), Field()
    made.pair, field.values = pair, values
    pair.n = 9
    assert made.pair.n == 2 and field.values is values


def test_instances_can_be_copied_and_pickled():
    made = body(2.0, (1, 2, 3), 4.0, 5, True)
    assert repr(pickle.loads(pickle.dumps(made))) == repr(copy.deepcopy(made)) == repr(made)


def test_defaults_of_fields_are_not_used_as_in_warp():
    with pytest.warns(UserWarning, match="the field 'x' of Default has a default, which is not used"):

        @loom.struct
        class Default:
            x: float = 1.0
            y: int

    assert (Default().x, Default().y) == (0.0, 0)
    assert Default(1.0, 2).x == 1.0


def test_what_is_no_struct_is_refused():
    with pytest.raises(TypeError, match="the field 'x' of Bad is annotated with <class 'str'>, which is no type"):

        @loom.struct
        class Bad:
            x: str

    with pytest.raises(TypeError, match="the struct Derived has a base class: declare all fields"):

        @loom.struct
        class Derived(Pair):
            y: float

    with pytest.raises(TypeError, match="Pair is a struct already"):
        loom.struct(Pair)


def test_methods_stay():
    @loom.struct
    class Circle:
        """A circle."""

        radius: float

        def area(self):
            return np.pi * self.radius**2

    made = Circle(2.0)
    assert made.area() == pytest.approx(4 * np.pi) and Circle.__doc__ == "A circle."


def test_the_numpy_type_is_laid_out_as_in_c():
    @loom.struct
    class Mixed:
        flag: loom.bool
        x: loom.float64
        m: loom.mat22
        t: loom.transform
        b: loom.uint8

    dtype = Mixed.numpy_dtype()
    assert [dtype.fields[name][1] for name in dtype.names] == [0, 8, 16, 32, 60] and dtype.itemsize == 64
    assert dtype["m"].shape == (2, 2) and dtype["t"].shape == (7,)
    # As Warp has arrays in structs: two addresses, extents, strides and the number of dimensions.
    assert Field.numpy_dtype()["values"].itemsize == 56 and loom.zeros(3, dtype=Field)[0].values is None


def test_arrays_of_structs():
    bodies = loom.array([body(1.0), body(2.0, (1, 2, 3), 4.0, 5, True)], dtype=Body)
    assert bodies.shape == (2,) and bodies.dtype is Body
    assert repr(bodies[1]) == repr(body(2.0, (1, 2, 3), 4.0, 5, True))
    assert bodies.numpy()["position"].tolist() == [[0, 0, 0], [1, 2, 3]]
    bodies[0] = body(7.0)
    assert bodies.numpy()["mass"].tolist() == [7.0, 2.0]
    assert repr(bodies[1:].list()) == repr([bodies[1]])
    bodies.fill_(body(3.0, n=1))
    assert bodies.numpy()["pair"]["n"].tolist() == [1, 1]
    bodies.zero_()
    assert not bodies.numpy()["mass"].any()
    assert loom.zeros((2, 3), dtype=Body).shape == (2, 3)
    assert repr(loom.full(2, body(5.0))[1]) == repr(body(5.0))
    assert loom.clone(loom.full(2, body(5.0))).numpy()["mass"].tolist() == [5.0, 5.0]
    shared = np.zeros(2, Body.numpy_dtype())
    loom.from_numpy(shared, dtype=Body)[0] = body(4.0)
    assert shared["mass"].tolist() == [4.0, 0.0]
    with pytest.raises(TypeError, match="an element is Body, not Pair"):
        loom.array([Pair()], dtype=Body)


@loom.func
def heavier(b: Body, by: float) -> Body:
    b.mass += by
    b.pair.n += 1
    return b


@loom.func
def parts(b: Body):
    return b.pair, b.position


@loom.kernel
def locals_(given: Body, out: loom.array(dtype=float)):
    s = Body()
    out[0] = s.mass + s.position.y + s.pair.a
    s.mass = 2.0
    s.position.x = 3.0
    s.position[2] = 4.0
    s.pair.a = given.pair.a
    s.pair.n += 5
    t = s
    t.mass = 100.0
    out[1] = s.mass + s.position.x + s.position.z
    out[2] = s.pair.a + float(s.pair.n)
    u = given
    u.mass = -1.0
    out[3] = given.mass
    grown = heavier(given, 10.0)
    out[4] = grown.mass + float(grown.pair.n)
    out[5] = heavier(s, 1.0).position.z
    pair, position = parts(given)
    out[6] = pair.a + position.z
    chosen = t if given.frozen else s
    out[7] = chosen.mass
    s, t = t, s
    out[8] = s.mass - t.mass
    p = Pair(1.5, n=2)
    q = Pair(n=3, a=p.a)
    s.pair = q
    out[9] = s.pair.a + float(s.pair.n)
    if s.frozen:
        out[9] = -1.0


def test_struct_arguments_and_locals():
    out = np.zeros(10, np.float32)
    loom.launch(locals_, 1, [body(1.0, (1, 2, 3), 0.5, 4)], [out])
    assert out.tolist() == [0.0, 9.0, 5.5, 1.0, 16.0, 4.0, 3.5, 2.0, 98.0, 4.5]


@loom.kernel
def loops(n: int, out: loom.array(dtype=float)):
    s = Body()
    for i in range(n):
        s.position += loom.vec3(1.0, 0.0, 0.0)
        if i > 2:
            s.pair.n += 1
            s = heavier(s, 1.0)
    while s.mass < 10.0:
        s.mass *= 2.0
    out[0] = s.position.x
    out[1] = float(s.pair.n)
    out[2] = s.mass


def test_structs_are_carried_through_branches_and_loops():
    out = np.zeros(3, np.float32)
    loom.launch(loops, 1, [5], [out])
    assert out.tolist() == [5.0, 4.0, 16.0]


@loom.kernel
def elements(bodies: loom.array(dtype=Body), out: loom.array(dtype=float)):
    i = loom.tid()
    t = bodies[i]
    t.mass = 100.0
    out[i] = bodies[i].mass
    bodies[i].position[1] = 7.0
    bodies[i].position += loom.vec3(1.0, 1.0, 1.0)
    bodies[i].position.z *= 2.0
    bodies[i].pair.n += 3
    bodies[i].pair = Pair(bodies[i].pair.a + 0.5, bodies[i].pair.n)
    if bodies[i].frozen:
        bodies[i] = heavier(t, 1.0)


def test_elements_of_arrays_of_structs():
    bodies = loom.array([body(1.0, (1, 2, 3), 4.0, 5), body(2.0, (4, 5, 6), frozen=True)], dtype=Body)
    out = np.zeros(2, np.float32)
    loom.launch(elements, 2, [bodies], [out])
    assert out.tolist() == [1.0, 2.0]
    assert repr(bodies[0]) == repr(body(1.0, (2, 8, 8), 4.5, 8))
    assert repr(bodies[1]) == repr(body(101.0, (4, 5, 6), 0.0, 1, True))


def test_numpy_arrays_of_structs_are_arguments():
    bodies = np.zeros((4, 3), Body.numpy_dtype())

    @loom.kernel
    def count(bodies: loom.array(dtype=Body, ndim=2)):
        i, j = loom.tid()
        bodies[i, j].pair.n = i * bodies.shape[1] + j + len(bodies)

    loom.launch(count, bodies.shape, [bodies])
    assert bodies["pair"]["n"].tolist() == (4 + np.arange(12).reshape(4, 3)).tolist()
    loom.launch(count, (2, 3), [bodies[::2]])
    assert bodies["pair"]["n"][2].tolist() == [5, 6, 7]


@loom.kernel
def of_arrays(world: World, index: int):
    i = loom.tid()
    s = world.field
    values = s.values
    values[i] = s.scale * world.bodies[i].mass + s.values[i]
    world.bodies[index].mass = 9.0
    mine = Field()
    mine.scale = 2.0
    mine.values = s.values
    mine.values[i] += mine.scale


def test_structs_of_arrays_are_arguments():
    world = World()
    world.bodies = loom.full(3, body(2.0))
    world.field.values = np.ones(2, np.float32)
    world.field.scale = 10.0
    loom.launch(of_arrays, 2, [world, 2])
    assert world.field.values.tolist() == [23.0, 23.0]
    assert world.bodies.numpy()["mass"].tolist() == [2.0, 2.0, 9.0]


def test_an_array_that_is_not_set_has_no_elements():
    @loom.kernel
    def sizes(world: World, out: loom.array(dtype=int)):
        out[0] = len(world.bodies) + 1
        out[1] = world.field.values.shape[0] + 1

    out = np.zeros(2, np.int32)
    loom.launch(sizes, 1, [World(), out])
    assert out.tolist() == [1, 1]


def test_wrong_arguments_are_named():
    out = np.zeros(10, np.float32)
    with pytest.raises(TypeError, match="argument 'given' of kernel 'locals_' must be Body, not float: make one with"):
        loom.launch(locals_, 1, [1.0, out])
    with pytest.raises(TypeError, match="argument 'bodies' of kernel 'elements' must have elements of type Body, not "):
        loom.launch(elements, 1, [out, out])
    with pytest.raises(TypeError, match="argument 'bodies' of kernel 'elements' must be an array of Body, not Body"):
        loom.launch(elements, 1, [Body(), out])
    with pytest.raises(TypeError, match="argument 'bodies' of kernel 'elements' must have 1 dimension, not 2"):
        loom.launch(elements, 1, [loom.zeros((1, 1), dtype=Body), out])
    with pytest.raises(TypeError, match=r"kernel 'locals_' takes 2 arguments \(given, out\), 1 given"):
        loom.launch(locals_, 1, [out])
    world = World()
    world.bodies, world.field.values = loom.zeros(1, dtype=Body), np.zeros(1)
    with pytest.raises(TypeError, match="argument 'world.field.values' of kernel 'of_arrays' must have elements"):
        loom.launch(of_arrays, 1, [world, 0])


def test_recorded_launches_take_structs():
    out = np.zeros(10, np.float32)
    launch = loom.launch(locals_, 1, [body(1.0, (1, 2, 3), 0.5, 4), out], record_cmd=True)
    launch.launch()
    assert out[3] == 1.0
    launch.set_param_by_name("given", body(8.0))
    launch.launch()
    assert out[3] == 8.0
    with pytest.raises(TypeError, match="argument 'given' of kernel 'locals_' must be Body, not Pair"):
        launch.set_param_at_index(0, Pair())


def test_the_signature_names_structs():
    assert locals_.signature == "locals_(given: Body, out: array(dtype=float32))"


def test_fields_of_one_array_are_written_in_parallel():
    n = 10_000
    bodies = loom.zeros(n, dtype=Body)

    @loom.kernel
    def fill(bodies: loom.array(dtype=Body)):
        i = loom.tid()
        bodies[i].mass = float(i)
        bodies[i].position = loom.vec3(bodies[i].mass, 1.0, 2.0)
        bodies[i].pair.n = i

    loom.launch(fill, n, [bodies])
    found = bodies.numpy()
    assert (found["mass"] == np.arange(n)).all() and (found["position"][:, 0] == np.arange(n)).all()
    assert (found["pair"]["n"] == np.arange(n)).all() and not found["pair"]["a"].any()


def test_two_arguments_over_one_array_are_refused_where_both_are_written():
    @loom.kernel
    def both(a: loom.array(dtype=Pair), b: loom.array(dtype=Pair)):
        i = loom.tid()
        a[i].a = 1.0
        b[i].a = 2.0

    pairs = loom.zeros(3, dtype=Pair)
    with pytest.raises(ValueError, match=r"argument 'b.a' of kernel 'both' overlaps argument 'a.a' in memory"):
        loom.launch(both, 3, [pairs, pairs])


def test_one_argument_may_read_what_another_writes():
    n = 1000

    @loom.kernel
    def shift(source: loom.array(dtype=Pair), out: loom.array(dtype=Pair)):
        for i in range(len(source) - 1):
            out[i + 1].n = source[i].n + 1

    pairs = loom.zeros(n, dtype=Pair)
    loom.launch(shift, 1, [pairs, pairs])
    assert (pairs.numpy()["n"] == np.arange(n)).all()


@loom.struct
class Empty:
    pass


@loom.func
def nothing(e: Empty) -> Empty:
    return e


def test_a_struct_may_be_empty():
    @loom.kernel
    def k(e: Empty, out: loom.array(dtype=int)):
        f = nothing(e)
        e = f
        out[0] = 7

    out = np.zeros(1, np.int32)
    loom.launch(k, 1, [Empty(), out])
    assert out[0] == 7 and repr(Empty()) == "Empty()"
    with pytest.raises(TypeError, match="an array of Empty is not supported: it has no fields"):
        loom.zeros(1, dtype=Empty)


def test_methods_of_instances():
    made, other = body(1.0, (1, 2, 3), 2.0, 3), Body()
    other.assign(made)
    assert repr(other) == repr(made) == repr(made.to("cpu"))
    assert np.array([made.numpy_value()], Body.numpy_dtype())["position"].tolist() == [[1, 2, 3]]
    with pytest.raises(TypeError, match="Body is assigned another, not Pair"):
        made.assign(Pair())


@pytest.mark.parametrize("device", ["cpu", "sim:0"])
def test_arrays_that_a_struct_made_in_a_kernel_lacks_have_no_elements(device):
    @loom.struct
    class Provider:
        n: int
        data: loom.array(dtype=loom.vec4i)
        weights: loom.array2d(dtype=float)

    @loom.func
    def inner(p: Provider, i: int) -> int:
        if i < p.data.shape[0]:
            p.weights[i, 0] = 3.0
            return p.data[i][3]
        return p.weights.shape[1] - 7

    @loom.func
    def look(p: Provider, i: int) -> int:
        total = 0
        if i >= 0 and p.data.shape[0] > i:
            total += p.data[i][0]
        for j in range(p.data.shape[0]):
            total += p.data[j][1]
        return total + inner(p, i) + p.n

    @loom.kernel
    def k(out: loom.array(dtype=int), data: loom.array(dtype=loom.vec4i), weights: loom.array2d(dtype=float)):
        i = loom.tid()
        nothing = Provider()
        out[i] = look(nothing, i)
        whole = Provider()
        whole.data = data
        whole.n = 100
        whole.weights = weights
        out[i] += look(whole, i)
        partial = Provider()
        partial.data = data
        out[i] += 1000 * look(partial, 5)

    out = loom.zeros(3, dtype=int, device=device)
    data = loom.array([[1, 2, 3, 4], [5, 6, 7, 8]], dtype=loom.vec4i, device=device)
    weights = loom.zeros((2, 1), dtype=float, device=device)
    loom.launch(k, 3, [out, data, weights], device=device)
    assert out.numpy().tolist() == [1106, 1114, 1095]
    assert weights.numpy().tolist() == [[3.0], [3.0]]


def test_an_element_of_an_array_that_is_not_set_is_out_of_bounds():
    @loom.struct
    class Holder:
        data: loom.array(dtype=float)

    @loom.func
    def first(holder: Holder) -> float:
        return holder.data[0]

    @loom.func
    def fill(holder: Holder, i: int) -> float:
        holder.data[i] = 2.0
        return 1.0

    @loom.kernel(check=True)
    def read(out: loom.array(dtype=float)):
        holder = Holder()
        out[0] = first(holder)

    @loom.kernel(check=True)
    def write(out: loom.array(dtype=float)):
        holder = Holder()
        out[0] = fill(holder, loom.tid())

    for kernel in (read, write):
        with pytest.raises(
            loom.LaunchError, match="index 0 is out of bounds for axis 0 of `holder.data` with extent 0"
        ):
            loom.launch(kernel, 1, [loom.zeros(1, dtype=float)])

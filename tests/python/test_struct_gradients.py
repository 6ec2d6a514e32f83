"""Gradients of launches that take structs and arrays of structs. Expected values are worked out by hand."""

import numpy as np
import polyloom as loom
import pytest

f64 = loom.float64
D = loom.array(dtype=f64)
W = np.array([1.0, 2.0, 3.0])


@loom.struct
class Spring:
    stiffness: f64
    rest: f64
    n: int


@loom.struct
class Body:
    frozen: bool
    mass: f64
    position: loom.vec3d
    spring: Spring
    weight: float


@loom.struct
class Scene:
    spring: Spring
    gravity: loom.vec3d
    x: loom.array(dtype=f64)
    ids: loom.array(dtype=int)
    bodies: loom.array(dtype=Body)


@loom.kernel
def energy(bodies: loom.array(dtype=Body), e: D):
    i = loom.tid()
    body = bodies[i]
    stretch = loom.length(body.position) - body.spring.rest
    e[i] = body.mass * body.spring.stiffness * stretch * stretch + f64(body.weight)


def bodies(device=None):
    made = np.zeros(3, Body.numpy_dtype())
    made["mass"] = [1.0, 2.0, 0.5]
    made["position"] = [[3.0, 4.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 2.0]]
    made["spring"]["stiffness"] = [2.0, 1.0, 4.0]
    made["spring"]["rest"] = [1.0, 3.0, 1.5]
    made["spring"]["n"] = [7, 8, 9]
    made["frozen"] = True
    return loom.array(made, dtype=Body, device=device)


STRETCH = np.array([4.0, -2.0, 0.5])
DIRECTIONS = np.array([[0.6, 0.8, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])


def check_energy(gradient):
    mass, stiffness = np.array([1.0, 2.0, 0.5]), np.array([2.0, 1.0, 4.0])
    slope = 2 * mass * stiffness * STRETCH
    np.testing.assert_allclose(gradient["mass"], W * stiffness * STRETCH**2)
    np.testing.assert_allclose(gradient["spring"]["stiffness"], W * mass * STRETCH**2)
    np.testing.assert_allclose(gradient["spring"]["rest"], -W * slope)
    np.testing.assert_allclose(gradient["position"], (W * slope)[:, None] * DIRECTIONS)
    np.testing.assert_allclose(gradient["weight"], W)
    assert not gradient["frozen"].any() and not gradient["spring"]["n"].any()


@pytest.mark.parametrize("device", ["cpu", "sim:0"])
def test_an_array_of_structs_has_one_of_gradients(device):
    given, e = bodies(device), loom.zeros(3, dtype=f64, device=device)
    with loom.Tape() as tape:
        loom.launch(energy, 3, [given], [e], device=device)
    tape.backward(grads=[(e, W)])
    gradient = tape.gradients[given]
    assert gradient.dtype is Body and str(gradient.device) == device
    check_energy(gradient.numpy())
    tape.backward(grads=[(e, W)])
    np.testing.assert_allclose(tape.gradients[given].numpy()["weight"], 2 * W)
    tape.zero()
    assert not tape.gradients[given].numpy()["weight"].any()


def test_numpys_arrays_of_structs_have_gradients_and_so_have_their_fields():
    given, e = bodies().numpy(), np.zeros(3)
    with loom.Tape() as tape:
        loom.launch(energy, 3, [given], [e])
    tape.backward(grads=[(e, W)])
    check_energy(tape.gradients[given])
    np.testing.assert_allclose(tape.gradients[given["mass"]], tape.gradients[given]["mass"])
    np.testing.assert_allclose(tape.gradients[given[1:]]["weight"], W[1:])


def test_an_array_of_structs_has_a_grad():
    given, e = bodies(), loom.zeros(3, dtype=f64)
    given.requires_grad = True
    for n in (1, 2):
        with loom.Tape() as tape:
            loom.launch(energy, 3, [given], [e])
        tape.backward(grads=[(e, W)])
        assert given.grad.dtype is Body
        np.testing.assert_allclose(given.grad.numpy()["mass"], n * W * np.array([2.0, 1.0, 4.0]) * STRETCH**2)
    tape.zero()
    loom.launch(energy, 3, [given], [e], adjoint=True, adj_outputs=[loom.array(W, dtype=f64)])
    check_energy(given.grad.numpy())


@loom.kernel
def drift(bodies: loom.array(dtype=Body), dt: f64):
    i = loom.tid()
    bodies[i].position.x = bodies[i].position.x + dt * bodies[i].mass * bodies[i].position.y
    bodies[i].spring.n += 1


def test_launches_overwrite_fields_of_structs():
    # x₂ = x + 2 dt m y, and of that the square.
    given, e, dt, steps = bodies(), loom.zeros(3, dtype=f64), 0.25, 2
    before = given.numpy().copy()

    @loom.kernel
    def square(bodies: loom.array(dtype=Body), e: D):
        i = loom.tid()
        e[i] = bodies[i].position.x * bodies[i].position.x

    with loom.Tape() as tape:
        for _ in range(steps):
            loom.launch(drift, 3, [given, dt])
        loom.launch(square, 3, [given], [e])
    tape.backward(grads=[(e, W)])
    x, y = before["position"][:, 0], before["position"][:, 1]
    end = x + steps * dt * before["mass"] * y
    gradient = tape.gradients[given].numpy()
    np.testing.assert_allclose(given.numpy()["position"][:, 0], end)
    np.testing.assert_allclose(gradient["position"][:, 0], 2 * W * end)
    np.testing.assert_allclose(gradient["position"][:, 1], 2 * W * end * steps * dt * before["mass"])
    np.testing.assert_allclose(gradient["mass"], 2 * W * end * steps * dt * y)


@loom.kernel
def pull(scene: Scene, e: D):
    i = loom.tid()
    j = scene.ids[i]
    e[i] = scene.spring.stiffness * scene.x[j] * scene.x[j] + scene.gravity[1] * scene.bodies[j].mass


def scene(device=None):
    made = Scene()
    made.spring = Spring(3.0, 0.5, 1)
    made.gravity = (0.0, -10.0, 0.0)
    made.x = loom.array([1.0, 2.0, 4.0], dtype=f64, device=device)
    made.ids = loom.array([2, 0, 2], dtype=int, device=device)
    made.bodies = bodies(device)
    return made


def check_pull(gradient):
    # e = (k x₂² + g m₂, k x₀² + g m₀, k x₂² + g m₂), with the weights 1, 2 and 3
    np.testing.assert_allclose(gradient.spring.stiffness, 16.0 + 2.0 * 1.0 + 3.0 * 16.0)
    assert gradient.spring.rest == 0.0 and gradient.spring.n == 0
    np.testing.assert_allclose(gradient.gravity, [0.0, 0.5 + 2.0 * 1.0 + 3.0 * 0.5, 0.0])
    np.testing.assert_allclose(gradient.x.numpy(), [2.0 * 6.0, 0.0, 4.0 * 24.0])
    np.testing.assert_allclose(gradient.bodies.numpy()["mass"], [-20.0, 0.0, -40.0])


@pytest.mark.parametrize("device", ["cpu", "sim:0"])
def test_a_struct_has_a_struct_of_gradients(device):
    given, e = scene(device), loom.zeros(3, dtype=f64, device=device)
    with loom.Tape() as tape:
        loom.launch(pull, 3, [given], [e], device=device)
    tape.backward(grads=[(e, W)])
    gradient = tape.gradients[given]
    assert type(gradient) is Scene and gradient.ids is None
    check_pull(gradient)
    np.testing.assert_allclose(tape.gradients[given.x].numpy(), gradient.x.numpy())
    assert given in list(tape.gradients)
    tape.zero()
    assert tape.gradients[given].spring.stiffness == 0.0


def test_gradients_of_numbers_in_structs_add_up_over_launches():
    given, e = scene(), loom.zeros(3, dtype=f64)
    given.x = np.array([1.0, 2.0, 4.0])
    with loom.Tape() as tape:
        loom.launch(pull, 3, [given], [e])
        given.spring.stiffness = 5.0
        loom.launch(pull, 3, [given], [e])
    tape.backward(grads=[(e, W)])
    # The first launch's e is overwritten by the second's.
    gradient = tape.gradients[given]
    np.testing.assert_allclose(gradient.spring.stiffness, 66.0)
    np.testing.assert_allclose(gradient.x, 5.0 / 3.0 * np.array([12.0, 0.0, 96.0]))

    other = scene()
    with pytest.raises(KeyError, match="recorded nothing with this struct"):
        tape.gradients[other]


def test_adjoint_launches_take_structs():
    given, gradient, e, w = scene(), Scene(), np.zeros(3), W.copy()
    gradient.x, gradient.bodies = loom.zeros(3, dtype=f64), loom.zeros(3, dtype=Body)
    loom.launch(pull, 3, [given], [e], adjoint=True, adj_inputs=[gradient], adj_outputs=[w])
    check_pull(gradient)
    # They are added to, and what is not asked for is left out.
    given.x.requires_grad = True
    partly = Scene(spring=Spring(1.0, 0.0, 0), gravity=(0, 0, 0), x=None, ids=None, bodies=None)
    loom.launch(pull, 3, [given], [e], adjoint=True, adj_inputs=[partly], adj_outputs=[W.copy()])
    np.testing.assert_allclose(partly.spring.stiffness, 67.0)
    np.testing.assert_allclose(given.x.grad.numpy(), [12.0, 0.0, 96.0])
    loom.launch(pull, 3, [given], [e], adjoint=True, adj_outputs=[W.copy()])
    np.testing.assert_allclose(given.x.grad.numpy(), [24.0, 0.0, 192.0])

    found = np.zeros(3, Body.numpy_dtype())
    loom.launch(energy, 3, [bodies()], [e], adjoint=True, adj_inputs=[found], adj_outputs=[W.copy()])
    check_energy(found)


def test_adjoint_launches_refuse_other_structs():
    given, e = scene(), np.zeros(3)
    with pytest.raises(TypeError, match="what belongs to a struct Scene is another Scene, not Spring"):
        loom.launch(pull, 3, [given], [e], adjoint=True, adj_inputs=[Spring()], adj_outputs=[W])
    with pytest.raises(ValueError, match="the gradient of an array of shape"):
        wrong = np.zeros(2, Body.numpy_dtype())
        loom.launch(energy, 3, [bodies()], [e], adjoint=True, adj_inputs=[wrong], adj_outputs=[W])


def test_forward_mode_takes_structs():
    given, e, dot_e = scene(), np.zeros(3), np.zeros(3)
    dot = Scene()
    dot.spring = Spring(1.0, 0.0, 0)
    for unlike in (np.zeros(2), np.zeros(3, np.float32)):
        dot.x = unlike
        with pytest.raises(ValueError, match="the field 'x' is an array of shape"):
            loom.jvp(pull, 3, [given], [e], tangents=[dot, dot_e])
    dot.x = np.array([0.0, 0.0, 0.5])
    loom.jvp(pull, 3, [given], [e], tangents=[dot, dot_e])
    # k̇ x² + 2 k x ẋ
    np.testing.assert_allclose(dot_e, [16.0 + 12.0, 1.0, 28.0])

    moving = np.zeros(3, Body.numpy_dtype())
    moving["mass"], moving["weight"] = 1.0, 2.0
    loom.jvp(energy, 3, [bodies().numpy()], [e], tangents=[moving, dot_e])
    np.testing.assert_allclose(dot_e, np.array([2.0, 1.0, 4.0]) * STRETCH**2 + 2.0)
    with pytest.raises(TypeError, match="what belongs to a struct Scene"):
        loom.jvp(pull, 3, [given], [e], tangents=[1.0, dot_e])


@pytest.mark.parametrize("device", ["cpu", "sim:0"])
def test_forward_mode_of_structs_is_differentiated(device):
    given, e = scene(device), loom.zeros(3, dtype=f64, device=device)
    dot, dot_e = Scene(), loom.zeros(3, dtype=f64, device=device)
    dot.x = loom.array([1.0, 1.0, 1.0], dtype=f64, device=device)
    with loom.Tape() as tape:
        loom.jvp(pull, 3, [given], [e], tangents=[dot, dot_e], device=device)
    tape.backward(grads=[(dot_e, W)])
    # ė = 2 k x ẋ of x₂, x₀ and x₂
    gradient = tape.gradients[given]
    np.testing.assert_allclose(gradient.x.numpy(), [2.0 * 6.0, 0.0, 4.0 * 6.0])
    np.testing.assert_allclose(gradient.spring.stiffness, 2.0 * (1.0 * 4.0 + 2.0 * 1.0 + 3.0 * 4.0))
    np.testing.assert_allclose(tape.gradients[dot].spring.stiffness, 16.0 + 2.0 + 48.0)


def test_gradcheck_takes_structs():
    report = loom.gradcheck(energy, [bodies()], [np.zeros(3)])
    assert [each.name for each in report.arguments] == [
        "bodies.mass",
        "bodies.position",
        "bodies.spring.stiffness",
        "bodies.spring.rest",
        "bodies.weight",
        "e",
    ]
    report = loom.gradcheck(pull, [scene()], [np.zeros(3)], dim=3)
    assert "scene.gravity" in str(report) and report.passed


@pytest.mark.parametrize("device", ["cpu", "sim:0"])
def test_copies_of_arrays_of_structs_are_recorded(device):
    given, e = bodies(device), loom.zeros(3, dtype=f64, device=device)
    with loom.Tape() as tape:
        other = loom.clone(given)
        third = loom.zeros(3, dtype=Body, device=device)
        third.assign(other)
        third[0] = Body()
        loom.launch(energy, 3, [third], [e], device=device)
    tape.backward(grads=[(e, W)])
    gradient = tape.gradients[given].numpy()
    np.testing.assert_allclose(gradient["weight"], [0.0, 2.0, 3.0])
    np.testing.assert_allclose(gradient["spring"]["stiffness"], [0.0, 2.0 * 2.0 * 4.0, 3.0 * 0.5 * 0.25])
    np.testing.assert_allclose(tape.gradients[third].numpy()["weight"], 0.0)


def test_one_struct_is_copied_to_all_elements():
    given, e = bodies(), loom.zeros(3, dtype=f64)
    with loom.Tape() as tape:
        all_alike = loom.zeros(3, dtype=Body)
        all_alike.assign(given[1:2])
        loom.launch(energy, 3, [all_alike], [e])
    tape.backward(grads=[(e, W)])
    np.testing.assert_allclose(tape.gradients[given].numpy()["weight"], [0.0, 6.0, 0.0])


def test_arrays_of_structs_change_without_being_recorded():
    given, e = bodies(), loom.zeros(3, dtype=f64)
    with loom.Tape() as tape:
        loom.launch(energy, 3, [given], [e])
        given.numpy()["mass"] = 0.0
    with pytest.raises(RuntimeError, match="has overwritten an array that a recorded operation needs"):
        tape.backward(grads=[(e, W)])


def test_memory_of_two_types_is_refused_where_they_overlap():
    memory = np.zeros(6)
    halves = memory[:3], memory[3:].view(np.float32)[:3]

    @loom.kernel
    def widen(x: loom.array(dtype=float), y: D):
        i = loom.tid()
        y[i] = f64(x[i]) * f64(x[i])

    halves[1][:] = [1.0, 2.0, 3.0]
    with loom.Tape() as tape:
        loom.launch(widen, 3, [halves[1]], [halves[0]])
    tape.backward(grads=[(halves[0], W)])
    np.testing.assert_allclose(tape.gradients[halves[1]], [2.0, 8.0, 18.0])
    with loom.Tape(), pytest.raises(TypeError, match="a tape takes arrays of one type"):
        loom.launch(widen, 3, [halves[1]], [halves[0]])
        loom.launch(widen, 3, [np.zeros(3, np.float32)], [memory[3:]])


def test_gradients_of_two_types_in_one_memory_add_up():
    # The memory becomes known part by part, and the gradients of two ways back are added.
    given, e = bodies(), loom.zeros(3, dtype=f64)
    given.numpy()["mass"] = -0.0
    with loom.Tape() as tape:
        loom.launch(energy, 3, [given], [e])
        loom.launch(drift, 3, [given, 0.5])
    for n in (1, 2):
        tape.backward(grads=[(e, W), (given, gradient_of_ones(given))])
        found = tape.gradients[given].numpy()
        np.testing.assert_allclose(found["weight"], n * (W + 1.0))
        np.testing.assert_allclose(found["position"][:, 2], n * np.ones(3))


def gradient_of_ones(given):
    made = loom.zeros_like(given)
    made.numpy()["weight"] = 1.0
    made.numpy()["position"] = 1.0
    return made


def test_an_indexed_array_has_an_indexed_array_of_gradients():
    @loom.kernel
    def squares(x: loom.indexedarray(dtype=f64), e: D):
        i = loom.tid()
        e[i] = x[i] * x[i]

    data, e = loom.array([1.0, 2.0, 3.0, 4.0], dtype=f64), loom.zeros(2, dtype=f64)
    chosen = loom.indexedarray(data, [loom.array([3, 1], dtype=int)])
    with loom.Tape() as tape:
        loom.launch(squares, 2, [chosen], [e])
    tape.backward(grads=[(e, W[:2])])
    np.testing.assert_allclose(tape.gradients[data].numpy(), [0.0, 8.0, 0.0, 8.0])
    np.testing.assert_allclose(tape.gradients[chosen].numpy(), [8.0, 8.0])


def test_what_is_no_struct_is_named():
    with loom.Tape(), pytest.raises(TypeError, match="argument 'scene' of kernel 'pull' must be Scene, not Spring"):
        loom.launch(pull, 3, [Spring()], [np.zeros(3)])
    with pytest.raises(ValueError, match="the gradient of an array of structs is an array of the same structs"):
        given = bodies()
        with loom.Tape() as tape:
            loom.launch(drift, 3, [given, 0.5])
        tape.backward(grads=[(given, 1.0)])


def test_functions_of_other_libraries_take_no_structs():
    from polyloom._functions import KernelFunction

    with pytest.raises(TypeError, match="take the fields as parameters of their own"):
        KernelFunction(pull, "e", 3).bind([scene()])


def test_recorded_launches_use_what_structs_hold_when_they_run():
    given, e = scene(), np.zeros(3)
    command = loom.launch(pull, 3, [given], [e], record_cmd=True)
    command.launch()
    # k x² + g m
    np.testing.assert_array_equal(e, [3.0 * 16.0 - 5.0, 3.0 * 1.0 - 10.0, 3.0 * 16.0 - 5.0])
    given.spring.stiffness = 100.0
    with loom.Tape() as tape:
        command.launch()
    np.testing.assert_array_equal(e, [100.0 * 16.0 - 5.0, 100.0 * 1.0 - 10.0, 100.0 * 16.0 - 5.0])
    # The tape keeps what the launch ran with.
    given.spring.stiffness = 7.0
    tape.backward(grads=[(e, W)])
    gradient = tape.gradients[given]
    np.testing.assert_allclose(gradient.spring.stiffness, 16.0 + 2.0 * 1.0 + 3.0 * 16.0)
    np.testing.assert_allclose(gradient.x.numpy(), [2.0 * 200.0, 0.0, 4.0 * 800.0])
    command.set_params([given, e])
    given.spring.stiffness = 3.0
    with loom.Tape():
        command.launch()
    assert e[0] == 3.0 * 16.0 - 5.0

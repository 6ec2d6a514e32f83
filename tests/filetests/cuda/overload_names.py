# test cuda
import polyloom as loom


@loom.func
def noise_2(x: float):
    return x + 1.0


@loom.kernel
def named_like_definitions(seed: int, x: loom.array(dtype=float), y: loom.array(dtype=float)):
    i = loom.tid()
    s = loom.rand_init(seed, i)
    noise = loom.randn(s)
    lerp_f32 = loom.lerp(x[i], noise, 0.5)
    y[i] = loom.noise(s, lerp_f32 * noise) + noise_2(loom.lerp(noise, lerp_f32, 0.25))

# test run
# Decompositions whose factors are exact, worked out by hand.
import polyloom as wp


# run: @svd[1]([[[0, 0, -4], [2, 0, 0], [0, 3, 0]]], [[0, 0, 0]]) == _, [[4, 3, -2]]
# run: @svd[1]([[[0, 0, 0], [0, 0, 0], [0, 0, 0]]], [[1, 1, 1]]) == _, [[0, 0, 0]]
@wp.kernel
def svd(a: wp.array(dtype=wp.mat33), out: wp.array(dtype=wp.vec3)):
    u, sigma, v = wp.svd3(a[0])
    out[0] = sigma


# run: @qr[1]([[[0, 5, 1], [2, 0, 1], [0, 0, 3]]], [[[0, 0, 0], [0, 0, 0], [0, 0, 0]]]) == _, [[[2, 0, 1], [0, 5, 1], [0, 0, -3]]]
@wp.kernel
def qr(a: wp.array(dtype=wp.mat33), out: wp.array(dtype=wp.mat33)):
    q, r = wp.qr3(a[0])
    out[0] = r


# run: @eig[1]([[[1, 0, 0], [0, -2, 0], [0, 0, 3]]], [[0, 0, 0]]) == _, [[1, -2, 3]]
@wp.kernel
def eig(a: wp.array(dtype=wp.mat33), out: wp.array(dtype=wp.vec3)):
    q, d = wp.eig3(a[0])
    out[0] = d


# run: @larger[1]([[[0, -3], [1, 0]]], [[0, 0]]) == _, [[3, 1]]
@wp.kernel
def larger(a: wp.array(dtype=wp.mat22h), out: wp.array(dtype=wp.vec2h)):
    u = wp.mat22h()
    sigma = wp.vec2h()
    v = wp.mat22h()
    wp.svd2(a[0], u, sigma, v)
    out[0] = sigma

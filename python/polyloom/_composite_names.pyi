# Generated from the compiler's types by `make stubs`.
from polyloom._composites import Matrix, Quaternion, Transformation, Vector

class vec2(Vector): ...

class vec2d(Vector): ...

class vec2h(Vector): ...

class vec2bf(Vector): ...

class vec2b(Vector): ...

class vec2ub(Vector): ...

class vec2s(Vector): ...

class vec2us(Vector): ...

class vec2i(Vector): ...

class vec2ui(Vector): ...

class vec2l(Vector): ...

class vec2ul(Vector): ...

vec2f = vec2

class vec3(Vector): ...

class vec3d(Vector): ...

class vec3h(Vector): ...

class vec3bf(Vector): ...

class vec3b(Vector): ...

class vec3ub(Vector): ...

class vec3s(Vector): ...

class vec3us(Vector): ...

class vec3i(Vector): ...

class vec3ui(Vector): ...

class vec3l(Vector): ...

class vec3ul(Vector): ...

vec3f = vec3

class vec4(Vector): ...

class vec4d(Vector): ...

class vec4h(Vector): ...

class vec4bf(Vector): ...

class vec4b(Vector): ...

class vec4ub(Vector): ...

class vec4s(Vector): ...

class vec4us(Vector): ...

class vec4i(Vector): ...

class vec4ui(Vector): ...

class vec4l(Vector): ...

class vec4ul(Vector): ...

vec4f = vec4

class mat22(Matrix): ...

class mat22d(Matrix): ...

class mat22h(Matrix): ...

class mat22bf(Matrix): ...

mat22f = mat22

class mat33(Matrix): ...

class mat33d(Matrix): ...

class mat33h(Matrix): ...

class mat33bf(Matrix): ...

mat33f = mat33

class mat44(Matrix): ...

class mat44d(Matrix): ...

class mat44h(Matrix): ...

class mat44bf(Matrix): ...

mat44f = mat44

class quat(Quaternion): ...

class quatd(Quaternion): ...

class quath(Quaternion): ...

class quatbf(Quaternion): ...

quatf = quat

class transform(Transformation): ...

class transformd(Transformation): ...

class transformh(Transformation): ...

class transformbf(Transformation): ...

transformf = transform

class spatial_vector(Vector): ...

class spatial_vectord(Vector): ...

class spatial_vectorh(Vector): ...

class spatial_vectorbf(Vector): ...

spatial_vectorf = spatial_vector

class spatial_matrix(Matrix): ...

class spatial_matrixd(Matrix): ...

class spatial_matrixh(Matrix): ...

class spatial_matrixbf(Matrix): ...

spatial_matrixf = spatial_matrix

__all__ = [
    "mat22",
    "mat22bf",
    "mat22d",
    "mat22f",
    "mat22h",
    "mat33",
    "mat33bf",
    "mat33d",
    "mat33f",
    "mat33h",
    "mat44",
    "mat44bf",
    "mat44d",
    "mat44f",
    "mat44h",
    "quat",
    "quatbf",
    "quatd",
    "quatf",
    "quath",
    "spatial_matrix",
    "spatial_matrixbf",
    "spatial_matrixd",
    "spatial_matrixf",
    "spatial_matrixh",
    "spatial_vector",
    "spatial_vectorbf",
    "spatial_vectord",
    "spatial_vectorf",
    "spatial_vectorh",
    "transform",
    "transformbf",
    "transformd",
    "transformf",
    "transformh",
    "vec2",
    "vec2b",
    "vec2bf",
    "vec2d",
    "vec2f",
    "vec2h",
    "vec2i",
    "vec2l",
    "vec2s",
    "vec2ub",
    "vec2ui",
    "vec2ul",
    "vec2us",
    "vec3",
    "vec3b",
    "vec3bf",
    "vec3d",
    "vec3f",
    "vec3h",
    "vec3i",
    "vec3l",
    "vec3s",
    "vec3ub",
    "vec3ui",
    "vec3ul",
    "vec3us",
    "vec4",
    "vec4b",
    "vec4bf",
    "vec4d",
    "vec4f",
    "vec4h",
    "vec4i",
    "vec4l",
    "vec4s",
    "vec4ub",
    "vec4ui",
    "vec4ul",
    "vec4us",
]

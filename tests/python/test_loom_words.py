"""Messages about `.loom` speak `.loom`: texts with mistakes of all kinds, and what none of their messages may say."""

import random
import re
from pathlib import Path

import polyloom as loom
import pytest

EXAMPLES = sorted((Path(__file__).parents[2] / "examples" / "loom").glob("*.loom"))

# What stands only in Python: constructs, decorators, spellings of types and constants, and words for them.
PYTHON = re.compile(
    r"\brange\(|\bdef\b|@loom|@func\b|decorat|[Pp]ython|lambda|\bclass\b|import math|\belif\b|"
    r"\bTrue\b|\bFalse\b|\bNone\b|\bloom\.|polyloom\.|\$|\bfloat(16|32|64)\b|\bu?int(8|16|32|64)\b|`float\b|`int\b|"
    r"dtype=float\b|dtype=int\b|array\(dtype|annotated|the annotation\b|`(for|if|while) [^`]*:`|=True|\b//\b|"
    r"block_dim=|workgroup_size|vector_width|no_syscalls=|\bWarp\b"
)

# Each is a function body or a file that some check of the front end rejects.
BODIES = r"""
let a = z
let a = sin(1)
let a = sin(x[i], 2.0)
let a = sorted(x)
let a = x.size
x[i] = vec3(1.0, 2.0, 3.0)
let a = x[i] + true
var a = 1.0; a = 1
let a = f(1)
let a = f(x[i], 2)
f = 1
let a = 1 << 2.0
let a = x[i, 0]
let a = x[0.5]
let a: f32 = 1u8
let a: array<f32, 3> = x
for k in 0..x[i] { }
for k in 0.5..2.0 { }
while x { }
if x { }
assert x[i], 3
let a = not x
let a = -true
let a = ~1.0
let a = vec3(1.0)[5]
let a = vec2(1.0, 2.0) * mat33()
let a = vec3(1.0, 2.0)
let a = x[..]
let a = x[1..2]
let a, b = x[i]
let a = tid(); let b, c = tid()
let a = shared_array(shape=n, dtype=f32)
let a = zeros(shape=n, dtype=f32)
let a = zeros(3)
let a = zeros(shape=3, dtype=float)
x[i] = f
let a = f
let a = math.sqrt(1.0)
return 1.0
let a = len(3)
let a = 99999999999999999999
let a = i32(3000000000)
x[i] = 1 % 0
let a = 2 ** 70
let a = if x then 1 else 2
let a = if true then 1 else 2.5
let a = atomic_add(x, 0)
atomic_add(x[i], 0, 1.0)
let a = x.shape[7]
x.shape = 3
let a = (1, 2)
let a = print(1)
print(x)
let a = undefined.member
let a = x[i].y
let a = quat()
let a = int(1)
let a = float(1)
let a = range(3)
let a = max(1)
let a = max(1.0, 2)
let a = min(x, 1.0)
let a = mma(1, 2, 3)
let a = dot(1.0, 2.0)
let a = cross(vec2(), vec2())
let a = lerp(1, 2)
a += 1
let a = g(x)
if i > 0 { let q = 1.0 }; x[i] = q
var v = vec3(); v[7] = 1.0
var v = vec3(); v.w = 1.0
let a = S(1.0)
let s = S(); s.q = 1
let a = S(b=1.0)
let a = T
var a: T
var a: float
var a: double
var a: int32
let a = true + true
let a = 1 / 0
x[i] = x[i] if true else 1.0
let a = sync_threads(1)
x[i] = None
x[i] = True
let a = 'text'
for k in range(3) { }
let a = [1, 2]
let a = x == x
let a = f32
let a = f32(x)
let a = i & 1.0
x[i] **= 2.0
let a = rand_init(1.0)
let a = floordiv(1.0)
let a = floordiv(x, 2)
let a = pow(2)
let a = select(1)
""".strip().splitlines()
FILE = "struct S { b: f32 }\nfn f(x: f32) -> f32 { return x }\nfn g(x: array<f32, n>) -> f32 { return x }\n"
# `K` stands for a kernel.
FILES = r"""
@workgroup(0) K
@workgroup(2000) K
@workgroup(1, 2, 3, 4) K
@vectorize(3.5) K
@vectorize(1000) K
@opt_level(O9) K
@cpu_affinity(-1) K
@target_latency_ns(1.5) K
@no_syscalls kernel k(x: array<f32, n>) { for i in 0..n { print(x[i]) } }
@critical_path kernel k(x: array<f32, n>) { for i in 0..n { while x[i] > 1.0 { x[i] = x[i] * 0.5 } } }
@critical_path @opt_level(O1) K
kernel k(x: array<f32, n>) @kernel(elementwise) { for i in 0..n { atomic_add(x, 0, 1.0) } }
kernel k(x: array<f32, n>) @kernel(sort) { for i in 0..n { x[i] = 1.0 } }
fn f(x: f32) -> f32 { }
fn f(x: f32) -> i32 { return x }
fn f(x: f32) -> f32 { if x > 0.0 { return x } }
fn f(x: f32) -> f32, f32 { return x }
fn f(x: f32) -> f32 { return f(x) }
const A = B; kernel k(x: array<f32, n>) { for i in 0..n { x[i] = A } }
const A = x[0]; kernel k(x: array<f32, n>) { for i in 0..n { x[i] = A } }
struct S { a: Q }; kernel k(x: array<S, n>) { for i in 0..n { x[i].a = 1.0 } }
struct S { a: S }; kernel k(x: array<S, n>) { for i in 0..n { x[i].a = 1.0 } }
kernel k(x: array<f32, n>) { let t = tid(); if t > 1 { sync_threads() } }
kernel k(x: array<f32, n>, y: ref<f32>) { for i in 0..n { x[i] = y } }
kernel k(x: float) -> y: array<float, n> { for i in 0..n { y[i] = x } }
def k(x: array<f32, n>): pass
import math; K
""".strip().splitlines()
PLAIN = "kernel k(x: array<f32, n>) { for i in 0..n { x[i] = 1.0 } }"


def messages(text):
    """All that is said of a text, without its excerpts, which are the reader's own words."""
    try:
        loom.loom_module(text)
    except loom.CompileError as error:
        lines = str(error).splitlines()
        return [line for line in lines if re.match(r"(error|warning)\[|\s*= help:", line)]
    return []


def check(text):
    said = messages(text)
    for line in said:
        # Names of the text are in messages too.
        own = PYTHON.search(line)
        assert not own or own[0].strip("`:(") in text, f"{line}\n\n{text}"
    return said


@pytest.mark.parametrize("body", BODIES)
def test_messages_of_statements(body):
    check(f"{FILE}kernel k(x: array<f32, n>) {{ for i in 0..n {{\n{body}\n}} }}")


def test_most_statements_are_mistakes():
    texts = [f"{FILE}kernel k(x: array<f32, n>) {{ for i in 0..n {{\n{body}\n}} }}" for body in BODIES]
    assert sum(1 for text in texts if messages(text)) > 0.8 * len(texts)


@pytest.mark.parametrize("text", FILES)
def test_messages_of_files(text):
    assert check(re.sub(r"\bK$", PLAIN, text).replace("; ", "\n"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_messages_of_mutated_examples(path):
    text = path.read_text(encoding="utf-8")
    chance = random.Random(path.stem)
    tokens = list(re.finditer(r"\w+|[^\w\s]", text))
    n_wrong = 0
    for _ in range(40):
        first, second = chance.choice(tokens), chance.choice(tokens)
        mutated = text[: first.start()] + chance.choice([second[0], "", "3.5", "true"]) + text[first.end() :]
        n_wrong += bool(check(mutated))
    assert n_wrong > 5

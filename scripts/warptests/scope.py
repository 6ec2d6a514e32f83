"""Which of Warp's test modules are run, and which tests are about what Polyloom is without.

A test is out of scope by the text of its function and of all that this refers to in its module, never by how it
ends: the number of tests in scope does not depend on what Polyloom does.
"""

from __future__ import annotations

import ast
import re

# Modules about the core language, arrays, launches and gradients. The others are about tiles, geometry, FEM, CUDA,
# sparse matrices, optimisers, files of recorded launches, and how Warp builds and caches its code.
MODULES = """
interop.test_dlpack
matrix.test_mat matrix.test_mat_assign_copy matrix.test_mat_basics matrix.test_mat_constructors
matrix.test_mat_elementwise_ops matrix.test_mat_linalg matrix.test_mat_lite
test_arithmetic test_array test_array_reduce test_assert test_atomic test_atomic_bitwise test_atomic_cas
test_bf16 test_bit_count test_bool test_builtins_resolution
test_codegen test_codegen_continue test_codegen_instancing test_compile_consts test_composite_component_adjoint
test_conditional test_constant_precision test_copy test_ctypes
test_dense test_devices test_enum test_factory_style_array_annotations test_fast_math test_fixedarray test_fp16
test_func test_func_inline test_func_parameter_targets test_future_annotations test_generics test_grad
test_grad_customs test_grad_debug test_implicit_init test_import test_indexedarray test_iter
test_large test_launch test_lerp test_lvalue test_map test_math test_module_variants test_modules_lite
test_noise test_operators test_options test_overwrite test_print
test_quat test_quat_assign_copy test_rand test_ref test_reload test_rounding test_runlength_encode
test_scalar_ops test_smoothstep test_spatial test_spatial_assign_copy test_special_values test_static test_struct
test_subscript_types test_tape test_template_launch_bounds test_transient_module test_tuple test_types
test_unique_module test_unpack test_utils test_vec test_vec_assign_copy test_vec_constructors test_vec_lite
test_vec_scalar_ops test_verify_fp
""".split()

# What of `warp._src` a test may use and stay in scope: public things by another way, which `warp.types` and the
# package have too.
PUBLIC_INTERNALS = {
    "Any",
    "Float",
    "Int",
    "LoggerBasic",
    "Reference",
    "Scalar",
    "WarpCodegenAttributeError",
    "WarpCodegenError",
    "WarpCodegenTypeError",
    "WarpCodegenValueError",
    "builtin_functions",
    "check_array_shape",
    "dtype_from_numpy",
    "float_base",
    "float_types",
    "int_base",
    "int_types",
    "log_warning",
    "matrix",
    "non_atomic_types",
    "np_dtype_to_warp_type",
    "quaternion",
    "scalar_base",
    "scalar_types",
    "strides_from_shape",
    "transformation",
    "type_scalar_type",
    "user_cache_dir",
    "vector",
    "vector_types",
}

# Why a test is out of scope: the first of these whose pattern its text has.
REASONS = [
    ("tiles", r"\bwp\.tile|launch_tiled"),
    ("geometry, volumes, textures", r"\bwp\.(Mesh|Bvh|HashGrid|Volume|Texture|mesh_|bvh_|hash_grid_|volume_|texture_)"),
    ("native code", r"func_native|\bsnippet\b|adj_snippet|\"builtin\.h\""),
    ("CUDA graphs and streams", r"\bwp\.Stream\b|ScopedStream|get_stream|capture_while|capture_if"),
    ("Omniverse Fabric", r"fabricarray"),
    ("sparse matrices, FEM, optimisers, drawing", r"\b(warp|wp)\.(sparse|fem|optim|render)\b"),
    (
        "Warp's code generator, hashes and modules of kernels",
        r"\.adj\b|codegen_func|codegen_kernel|ModuleBuilder|ModuleHasher|module_hash|\.hash_module|get_module_hash|"
        r"\.module\.(?!options|name|load|unload)|_launch_bounds_classes|launch_bounds_t|get_unique_kernels|"
        r"get_mangled_name|user_modules|kernel_cache_dir|compile_aot|\.execs\b|\.codegen\(|\.kernels\b|"
        r"_identifier_cache|\.func_kernel_cache|generate_unique_kernel|get_kernel_hash|mangled|\.bounds\b|_is_read\b|"
        r"_is_write\b|entry_point_abi|ModuleBuildOptions|_build_options|run_python_subprocess|module_variant|"
        r"get_cpu_kernel_cache_key|strip_hash|resolve_options|code_transformers|-mllvm|get_kernel_hooks|"
        r"\.user_overloads|\.get_overload\b|\.dependents\b",
    ),
]


# Tests whose results differ on purpose, by module and name, with the reason.
ON_PURPOSE = [
    ("test_atomic", r"unsupported_dtypes", "atomic operations are there for 8 and 16 bits and for `float16` too"),
    (
        "test_types|test_lvalue|test_array|test_func|test_launch|test_struct",
        r"composite_types_repr|swizzle_error_invalid|view_cpu|native_function_error|scalar_to_composite",
        "`vec3f` is `vec3` in messages, and components print as Python's numbers",
    ),
    ("test_types", r"constant_error", "`constant` takes any value: a kernel that cannot use it says so"),
    ("test_types", r"float_overflow", "comparisons are of numbers as in Python, whatever their size"),
    ("test_types", r"numpy_dtype_metadata", "`bfloat16` has a NumPy type where `ml_dtypes` is installed"),
    (
        "test_builtins_resolution",
        r"int_",
        "outside kernels a Python integer takes the type of what it meets, and is an error if it does not fit",
    ),
    ("test_modules_lite", r"load_no|load_nonexistent", "`load_module` has nothing to load"),
    (
        "test_utils|test_runlength_encode",
        r"unsupported_dtype|sort_pairs_error_non_contiguous",
        "functions of arrays take all types that make sense",
    ),
    ("test_ref", r"backward|constant_local|refness", "references are differentiated, and may be constants"),
    (
        "test_overwrite",
        r"warning|write",
        "`verify_autograd_array_access` does nothing: a tape keeps what is overwritten, and gradients are right",
    ),
    ("test_large", r"excessive", "arrays have as many elements as memory has place for"),
    (
        "interop.test_dlpack",
        r"jax",
        "memory that JAX says is read-only is not written, and arrays over it are not passed on as writable",
    ),
    (
        "test_array|test_fixedarray",
        r"array_from_ptr|fixedarray_ptr",
        "`array(ptr=…)` in a kernel is refused, because nothing can check it",
    ),
    ("test_array", r"to_list_(vector|matrix)", "vectors and matrices own an array of NumPy's, and are none of ctypes"),
    (
        "test_array|test_tape",
        r"retain_grad|copy_adjoint",
        "gradients of overwritten and overlapping arrays are right; `retain_grad` keeps that of the last value",
    ),
    ("test_tape", r"no_nested_tapes", "tapes may be nested: both record"),
    ("test_tape", r"nonempty_scope_markers", "`launches` is a copy, which a program cannot add to"),
    (
        "test_copy",
        r"invalid_args|offset_unsupported",
        "`copy` converts between element types, and takes offsets and counts of arrays of any layout",
    ),
    ("test_arithmetic", r"binary_ops", "`x % y` has the derivative `-trunc(x / y)` with respect to `y`; Warp has 0"),
    ("matrix.test_mat", r"slicing_assign_backward", "components that are overwritten pass no gradient on"),
    (
        "test_codegen|test_ref",
        r"user_operator",
        "a function named `add` or `sub` changes no operator",
    ),
    ("test_codegen", r"multiple_return_values", "`svd3` is right to rounding; Warp's is a few 10⁻⁴ off"),
    ("test_codegen", r"rebind_function_local_errors", "a name may stand for one function after another"),
    (
        "test_codegen|test_vec_constructors|test_spatial",
        r"error_mutating_constant|error_unmatched|anon_constructor_error_numeric_args_mismatch|copy_dtype_mismatch",
        "a literal takes the type of what it meets, a variable may begin with one, and transforms are converted",
    ),
    ("test_composite_component_adjoint", r"multiply_assign", "`*=` of a component is differentiated"),
    ("test_reload", r"", "a kernel of a file that was edited after it was loaded is refused by name"),
    ("test_options", r"backward", "`enable_backward` changes nothing: gradients are there"),
    (
        "test_codegen|test_compile_consts|test_struct",
        r"invalid_namespace|unknown_attribute|attribute_error",
        "`CompileError` is a `SyntaxError`, and Python lets none be an `AttributeError` too",
    ),
    ("test_print", r"print_cpu|print_numeric|variadic", "numbers print as in Python, `17.0`, and any number of them"),
]


def why_on_purpose(module: str, test: str) -> str:
    """Why the result of a test differs on purpose; nothing if it does not."""
    for of_module, of_test, reason in ON_PURPOSE:
        if re.fullmatch(of_module, module) and re.search(of_test, test):
            return reason
    return ""


def reason_of(text: str, internals: set[str]) -> str:
    """Why a test of this text is out of scope; nothing if it is in scope. `internals` are names from `warp._src`."""
    for reason, pattern in REASONS:
        if re.search(pattern, text):
            return reason
    for path in re.findall(r"\bwarp\._src\.([\w.]+)|\bwp\._src\.([\w.]+)", text):
        parts = (path[0] or path[1]).split(".")
        if not PUBLIC_INTERNALS.intersection(parts[1:2]):
            return "Warp's internals"
    used = internals - PUBLIC_INTERNALS
    if used and re.search(rf"\b({'|'.join(sorted(used))})\b", text):
        return "Warp's internals"
    return ""


class ModuleText:
    """The text of a test module: of each definition, with what it refers to."""

    def __init__(self, text: str) -> None:
        self.lines = text.splitlines(keepends=True)
        self.definitions: dict[str, list[ast.stmt]] = {}
        self.internals: set[str] = set()
        for statement in ast.parse(text).body:
            if isinstance(statement, (ast.Import, ast.ImportFrom)):
                module = getattr(statement, "module", None) or statement.names[0].name
                if module.startswith("warp._src"):
                    self.internals |= {name.asname or name.name for name in statement.names}
                continue
            for name in bound_names(statement):
                self.definitions.setdefault(name, []).append(statement)
        self.methods = {
            f"{name}.{method.name}": method
            for name, statements in self.definitions.items()
            for statement in statements
            if isinstance(statement, ast.ClassDef)
            for method in statement.body
            if isinstance(method, (ast.FunctionDef, ast.AsyncFunctionDef))
        }

    def segment(self, node: ast.stmt) -> str:
        first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", []))])
        return "".join(self.lines[first - 1 : node.end_lineno])

    def closure(self, roots: list[ast.stmt]) -> str:
        """The text of these statements and of the definitions that they refer to, over any number of steps."""
        todo, seen, texts = list(roots), set(), []
        while todo:
            node = todo.pop()
            if id(node) in seen:
                continue
            seen.add(id(node))
            texts.append(self.segment(node))
            for each in ast.walk(node):
                if isinstance(each, ast.Name):
                    for found in self.definitions.get(each.id, ()):
                        if not (isinstance(found, ast.ClassDef) and found.name.startswith("Test")):
                            todo.append(found)
        return "".join(texts)

    def of_test(self, class_name: str, method: str, function: str) -> str:
        """The text of a test: of a method, or of the function or kernel that was registered under its name."""
        node = self.methods.get(f"{class_name}.{method}")
        if node is None:
            return self.closure(self.definitions.get(function, []))
        # With the methods of its class that it calls.
        found, todo = [], [node]
        while todo:
            here = todo.pop()
            found.append(here)
            for each in ast.walk(here):
                if isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name) and each.value.id == "self":
                    called = self.methods.get(f"{class_name}.{each.attr}")
                    if called is not None and called not in found and called not in todo:
                        todo.append(called)
        return self.closure(found)


def bound_names(statement: ast.stmt) -> list[str]:
    """The names that a statement of a module binds."""
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)):
        return [statement.name]
    return [each.id for each in ast.walk(statement) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)]

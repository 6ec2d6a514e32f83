//! NumPy's functions, operators, methods and attributes that are captured, each with the op that it is.
//!
//! The guide's list of what is captured is this table. A form is here if the op computes the same values; that types and
//! shapes of results are NumPy's own is checked for each plan, by asking NumPy.
//!
//! Parameters read from left to right, as NumPy takes them by position: `a=x` is NumPy's `a` and the op's `x`; `=x` cannot be
//! passed by name; `axis` is the same for both; a `?` at the end means that it may be left out; `-` is a parameter that is not
//! captured; those after `*` are passed by name alone; and `*=axes` collects all that follow into a tuple.

use std::fmt::Write as _;

/// The syntax by which a program calls a form.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NumpySyntax {
    /// A function of NumPy: `np.exp(x)`.
    Function,
    /// A function of Python: `abs(x)`.
    Builtin,
    /// An operator: `a + b`. The name is that of the function in the module `operator`.
    Operator(&'static str),
    /// A method of an array: `x.sum()`.
    Method,
    /// An attribute of an array: `x.T`.
    Attribute,
    /// Basic indexing with literals: `x[1:, :-1]`.
    Subscript,
}

/// A form that is captured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NumpyForm {
    /// The syntax.
    pub syntax: NumpySyntax,
    /// The name in NumPy, or in the module `operator`.
    pub name: &'static str,
    /// The name of the op.
    pub op: &'static str,
    /// The parameters.
    pub parameters: &'static str,
}

/// The ops whose results are views in NumPy.
const VIEWS: [&str; 4] = ["reshape", "transpose", "permute", "slice"];

const ONE: &str = "=x";
const TWO: &str = "=a =b";
const REDUCED: &str = "a=x axis=axes? - - keepdims?";
const EXTREME: &str = "a=x axis=axes? - keepdims?";
const INDEX: &str = "a=x axis? - * keepdims?";
const SPREAD: &str = "a=x axis=axes? - - ddof=correction? keepdims?";

const fn form(syntax: NumpySyntax, name: &'static str, op: &'static str, parameters: &'static str) -> NumpyForm {
    NumpyForm { syntax, name, op, parameters }
}

const fn function(name: &'static str, op: &'static str, parameters: &'static str) -> NumpyForm {
    form(NumpySyntax::Function, name, op, parameters)
}

const fn method(name: &'static str, op: &'static str, parameters: &'static str) -> NumpyForm {
    form(NumpySyntax::Method, name, op, parameters)
}

const fn operator(symbol: &'static str, name: &'static str, op: &'static str, parameters: &'static str) -> NumpyForm {
    form(NumpySyntax::Operator(symbol), name, op, parameters)
}

/// All forms.
pub const NUMPY_FORMS: &[NumpyForm] = &[
    operator("+", "add", "add", TWO),
    operator("-", "sub", "subtract", TWO),
    operator("*", "mul", "multiply", TWO),
    operator("/", "truediv", "divide", TWO),
    operator("//", "floordiv", "floor_divide", TWO),
    operator("%", "mod", "remainder", TWO),
    operator("**", "pow", "power", TWO),
    operator("@", "matmul", "matmul", TWO),
    operator("&", "and_", "bitwise_and", TWO),
    operator("|", "or_", "bitwise_or", TWO),
    operator("^", "xor", "bitwise_xor", TWO),
    operator("==", "eq", "equal", TWO),
    operator("!=", "ne", "not_equal", TWO),
    operator("<", "lt", "less", TWO),
    operator("<=", "le", "less_equal", TWO),
    operator(">", "gt", "greater", TWO),
    operator(">=", "ge", "greater_equal", TWO),
    operator("-", "neg", "negative", ONE),
    operator("~", "invert", "invert", ONE),
    form(NumpySyntax::Builtin, "abs", "absolute", ONE),
    function("add", "add", TWO),
    function("subtract", "subtract", TWO),
    function("multiply", "multiply", TWO),
    function("divide", "divide", TWO),
    function("true_divide", "divide", TWO),
    function("floor_divide", "floor_divide", TWO),
    function("remainder", "remainder", TWO),
    function("mod", "remainder", TWO),
    function("power", "power", TWO),
    function("matmul", "matmul", TWO),
    function("maximum", "maximum", TWO),
    function("minimum", "minimum", TWO),
    function("arctan2", "atan2", TWO),
    function("hypot", "hypot", TWO),
    function("copysign", "copysign", TWO),
    function("equal", "equal", TWO),
    function("not_equal", "not_equal", TWO),
    function("less", "less", TWO),
    function("less_equal", "less_equal", TWO),
    function("greater", "greater", TWO),
    function("greater_equal", "greater_equal", TWO),
    function("logical_and", "logical_and", TWO),
    function("logical_or", "logical_or", TWO),
    function("logical_xor", "logical_xor", TWO),
    function("bitwise_and", "bitwise_and", TWO),
    function("bitwise_or", "bitwise_or", TWO),
    function("bitwise_xor", "bitwise_xor", TWO),
    function("logical_not", "logical_not", ONE),
    function("invert", "invert", ONE),
    function("bitwise_not", "invert", ONE),
    function("negative", "negative", ONE),
    function("absolute", "absolute", ONE),
    function("abs", "absolute", ONE),
    function("sign", "sign", ONE),
    function("square", "square", ONE),
    function("reciprocal", "reciprocal", ONE),
    function("sqrt", "sqrt", ONE),
    function("cbrt", "cbrt", ONE),
    function("exp", "exp", ONE),
    function("exp2", "exp2", ONE),
    function("expm1", "expm1", ONE),
    function("log", "log", ONE),
    function("log2", "log2", ONE),
    function("log10", "log10", ONE),
    function("log1p", "log1p", ONE),
    function("sin", "sin", ONE),
    function("cos", "cos", ONE),
    function("tan", "tan", ONE),
    function("arcsin", "asin", ONE),
    function("arccos", "acos", ONE),
    function("arctan", "atan", ONE),
    function("asin", "asin", ONE),
    function("acos", "acos", ONE),
    function("atan", "atan", ONE),
    function("sinh", "sinh", ONE),
    function("cosh", "cosh", ONE),
    function("tanh", "tanh", ONE),
    function("arcsinh", "asinh", ONE),
    function("arccosh", "acosh", ONE),
    function("arctanh", "atanh", ONE),
    function("floor", "floor", ONE),
    function("ceil", "ceil", ONE),
    function("trunc", "trunc", ONE),
    function("rint", "round", ONE),
    function("isnan", "isnan", ONE),
    function("isinf", "isinf", ONE),
    function("isfinite", "isfinite", ONE),
    function("where", "where", "=condition =a =b"),
    function("clip", "clip", "a=x a_min=lower a_max=upper"),
    function("sum", "sum", REDUCED),
    function("prod", "prod", REDUCED),
    function("mean", "mean", REDUCED),
    function("var", "var", SPREAD),
    function("std", "std", SPREAD),
    function("max", "max", EXTREME),
    function("amax", "max", EXTREME),
    function("min", "min", EXTREME),
    function("amin", "min", EXTREME),
    function("all", "all", EXTREME),
    function("any", "any", EXTREME),
    function("argmax", "argmax", INDEX),
    function("argmin", "argmin", INDEX),
    function("cumsum", "cumsum", "a=x axis"),
    function("cumprod", "cumprod", "a=x axis"),
    function("reshape", "reshape", "a=x shape"),
    function("transpose", "transpose", "a=x"),
    function("transpose", "permute", "a=x axes"),
    function("swapaxes", "transpose", "a=x axis1 axis2"),
    method("sum", "sum", REDUCED),
    method("prod", "prod", REDUCED),
    method("mean", "mean", REDUCED),
    method("var", "var", SPREAD),
    method("std", "std", SPREAD),
    method("max", "max", EXTREME),
    method("min", "min", EXTREME),
    method("all", "all", EXTREME),
    method("any", "any", EXTREME),
    method("argmax", "argmax", INDEX),
    method("argmin", "argmin", INDEX),
    method("cumsum", "cumsum", "a=x axis"),
    method("cumprod", "cumprod", "a=x axis"),
    method("clip", "clip", "=x min=lower max=upper"),
    method("astype", "cast", "=x dtype"),
    method("reshape", "reshape", "=x *=shape"),
    method("transpose", "transpose", "=x"),
    method("transpose", "permute", "=x *=axes"),
    method("swapaxes", "transpose", "=x =axis1 =axis2"),
    form(NumpySyntax::Attribute, "T", "transpose", ONE),
    form(NumpySyntax::Subscript, "[]", "slice", ONE),
];

impl NumpyForm {
    /// Returns the dotted path by which plans name the form.
    pub fn path(&self) -> String {
        let module = match self.syntax {
            NumpySyntax::Function => "numpy",
            NumpySyntax::Builtin => "builtins",
            NumpySyntax::Operator(_) => "operator",
            NumpySyntax::Method => "ndarray",
            NumpySyntax::Attribute => "ndarray.attribute",
            NumpySyntax::Subscript => return "operator.getitem".to_owned(),
        };
        format!("{module}.{}", self.name)
    }

    /// Returns the form as the program writes it.
    pub fn label(&self) -> String {
        match self.syntax {
            NumpySyntax::Function => format!("np.{}", self.name),
            NumpySyntax::Builtin | NumpySyntax::Subscript => self.name.to_owned(),
            NumpySyntax::Operator(symbol) => symbol.to_owned(),
            NumpySyntax::Method | NumpySyntax::Attribute => format!(".{}", self.name),
        }
    }

    /// True if a result shares memory with the argument in NumPy, or may.
    pub fn is_view(&self) -> bool {
        VIEWS.contains(&self.op)
    }

    /// Returns the op's parameter of each argument, positional ones before those by name; nothing if the form does not take
    /// them. The array of a method is its first argument.
    pub fn match_arguments(&self, n_positional: usize, keywords: &[&str]) -> Option<Vec<&'static str>> {
        let mut matched: Vec<&'static str> = Vec::new();
        let mut named: Vec<(&str, &'static str)> = Vec::new();
        let mut required: Vec<&'static str> = Vec::new();
        let mut is_by_name = false;
        for parameter in self.parameters.split(' ') {
            let is_optional = parameter.ends_with('?');
            let parameter = parameter.trim_end_matches('?');
            let has_place = matched.len() < n_positional && !is_by_name;
            let (name, own) = parameter.split_once('=').unwrap_or((parameter, parameter));
            match name {
                "*" if parameter == "*" => is_by_name = true,
                "*" => {
                    while matched.len() < n_positional {
                        matched.push(own);
                    }
                    required.push(own);
                }
                "-" if has_place => return None,
                "-" => {}
                _ => {
                    if has_place {
                        matched.push(own);
                    } else if !name.is_empty() {
                        named.push((name, own));
                    }
                    if !is_optional {
                        required.push(own);
                    }
                }
            }
        }
        if matched.len() != n_positional {
            return None;
        }
        for keyword in keywords {
            matched.push(named.iter().find(|(name, _)| name == keyword)?.1);
        }
        required.iter().all(|own| matched.contains(own)).then_some(matched)
    }
}

/// Finds the forms with a syntax and a name, of which the arguments tell the one that is meant.
pub(crate) fn forms_of(matches: impl Fn(NumpySyntax) -> bool, name: &str) -> impl Iterator<Item = &'static NumpyForm> {
    NUMPY_FORMS.iter().filter(move |form| form.name == name && matches(form.syntax))
}

/// A row of the guide's list: a title, and which forms it has.
type FormRow = (&'static str, fn(NumpySyntax) -> bool);

/// Returns the part of the guide that lists the forms.
pub fn numpy_forms_text() -> String {
    let mut text = String::new();
    let rows: [FormRow; 4] = [
        ("Functions", |syntax| syntax == NumpySyntax::Function),
        ("Operators", |syntax| matches!(syntax, NumpySyntax::Operator(_) | NumpySyntax::Builtin)),
        ("Methods and attributes", |syntax| matches!(syntax, NumpySyntax::Method | NumpySyntax::Attribute)),
        ("Indexing", |syntax| syntax == NumpySyntax::Subscript),
    ];
    for (title, is_row) in rows {
        let mut labels: Vec<String> = Vec::new();
        for form in NUMPY_FORMS.iter().filter(|form| is_row(form.syntax)) {
            let label = match form.syntax {
                NumpySyntax::Builtin => "`abs(x)`".to_owned(),
                NumpySyntax::Subscript => "`x[1:, None, ..., ::2, 0]`, of literals".to_owned(),
                NumpySyntax::Operator(symbol) if form.parameters == ONE => format!("`{symbol}x`"),
                _ => format!("`{}`", form.label()),
            };
            if !labels.contains(&label) {
                labels.push(label);
            }
        }
        let _ = writeln!(text, "- {title}: {}", labels.join(", "));
    }
    text
}

//! Python's own functions and types, and what they do with their arguments.

use super::object::ContainerKind;

/// The effect of a builtin on its arguments.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum BuiltinEffect {
    /// Looks at references and types, not at contents, and makes a number or truth value.
    Identity,
    /// Reads contents, and makes a number or text.
    Reads,
    /// Iterates, and makes a number, a text or one of the elements.
    Selects,
    /// Iterates, and makes a container of the elements.
    Collects(ContainerKind),
    /// Makes a range of numbers.
    Range,
    /// Reaches every name.
    Dynamic,
    /// Is not known.
    Unknown,
}

/// Python's own functions and types, with their effects. Those with `Unknown` are here so that their names resolve.
const BUILTINS: [(&str, BuiltinEffect); 62] = {
    use BuiltinEffect::{Collects, Dynamic, Identity, Range, Reads, Selects, Unknown};
    use ContainerKind::{Dict, Iterator, List, Set, Tuple};
    [
        ("abs", Reads),
        ("all", Selects),
        ("any", Selects),
        ("ascii", Reads),
        ("bin", Reads),
        ("bool", Reads),
        ("breakpoint", Dynamic),
        ("bytes", Reads),
        ("callable", Identity),
        ("chr", Reads),
        ("classmethod", Unknown),
        ("compile", Unknown),
        ("complex", Reads),
        ("delattr", Unknown),
        ("dict", Collects(Dict)),
        ("dir", Dynamic),
        ("divmod", Reads),
        ("enumerate", Collects(Iterator)),
        ("eval", Dynamic),
        ("exec", Dynamic),
        ("filter", Unknown),
        ("float", Reads),
        ("format", Reads),
        ("frozenset", Collects(Set)),
        ("getattr", Unknown),
        ("globals", Dynamic),
        ("hasattr", Identity),
        ("hash", Reads),
        ("hex", Reads),
        ("id", Identity),
        ("input", Unknown),
        ("int", Reads),
        ("isinstance", Identity),
        ("issubclass", Identity),
        ("iter", Collects(Iterator)),
        ("len", Identity),
        ("list", Collects(List)),
        ("locals", Dynamic),
        ("map", Unknown),
        ("max", Selects),
        ("min", Selects),
        ("next", Unknown),
        ("object", Unknown),
        ("open", Unknown),
        ("ord", Reads),
        ("pow", Reads),
        ("print", Reads),
        ("property", Unknown),
        ("range", Range),
        ("repr", Reads),
        ("reversed", Collects(Iterator)),
        ("round", Reads),
        ("set", Collects(Set)),
        ("setattr", Unknown),
        ("sorted", Collects(List)),
        ("str", Reads),
        ("sum", Selects),
        ("super", Unknown),
        ("tuple", Collects(Tuple)),
        ("type", Identity),
        ("vars", Dynamic),
        ("zip", Collects(Iterator)),
    ]
};

pub(super) fn is_python_builtin(name: &str) -> bool {
    let is_exception = name.ends_with("Error") || name.ends_with("Exception") || name.ends_with("Warning");
    is_exception || BUILTINS.iter().any(|(known, _)| *known == name) || name == "__import__"
}

pub(super) fn effect_of(name: &str) -> BuiltinEffect {
    let found = BUILTINS.iter().find(|(known, _)| *known == name);
    found.map_or(BuiltinEffect::Unknown, |(_, effect)| *effect)
}

//! What names mean inside a function: its variables first, then what surrounds it, then Python's builtins.

use super::component_expr::composite_constant;
use super::function::{FunctionChecker, NameMeaning};
use crate::environment::CapturedMeaning;
use crate::function_info::{FunctionInfo, FunctionRole};
use crate::members;
use crate::number::PythonNumber;
use crate::package_names::{PACKAGES, package_members};
use crate::typed_ast::{ExprKind, ExprType, LocalId, TypedExpr};
use polyloom_ir::diagnostic::near_names;
use polyloom_ir::{Code, Diagnostic, FunctionKind, Scalar, Span, Type};
use ruff_python_ast as ast;
use smallvec::SmallVec;

impl<'a> FunctionChecker<'_, '_, 'a> {
    /// The name the file imports the package by, for messages.
    pub(super) fn package(&self) -> &'a str {
        self.unit.package(self.function).unwrap_or("loom")
    }

    /// A type as this file writes it: `float`, `wp.float64`.
    pub(super) fn type_text(&self, scalar: Scalar) -> String {
        match scalar {
            Scalar::F32 => "float".to_owned(),
            Scalar::I32 => "int".to_owned(),
            Scalar::Bool => "bool".to_owned(),
            _ => format!("{}.{}", self.package(), scalar.python_name()),
        }
    }

    /// The meaning of a path whose root is not a variable of the function.
    pub(super) fn capture(&mut self, path: &[&'a str]) -> Option<CapturedMeaning> {
        let key = SmallVec::<[&'a str; 4]>::from_slice(path);
        if let Some(known) = self.captured.get(&key) {
            return known.clone();
        }
        let found = self.environment.lookup(path).or_else(|| match path {
            [name] => members::python_builtin(name),
            _ => None,
        });
        let found = self.itself(path, &found).or(found);
        self.captured.insert(key, found.clone());
        found
    }

    /// Returns what a function's own name means inside it: the function, beside what it is an overload of. Live
    /// surroundings do not know that yet while the function is decorated: they hold nothing of the name, or what it
    /// will replace.
    fn itself(&self, path: &[&str], found: &Option<CapturedMeaning>) -> Option<CapturedMeaning> {
        let own = &self.compilation.stack.last().filter(|_| self.kind == FunctionKind::Func)?.handle;
        let info = own.unit.functions().get(own.function)?;
        let ([name], true) = (path, info.sees_itself) else { return None };
        if *name != &*info.name {
            return None;
        }
        let mut handles = match found {
            Some(CapturedMeaning::Function(handles)) => handles.clone(),
            _ => Vec::new(),
        };
        if handles.iter().all(|handle| handle.identity() != own.identity()) {
            handles.retain(|earlier| !own.replaces(earlier));
            handles.push(own.clone());
        }
        Some(CapturedMeaning::Function(handles))
    }

    /// Returns true if a name is a variable of the function.
    pub(super) fn is_variable(&self, name: &str) -> bool {
        self.names.contains_key(name)
    }

    /// A name used as a value.
    pub(super) fn name(&mut self, name: &'a ast::ExprName) -> TypedExpr {
        let span = self.span(name);
        let text = name.id.as_str();
        match self.names.get(text) {
            Some(NameMeaning::Local(id)) => self.read_local(*id, span),
            Some(NameMeaning::Struct(_)) => match self.place_named(text, span) {
                Some(place) => self.read_place(place),
                None => TypedExpr::error(span),
            },
            Some(NameMeaning::Poisoned) => TypedExpr::error(span),
            Some(NameMeaning::View(index)) => TypedExpr { span, ..self.views[*index].clone() },
            Some(NameMeaning::Known(index)) => {
                let what = self.known[*index].clone();
                self.value_of(what, text, span)
            }
            Some(NameMeaning::Diverged) => {
                let message =
                    format!("`{text}` stands for different arrays, or parts of them, on different paths to this use");
                self.reject(Code::BadAssignment, span, message, "use a variable of another name in each branch");
                TypedExpr::error(span)
            }
            Some(NameMeaning::Later(assigned)) => {
                let assigned = *assigned;
                self.read_before_assignment(text, span, assigned)
            }
            None => self.captured_value(&[text], span),
        }
    }

    pub(super) fn read_local(&mut self, id: LocalId, span: Span) -> TypedExpr {
        let set = self.flow.set.contains(id) || !self.flow.reachable;
        let local = &mut self.locals[id.0 as usize];
        local.first_read = local.first_read.min(span.start);
        local.last_read = local.last_read.max(span.start);
        let ty = local.ty;
        if !set && !self.is_zero_where_unset(id, span) {
            let local = &self.locals[id.0 as usize];
            // The variable it is in of a leaf.
            let name = local.name.split('.').next().unwrap_or_default().to_owned();
            let first = local.span;
            self.report(
                Diagnostic::error(Code::MaybeUnset, span, format!("`{name}` is not set on every path to this use"))
                    .label(first, "it is set here")
                    .help(format!("give `{name}` a value before the branch or loop that sets it")),
            );
            // It counts as set from here on, so that there is one message for each variable.
            self.flow.set.insert(id);
            return TypedExpr::error(span);
        }
        self.own_array(id, span).unwrap_or_else(|| TypedExpr::new(ExprKind::Local(id), ExprType::Value(ty), span))
    }

    fn read_before_assignment(&mut self, name: &'a str, span: Span, assigned: Span) -> TypedExpr {
        let captured = self.capture(&[name]);
        let diagnostic = match captured {
            Some(
                CapturedMeaning::Bool(_)
                | CapturedMeaning::Int(_)
                | CapturedMeaning::Float(_)
                | CapturedMeaning::Constant(..)
                | CapturedMeaning::CompositeConstant(..)
                | CapturedMeaning::StructConstant(..)
                | CapturedMeaning::Text(_)
                | CapturedMeaning::Unsupported(_)
                | CapturedMeaning::Unknown(_),
            ) => {
                let message = format!("`{name}` is a constant from outside and cannot be assigned");
                let diagnostic = Diagnostic::error(Code::CapturedMutation, assigned, message);
                let diagnostic =
                    if assigned == span { diagnostic } else { diagnostic.label(span, "its value is used here") };
                diagnostic.help(format!("use a variable of another name: `my_{name} = {name}`"))
            }
            _ => Diagnostic::error(Code::MaybeUnset, span, format!("`{name}` is used before it is set"))
                .label(assigned, "it is set here")
                .help(format!("give `{name}` a value before this")),
        };
        self.report(diagnostic);
        self.names.insert(name, NameMeaning::Poisoned);
        TypedExpr::error(span)
    }

    /// A captured name, or path, used as a value.
    pub(super) fn captured_value(&mut self, path: &[&'a str], span: Span) -> TypedExpr {
        match self.capture(path) {
            Some(captured) => self.value_of(captured, &path.join("."), span),
            None => self.unknown(path, span),
        }
    }

    /// Returns what `name` stands for, used as a value.
    pub(super) fn value_of(&mut self, captured: CapturedMeaning, name: &str, span: Span) -> TypedExpr {
        match captured {
            CapturedMeaning::Bool(value) => TypedExpr::constant(value.into(), Scalar::Bool, span),
            CapturedMeaning::Int(value) => number(PythonNumber::Int(value), span),
            CapturedMeaning::Float(value) => number(PythonNumber::Float(value), span),
            CapturedMeaning::Constant(bits, scalar) => TypedExpr::constant(bits, scalar, span),
            CapturedMeaning::CompositeConstant(bits, composite) => {
                let value = composite_constant(&bits, composite, span);
                let ty = value.ty.clone();
                TypedExpr::new(ExprKind::Named(name.into(), Box::new(value)), ty, span)
            }
            CapturedMeaning::StructConstant(bits, of) => super::structure::struct_constant(&bits, of, span),
            CapturedMeaning::Absent(sentence) => self.reject_absent(&sentence, span),
            other => {
                let help = match &other {
                    CapturedMeaning::Type(_) => format!("call it to convert a value: `{name}(x)`"),
                    CapturedMeaning::Struct(_) => format!("call it to make one: `{name}()`"),
                    CapturedMeaning::Builtin(_) | CapturedMeaning::Function(_) => format!("call it: `{name}(…)`"),
                    CapturedMeaning::Module(_) => "use one of its members".to_owned(),
                    CapturedMeaning::Text(_) => {
                        "strings can only be printed, and only as literals: `print(\"text\", x)`".to_owned()
                    }
                    CapturedMeaning::Unsupported(ty) if &**ty == "ndarray" => {
                        "arrays of up to 1024 numbers in one or two dimensions are constants of kernels; pass this one as a \
                         parameter"
                            .to_owned()
                    }
                    CapturedMeaning::Unknown(what) if what.contains("when the program runs") => {
                        "nothing of the file is run here: write the value as a constant, or use the file from Python".to_owned()
                    }
                    _ => "kernels can use numbers, bools and vectors from outside; pass anything else as a parameter"
                        .to_owned(),
                };
                let message = format!("`{name}` is {}, which is not a value in a kernel", other.describe());
                self.reject(Code::BadCapture, span, message, help)
            }
        }
    }

    /// Reports a part of Warp that there is not here.
    pub(super) fn reject_absent(&mut self, sentence: &str, span: Span) -> TypedExpr {
        self.reject(
            Code::UnknownBuiltin,
            span,
            sentence,
            "the language is the core of Warp's; docs/warp.md has its bounds",
        )
    }

    /// Reports a path that means nothing.
    pub(super) fn unknown(&mut self, path: &[&'a str], span: Span) -> TypedExpr {
        let name = path.join(".");
        let (last, owner) = match path {
            [one] => (*one, None),
            [owner @ .., last] => (*last, self.capture(owner)),
            [] => return TypedExpr::error(span),
        };
        match owner {
            Some(CapturedMeaning::Module(module)) if PACKAGES.contains(&&*module) => {
                let members = package_members();
                // `cosine` is far from `cos` letter by letter, but begins with it.
                let begins = |m: &&str| m.len() >= 3 && (last.starts_with(*m) || m.starts_with(last));
                let near = near_names(last, members.iter().copied());
                let begun = members.iter().copied().filter(begins).max_by_key(|m| m.len());
                let owner = path[..path.len() - 1].join(".");
                let help = if last == "zeros" {
                    format!("give it a name of its own first: `a = {name}(shape=3, dtype=float)`")
                } else if members::makes_arrays(last) {
                    "make arrays outside the kernel, and pass them as parameters".to_owned()
                } else if members::python_builtin(last).is_some() {
                    format!("write `{last}`")
                } else if let Some(known) = members::other_name(last) {
                    format!("write `{owner}.{known}`")
                } else if let Some(what) = members::left_out(last) {
                    format!("the language is the core of Warp's, without {what}")
                } else if let Some(help) = members::instead_of_python(last, &owner) {
                    help
                } else {
                    match near.first().copied().or(begun) {
                        Some(near) => format!("did you mean `{owner}.{near}`?"),
                        None => "the builtin reference lists what there is".to_owned(),
                    }
                };
                self.reject(Code::UnknownBuiltin, span, format!("there is no builtin `{name}`"), help)
            }
            Some(owner) => {
                let message = format!("{} has no member `{last}` that a kernel can use", owner.describe());
                let help = match owner {
                    CapturedMeaning::Module(module) if is_library(&module) => self.library_help(last),
                    _ => None,
                };
                let help = help.unwrap_or_else(|| "compute the value outside and capture or pass it".to_owned());
                self.reject(Code::UnknownName, span, message, help)
            }
            None if path.len() > 1 && self.capture(&path[..1]).is_some() => {
                let message = format!("`{name}` is not defined");
                let help = match self.capture(&path[..1]) {
                    Some(CapturedMeaning::Module(module)) if is_library(&module) => self.library_help(last),
                    _ => None,
                };
                let help = help.unwrap_or_else(|| "compute the value outside and capture or pass it".to_owned());
                self.reject(Code::UnknownName, span, message, help)
            }
            None => {
                let root = path[0];
                let surroundings =
                    if self.compilation.suggestions_left > 0 { self.environment.names() } else { Vec::new() };
                let variables = self.names.keys().copied();
                let known = variables.chain(members::PYTHON_BUILTINS).chain(surroundings.iter().map(String::as_str));
                let near = match self.compilation.suggestions_left.checked_sub(1) {
                    // None is suggested for a name of one letter, since each of these is near to every other.
                    Some(left) if root.chars().nth(1).is_some() => {
                        self.compilation.suggestions_left = left;
                        near_names(root, known).first().copied().map(str::to_owned)
                    }
                    _ => None,
                };
                let later =
                    |f: &FunctionInfo| f.role != Some(FunctionRole::Kernel) && *f.name == *root && f.start > span.start;
                let python = members::instead_of_python(root, self.package());
                let message = match python {
                    Some(_) => format!("Python's `{root}` is not available in a kernel"),
                    None => format!("`{root}` is not defined"),
                };
                let help = match near {
                    _ if let Some(help) = python => help,
                    _ if let Some(help) = self.library_import(path) => help,
                    _ if self.is_missing_tid(root) => {
                        format!("write `{root} = {}.tid()` before its use", self.package())
                    }
                    _ if self.unit.functions().iter().any(later) => {
                        format!("define `{root}` above; functions cannot call one another in a circle")
                    }
                    _ if members::package_member(root).is_some() => {
                        format!("did you mean `{}.{root}`?", self.package())
                    }
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("assign `{root}` before its use, or define it outside the kernel"),
                };
                // In the source a name may be longer than it is here, because identifiers are normalised (NFKC).
                let text = self.text_of(span);
                let length = text.find(|c: char| !c.is_alphanumeric() && c != '_').filter(|&length| length > 0);
                let end = length.map_or(span.end, |length| span.start + length as u32);
                let root_span = Span::new(span.file, span.start, end);
                // The name is poisoned, so that there is one message for each name.
                self.names.insert(root, NameMeaning::Poisoned);
                self.reject(Code::UnknownName, root_span, message, help)
            }
        }
    }

    /// Returns what to write for the member of this name of `math` or NumPy that kernels do not have.
    fn library_help(&self, name: &str) -> Option<String> {
        let package = self.package();
        if members::makes_arrays(name) {
            return Some("make arrays outside the kernel, and pass them as parameters".to_owned());
        }
        let own = members::other_name(name).unwrap_or(name);
        match members::package_member(own) {
            Some(CapturedMeaning::Builtin(_)) => Some(format!("write `{package}.{own}`")),
            _ => members::instead_of_python(name, package),
        }
    }

    /// Returns what to write for a path into a library that the file does not import.
    fn library_import(&self, path: &[&str]) -> Option<String> {
        let [root, name] = path[..] else { return None };
        match root {
            "math" => Some("write `import math` at the top of the file".to_owned()),
            "np" | "numpy" => self.library_help(name),
            _ => None,
        }
    }

    /// Returns true if a name is one that kernels give to their thread's number, in a kernel that does not ask for it.
    fn is_missing_tid(&self, name: &str) -> bool {
        self.kind == FunctionKind::Kernel
            && matches!(name, "i" | "j" | "k" | "tid" | "idx")
            && !self.captured.keys().any(|path| path.last() == Some(&"tid"))
    }

    /// A variable's type.
    pub(super) fn local_type(&self, id: LocalId) -> Type {
        self.locals[id.0 as usize].ty
    }
}

/// Returns true if a module is `math` or NumPy, or inside it.
pub(super) fn is_library(module: &str) -> bool {
    matches!(module.split('.').next(), Some("math" | "numpy"))
}

/// A number without a type.
pub(super) fn number(number: PythonNumber, span: Span) -> TypedExpr {
    TypedExpr::new(ExprKind::Number(number), ExprType::Number, span)
}

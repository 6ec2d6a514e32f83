//! Infers what a `.loom` function leaves to its body and its callers: the types of results without types, of variables that
//! begin as plain numbers, and of type variables.
//!
//! A result has the type of what is stored there first. A variable that begins as a plain number has the type that it
//! meets: `var sum = 0.0` is of `f64` where products of `f64` are added to it. Both are found by checking the body, which
//! is checked again with what was found.

use super::SpecialisationArg;
use super::function::{FunctionChecker, NameMeaning};
use crate::environment::CapturedMeaning;
use crate::number::PythonNumber;
use crate::structure::ValueType;
use crate::typed_ast::{ExprKind, LocalId, TypedExpr};
use polyloom_ir::{Code, Diagnostic, Scalar, Span, Type};
use ruff_python_ast as ast;
use rustc_hash::FxHashMap;

/// The types that a body has shown.
#[derive(Clone, Default)]
pub(super) struct InferredTypes {
    /// Those of results, by the number of the parameter.
    pub(super) results: FxHashMap<usize, ValueType>,
    /// Those of variables that begin as plain numbers, by where these are declared.
    pub(super) numbers: FxHashMap<u32, Scalar>,
}

impl InferredTypes {
    pub(super) fn is_empty(&self) -> bool {
        self.results.is_empty() && self.numbers.is_empty()
    }

    /// Adds what another pass has shown. Results are taken only if all variables had their types, because these may be
    /// what is stored.
    pub(super) fn add(&mut self, found: InferredTypes) {
        if found.numbers.is_empty() {
            self.results.extend(found.results);
        }
        self.numbers.extend(found.numbers);
    }
}

impl<'a> FunctionChecker<'_, '_, 'a> {
    /// Returns true for the place of a result whose type is not known yet, which then is that of the value.
    pub(super) fn shows_type_of_result(&mut self, target: &'a ast::Expr, value: &TypedExpr) -> bool {
        let ast::Expr::Subscript(subscript) = target else { return false };
        let ast::Expr::Name(name) = &*subscript.value else { return false };
        let Some((_, param)) = self.awaited_results.iter().find(|(known, _)| *known == name.id.as_str()) else {
            return false;
        };
        let param = *param;
        let ndim = crate::annotation::elements(&subscript.slice).len();
        let elem = match (value.ty.full(), value.untyped()) {
            (Some(ty), _) => Some(ty),
            (None, Some(number)) => Some(ValueType::Plain(number.default_scalar().into())),
            _ => None,
        };
        let ty = match elem {
            Some(ValueType::Plain(elem)) => {
                u8::try_from(ndim).ok().and_then(|ndim| Type::array_of(elem, ndim)).map(ValueType::Plain)
            }
            Some(ValueType::Struct(elem)) => u8::try_from(ndim).ok().map(|ndim| ValueType::struct_array(elem, ndim)),
            _ => None,
        };
        if let Some(ty) = ty {
            self.found_types.results.entry(param).or_insert(ty);
        }
        true
    }

    /// Notes that a variable which began as a plain number meets a type.
    pub(super) fn shows_type_of_number(&mut self, local: LocalId, ty: Type) {
        let (Some((start, number)), Type::Scalar(scalar)) = (self.plain_numbers.get(&local), ty) else { return };
        if number.adapts_to(scalar) {
            self.found_types.numbers.entry(*start).or_insert(scalar);
        }
    }

    /// Notes the same for an operand and the type of the other.
    pub(super) fn operand_shows_type(&mut self, operand: &TypedExpr, other: Type) {
        if let ExprKind::Local(local) = operand.kind {
            self.shows_type_of_number(local, other);
        }
    }

    /// The first value of a variable, of the type that an earlier pass has shown.
    pub(super) fn as_shown(&mut self, value: TypedExpr, declared: Span) -> TypedExpr {
        match self.shown_types.numbers.get(&declared.start) {
            Some(scalar) => self.adapt(value, (*scalar).into()),
            None => value,
        }
    }

    /// Notes a variable that begins as a plain number.
    pub(super) fn begins_as_number(&mut self, local: LocalId, number: PythonNumber, declared: Span) {
        if self.unit.is_loom() && !self.shown_types.numbers.contains_key(&declared.start) {
            self.plain_numbers.insert(local, (declared.start, number));
        }
    }

    /// Gives type variables their meanings, and reports those that arguments disagree about.
    pub(super) fn type_variables(&mut self, def: &'a ast::StmtFunctionDef, given: &[SpecialisationArg]) {
        let unit = self.unit;
        let Some(function) = unit.loom_function(self.function) else { return };
        for (name, params) in &function.generics {
            let mut known: Option<(Type, &str)> = None;
            for index in params {
                let Some(parameter) = def.parameters.iter_non_variadic_params().nth(*index) else { continue };
                let elem = match given.get(*index) {
                    Some(SpecialisationArg::Value(ValueType::Plain(ty)) | SpecialisationArg::View(ty, _)) => {
                        ty.as_any_array().map_or(*ty, |(elem, _)| elem)
                    }
                    Some(SpecialisationArg::Own(array, _)) => array.elem,
                    _ => continue,
                };
                match known {
                    None => known = Some((elem, parameter.parameter.name.as_str())),
                    Some((same, _)) if same == elem => {}
                    Some((other, first)) => {
                        let span = self.span(parameter.parameter.name.range);
                        let (of, second) = (elem.python_name(), parameter.parameter.name.as_str());
                        let message =
                            format!("`{name}` is {} by `{first}` and {of} by `{second}`", other.python_name());
                        let help = "give arguments of one type, or use a type variable for each";
                        self.report(Diagnostic::error(Code::TypeMismatch, span, message).help(help));
                    }
                }
            }
            let meaning = known.map(|(ty, _)| CapturedMeaning::of_type(ty.into()));
            let meaning = match meaning {
                Some(meaning) => {
                    self.known.push(meaning);
                    NameMeaning::Known(self.known.len() - 1)
                }
                None => NameMeaning::Poisoned,
            };
            self.names.insert(name, meaning);
        }
    }

    /// The type of a result of which the text says the type by a type variable.
    pub(super) fn result_of_variable(&self, index: usize, ndim: u8) -> Option<ValueType> {
        let function = self.unit.loom_function(self.function)?;
        let (name, _) = function.generics.iter().find(|(_, params)| params.contains(&index))?;
        let Some(NameMeaning::Known(known)) = self.names.get(&**name) else { return None };
        let elem: Type = match &self.known[*known] {
            CapturedMeaning::Type(scalar) => (*scalar).into(),
            CapturedMeaning::Composite(composite) => Type::Composite(*composite),
            _ => return None,
        };
        Some(ValueType::Plain(Type::array_of(elem, ndim)?))
    }
}

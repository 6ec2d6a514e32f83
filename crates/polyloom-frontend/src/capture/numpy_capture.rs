//! Says what capture of NumPy's spelling takes for arrays.

use crate::SourceUnit;
use crate::dotted_path::dotted;
use polyloom_ir::Span;
use ruff_python_ast::Expr;
use rustc_hash::FxHashSet;
use std::sync::Arc;

/// Says what capture of NumPy's spelling takes for granted.
#[derive(Clone, Debug, Default)]
pub struct NumpyCapture {
    /// Parameters that are not taken to be arrays.
    pub others: FxHashSet<String>,
    /// Expressions that stay Python.
    pub(crate) left: Vec<Span>,
}

impl NumpyCapture {
    /// True if a decorator of a function of a file asks for NumPy's spelling, as `@loom.fuse(numpy=True)` does.
    pub fn is_asked_for(unit: &Arc<SourceUnit>, function: usize) -> bool {
        let Some(def) = unit.definition(function) else { return false };
        def.decorator_list.iter().filter_map(|decorator| decorator.expression.as_call_expr()).any(|call| {
            let is_fuse = dotted(&call.func).is_some_and(|path| path.last() == Some(&"fuse"));
            let is_true = |value: &Expr| value.as_boolean_literal_expr().is_some_and(|literal| literal.value);
            let mut keywords = call.arguments.keywords.iter();
            is_fuse
                && keywords
                    .any(|each| each.arg.as_ref().is_some_and(|name| name.as_str() == "numpy") && is_true(&each.value))
        })
    }

    /// Takes the parameters of a function of a file for arrays, unless a default or an annotation says otherwise.
    pub fn of_text(unit: &Arc<SourceUnit>, function: usize) -> NumpyCapture {
        let Some(def) = unit.definition(function) else { return NumpyCapture::default() };
        let is_number = |annotation: &Expr| {
            let name = annotation.as_name_expr();
            name.is_some_and(|name| matches!(name.id.as_str(), "int" | "float" | "bool" | "str" | "complex"))
        };
        let parameters =
            def.parameters.posonlyargs.iter().chain(&def.parameters.args).chain(&def.parameters.kwonlyargs);
        let others = parameters.filter(|parameter| {
            parameter.default.is_some() || parameter.parameter.annotation.as_deref().is_some_and(is_number)
        });
        NumpyCapture { others: others.map(|each| each.parameter.name.to_string()).collect(), left: Vec::new() }
    }
}

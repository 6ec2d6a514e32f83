//! Names followed by attributes, as paths.

use ruff_python_ast::Expr;

/// `a.b.c` as its parts, if the expression is a name followed by attributes.
pub(crate) fn dotted(expr: &Expr) -> Option<Vec<&str>> {
    let mut parts = Vec::new();
    let mut at = expr;
    loop {
        match at {
            Expr::Attribute(attribute) => {
                parts.push(attribute.attr.as_str());
                at = &attribute.value;
            }
            Expr::Name(name) => {
                parts.push(name.id.as_str());
                parts.reverse();
                return Some(parts);
            }
            _ => return None,
        }
    }
}

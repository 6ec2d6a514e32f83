//! `print` and `printf`: both become one C format and its operands.

use super::component_expr::component;
use super::element::count;
use super::function::FunctionChecker;
use super::temporaries::Temporaries;
use crate::environment::CapturedMeaning;
use crate::typed_ast::{ComponentIndex, StmtKind, TypedExpr, TypedStmt};
use polyloom_ir::format::{FormatPiece, MAX_WIDTH, pieces};
use polyloom_ir::{Code, Composite, Scalar, Span, Type};
use ruff_python_ast as ast;

impl<'a> FunctionChecker<'_, '_, 'a> {
    /// `print(a, b, sep=" ", end="\n")`.
    pub(super) fn print(&mut self, call: &'a ast::ExprCall, span: Span, out: &mut Vec<TypedStmt>) {
        let (mut separator, mut end) = (" ".to_owned(), "\n".to_owned());
        for keyword in &call.arguments.keywords {
            let text = match &keyword.value {
                ast::Expr::StringLiteral(text) => Some(escape(text.value.to_str())),
                _ => None,
            };
            match (keyword.arg.as_ref().map(|a| a.as_str()), text) {
                (Some("sep"), Some(text)) => separator = text,
                (Some("end"), Some(text)) => end = text,
                _ => {
                    let span = self.span(keyword);
                    self.reject(
                        Code::NoOverload,
                        span,
                        "`print` has no such argument in a kernel",
                        "it takes values, and string literals for `sep` and `end`",
                    );
                    return;
                }
            }
        }
        let mut format = String::new();
        let mut args = Vec::new();
        let mut failed = false;
        for (i, arg) in call.arguments.args.iter().enumerate() {
            if i > 0 {
                format.push_str(&separator);
            }
            if let ast::Expr::StringLiteral(text) = arg {
                format.push_str(&escape(text.value.to_str()));
                continue;
            }
            // Not every expression, because what is looked at is checked twice.
            if matches!(arg, ast::Expr::Name(_) | ast::Expr::Attribute(_) | ast::Expr::Call(_))
                && let Some(CapturedMeaning::Text(text)) = self.meaning(arg)
            {
                format.push_str(&escape(&text));
                continue;
            }
            let value = self.value(arg);
            match value.ty.as_value() {
                Some(Type::Scalar(_)) => {
                    format.push_str("%s");
                    args.push(value);
                }
                Some(Type::Composite(composite)) => {
                    format.push_str(&composite_format(composite));
                    let (at, mut held) = (value.span, Temporaries::default());
                    let value = self.hold(value, &mut held);
                    let components = (0..composite.n_components() as u16)
                        .map(|index| component(value.clone(), composite, ComponentIndex::Is(index), at));
                    let first = args.len();
                    args.extend(components);
                    // The first computes the value that all are taken of.
                    if let Some(first) = args.get_mut(first) {
                        *first = held.around(first.clone());
                    }
                }
                Some(Type::Array { .. } | Type::CompositeArray { .. }) => {
                    self.reject(
                        Code::TypeMismatch,
                        value.span,
                        "an array cannot be printed as a whole",
                        "print its elements",
                    );
                    failed = true;
                }
                None => failed = true,
            }
        }
        format.push_str(&end);
        if !failed {
            out.push(TypedStmt { kind: StmtKind::Print { format: format.into(), args }, span });
        }
    }

    /// `printf("x = %f\n", x)`.
    pub(super) fn printf(&mut self, call: &'a ast::ExprCall, span: Span, out: &mut Vec<TypedStmt>) {
        let usage = format!("write `{}.printf(\"x = %f\\n\", x)`", self.package());
        let Some((ast::Expr::StringLiteral(text), values)) = call.arguments.args.split_first() else {
            self.arguments(call);
            self.reject(Code::NoOverload, span, "`printf` takes a format first, a string literal", usage);
            return;
        };
        if let Some(keyword) = call.arguments.keywords.first() {
            let span = self.span(keyword);
            self.reject(Code::NoOverload, span, "`printf` takes no keyword arguments", usage);
            return;
        }
        let format = text.value.to_str();
        let args: Vec<TypedExpr> = values.iter().map(|v| self.value(v)).collect();
        let format_span = self.span(&call.arguments.args[0]);
        let conversions = match conversions(format) {
            Ok(conversions) => conversions,
            Err(what) => {
                let help = "the conversions are `%d %u %x %c` for integers, `%f %g %e` for floats, `%s` for any value, and `%%`";
                self.reject(Code::NoOverload, format_span, what, help);
                return;
            }
        };
        if conversions.len() != args.len() {
            let message = format!(
                "the format has {}, but {} given",
                count(conversions.len(), "conversion", "conversions"),
                count(args.len(), "value is", "values are"),
            );
            self.reject(Code::NoOverload, span, message, "write one value for each `%` conversion");
            return;
        }
        let mut failed = false;
        for (conversion, arg) in conversions.iter().zip(&args) {
            let Some(ty) = arg.ty.as_value() else {
                failed = true;
                continue;
            };
            let wants_float = matches!(conversion, 'f' | 'F' | 'e' | 'E' | 'g' | 'G');
            let fits = ty.as_scalar().is_some_and(|s| *conversion == 's' || s.is_float() == wants_float);
            if !fits {
                let message = format!("`%{conversion}` does not print {}", ty.python_name());
                let help = match ty {
                    Type::Scalar(scalar) if scalar.is_float() => "use `%f`, `%g` or `%e`".to_owned(),
                    Type::Scalar(scalar) => format!("use `{}`", self::conversion(scalar)),
                    Type::Composite(_) => "print its components".to_owned(),
                    Type::Array { .. } | Type::CompositeArray { .. } => "print its elements".to_owned(),
                };
                self.reject(Code::TypeMismatch, arg.span, message, help);
                failed = true;
            }
        }
        if !failed {
            out.push(TypedStmt { kind: StmtKind::Print { format: format.into(), args }, span });
        }
    }
}

/// The conversion that suits a value.
fn conversion(scalar: Scalar) -> &'static str {
    match scalar {
        _ if scalar.is_float() => "%g",
        _ if scalar.is_unsigned_int() => "%u",
        _ => "%d",
    }
}

/// `[%s, %s]`, and a list of rows for a matrix: as Python prints them.
fn composite_format(composite: Composite) -> String {
    let list = |item: &str, n: u16| format!("[{}]", vec![item; n.into()].join(", "));
    match composite.shape()[..] {
        [n_rows, n_cols] => list(&list("%s", n_cols), n_rows),
        _ => list("%s", composite.n_components() as u16),
    }
}

fn escape(text: &str) -> String {
    text.replace('%', "%%")
}

/// The conversion letters of a C format, in order.
fn conversions(format: &str) -> Result<Vec<char>, String> {
    let mut found = Vec::new();
    for piece in pieces(format) {
        match piece {
            FormatPiece::Text(_) => {}
            FormatPiece::Conversion(conversion) => {
                let is_long =
                    |digits: &str| digits.parse::<usize>().is_ok_and(|number| number > MAX_WIDTH) || digits.len() > 9;
                if conversion.text.split(|c: char| !c.is_ascii_digit()).any(is_long) {
                    return Err(format!("`{}` asks for more than {MAX_WIDTH} characters", conversion.text));
                }
                found.push(conversion.letter);
            }
            FormatPiece::Malformed(text) => {
                return Err(format!("`{}` is not a conversion of `printf`", text.escape_debug()));
            }
        }
    }
    Ok(found)
}

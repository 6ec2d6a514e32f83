//! The calls in a function's own text that can be rewritten: those of its own scope.

use crate::capture::scope::UsedNames;
use ruff_python_ast::visitor::{self, Visitor};
use ruff_python_ast::{self as ast, Expr, Stmt};
use ruff_text_size::{Ranged, TextRange};
use rustc_hash::{FxHashMap, FxHashSet};

/// The calls of a function's own scope, by range, and what matters of their surroundings.
#[derive(Default)]
pub(super) struct OwnText<'a> {
    pub(super) calls: FxHashMap<TextRange, OwnCall<'a>>,
    /// The names that functions and classes inside of it use.
    pub(super) captured: FxHashSet<String>,
    parent: SiteParent,
    n_protections: usize,
}

pub(super) struct OwnCall<'a> {
    pub(super) expr: &'a Expr,
    pub(super) parent: SiteParent,
    /// True if it is inside of a `try` or `with`, after which the function may go on with the names that it has bound.
    pub(super) is_protected: bool,
}

/// Says what becomes of the value of a call.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) enum SiteParent {
    /// It is an argument of the call with this range, or in a list or tuple that is one.
    Argument(TextRange),
    /// It is bound to these names, and to nothing else.
    Names(Vec<String>),
    /// Its elements are bound to these names, one each.
    Unpacked(Vec<String>),
    /// It is dropped.
    Nothing,
    #[default]
    Other,
}

impl<'a> OwnText<'a> {
    pub(super) fn of(def: &'a ast::StmtFunctionDef) -> OwnText<'a> {
        let mut text = OwnText::default();
        text.visit_body(&def.body);
        text
    }

    fn visit_with(&mut self, parent: SiteParent, expr: &'a Expr) {
        self.parent = parent;
        self.visit_expr(expr);
        self.parent = SiteParent::Other;
    }

    fn capture(&mut self, used: UsedNames) {
        self.captured.extend(used.loaded);
        self.captured.extend(used.nonlocals);
    }
}

/// Returns the names of targets, if these are names.
fn target_names(targets: &[&Expr]) -> Option<Vec<String>> {
    targets.iter().map(|target| Some(target.as_name_expr()?.id.to_string())).collect()
}

/// Returns the names of an assignment `x, y = …`.
fn unpacked_names(assign: &ast::StmtAssign) -> Option<Vec<String>> {
    let [target] = &assign.targets[..] else { return None };
    let elements = match target {
        Expr::Tuple(tuple) => &tuple.elts,
        Expr::List(list) => &list.elts,
        _ => return None,
    };
    target_names(&elements.iter().collect::<Vec<_>>())
}

/// Returns names with the values that they are bound to, if an assignment is `x, y = a, b`.
fn paired(assign: &ast::StmtAssign) -> Option<Vec<(String, &Expr)>> {
    let elements = |expr: &'_ Expr| match expr {
        Expr::Tuple(tuple) => Some(tuple.elts.clone()),
        Expr::List(list) => Some(list.elts.clone()),
        _ => None,
    };
    let [target] = &assign.targets[..] else { return None };
    let targets = elements(target)?;
    let values = match &*assign.value {
        Expr::Tuple(tuple) => &tuple.elts,
        Expr::List(list) => &list.elts,
        _ => return None,
    };
    let names = target_names(&targets.iter().collect::<Vec<_>>())?;
    let is_plain = names.len() == values.len() && !values.iter().any(Expr::is_starred_expr);
    is_plain.then(|| names.into_iter().zip(values).collect())
}

impl<'a> Visitor<'a> for OwnText<'a> {
    fn visit_stmt(&mut self, stmt: &'a Stmt) {
        match stmt {
            Stmt::FunctionDef(_) | Stmt::ClassDef(_) => {
                self.capture(UsedNames::of_body(std::slice::from_ref(stmt), Vec::new()));
            }
            Stmt::Assign(assign) if let Some(pairs) = paired(assign) => {
                for (name, value) in pairs {
                    self.visit_with(SiteParent::Names(vec![name]), value);
                }
            }
            Stmt::Assign(assign) => {
                let names = target_names(&assign.targets.iter().collect::<Vec<_>>()).map(SiteParent::Names);
                let parent = names.or_else(|| unpacked_names(assign).map(SiteParent::Unpacked));
                self.visit_with(parent.unwrap_or(SiteParent::Other), &assign.value);
                assign.targets.iter().for_each(|target| self.visit_expr(target));
            }
            Stmt::AnnAssign(assign) => {
                let names = target_names(&[&*assign.target]);
                if let Some(value) = &assign.value {
                    self.visit_with(names.map_or(SiteParent::Other, SiteParent::Names), value);
                }
                self.visit_expr(&assign.target);
            }
            Stmt::Expr(each) => self.visit_with(SiteParent::Nothing, &each.value),
            Stmt::Try(_) | Stmt::With(_) => {
                self.n_protections += 1;
                visitor::walk_stmt(self, stmt);
                self.n_protections -= 1;
            }
            _ => visitor::walk_stmt(self, stmt),
        }
    }

    fn visit_annotation(&mut self, _: &'a Expr) {}

    fn visit_expr(&mut self, expr: &'a Expr) {
        let parent = std::mem::take(&mut self.parent);
        match expr {
            Expr::BinOp(_) | Expr::UnaryOp(_) | Expr::Compare(_) | Expr::Attribute(_) | Expr::Subscript(_) => {
                let is_protected = self.n_protections > 0;
                self.calls.insert(expr.range(), OwnCall { expr, parent, is_protected });
                for (_, operand) in site_arguments(expr, true).unwrap_or_default() {
                    self.visit_with(SiteParent::Argument(expr.range()), operand);
                }
                match expr {
                    Expr::Subscript(subscript) => self.visit_expr(&subscript.slice),
                    Expr::Compare(compare) if compare.ops.len() > 1 => visitor::walk_expr(self, expr),
                    _ => {}
                }
            }
            Expr::Call(call) => {
                let is_protected = self.n_protections > 0;
                self.calls.insert(call.range(), OwnCall { expr, parent, is_protected });
                match &*call.func {
                    Expr::Attribute(method) => self.visit_with(SiteParent::Argument(call.range()), &method.value),
                    callee => self.visit_expr(callee),
                }
                for argument in &call.arguments.args {
                    self.visit_with(SiteParent::Argument(call.range()), argument);
                }
                for keyword in &call.arguments.keywords {
                    self.visit_with(SiteParent::Argument(call.range()), &keyword.value);
                }
            }
            Expr::List(ast::ExprList { elts, .. }) | Expr::Tuple(ast::ExprTuple { elts, .. })
                if matches!(parent, SiteParent::Argument(_)) =>
            {
                elts.iter().for_each(|element| self.visit_with(parent.clone(), element));
            }
            Expr::Lambda(_) | Expr::Generator(_) => self.capture(UsedNames::of_expr(expr)),
            // Python before 3.12 knows no positions inside of them, and comprehensions are scopes of their own.
            Expr::ListComp(_) | Expr::SetComp(_) | Expr::DictComp(_) | Expr::FString(_) | Expr::TString(_) => {}
            _ => visitor::walk_expr(self, expr),
        }
    }
}

/// Returns the operands of an expression that may be a site; of a call its arguments, after the object whose method it is if
/// `is_method`.
pub(super) fn site_arguments(expr: &Expr, is_method: bool) -> Option<Vec<(Option<&str>, &Expr)>> {
    Some(match expr {
        Expr::BinOp(binary) => vec![(None, &binary.left), (None, &binary.right)],
        Expr::UnaryOp(unary) => vec![(None, &unary.operand)],
        Expr::Compare(compare) => match &compare.comparators[..] {
            [right] => vec![(None, &compare.left), (None, right)],
            _ => return None,
        },
        Expr::Attribute(attribute) => vec![(None, &attribute.value)],
        Expr::Subscript(subscript) => vec![(None, &subscript.value)],
        Expr::Call(call) => {
            let mut arguments = plain_arguments(call)?;
            if let (true, Expr::Attribute(method)) = (is_method, &*call.func) {
                arguments.insert(0, (None, &method.value));
            }
            arguments
        }
        _ => return None,
    })
}

/// Returns the positional arguments and the keyword arguments of a call, unless `*` or `**` is among them.
fn plain_arguments(call: &ast::ExprCall) -> Option<Vec<(Option<&str>, &Expr)>> {
    let mut arguments = Vec::new();
    for argument in &call.arguments.args {
        if argument.is_starred_expr() {
            return None;
        }
        arguments.push((None, argument));
    }
    for keyword in &call.arguments.keywords {
        arguments.push((Some(keyword.arg.as_ref()?.as_str()), &keyword.value));
    }
    Some(arguments)
}

/// True if evaluating an expression may run code, or bind a name.
pub(super) fn may_run_code(expr: &Expr) -> bool {
    match expr {
        Expr::Call(_) | Expr::Named(_) | Expr::Await(_) | Expr::Yield(_) | Expr::YieldFrom(_) => true,
        Expr::ListComp(_) | Expr::SetComp(_) | Expr::DictComp(_) | Expr::FString(_) | Expr::TString(_) => true,
        Expr::Name(_) => false,
        _ if expr.is_literal_expr() => false,
        // An attribute or an operator may be code of a class, which rebinds globals and names of the closure.
        _ => true,
    }
}

/// True if an expression is a literal that Python's `ast.literal_eval` reads.
pub(super) fn is_literal(expr: &Expr) -> bool {
    match expr {
        Expr::FString(_) | Expr::TString(_) => false,
        Expr::UnaryOp(unary) => unary.op == ast::UnaryOp::USub && unary.operand.is_number_literal_expr(),
        _ => expr.is_literal_expr() && !expr.is_ellipsis_literal_expr(),
    }
}

/// Returns the dotted path of an attribute of a name, as it is written.
pub(super) fn is_dotted(expr: &Expr) -> bool {
    match expr {
        Expr::Attribute(attribute) => attribute.value.is_name_expr() || is_dotted(&attribute.value),
        _ => false,
    }
}

/// Returns the range of an expression as a pair of bytes.
pub(super) fn bytes(ranged: &impl Ranged) -> (u32, u32) {
    (ranged.range().start().to_u32(), ranged.range().end().to_u32())
}

//! Nodes of Python's syntax tree, with the places of the `.loom` text that they are made of.

use ruff_python_ast::{self as ast, AtomicNodeIndex, Expr, ExprContext, Identifier, Stmt};
use ruff_text_size::{Ranged, TextRange};

/// The name under which the nodes know the package, which no text can spell.
pub(crate) const PACKAGE: &str = "$";

pub(super) fn named(id: &str, range: TextRange, ctx: ExprContext) -> Expr {
    Expr::Name(ast::ExprName { node_index: AtomicNodeIndex::NONE, range, id: id.into(), ctx })
}

pub(super) fn name(id: &str, range: TextRange) -> Expr {
    named(id, range, ExprContext::Load)
}

pub(super) fn target(id: &str, range: TextRange) -> Expr {
    named(id, range, ExprContext::Store)
}

pub(super) fn attribute(value: Expr, attr: &str, attr_range: TextRange) -> Expr {
    let range = value.range().cover(attr_range);
    Expr::Attribute(ast::ExprAttribute {
        node_index: AtomicNodeIndex::NONE,
        range,
        value: Box::new(value),
        attr: Identifier::new(attr, attr_range),
        ctx: ExprContext::Load,
    })
}

/// A member of the package.
pub(super) fn member(name_of: &str, range: TextRange) -> Expr {
    let mut member = attribute(name(PACKAGE, range), name_of, range);
    if let Expr::Attribute(attribute) = &mut member {
        attribute.range = range;
    }
    member
}

pub(super) fn subscript(value: Expr, slice: Expr, range: TextRange, ctx: ExprContext) -> Expr {
    Expr::Subscript(ast::ExprSubscript {
        node_index: AtomicNodeIndex::NONE,
        range,
        value: Box::new(value),
        slice: Box::new(slice),
        ctx,
    })
}

pub(super) fn tuple(elts: Vec<Expr>, range: TextRange, ctx: ExprContext) -> Expr {
    Expr::Tuple(ast::ExprTuple { node_index: AtomicNodeIndex::NONE, range, elts, ctx, parenthesized: true })
}

pub(super) fn int(value: u64, range: TextRange) -> Expr {
    Expr::NumberLiteral(ast::ExprNumberLiteral {
        node_index: AtomicNodeIndex::NONE,
        range,
        value: ast::Number::Int(value.into()),
    })
}

pub(super) fn float(value: f64, range: TextRange) -> Expr {
    Expr::NumberLiteral(ast::ExprNumberLiteral {
        node_index: AtomicNodeIndex::NONE,
        range,
        value: ast::Number::Float(value),
    })
}

pub(super) fn boolean(value: bool, range: TextRange) -> Expr {
    Expr::BooleanLiteral(ast::ExprBooleanLiteral { node_index: AtomicNodeIndex::NONE, range, value })
}

pub(super) fn text(value: &str, range: TextRange) -> Expr {
    let literal = ast::StringLiteral {
        range,
        node_index: AtomicNodeIndex::NONE,
        value: value.into(),
        flags: ast::StringLiteralFlags::empty(),
    };
    Expr::StringLiteral(ast::ExprStringLiteral {
        node_index: AtomicNodeIndex::NONE,
        range,
        value: ast::StringLiteralValue::single(literal),
    })
}

pub(super) fn dictionary(items: Vec<(&str, Expr)>, range: TextRange) -> Expr {
    let items = items.into_iter().map(|(key, value)| ast::DictItem { key: Some(text(key, range)), value });
    Expr::Dict(ast::ExprDict { node_index: AtomicNodeIndex::NONE, range, items: items.collect() })
}

pub(super) fn starred(value: Expr, range: TextRange) -> Expr {
    let value = Box::new(value);
    Expr::Starred(ast::ExprStarred { node_index: AtomicNodeIndex::NONE, range, value, ctx: ExprContext::Load })
}

pub(super) fn slice(lower: Option<Expr>, upper: Option<Expr>, step: Option<Expr>, range: TextRange) -> Expr {
    Expr::Slice(ast::ExprSlice {
        node_index: AtomicNodeIndex::NONE,
        range,
        lower: lower.map(Box::new),
        upper: upper.map(Box::new),
        step: step.map(Box::new),
    })
}

pub(super) fn call(func: Expr, args: Vec<Expr>, keywords: Vec<(Identifier, Expr)>, parentheses: TextRange) -> Expr {
    let keywords = keywords.into_iter().map(|(arg, value)| ast::Keyword {
        range: arg.range.cover(value.range()),
        node_index: AtomicNodeIndex::NONE,
        arg: Some(arg),
        value,
    });
    Expr::Call(ast::ExprCall {
        node_index: AtomicNodeIndex::NONE,
        range_start: func.range().start(),
        func: Box::new(func),
        arguments: ast::Arguments {
            range: parentheses,
            node_index: AtomicNodeIndex::NONE,
            args: args.into(),
            keywords: keywords.collect(),
        },
    })
}

pub(super) fn binary(left: Expr, op: ast::Operator, right: Expr, range: TextRange) -> Expr {
    Expr::BinOp(ast::ExprBinOp {
        node_index: AtomicNodeIndex::NONE,
        range,
        left: Box::new(left),
        op,
        right: Box::new(right),
    })
}

pub(super) fn unary(op: ast::UnaryOp, operand: Expr, range: TextRange) -> Expr {
    Expr::UnaryOp(ast::ExprUnaryOp { node_index: AtomicNodeIndex::NONE, range, op, operand: Box::new(operand) })
}

pub(super) fn logic(op: ast::BoolOp, values: Vec<Expr>, range: TextRange) -> Expr {
    Expr::BoolOp(ast::ExprBoolOp { node_index: AtomicNodeIndex::NONE, range, op, values })
}

pub(super) fn compare(left: Expr, rest: Vec<(ast::CmpOp, Expr)>, range: TextRange) -> Expr {
    let (ops, comparators): (Vec<_>, Vec<_>) = rest.into_iter().unzip();
    Expr::Compare(ast::ExprCompare {
        node_index: AtomicNodeIndex::NONE,
        range,
        left: Box::new(left),
        ops: ops.into(),
        comparators: comparators.into(),
    })
}

pub(super) fn choice(test: Expr, body: Expr, orelse: Expr, range: TextRange) -> Expr {
    Expr::If(ast::ExprIf {
        node_index: AtomicNodeIndex::NONE,
        range,
        test: Box::new(test),
        body: Box::new(body),
        orelse: Box::new(orelse),
    })
}

pub(super) fn assign(target: Expr, value: Expr, range: TextRange) -> Stmt {
    Stmt::Assign(ast::StmtAssign {
        node_index: AtomicNodeIndex::NONE,
        range,
        targets: vec![target],
        value: Box::new(value),
    })
}

pub(super) fn annotated(target: Expr, annotation: Expr, value: Option<Expr>, range: TextRange) -> Stmt {
    Stmt::AnnAssign(ast::StmtAnnAssign {
        node_index: AtomicNodeIndex::NONE,
        range,
        simple: target.is_name_expr(),
        target: Box::new(target),
        annotation: Box::new(annotation),
        value: value.map(Box::new),
    })
}

pub(super) fn update(target: Expr, op: ast::Operator, value: Expr, range: TextRange) -> Stmt {
    Stmt::AugAssign(ast::StmtAugAssign {
        node_index: AtomicNodeIndex::NONE,
        range,
        target: Box::new(target),
        op,
        value: Box::new(value),
    })
}

pub(super) fn branch(branches: Vec<(Expr, Vec<Stmt>)>, otherwise: Option<Vec<Stmt>>, range: TextRange) -> Option<Stmt> {
    let mut branches = branches.into_iter();
    let (test, body) = branches.next()?;
    let clause = |test: Option<Expr>, body: Vec<Stmt>| {
        let start = test.as_ref().map(Ranged::range).or_else(|| body.first().map(Ranged::range));
        ast::ElifElseClause {
            range: start.map_or(range, |start| TextRange::new(start.start(), range.end().max(start.end()))),
            node_index: AtomicNodeIndex::NONE,
            test,
            body: body.into_iter().collect(),
        }
    };
    let mut clauses: Vec<_> = branches.map(|(test, body)| clause(Some(test), body)).collect();
    clauses.extend(otherwise.map(|body| clause(None, body)));
    Some(Stmt::If(ast::StmtIf {
        node_index: AtomicNodeIndex::NONE,
        range,
        test: Box::new(test),
        body: body.into_iter().collect(),
        elif_else_clauses: clauses,
    }))
}

pub(super) fn for_loop(counter: Expr, iter: Expr, body: Vec<Stmt>, range: TextRange) -> Stmt {
    Stmt::For(ast::StmtFor {
        node_index: AtomicNodeIndex::NONE,
        range,
        is_async: false,
        target: Box::new(counter),
        iter: Box::new(iter),
        body: body.into_iter().collect(),
        orelse: Default::default(),
    })
}

pub(super) fn while_loop(test: Expr, body: Vec<Stmt>, range: TextRange) -> Stmt {
    Stmt::While(ast::StmtWhile {
        node_index: AtomicNodeIndex::NONE,
        range,
        test: Box::new(test),
        body: body.into_iter().collect(),
        orelse: Default::default(),
    })
}

pub(super) fn pass(range: TextRange) -> Stmt {
    Stmt::Pass(ast::StmtPass { node_index: AtomicNodeIndex::NONE, range })
}

pub(super) fn break_loop(range: TextRange) -> Stmt {
    Stmt::Break(ast::StmtBreak { node_index: AtomicNodeIndex::NONE, range })
}

pub(super) fn continue_loop(range: TextRange) -> Stmt {
    Stmt::Continue(ast::StmtContinue { node_index: AtomicNodeIndex::NONE, range })
}

pub(super) fn return_value(value: Option<Expr>, range: TextRange) -> Stmt {
    Stmt::Return(ast::StmtReturn { node_index: AtomicNodeIndex::NONE, range, value: value.map(Box::new) })
}

pub(super) fn assert(test: Expr, msg: Option<Expr>, range: TextRange) -> Stmt {
    Stmt::Assert(ast::StmtAssert {
        node_index: AtomicNodeIndex::NONE,
        range,
        test: Box::new(test),
        msg: msg.map(Box::new),
    })
}

pub(super) fn expression(value: Expr, range: TextRange) -> Stmt {
    Stmt::Expr(ast::StmtExpr { node_index: AtomicNodeIndex::NONE, range, value: Box::new(value) })
}

fn decorator(expression: Expr, range: TextRange) -> ast::Decorator {
    ast::Decorator { range, node_index: AtomicNodeIndex::NONE, expression }
}

/// A class that is a struct.
pub(super) fn structure(name: Identifier, fields: Vec<Stmt>, range: TextRange) -> Stmt {
    let made = decorator(member("struct", range), range);
    Stmt::ClassDef(ast::StmtClassDef {
        node_index: AtomicNodeIndex::NONE,
        range,
        decorator_list: [made].into_iter().collect(),
        name,
        type_params: None,
        arguments: None,
        body: fields.into_iter().collect(),
    })
}

/// A function as a file declares it.
pub(super) struct FunctionNode {
    pub(super) name: Identifier,
    pub(super) decorator: Expr,
    pub(super) params: Vec<(Identifier, Option<Expr>)>,
    pub(super) returns: Option<Expr>,
    pub(super) body: Vec<Stmt>,
    pub(super) range: TextRange,
}

pub(super) fn function(node: FunctionNode) -> Stmt {
    let FunctionNode { name, decorator: made, params, returns, body, range } = node;
    let at = name.range;
    let args = params.into_iter().map(|(name, annotation)| {
        let range = annotation.as_ref().map_or(name.range, |annotation| name.range.cover(annotation.range()));
        let node_index = AtomicNodeIndex::NONE;
        let parameter = ast::Parameter { range, node_index, name, annotation: annotation.map(Box::new) };
        ast::ParameterWithDefault { range, node_index: AtomicNodeIndex::NONE, parameter, default: None }
    });
    Stmt::FunctionDef(ast::StmtFunctionDef {
        node_index: AtomicNodeIndex::NONE,
        range,
        is_async: false,
        decorator_list: [decorator(made, range)].into_iter().collect(),
        name,
        type_params: None,
        parameters: Box::new(ast::Parameters {
            range: at,
            node_index: AtomicNodeIndex::NONE,
            posonlyargs: Default::default(),
            args: args.collect(),
            vararg: None,
            kwonlyargs: Default::default(),
            kwarg: None,
        }),
        returns: returns.map(Box::new),
        body: body.into_iter().collect(),
    })
}

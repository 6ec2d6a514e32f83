//! The syntax tree of `.loom`.
//!
//! It holds what the text says and nothing more: which loops are parallel, how large free extents are and what names
//! mean is worked out when it is elaborated.

use ruff_text_size::TextRange;

/// A file.
#[derive(Debug, Default)]
pub(crate) struct LoomFile {
    pub(crate) items: Vec<Item>,
    /// The first tokens of statements and items, with the number of blocks around each.
    pub(crate) layout: Vec<(u32, u32)>,
    /// The brackets `<` and `>` of types.
    pub(crate) angles: Vec<u32>,
    /// Names that are words of the language where they stand: `step`, `reduce`, `scan`.
    pub(crate) words: Vec<u32>,
}

impl LoomFile {
    /// The names that the file gives a meaning, which may hide builtins.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.items.iter().flat_map(|item| {
            let names: Vec<&Ident> = match item {
                Item::Import(Import { alias, names, .. }) => alias.iter().chain(names).collect(),
                Item::Constant(constant) => vec![&constant.name],
                Item::Alias(alias) => vec![&alias.name],
                Item::Struct(structure) => vec![&structure.name],
                Item::Function(function) => function.name.iter().collect(),
            };
            names.into_iter().map(|name| name.name.as_str())
        })
    }
}

/// A name with its place.
#[derive(Clone, Debug)]
pub(crate) struct Ident {
    pub(crate) name: String,
    pub(crate) range: TextRange,
}

/// Something a file declares.
#[derive(Debug)]
pub(crate) enum Item {
    Import(Import),
    Constant(Constant),
    Alias(TypeAlias),
    Struct(StructItem),
    Function(Box<FunctionItem>),
}

/// `import "file.loom"`, `import "file.loom" as name` or `from "file.loom" import a, b`.
#[derive(Debug)]
pub(crate) struct Import {
    pub(crate) path: String,
    pub(crate) path_range: TextRange,
    /// The name of the file's names as a whole, unless single ones are imported.
    pub(crate) alias: Option<Ident>,
    pub(crate) names: Vec<Ident>,
}

/// `const NAME: type = value`.
#[derive(Debug)]
pub(crate) struct Constant {
    pub(crate) name: Ident,
    pub(crate) ty: Option<TypeExpr>,
    pub(crate) value: Expr,
    pub(crate) range: TextRange,
}

/// `type Name = type`.
#[derive(Debug)]
pub(crate) struct TypeAlias {
    pub(crate) name: Ident,
    pub(crate) ty: TypeExpr,
    pub(crate) range: TextRange,
}

/// `struct Name { field: type, … }`.
#[derive(Debug)]
pub(crate) struct StructItem {
    pub(crate) name: Ident,
    pub(crate) fields: Vec<(Ident, TypeExpr)>,
    pub(crate) range: TextRange,
}

/// Says which keyword declares a function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FunctionKeyword {
    /// A function that others call.
    Fn,
    /// A launchable object.
    Kernel,
    /// A function on arrays.
    Compute,
}

/// `fn`, `kernel` and `compute`.
#[derive(Debug)]
pub(crate) struct FunctionItem {
    pub(crate) doc: String,
    pub(crate) keyword: FunctionKeyword,
    /// The place of the keyword.
    pub(crate) keyword_range: TextRange,
    pub(crate) name: Option<Ident>,
    pub(crate) generics: Vec<(Ident, Option<Ident>)>,
    pub(crate) params: Vec<Param>,
    /// The results of a kernel or a computation.
    pub(crate) results: Vec<Param>,
    /// The types a function returns.
    pub(crate) returns: Vec<TypeExpr>,
    pub(crate) annotations: Vec<Annotation>,
    pub(crate) body: Block,
    pub(crate) range: TextRange,
}

/// A parameter or a result.
#[derive(Debug)]
pub(crate) struct Param {
    pub(crate) name: Ident,
    pub(crate) ty: Option<TypeExpr>,
}

/// `@name` or `@name(arguments)`.
#[derive(Clone, Debug)]
pub(crate) struct Annotation {
    pub(crate) name: Ident,
    pub(crate) arguments: Vec<Argument>,
    pub(crate) range: TextRange,
}

/// A type: `f32`, `array<f32, n>`, `shapes.Sphere`.
#[derive(Clone, Debug)]
pub(crate) struct TypeExpr {
    pub(crate) path: Vec<Ident>,
    pub(crate) arguments: Vec<TypeArgument>,
    pub(crate) range: TextRange,
}

/// Something between `<` and `>`.
#[derive(Clone, Debug)]
pub(crate) enum TypeArgument {
    Type(TypeExpr),
    Value(Expr),
}

/// Statements between braces, or after a colon.
#[derive(Clone, Debug, Default)]
pub(crate) struct Block {
    pub(crate) statements: Vec<Stmt>,
}

/// A statement.
#[derive(Clone, Debug)]
pub(crate) struct Stmt {
    pub(crate) kind: StmtKind,
    pub(crate) range: TextRange,
}

/// Describes what a statement does.
#[derive(Clone, Debug)]
pub(crate) enum StmtKind {
    /// `let` and `var`.
    Declare {
        is_var: bool,
        targets: Vec<Ident>,
        ty: Option<TypeExpr>,
        value: Option<Expr>,
    },
    Assign {
        targets: Vec<Expr>,
        value: Expr,
    },
    Update {
        target: Expr,
        op: BinaryOp,
        value: Expr,
    },
    If {
        branches: Vec<(Expr, Block)>,
        otherwise: Option<Block>,
    },
    For(ForLoop),
    While {
        cond: Expr,
        body: Block,
    },
    Break,
    Continue,
    Return(Vec<Expr>),
    Assert {
        cond: Expr,
        message: Option<Expr>,
    },
    Expr(Expr),
}

/// `for i in a..b, j in c..d step s`.
#[derive(Clone, Debug)]
pub(crate) struct ForLoop {
    pub(crate) annotations: Vec<Annotation>,
    /// True after `serial`.
    pub(crate) is_serial: bool,
    /// The place of `reduce` or `scan`, if the loop begins with it.
    pub(crate) reduce: Option<TextRange>,
    /// True after `scan`.
    pub(crate) is_scan: bool,
    pub(crate) indices: Vec<LoopIndex>,
    pub(crate) body: Block,
    /// The place of `for` and its indices.
    pub(crate) header: TextRange,
}

/// One index of a loop, which runs from `start` and ends before `end`.
#[derive(Clone, Debug)]
pub(crate) struct LoopIndex {
    pub(crate) name: Ident,
    pub(crate) start: Expr,
    pub(crate) end: Expr,
    /// True of `..=`, which runs `end` too.
    pub(crate) is_inclusive: bool,
    pub(crate) step: Option<Expr>,
}

/// An expression.
#[derive(Clone, Debug)]
pub(crate) struct Expr {
    pub(crate) kind: ExprKind,
    pub(crate) range: TextRange,
}

/// An argument of a call.
#[derive(Clone, Debug)]
pub(crate) struct Argument {
    pub(crate) name: Option<Ident>,
    pub(crate) value: Expr,
}

/// Describes what an expression is.
#[derive(Clone, Debug)]
pub(crate) enum ExprKind {
    /// An integer, with the type it ends with.
    Int(u64, Option<String>),
    /// A float, with the type it ends with.
    Float(f64, Option<String>),
    Bool(bool),
    Text(String),
    Name(String),
    Member(Box<Expr>, Ident),
    Index(Box<Expr>, Vec<Expr>),
    Call {
        function: Box<Expr>,
        arguments: Vec<Argument>,
        /// The place of the parentheses.
        parentheses: TextRange,
    },
    Unary(UnaryOp, Box<Expr>),
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// `a < b <= c`.
    Compare(Box<Expr>, Vec<(CompareOp, Expr)>),
    /// `a and b` if true, otherwise `a or b`.
    Logic(bool, Vec<Expr>),
    /// `if cond then a else b`.
    Select(Box<[Expr; 3]>),
    /// `a..b step c` among indices.
    Range([Option<Box<Expr>>; 3]),
    /// `*v` among arguments: its components.
    Spread(Box<Expr>),
    Tuple(Vec<Expr>),
    /// Rejected.
    Error,
}

/// An operator before its operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum UnaryOp {
    Negate,
    Plus,
    Invert,
    Not,
}

/// An operator between two operands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BinaryOp {
    Add,
    Sub,
    Mul,
    Div,
    Mod,
    Pow,
    Lshift,
    Rshift,
    And,
    Or,
    Xor,
}

/// A comparison.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CompareOp {
    Lt,
    Le,
    Gt,
    Ge,
    Eq,
    Ne,
}

impl Expr {
    /// The name that it is, if it is one.
    pub(crate) fn as_name(&self) -> Option<&str> {
        match &self.kind {
            ExprKind::Name(name) => Some(name),
            _ => None,
        }
    }
}

/// Visits an expression and those in it, from the outside in.
pub(crate) fn walk_expr<'a>(expr: &'a Expr, visit: &mut dyn FnMut(&'a Expr)) {
    visit(expr);
    match &expr.kind {
        ExprKind::Member(of, _) | ExprKind::Unary(_, of) | ExprKind::Spread(of) => walk_expr(of, visit),
        ExprKind::Index(of, indices) => {
            walk_expr(of, visit);
            indices.iter().for_each(|index| walk_expr(index, visit));
        }
        ExprKind::Call { function, arguments, .. } => {
            walk_expr(function, visit);
            arguments.iter().for_each(|argument| walk_expr(&argument.value, visit));
        }
        ExprKind::Binary(_, left, right) => {
            walk_expr(left, visit);
            walk_expr(right, visit);
        }
        ExprKind::Compare(first, rest) => {
            walk_expr(first, visit);
            rest.iter().for_each(|(_, operand)| walk_expr(operand, visit));
        }
        ExprKind::Logic(_, terms) | ExprKind::Tuple(terms) => terms.iter().for_each(|term| walk_expr(term, visit)),
        ExprKind::Select(parts) => parts.iter().for_each(|part| walk_expr(part, visit)),
        ExprKind::Range(bounds) => bounds.iter().flatten().for_each(|bound| walk_expr(bound, visit)),
        ExprKind::Int(..)
        | ExprKind::Float(..)
        | ExprKind::Bool(_)
        | ExprKind::Text(_)
        | ExprKind::Name(_)
        | ExprKind::Error => {}
    }
}

/// Returns true if two expressions are written alike, except for their places.
pub(crate) fn same_text(a: &Expr, b: &Expr) -> bool {
    let all = |a: &[Expr], b: &[Expr]| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_text(a, b));
    match (&a.kind, &b.kind) {
        (ExprKind::Int(a, of), ExprKind::Int(b, other)) => (a, of) == (b, other),
        (ExprKind::Name(a), ExprKind::Name(b)) => a == b,
        (ExprKind::Member(of, a), ExprKind::Member(other, b)) => a.name == b.name && same_text(of, other),
        (ExprKind::Index(of, a), ExprKind::Index(other, b)) => same_text(of, other) && all(a, b),
        (ExprKind::Unary(op, a), ExprKind::Unary(other, b)) => op == other && same_text(a, b),
        (ExprKind::Binary(op, a, b), ExprKind::Binary(other, c, d)) => {
            op == other && same_text(a, c) && same_text(b, d)
        }
        _ => false,
    }
}

/// The blocks directly in a statement.
pub(crate) fn blocks_of(statement: &Stmt) -> Vec<&Block> {
    match &statement.kind {
        StmtKind::If { branches, otherwise } => branches.iter().map(|(_, block)| block).chain(otherwise).collect(),
        StmtKind::For(inner) => vec![&inner.body],
        StmtKind::While { body, .. } => vec![body],
        _ => Vec::new(),
    }
}

/// The expressions directly in a statement, those of its blocks left out.
pub(crate) fn expressions_of(statement: &Stmt) -> Vec<&Expr> {
    match &statement.kind {
        StmtKind::Declare { value, .. } => value.iter().collect(),
        StmtKind::Assign { targets, value } => targets.iter().chain([value]).collect(),
        StmtKind::Update { target, value, .. } => vec![target, value],
        StmtKind::If { branches, .. } => branches.iter().map(|(cond, _)| cond).collect(),
        StmtKind::For(inner) => {
            let bounds =
                inner.indices.iter().flat_map(|index| [&index.start, &index.end].into_iter().chain(&index.step));
            bounds.collect()
        }
        StmtKind::While { cond, .. } => vec![cond],
        StmtKind::Return(values) => values.iter().collect(),
        StmtKind::Assert { cond, message } => [cond].into_iter().chain(message).collect(),
        StmtKind::Expr(expr) => vec![expr],
        StmtKind::Break | StmtKind::Continue => Vec::new(),
    }
}

/// Visits the statements of a block and those in them, from the outside in.
pub(crate) fn walk_block<'a>(block: &'a Block, visit: &mut dyn FnMut(&'a Stmt)) {
    for statement in &block.statements {
        visit(statement);
        blocks_of(statement).into_iter().for_each(|inner| walk_block(inner, visit));
    }
}

/// Functions that give a thread its number, which the kernels of other languages begin with.
const THREAD_NUMBERS: [&str; 6] = ["tid", "thread_idx", "block_idx", "block_dim", "lane_id", "warp_id"];

/// Returns true if a block asks for the number of its thread. `is_own` says which names are functions of the file.
pub(crate) fn asks_for_thread(block: &Block, is_own: &dyn Fn(&str) -> bool) -> bool {
    let mut asks = false;
    walk_block(block, &mut |statement| {
        for expr in expressions_of(statement) {
            walk_expr(expr, &mut |part| {
                if let ExprKind::Call { function, .. } = &part.kind {
                    let name = function.as_name().unwrap_or_default();
                    asks |= THREAD_NUMBERS.contains(&name) && !is_own(name);
                }
            });
        }
    });
    asks
}

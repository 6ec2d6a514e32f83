//! Memory of a program between its loops: scratch arrays, and variables that one loop sets and a later one reads.
//!
//! A scratch array is `var t: array<f32, n>` outside loops. A variable outside loops that statements of several stages name is
//! kept in an array of one element: each stage that names it reads the element first, and one that sets it stores it at the
//! end. Its type is what the text says, or what the text says of the values that it takes.

use super::FileElaboration;
use super::body::LocalKind;
use super::function::ProgramElaboration;
use super::stages::has_parallel;
use crate::loom::program::{Extent, ProgramParam};
use crate::loom::python_nodes as node;
use crate::loom::syntax::{
    Block, Expr, ExprKind, Ident, Item, Param, Stmt, StmtKind, TypeArgument, TypeExpr, blocks_of, expressions_of,
    walk_block, walk_expr,
};
use crate::loom::types;
use polyloom_ir::{Code, Composite, Op, Scalar};
use ruff_python_ast::{self as ast, ExprContext};
use ruff_text_size::TextRange;
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;

/// Variables whose values name variables, one after another, beyond this are not followed.
const MAX_NAMES: u32 = 32;

/// Memory that a program has beside parameters and results.
pub(super) struct ScratchMemory {
    pub(super) name: Ident,
    pub(super) extents: Vec<Extent>,
    pub(super) ty: ScratchType,
    /// Holds the declaration of the variable that an array of one element keeps; `None` for an array of the text.
    pub(super) variable: Option<LocalKind>,
    /// The name of the parameter, which no other memory of the program and no name of its text has.
    param: Arc<str>,
    /// True in the block that declares it.
    pub(super) is_visible: bool,
}

/// The type of the elements of scratch memory.
#[derive(Clone)]
pub(super) enum ScratchType {
    /// The type is the one that the text says.
    Written(TypeExpr),
    Scalar(Scalar),
    /// That of a parameter's elements, whatever it is given; of its own if the parameter is a number.
    ElementsOf(String),
}

/// Describes what the text says of the type of a value.
#[derive(Clone)]
enum ValueKind {
    /// A number without a type, which adapts; true for a float.
    Plain(bool),
    Known(ScratchType),
}

impl ScratchType {
    fn is_same(&self, other: &ScratchType) -> bool {
        match (self, other) {
            (ScratchType::Scalar(a), ScratchType::Scalar(b)) => a == b,
            (ScratchType::ElementsOf(a), ScratchType::ElementsOf(b)) => a == b,
            (ScratchType::Written(a), ScratchType::Written(b)) => match (&a.path[..], &b.path[..]) {
                ([a_name], [b_name]) => a_name.name == b_name.name && a.arguments.is_empty() && b.arguments.is_empty(),
                _ => false,
            },
            _ => false,
        }
    }

    /// The variable that stands for it in a signature, which no text can spell.
    pub(super) fn variable(&self) -> Option<String> {
        match self {
            ScratchType::ElementsOf(param) => Some(format!("$elements of {param}")),
            _ => None,
        }
    }

    /// The type as an annotation.
    pub(super) fn node(&self, file: &mut FileElaboration<'_>, range: TextRange) -> ast::Expr {
        match self {
            ScratchType::Written(ty) => file.type_node(ty, true),
            ScratchType::Scalar(scalar) => node::member(scalar.python_name(), range),
            ScratchType::ElementsOf(_) => node::name(super::ANY, range),
        }
    }

    /// The type of a variable as an annotation.
    pub(super) fn value_node(&self, file: &mut FileElaboration<'_>, range: TextRange) -> ast::Expr {
        match self {
            ScratchType::Written(ty) => file.type_node(ty, false),
            _ => self.node(file, range),
        }
    }

    /// The array of such elements as an annotation.
    pub(super) fn array_node(&self, file: &mut FileElaboration<'_>, n_axes: usize, range: TextRange) -> ast::Expr {
        let parts = vec![self.node(file, range), node::int(n_axes as u64, range)];
        let slice = node::tuple(parts, range, ExprContext::Load);
        node::subscript(node::member("array", range), slice, range, ExprContext::Load)
    }
}

/// Finds the variables outside loops that statements of several stages name.
pub(super) fn carried_names(body: &Block) -> FxHashSet<String> {
    let mut stages = StageNames::default();
    stages.statements(&body.statements);
    let StageNames { declared, named, .. } = stages;
    let is_carried =
        |(name, stage): &(String, usize)| named.get(name).is_some_and(|named| named.iter().any(|n| n != stage));
    declared.into_iter().filter(is_carried).map(|(name, _)| name).collect()
}

/// The stages in which names outside loops are declared, and those in which they are named.
#[derive(Default)]
struct StageNames {
    stage: usize,
    declared: Vec<(String, usize)>,
    named: FxHashMap<String, FxHashSet<usize>>,
}

impl StageNames {
    fn statements(&mut self, statements: &[Stmt]) {
        for statement in statements {
            let is_split = match &statement.kind {
                StmtKind::For(inner) => !inner.is_serial || has_parallel(&inner.body),
                _ => blocks_of(statement).into_iter().any(has_parallel),
            };
            if !is_split {
                if let StmtKind::Declare { targets, .. } = &statement.kind {
                    self.declared.extend(targets.iter().map(|target| (target.name.clone(), self.stage)));
                }
                self.name_all(statement, true);
                continue;
            }
            self.stage += 1;
            self.name_all(statement, false);
            match &statement.kind {
                StmtKind::For(inner) if !inner.is_serial => self.name_block(&inner.body),
                _ => blocks_of(statement).into_iter().for_each(|block| self.statements(&block.statements)),
            }
            self.stage += 1;
        }
    }

    fn name_block(&mut self, block: &Block) {
        block.statements.iter().for_each(|statement| self.name_all(statement, true));
    }

    fn name_all(&mut self, statement: &Stmt, with_blocks: bool) {
        let stage = self.stage;
        let mut visit = |statement: &Stmt| {
            for expr in expressions_of(statement) {
                walk_expr(expr, &mut |part| {
                    if let ExprKind::Name(name) = &part.kind {
                        self.named.entry(name.clone()).or_default().insert(stage);
                    }
                });
            }
        };
        visit(statement);
        if with_blocks {
            blocks_of(statement).into_iter().for_each(|block| walk_block(block, &mut |inner| visit(inner)));
        }
    }
}

impl<'a> ProgramElaboration<'_, 'a> {
    /// Notes a scratch array. Returns false for a declaration of anything else.
    pub(super) fn scratch_array(&mut self, statement: &'a Stmt) -> bool {
        let StmtKind::Declare { targets, ty: Some(ty), value, .. } = &statement.kind else { return false };
        let ([target], Some(extents)) = (&targets[..], FileElaboration::extents_of_type(ty)) else { return false };
        let name = target.name.clone();
        if let Some(value) = value {
            let help = "it begins with zeros; set its elements in a loop";
            self.error(Code::BadAssignment, value.range, format!("the array `{name}` takes no value"), help);
            return true;
        }
        let is_taken = self.is_param(&name) || self.scratch.iter().any(|known| known.name.name == name);
        if is_taken {
            self.error(Code::BadAssignment, target.range, format!("`{name}` is declared twice"), "choose another name");
            return true;
        }
        let mut made = Vec::new();
        for extent in extents {
            match extent.and_then(|expr| self.extent(expr)) {
                Some(known) => made.push(known),
                None => {
                    let range = extent.map_or(ty.range, |expr| expr.range);
                    let message = format!("nothing says how large `{name}` is along axis {}", made.len());
                    let help =
                        format!("write an integer of extents, parameters and constants: `var {name}: array<f32, n>`");
                    self.error(Code::BadAnnotation, range, message, help);
                    made.push(Extent::Constant(0));
                }
            }
        }
        let Some(TypeArgument::Value(value)) = ty.arguments.first() else {
            if let Some(TypeArgument::Type(element)) = ty.arguments.first() {
                self.add_scratch(target, made, ScratchType::Written(element.clone()), None);
            } else {
                let help = format!("write `var {name}: array<f32, n>`");
                self.error(Code::BadAnnotation, ty.range, "an array type needs the type of its elements", help);
            }
            return true;
        };
        let path = super::structure::path_of(value).unwrap_or_default();
        let element = TypeExpr { path, arguments: Vec::new(), range: value.range };
        let ty = ScratchType::Written(element);
        self.add_scratch(target, made, ty, None);
        true
    }

    fn add_scratch(&mut self, name: &Ident, extents: Vec<Extent>, ty: ScratchType, variable: Option<LocalKind>) {
        let mut param = name.name.clone();
        if variable.is_some() {
            let mut taken: FxHashSet<&str> = self.file.globals.clone();
            taken.extend(self.function.params.iter().map(|param| param.name.name.as_str()));
            taken.extend(self.results.iter().map(|result| result.name.name.as_str()));
            taken.extend(self.scratch.iter().map(|memory| &*memory.param));
            walk_block(&self.function.body, &mut |statement| {
                match &statement.kind {
                    StmtKind::Declare { targets, .. } => {
                        taken.extend(targets.iter().map(|target| target.name.as_str()))
                    }
                    StmtKind::For(inner) => taken.extend(inner.indices.iter().map(|index| index.name.name.as_str())),
                    _ => {}
                }
                for expr in expressions_of(statement) {
                    walk_expr(expr, &mut |part| taken.extend(part.as_name()));
                }
            });
            param = format!("{}_kept", name.name);
            let mut n = 1;
            while taken.contains(param.as_str()) {
                n += 1;
                param = format!("{}_kept_{n}", name.name);
            }
        }
        let param = param.as_str().into();
        self.scratch.push(ScratchMemory { name: name.clone(), extents, ty, variable, param, is_visible: true });
    }

    /// Makes memory for the variables of a declaration that later stages name.
    pub(super) fn carry(&mut self, statement: &'a Stmt) {
        let StmtKind::Declare { is_var, targets, ty, value } = &statement.kind else { return };
        for target in targets {
            if !self.carried.contains(&target.name) {
                continue;
            }
            let known = match (ty, value) {
                (Some(ty), _) => Some(ScratchType::Written(ty.clone())),
                (None, Some(value)) if targets.len() == 1 => self.type_of_variable(&target.name, value),
                _ => None,
            };
            let Some(ty) = known else {
                let name = &target.name;
                let word = if *is_var { "var" } else { "let" };
                let message = format!("a later loop names `{name}`, whose type is not known before it runs");
                let help = format!("write its type: `{word} {name}: f32 = …`");
                self.error(Code::MissingAnnotation, target.range, message, help);
                // Later stages find it, so that they do not report it again.
                let (ty, extents) = (ScratchType::Scalar(Scalar::F32), vec![Extent::Constant(1)]);
                let variable = Some(LocalKind::Var);
                self.add_scratch(target, extents, ty, variable);
                continue;
            };
            let variable = Some(if *is_var { LocalKind::Var } else { LocalKind::Let });
            let extents = vec![Extent::Constant(1)];
            self.add_scratch(target, extents, ty, variable);
        }
    }

    /// The type of a variable: of its first value, or if that is a plain number of what is combined with it.
    fn type_of_variable(&self, name: &str, value: &Expr) -> Option<ScratchType> {
        Some(match self.kind_of_variable(name, value, MAX_NAMES)? {
            ValueKind::Known(known) => known,
            ValueKind::Plain(is_float) => ScratchType::Scalar(if is_float { Scalar::F32 } else { Scalar::I32 }),
        })
    }

    fn kind_of_variable(&self, name: &str, value: &Expr, depth: u32) -> Option<ValueKind> {
        let first = self.kind_within(value, depth)?;
        if !matches!(first, ValueKind::Plain(_)) {
            return Some(first);
        }
        let mut found: Option<ValueKind> = None;
        walk_block(&self.function.body, &mut |statement| {
            let value = match &statement.kind {
                StmtKind::Update { target, value, .. } if target.as_name() == Some(name) => value,
                StmtKind::Assign { targets, value } => match &targets[..] {
                    [only] if only.as_name() == Some(name) => value,
                    _ => return,
                },
                _ => return,
            };
            let deeper = depth.checked_sub(1);
            if let (None, Some(known @ ValueKind::Known(_))) =
                (&found, deeper.and_then(|depth| self.kind_within(value, depth)))
            {
                found = Some(known);
            }
        });
        found.or(Some(first))
    }

    /// Returns what the text says of the type of a value. `depth` is how many names may name others, one after another.
    fn kind_within(&self, expr: &Expr, depth: u32) -> Option<ValueKind> {
        let kind_of = |expr: &Expr| self.kind_within(expr, depth);
        let scalar = |scalar: Scalar| Some(ValueKind::Known(ScratchType::Scalar(scalar)));
        match &expr.kind {
            ExprKind::Int(_, None) => Some(ValueKind::Plain(false)),
            ExprKind::Float(_, None) => Some(ValueKind::Plain(true)),
            ExprKind::Int(_, Some(suffix)) | ExprKind::Float(_, Some(suffix)) => scalar(types::scalar(suffix)?),
            ExprKind::Bool(_) | ExprKind::Compare(..) | ExprKind::Logic(..) => scalar(Scalar::Bool),
            ExprKind::Unary(crate::loom::syntax::UnaryOp::Not, _) => scalar(Scalar::Bool),
            ExprKind::Unary(_, of) => kind_of(of),
            ExprKind::Name(name) => {
                if let Some(known) = self.visible_scratch(name) {
                    return known.variable.map(|_| ValueKind::Known(known.ty.clone()));
                }
                if let Some(value) = self.file.constants.get(name.as_str()) {
                    return self.kind_within(value, depth.checked_sub(1)?);
                }
                let is_extent = self.symbols.iter().any(|symbol| *symbol.name == **name)
                    || self.locals.iter().any(|(local, _)| **local == **name)
                    || self.counters.iter().any(|counter| counter.name == *name);
                if is_extent {
                    return scalar(Scalar::I32);
                }
                let mut is_index = false;
                walk_block(&self.function.body, &mut |statement| {
                    if let StmtKind::For(inner) = &statement.kind {
                        is_index |= inner.indices.iter().any(|index| index.name.name == *name);
                    }
                });
                if is_index {
                    return scalar(Scalar::I32);
                }
                if let Some((ty, value)) = self.local_declaration(name) {
                    return match (ty, value) {
                        (Some(ty), _) => Some(self.plain_scalar(ValueKind::Known(ScratchType::Written(ty.clone())))),
                        (None, Some(value)) => self.kind_of_variable(name, value, depth.checked_sub(1)?),
                        (None, None) => None,
                    };
                }
                let param = self.function.params.iter().find(|param| param.name.name == *name)?;
                let ty = param.ty.as_ref()?;
                FileElaboration::extents_of_type(ty)
                    .is_none()
                    .then(|| ValueKind::Known(ScratchType::Written(ty.clone())))
                    .map(|kind| self.plain_scalar(kind))
            }
            ExprKind::Index(of, indices) => {
                let name = of.as_name()?;
                if let Some(known) = self.visible_scratch(name).filter(|known| known.variable.is_none()) {
                    let kind = ValueKind::Known(known.ty.clone());
                    return (known.extents.len() == indices.len()).then(|| self.plain_scalar(kind));
                }
                let params = || self.function.params.iter().chain(&self.function.results);
                let param: &Param = params().find(|param| param.name.name == name)?;
                match &param.ty {
                    Some(ty) => {
                        let n_axes = FileElaboration::extents_of_type(ty)?.len();
                        let element = self.element_of(ty)?;
                        (n_axes == indices.len())
                            .then(|| self.plain_scalar(ValueKind::Known(ScratchType::Written(element))))
                    }
                    None => Some(ValueKind::Known(ScratchType::ElementsOf(name.to_owned()))),
                }
            }
            ExprKind::Binary(_, left, right) => join(kind_of(left)?, kind_of(right)?),
            ExprKind::Select(parts) => join(kind_of(&parts[1])?, kind_of(&parts[2])?),
            ExprKind::Call { function, arguments, .. } => {
                let name = function.as_name()?;
                if let Some(known) = types::scalar(name) {
                    return scalar(known);
                }
                // A value of a type variable, a vector or a struct.
                let is_struct = || {
                    self.file
                        .file
                        .items
                        .iter()
                        .any(|item| matches!(item, Item::Struct(known) if known.name.name == name))
                };
                if self.file.generics.contains_key(name) || Composite::from_python_name(name).is_some() || is_struct() {
                    let path = vec![Ident { name: name.to_owned(), range: function.range }];
                    let ty = TypeExpr { path, arguments: Vec::new(), range: function.range };
                    return Some(ValueKind::Known(ScratchType::Written(ty)));
                }
                let own = self.file.file.items.iter().filter_map(|item| match item {
                    Item::Function(known) if known.name.as_ref().is_some_and(|own| own.name == name) => Some(known),
                    _ => None,
                });
                if let [only] = &own.collect::<Vec<_>>()[..] {
                    let is_known = only.generics.is_empty() && only.returns.len() == 1;
                    let ty = only.returns.first().filter(|_| is_known)?;
                    return Some(self.plain_scalar(ValueKind::Known(ScratchType::Written(ty.clone()))));
                }
                match name {
                    "len" => scalar(Scalar::I32),
                    _ if keeps_type(name, arguments.len()) && !self.file.globals.contains(name) => {
                        let mut kinds = arguments.iter().map(|argument| kind_of(&argument.value));
                        let first = kinds.next()??;
                        kinds.try_fold(first, |made, kind| join(made, kind?))
                    }
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// The type and the value with which the only variable of a name is declared.
    fn local_declaration(&self, name: &str) -> Option<(Option<&TypeExpr>, Option<&Expr>)> {
        let mut found = None;
        let mut n_declared = 0;
        walk_block(&self.function.body, &mut |statement| {
            if let StmtKind::Declare { targets, ty, value, .. } = &statement.kind
                && targets.iter().any(|target| target.name == name)
            {
                n_declared += 1;
                found = (targets.len() == 1).then_some((ty.as_ref(), value.as_ref()));
            }
        });
        found.filter(|_| n_declared == 1)
    }

    /// The type of the elements of an array's type.
    pub(super) fn element_of(&self, ty: &TypeExpr) -> Option<TypeExpr> {
        match ty.arguments.first()? {
            TypeArgument::Type(element) => Some(element.clone()),
            TypeArgument::Value(value) => {
                let path = super::structure::path_of(value)?;
                Some(TypeExpr { path, arguments: Vec::new(), range: value.range })
            }
        }
    }

    /// A written scalar as the scalar that it is, so that equal types are known to be equal.
    fn plain_scalar(&self, kind: ValueKind) -> ValueKind {
        match &kind {
            ValueKind::Known(ScratchType::Written(ty)) => match &ty.path[..] {
                [only] if ty.arguments.is_empty() => match types::scalar(&only.name) {
                    Some(scalar) => ValueKind::Known(ScratchType::Scalar(scalar)),
                    None => kind,
                },
                _ => kind,
            },
            _ => kind,
        }
    }

    /// The scratch memory as the program's description has it.
    pub(super) fn scratch_params(&self) -> Vec<ProgramParam> {
        let param = |memory: &ScratchMemory| ProgramParam {
            name: memory.param(),
            extents: Some(memory.extents.iter().cloned().map(Some).collect()),
            is_inferred: false,
        };
        self.scratch.iter().map(param).collect()
    }

    /// The scratch memory that a name stands for: that of the innermost block that declares it.
    fn visible_scratch(&self, name: &str) -> Option<&ScratchMemory> {
        self.scratch.iter().rev().find(|known| known.is_visible && known.name.name == name)
    }

    /// The scratch memory that names stand for, by its number.
    pub(super) fn needed_scratch(&self, names: &FxHashSet<&str>) -> Vec<usize> {
        let is_needed = |at: &usize| {
            let memory = &self.scratch[*at];
            let name = memory.name.name.as_str();
            names.contains(name) && self.visible_scratch(name).is_some_and(|known| std::ptr::eq(known, memory))
        };
        (0..self.scratch.len()).filter(is_needed).collect()
    }
}

impl ScratchMemory {
    /// The element that keeps a variable.
    pub(super) fn element(&self, range: TextRange, ctx: ExprContext) -> ast::Expr {
        node::subscript(node::name(&self.param(), range), node::int(0, range), range, ctx)
    }

    /// The name of the parameter.
    pub(super) fn param(&self) -> Arc<str> {
        self.param.clone()
    }
}

/// The type of what an operator makes of two values.
fn join(a: ValueKind, b: ValueKind) -> Option<ValueKind> {
    match (a, b) {
        (ValueKind::Plain(a), ValueKind::Plain(b)) => Some(ValueKind::Plain(a || b)),
        (ValueKind::Plain(_), known) | (known, ValueKind::Plain(_)) => Some(known),
        (ValueKind::Known(a), ValueKind::Known(b)) if a.is_same(&b) => Some(ValueKind::Known(a)),
        _ => None,
    }
}

/// Returns true if the value of a builtin is of the one type that all its arguments have.
fn keeps_type(name: &str, n_arguments: usize) -> bool {
    let Some(op) = Op::from_builtin_name(name) else { return false };
    let mut fitting = op.info().signatures.iter().filter(|signature| signature.params.len() == n_arguments).peekable();
    fitting.peek().is_some()
        && fitting.all(|signature| {
            matches!(&signature.results[..], [result] if signature.params.iter().all(|param| param.ty == *result))
        })
}

//! The typed AST as text: Python with a type on every expression that is not obvious from its parts.

use super::{
    AssignTarget, ComponentIndex, ElementPlace, ExprKind, ExprType, LoopBody, StmtKind, TypedExpr, TypedFunction,
    TypedProgram, TypedStmt, UpdateOp,
};
use crate::members::operator_text;
use crate::structure::ValueType;
use polyloom_ir::op::OpSpelling;
use polyloom_ir::{FunctionKind, Imm, Op, Scalar, Type};
use std::fmt::{self, Display, Write};

impl Display for TypedProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, function) in self.functions.iter().enumerate() {
            if i > 0 {
                f.write_char('\n')?;
            }
            AstPrinter { program: self, function }.function(f)?;
        }
        Ok(())
    }
}

struct AstPrinter<'a> {
    program: &'a TypedProgram,
    function: &'a TypedFunction,
}

impl AstPrinter<'_> {
    fn function(&self, f: &mut impl Write) -> fmt::Result {
        let function = self.function;
        let m = &function.metadata;
        let c = &function.constraints;
        let mut notes: Vec<String> = Vec::new();
        if m.kind != polyloom_ir::KernelKind::Custom {
            notes.push(format!("kind={:?}", m.kind.name()));
        }
        if let Some(target) = &m.target {
            notes.push(format!("target=\"{target}\""));
        }
        if let Some([x, y, z]) = m.workgroup_size {
            notes.push(format!("workgroup_size=({x}, {y}, {z})"));
        }
        notes.extend(m.shared_bytes.map(|n| format!("shared_bytes={n}")));
        match m.launch_bounds {
            Some((threads, None)) => notes.push(format!("launch_bounds={threads}")),
            Some((threads, Some(blocks))) => notes.push(format!("launch_bounds=({threads}, {blocks})")),
            None => {}
        }
        notes.extend(m.max_registers.map(|n| format!("max_registers={n}")));
        if m.float_mode != polyloom_ir::FloatMode::Strict {
            notes.push(format!("float_mode={:?}", m.float_mode.name()));
        }
        let flags = [
            ("check", m.check),
            ("no_allocation", c.no_allocation),
            ("no_syscalls", c.no_syscalls),
            ("inline_always", c.inline_always),
            ("inline_never", c.inline_never),
            ("unchecked", c.unchecked),
            ("critical_path", c.critical_path),
        ];
        notes.extend(flags.iter().filter(|(_, on)| *on).map(|(name, _)| format!("{name}=True")));
        if !m.hints.is_empty() {
            let hints: Vec<String> = m.hints.iter().map(|(k, v)| format!("{k:?}: {v:?}")).collect();
            notes.push(format!("hints={{{}}}", hints.join(", ")));
        }
        if !c.cpu_affinity.is_empty() {
            notes.push(format!("cpu_affinity={:?}", c.cpu_affinity));
        }
        notes.extend(c.target_latency_ns.map(|n| format!("target_latency_ns={n}")));
        let role = match function.kind {
            FunctionKind::Kernel => "kernel",
            FunctionKind::Func => "func",
        };
        let notes = if notes.is_empty() { String::new() } else { format!("({})", notes.join(", ")) };
        writeln!(f, "@{role}{notes}")?;
        let params = function.params.iter();
        let params: Vec<String> = params.map(|p| format!("{}: {}", p.name, p.ty.python_name())).collect();
        write!(f, "def {}({})", function.name, params.join(", "))?;
        match &function.results[..] {
            [] => {}
            [one] => write!(f, " -> {}", one.python_name())?,
            several => write!(f, " -> ({})", names(several))?,
        }
        f.write_str(":\n")?;
        self.block(f, &function.body, 1)
    }

    fn block(&self, f: &mut impl Write, body: &[TypedStmt], depth: usize) -> fmt::Result {
        if body.is_empty() {
            return writeln!(f, "{:1$}pass", "", depth * 4);
        }
        body.iter().try_for_each(|stmt| self.stmt(f, stmt, depth))
    }

    fn stmt(&self, f: &mut impl Write, stmt: &TypedStmt, depth: usize) -> fmt::Result {
        write!(f, "{:1$}", "", depth * 4)?;
        match &stmt.kind {
            StmtKind::Assign { targets, values } => {
                let targets: Vec<String> = targets.iter().map(|t| self.target(t)).collect();
                writeln!(f, "{} = {}", targets.join(", "), self.list(values))
            }
            StmtKind::Update { element, op, value } => match op {
                UpdateOp::Op(op) => {
                    let (element, value) = (self.element(element), self.expr(value));
                    match op.info().spelling {
                        OpSpelling::Operator(text) => writeln!(f, "{element} {text}= {value}"),
                        _ => writeln!(f, "{element} = {}({element}, {value})", op.name()),
                    }
                }
                UpdateOp::Power(power) => writeln!(f, "{} **= {power}", self.element(element)),
            },
            StmtKind::If { cond, then, otherwise, .. } => {
                writeln!(f, "if {}:", self.expr(cond))?;
                self.block(f, then, depth + 1)?;
                self.otherwise(f, otherwise, depth)
            }
            StmtKind::For { counter, start, stop, step, body } => {
                let local = &self.function.locals[counter.0 as usize];
                let range = self.list([start, stop, step]);
                writeln!(f, "for {}: {} in range({range}):", local.name, local.ty.python_name())?;
                self.loop_body(f, body, depth)
            }
            StmtKind::While { cond, body, .. } => {
                writeln!(f, "while {}:", self.expr(cond))?;
                self.loop_body(f, body, depth)
            }
            StmtKind::Break => writeln!(f, "break"),
            StmtKind::Continue => writeln!(f, "continue"),
            StmtKind::Return(values) => writeln!(f, "{}", format!("return {}", self.list(values)).trim_end()),
            StmtKind::Assert { cond, message } => writeln!(f, "assert {}, {message:?}", self.expr(cond)),
            StmtKind::Print { format, args } => {
                let comma = if args.is_empty() { "" } else { ", " };
                writeln!(f, "printf({format:?}{comma}{})", self.list(args))
            }
            StmtKind::Expr(expr) => writeln!(f, "{}", self.expr(expr)),
        }
    }

    fn loop_body(&self, f: &mut impl Write, body: &LoopBody, depth: usize) -> fmt::Result {
        self.block(f, &body.body, depth + 1)?;
        self.otherwise(f, &body.otherwise, depth)
    }

    fn otherwise(&self, f: &mut impl Write, otherwise: &[TypedStmt], depth: usize) -> fmt::Result {
        if otherwise.is_empty() {
            return Ok(());
        }
        writeln!(f, "{:1$}else:", "", depth * 4)?;
        self.block(f, otherwise, depth + 1)
    }

    fn target(&self, target: &AssignTarget) -> String {
        match target {
            AssignTarget::Local(local) => {
                let local = &self.function.locals[local.0 as usize];
                format!("{}: {}", local_name(&local.name), local.ty.python_name())
            }
            AssignTarget::Element(element) => self.element(element),
            AssignTarget::Places(places) => {
                let each = places.each.iter().map(|(array, inner)| {
                    let indices = self.list(places.indices.iter().chain(inner));
                    format!("{}[{indices}]", self.expr(array))
                });
                each.collect::<Vec<_>>().join(", ")
            }
            AssignTarget::Component(local, index) => {
                let name = local_name(&self.function.locals[local.0 as usize].name);
                format!("{name}{}", self.component(index))
            }
        }
    }

    fn component(&self, index: &ComponentIndex) -> String {
        match index {
            ComponentIndex::Is(component) => format!("[{component}]"),
            ComponentIndex::At(indices) => format!("[{}]", self.list(indices)),
            ComponentIndex::Flat(index) => format!("[{}]", self.expr(index)),
        }
    }

    fn element(&self, element: &ElementPlace) -> String {
        format!("{}[{}]", self.expr(&element.array), self.list(&element.indices))
    }

    fn list<'e>(&self, exprs: impl IntoIterator<Item = &'e TypedExpr>) -> String {
        exprs.into_iter().map(|e| self.expr(e)).collect::<Vec<_>>().join(", ")
    }

    fn expr(&self, expr: &TypedExpr) -> String {
        let list = |args: &[TypedExpr]| self.list(args);
        match &expr.kind {
            ExprKind::Const(bits) => constant(&expr.ty, *bits),
            ExprKind::Number(number) => number.to_string(),
            ExprKind::Local(local) => local_name(&self.function.locals[local.0 as usize].name).to_owned(),
            ExprKind::View { array, indices } => {
                let name = local_name(&self.function.locals[array.0 as usize].name);
                format!("{name}[{}]", list(indices))
            }
            ExprKind::Gather(indices) => format!("gather({})", self.expr(indices)),
            ExprKind::Slice(parts) => format!("slice({})", list(&parts[..])),
            ExprKind::Op { op, args, .. } => match (op.info().spelling, &args[..]) {
                (OpSpelling::Operator(text), [a, b]) => {
                    format!("({} {text} {}){}", self.expr(a), self.expr(b), suffix(*op, &expr.ty))
                }
                (OpSpelling::Operator(text), [a]) => {
                    let space = if *op == Op::Not { " " } else { "" };
                    format!("({text}{space}{})", self.expr(a))
                }
                _ => format!("{}({}){}", op.name(), list(args), suffix(*op, &expr.ty)),
            },
            ExprKind::OpWith { op, imm, args } => {
                let mut parts: Vec<String> = args.iter().map(|arg| self.expr(arg)).collect();
                match imm {
                    Imm::Axis(axis) => parts.push(axis.to_string()),
                    Imm::Width(width) => parts.push(format!("width={width}")),
                    Imm::Fragment(fragment) => {
                        let layout = if fragment.by_columns { "col" } else { "row" };
                        parts.push(format!("layout={layout:?}, n={}", fragment.n));
                    }
                    Imm::Copy(copy) => parts.push(format!("count={}, cache={:?}", copy.count, copy.cache.name())),
                    Imm::Barrier(barrier) => parts.push(format!("id={}, count={}", barrier.id, barrier.count)),
                    Imm::Pending(n) => parts.push(n.to_string()),
                    Imm::Memory(order) => {
                        parts.push(format!("scope={:?}", order.scope.name()));
                        parts.push(format!("order={:?}", order.ordering.name()));
                    }
                    Imm::Shared(array) => {
                        parts.push(format!("shape={:?}", array.extents));
                        parts.push(format!("align={}", array.align));
                    }
                    _ => {}
                }
                format!("{}({}){}", op.name(), parts.join(", "), suffix(*op, &expr.ty))
            }
            ExprKind::Cast(x) => format!("{}({})", type_name(&expr.ty), self.expr(x)),
            ExprKind::Bitcast(x) => format!("cast({}, {})", self.expr(x), type_name(&expr.ty)),
            ExprKind::Tid(axis) => format!("tid({axis})"),
            ExprKind::WrapIndex(index, of) => format!("wrap({}, {})", self.expr(index), of.extent),
            ExprKind::Dim(array, axis) => format!("{}.shape[{axis}]", self.expr(array)),
            ExprKind::Load(element) => format!("{}: {}", self.element(element), type_name(&expr.ty)),
            ExprKind::Component(x, index) => format!("{}{}", self.expr(x), self.component(index)),
            ExprKind::Named(_, value) => self.expr(value),
            ExprKind::Let { locals, value, body } => {
                let names: Vec<String> = locals.iter().map(|local| format!("v{}", local.0)).collect();
                format!("({} := {}; {})", names.join(", "), self.expr(value), self.expr(body))
            }
            ExprKind::Power(x, power) => format!("({} ** {power})", self.expr(x)),
            ExprKind::Logic { all, terms, .. } => {
                let word = if *all { " and " } else { " or " };
                format!("({})", terms.iter().map(|t| self.expr(t)).collect::<Vec<_>>().join(word))
            }
            ExprKind::Chain { first, rest, .. } => {
                let mut text = format!("({}", self.expr(first));
                for link in rest {
                    text.push_str(&format!(" {} {}", operator_text(link.op), self.expr(&link.right)));
                }
                text + ")"
            }
            ExprKind::If { cond, then, otherwise, .. } => {
                format!("({} if {} else {})", self.expr(then), self.expr(cond), self.expr(otherwise))
            }
            ExprKind::Call { function, args, .. } => {
                let name = self.program.functions.get(function.0 as usize).map_or("?", |f| &f.name);
                format!("{name}({}): {}", list(args), type_name(&expr.ty))
            }
            ExprKind::Tuple(parts) => format!("({})", list(parts)),
            ExprKind::Error => "?".to_owned(),
        }
    }
}

/// Assignments of one value to several targets hold it in a variable without a name.
fn local_name(name: &str) -> &str {
    if name.is_empty() { "_" } else { name }
}

/// The type of an operation, where its operands do not say it.
fn suffix(op: Op, ty: &ExprType) -> String {
    let follows = !op.info().signatures.iter().all(|s| s.params.is_empty())
        && op.info().group != polyloom_ir::op::OpGroup::Random;
    if follows { String::new() } else { format!(": {}", type_name(ty)) }
}

fn names(types: &[ValueType]) -> String {
    types.iter().map(|t| t.python_name()).collect::<Vec<_>>().join(", ")
}

fn type_name(ty: &ExprType) -> String {
    match ty {
        ExprType::Value(ty) => ty.python_name(),
        ExprType::Struct(_) | ExprType::StructArray { .. } => names(ty.full().as_slice()),
        ExprType::Values(types) => format!("({})", names(types)),
        ExprType::Number => "number".to_owned(),
        ExprType::Error => "?".to_owned(),
    }
}

/// `2`, `2.0`, `uint8(2)`: a constant as Python that has its type.
fn constant(ty: &ExprType, bits: u64) -> String {
    let Some(scalar) = ty.as_value().and_then(Type::as_scalar) else { return format!("{bits:#x}") };
    let signed = {
        let shift = 64 - scalar.bits();
        ((bits << shift) as i64) >> shift
    };
    match scalar {
        Scalar::Bool => if bits == 0 { "False" } else { "True" }.to_owned(),
        Scalar::I32 => signed.to_string(),
        Scalar::F32 => format!("{:?}", f32::from_bits(bits as u32)),
        Scalar::F64 => format!("float64({:?})", f64::from_bits(bits)),
        Scalar::F16 | Scalar::BF16 => format!("{}(bits={bits:#06x})", scalar.python_name()),
        _ if scalar.is_signed_int() => format!("{}({signed})", scalar.python_name()),
        _ => format!("{}({bits})", scalar.python_name()),
    }
}

//! Kernels of a Python file as `.loom` text.
//!
//! The text means what the file means, so that random kernels, which are made as Python, try the language as well. It has
//! what kernels and what they call consist of, and constants and types between them; what has no such form is named.

use super::token::KEYWORDS;
use super::types;
use polyloom_ir::Scalar;
use ruff_python_ast::{self as ast, CmpOp, Expr, Number, Operator, Stmt, UnaryOp};
use rustc_hash::{FxHashMap, FxHashSet};
use std::fmt::Write as _;

/// Writes the functions, structs, constants and types of a Python file as `.loom`.
///
/// # Errors
///
/// Names the construct that `.loom` does not have, or says why the file is not Python.
pub fn loom_of_python(text: &str) -> Result<String, String> {
    let parsed = ruff_python_parser::parse_module(text).map_err(|error| error.to_string())?;
    let module = parsed.into_syntax();
    let mut names = NamesOfFile::default();
    names.collect(text);
    let mut writer =
        LoomWriter { out: String::new(), depth: 0, names, scopes: Vec::new(), params: FxHashMap::default() };
    for statement in &module.body {
        writer.item(statement)?;
    }
    Ok(writer.out)
}

/// The names of a file, so that none of `.loom` has two meanings.
#[derive(Default)]
struct NamesOfFile {
    /// Members of the package that the file names, and words that mean something else in `.loom`.
    reserved: FxHashSet<String>,
    /// All words of the file.
    used: FxHashSet<String>,
    renamed: FxHashMap<String, String>,
    n_made: usize,
}

impl NamesOfFile {
    fn collect(&mut self, text: &str) {
        let words = ["step", "reduce", "type", "range", "print", "len", "floordiv", "float", "int", "types"];
        self.reserved.extend(words.map(str::to_owned));
        self.reserved.extend(KEYWORDS.iter().map(|(word, _)| (*word).to_owned()));
        self.reserved.extend(types::SCALARS.iter().map(|(name, _)| (*name).to_owned()));
        let is_word = |c: char| c == '_' || c.is_alphanumeric();
        self.used = text.split(|c| !is_word(c)).map(str::to_owned).collect();
        for (at, _) in text.match_indices("loom.") {
            let member = text[at + 5..].split(|c| !is_word(c)).next().unwrap_or_default();
            self.reserved.insert(member.to_owned());
        }
    }

    /// The name of a variable, a function or a type of the file.
    fn own(&mut self, name: &str) -> String {
        if !self.reserved.contains(name) {
            return name.to_owned();
        }
        if let Some(known) = self.renamed.get(name) {
            return known.clone();
        }
        let made = self.fresh(name);
        self.renamed.insert(name.to_owned(), made.clone());
        made
    }

    /// A name that nothing has.
    fn fresh(&mut self, like: &str) -> String {
        loop {
            self.n_made += 1;
            let made = format!("{like}_{}", self.n_made);
            if self.used.insert(made.clone()) {
                return made;
            }
        }
    }
}

struct LoomWriter {
    out: String,
    depth: usize,
    names: NamesOfFile,
    /// Variables that are declared, by block, innermost last.
    scopes: Vec<FxHashSet<String>>,
    /// Parameters that are assigned, with the variables that stand for them.
    params: FxHashMap<String, String>,
}

/// Names what a loop with an `else` sets when it is left by `break`.
type LoopFlag<'a> = Option<&'a str>;

fn unsupported<T>(what: &str) -> Result<T, String> {
    Err(format!("`.loom` has no {what}"))
}

/// The member of the package that an expression names.
fn package_member(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Attribute(attribute) => {
            let of = attribute.value.as_name_expr()?;
            (of.id.as_str() == "loom").then_some(attribute.attr.as_str())
        }
        _ => None,
    }
}

/// Returns the type that a member of the package is.
fn scalar_of(name: &str) -> Option<Scalar> {
    Scalar::from_python_name(name).or(builtin_scalar(name))
}

/// Returns the type that a name of Python's own is. Other names are the program's, `u64` too.
fn builtin_scalar(name: &str) -> Option<Scalar> {
    match name {
        "float" => Some(Scalar::F32),
        "int" => Some(Scalar::I32),
        "bool" => Some(Scalar::Bool),
        _ => None,
    }
}

fn keyword<'a>(call: &'a ast::ExprCall, name: &str) -> Option<&'a Expr> {
    let mut keywords = call.arguments.keywords.iter();
    keywords.find(|keyword| keyword.arg.as_ref().is_some_and(|arg| arg.as_str() == name)).map(|keyword| &keyword.value)
}

impl LoomWriter {
    fn line(&mut self, text: &str) {
        let _ = writeln!(self.out, "{:1$}{text}", "", self.depth * 4);
    }

    fn item(&mut self, statement: &Stmt) -> Result<(), String> {
        match statement {
            Stmt::Import(_) | Stmt::ImportFrom(_) => Ok(()),
            Stmt::Assign(assign) => {
                let Some(name) = assign.targets.first().and_then(Expr::as_name_expr) else {
                    return unsupported("such assignment outside functions");
                };
                let name = self.names.own(&name.id);
                let text = match self.composite_type(&assign.value)? {
                    Some(ty) => format!("type {name} = {ty}"),
                    None => format!("const {name} = {}", self.expr(&assign.value)?),
                };
                self.line(&text);
                Ok(())
            }
            Stmt::ClassDef(class) => self.structure(class),
            Stmt::FunctionDef(function) => self.function(function),
            _ => unsupported("such statement outside functions"),
        }
    }

    fn structure(&mut self, class: &ast::StmtClassDef) -> Result<(), String> {
        let name = self.names.own(&class.name);
        self.line(&format!("struct {name} {{"));
        for field in &class.body {
            let Stmt::AnnAssign(field) = field else { return unsupported("such member of a struct") };
            let (Expr::Name(name), Some(ty)) = (&*field.target, self.ty(&field.annotation)?) else {
                return unsupported("such field");
            };
            self.line(&format!("    {}: {ty}", name.id));
        }
        self.line("}");
        Ok(())
    }

    /// `loom.types.vector(length=5, dtype=loom.float32)` and its like, as a type.
    fn composite_type(&mut self, expr: &Expr) -> Result<Option<String>, String> {
        let Expr::Call(call) = expr else { return Ok(None) };
        let Expr::Attribute(maker) = &*call.func else { return Ok(None) };
        if package_member(&maker.value) != Some("types") {
            return Ok(None);
        }
        let Some(elem) = keyword(call, "dtype") else { return unsupported("type without elements") };
        let Some(elem) = self.ty(elem)? else { return Ok(None) };
        let mut arguments = vec![elem];
        if matches!(keyword(call, "length"), Some(Expr::Name(name)) if name.id == "Any") {
            return unsupported("vector of any length");
        }
        match (keyword(call, "length"), keyword(call, "shape")) {
            (Some(length), _) => arguments.push(self.expr(length)?),
            (_, Some(Expr::Tuple(shape))) => {
                for extent in &shape.elts {
                    arguments.push(self.expr(extent)?);
                }
            }
            _ => {}
        }
        Ok(Some(format!("{}<{}>", maker.attr, arguments.join(", "))))
    }

    /// A type; `None` for one that stands for any.
    fn ty(&mut self, expr: &Expr) -> Result<Option<String>, String> {
        if let Some(member) = package_member(expr) {
            return Ok(Some(match scalar_of(member) {
                Some(scalar) => types::scalar_name(scalar).to_owned(),
                None => member.to_owned(),
            }));
        }
        match expr {
            Expr::Name(name) => match (name.id.as_str(), builtin_scalar(&name.id)) {
                ("Any" | "Callable", _) => Ok(None),
                (_, Some(scalar)) => Ok(Some(types::scalar_name(scalar).to_owned())),
                (name, None) => Ok(Some(self.names.own(name))),
            },
            Expr::Call(call) if package_member(&call.func) == Some("array") => {
                let Some(elem) = keyword(call, "dtype") else { return unsupported("array without a type of elements") };
                let Some(elem) = self.ty(elem)? else { return Ok(None) };
                let ndim = match keyword(call, "ndim") {
                    Some(Expr::NumberLiteral(ast::ExprNumberLiteral { value: Number::Int(ndim), .. })) => {
                        ndim.as_usize().unwrap_or(1)
                    }
                    Some(_) => return unsupported("such number of axes"),
                    None => 1,
                };
                Ok(Some(format!("array<{elem}{}>", ", _".repeat(ndim))))
            }
            _ => self.composite_type(expr),
        }
    }

    fn function(&mut self, function: &ast::StmtFunctionDef) -> Result<(), String> {
        let mut annotations = String::new();
        let mut is_kernel = false;
        for decorator in &function.decorator_list {
            let (made, call) = match &decorator.expression {
                Expr::Call(call) => (&*call.func, Some(call)),
                other => (other, None),
            };
            is_kernel = package_member(made) == Some("kernel");
            for argument in call.iter().flat_map(|call| &call.arguments.keywords) {
                let name = argument.arg.as_ref().map_or("", |name| name.as_str());
                let value = &argument.value;
                match (name, value) {
                    ("block_dim", _) => annotations += &format!(" @workgroup({})", self.expr(value)?),
                    ("hints", Expr::Dict(hints)) => {
                        for item in &hints.items {
                            let width = self.expr(&item.value)?;
                            annotations += &format!(" @vectorize({width})");
                        }
                    }
                    _ => return unsupported(&format!("`{name}` of a kernel")),
                }
            }
        }
        let mut generics: Vec<String> = Vec::new();
        let mut params: Vec<String> = Vec::new();
        let mut names: FxHashSet<String> = FxHashSet::default();
        for param in function.parameters.iter_non_variadic_params() {
            let name = self.names.own(&param.parameter.name);
            names.insert(param.parameter.name.to_string());
            let annotation = param.parameter.annotation.as_deref();
            let bound =
                annotation.and_then(package_member).filter(|bound| matches!(*bound, "Float" | "Int" | "Scalar"));
            if let Some(bound) = bound {
                let variable = self.names.fresh("T");
                params.push(format!("{name}: {variable}"));
                generics.push(format!("{variable}: {bound}"));
                continue;
            }
            let ty = annotation.map(|annotation| self.ty(annotation)).transpose()?.flatten();
            params.push(ty.map_or_else(|| name.clone(), |ty| format!("{name}: {ty}")));
        }
        let name = self.names.own(&function.name);
        let generics = if generics.is_empty() { String::new() } else { format!("<{}>", generics.join(", ")) };
        let word = if is_kernel { "kernel" } else { "fn" };
        self.line("");
        self.line(&format!("{word} {name}{generics}({}){annotations} {{", params.join(", ")));
        self.depth += 1;
        let mut assigned = FxHashSet::default();
        collect_assigned(&function.body, &mut assigned);
        self.params.clear();
        for param in function.parameters.iter_non_variadic_params() {
            let param = param.parameter.name.as_str();
            if assigned.contains(param) {
                let (own, made) = (self.names.own(param), self.names.fresh(param));
                self.line(&format!("var {made} = {own}"));
                self.params.insert(param.to_owned(), made);
            }
        }
        self.scopes = vec![names];
        self.statements(&function.body, None)?;
        self.depth -= 1;
        self.line("}");
        Ok(())
    }

    /// The statements of a block between braces.
    fn block(&mut self, body: &[Stmt], flag: LoopFlag<'_>) -> Result<(), String> {
        self.scopes.push(FxHashSet::default());
        self.depth += 1;
        self.statements(body, flag)?;
        self.depth -= 1;
        self.scopes.pop();
        Ok(())
    }

    fn statements(&mut self, body: &[Stmt], flag: LoopFlag<'_>) -> Result<(), String> {
        body.iter().try_for_each(|statement| self.statement(statement, flag))
    }

    fn is_declared(&self, name: &str) -> bool {
        self.scopes.iter().any(|scope| scope.contains(name))
    }

    fn declare(&mut self, name: &str) -> String {
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name.to_owned());
        }
        self.names.own(name)
    }

    fn statement(&mut self, statement: &Stmt, flag: LoopFlag<'_>) -> Result<(), String> {
        match statement {
            Stmt::Pass(_) => {}
            Stmt::Assign(assign) => {
                let [target] = &assign.targets[..] else { return unsupported("assignment to several targets") };
                let value = self.expr(&assign.value)?;
                self.assignment(target, &value)?;
            }
            Stmt::AnnAssign(assign) => {
                let (Expr::Name(name), Some(value)) = (&*assign.target, &assign.value) else {
                    return unsupported("such annotation");
                };
                let value = self.expr(value)?;
                let ty = self.ty(&assign.annotation)?.map_or_else(String::new, |ty| format!(": {ty}"));
                let name = self.declare(&name.id);
                self.line(&format!("var {name}{ty} = {value}"));
            }
            Stmt::AugAssign(update) => {
                let (target, value) = (self.expr(&update.target)?, self.expr(&update.value)?);
                match update.op {
                    Operator::FloorDiv => self.line(&format!("{target} = floordiv({target}, {value})")),
                    op => self.line(&format!("{target} {}= {value}", operator(op)?)),
                }
            }
            Stmt::If(branch) => {
                let cond = self.expr(&branch.test)?;
                self.line(&format!("if {cond} {{"));
                self.block(&branch.body, flag)?;
                for clause in &branch.elif_else_clauses {
                    match &clause.test {
                        Some(test) => {
                            let cond = self.expr(test)?;
                            self.line(&format!("}} else if {cond} {{"));
                        }
                        None => self.line("} else {"),
                    }
                    self.block(&clause.body, flag)?;
                }
                self.line("}");
            }
            Stmt::For(inner) => {
                let (Expr::Name(counter), Expr::Call(iter)) = (&*inner.target, &*inner.iter) else {
                    return unsupported("loop over anything but a range");
                };
                let arguments = iter.arguments.args.iter().map(|argument| self.expr(argument));
                let arguments = arguments.collect::<Result<Vec<_>, _>>()?;
                let range = match &arguments[..] {
                    [end] => format!("0..{end}"),
                    [start, end] => format!("{start}..{end}"),
                    [start, end, step] => format!("{start}..{end} step {step}"),
                    _ => return unsupported("such range"),
                };
                self.loop_with_else(&inner.body, &inner.orelse, |writer| {
                    let counter = writer.declare(&counter.id);
                    format!("for {counter} in {range} {{")
                })?;
            }
            Stmt::While(inner) => {
                let cond = self.expr(&inner.test)?;
                self.loop_with_else(&inner.body, &inner.orelse, |_| format!("while {cond} {{"))?;
            }
            Stmt::Break(_) => {
                if let Some(flag) = flag {
                    self.line(&format!("{flag} = false"));
                }
                self.line("break");
            }
            Stmt::Continue(_) => self.line("continue"),
            Stmt::Return(done) => {
                let value = match done.value.as_deref() {
                    None => String::new(),
                    Some(Expr::Tuple(values)) => format!(" {}", self.list(&values.elts)?),
                    Some(value) => format!(" {}", self.expr(value)?),
                };
                self.line(&format!("return{value}"));
            }
            Stmt::Assert(assert) => {
                let cond = self.expr(&assert.test)?;
                let message = assert.msg.as_ref().map(|message| self.expr(message)).transpose()?;
                self.line(&format!("assert {cond}{}", message.map_or_else(String::new, |text| format!(", {text}"))));
            }
            Stmt::Expr(value) => {
                let value = self.expr(&value.value)?;
                self.line(&value);
            }
            _ => return unsupported("such statement"),
        }
        Ok(())
    }

    /// A loop whose `else`, if it has one, runs unless `break` ends it.
    fn loop_with_else(
        &mut self,
        body: &[Stmt],
        orelse: &[Stmt],
        header: impl FnOnce(&mut Self) -> String,
    ) -> Result<(), String> {
        let flag = (!orelse.is_empty()).then(|| self.names.fresh("ran"));
        if let Some(flag) = &flag {
            self.line(&format!("var {flag} = true"));
        }
        self.scopes.push(FxHashSet::default());
        let header = header(self);
        self.line(&header);
        self.block(body, flag.as_deref())?;
        self.scopes.pop();
        self.line("}");
        if let Some(flag) = flag {
            self.line(&format!("if {flag} {{"));
            self.block(orelse, None)?;
            self.line("}");
        }
        Ok(())
    }

    fn assignment(&mut self, target: &Expr, value: &str) -> Result<(), String> {
        match target {
            Expr::Name(name) if !self.is_declared(&name.id) => {
                let name = self.declare(&name.id);
                self.line(&format!("var {name} = {value}"));
            }
            Expr::Tuple(targets) => {
                let is_new = |writer: &Self, target: &Expr| {
                    target.as_name_expr().is_some_and(|name| !writer.is_declared(&name.id))
                };
                let n_new = targets.elts.iter().filter(|target| is_new(self, target)).count();
                if n_new != 0 && n_new != targets.elts.len() {
                    return unsupported("assignment that declares some of its targets");
                }
                let mut names = Vec::new();
                for target in &targets.elts {
                    names.push(match target {
                        Expr::Name(name) if n_new > 0 => self.declare(&name.id),
                        _ => self.expr(target)?,
                    });
                }
                let word = if n_new > 0 { "var " } else { "" };
                self.line(&format!("{word}{} = {value}", names.join(", ")));
            }
            _ => {
                let target = self.expr(target)?;
                self.line(&format!("{target} = {value}"));
            }
        }
        Ok(())
    }

    fn list(&mut self, values: &[Expr]) -> Result<String, String> {
        Ok(values.iter().map(|value| self.expr(value)).collect::<Result<Vec<_>, _>>()?.join(", "))
    }

    fn expr(&mut self, expr: &Expr) -> Result<String, String> {
        if let Some(member) = package_member(expr) {
            return Ok(match scalar_of(member) {
                Some(scalar) => types::scalar_name(scalar).to_owned(),
                None => member.to_owned(),
            });
        }
        Ok(match expr {
            Expr::NumberLiteral(number) => match &number.value {
                Number::Int(value) => value.to_string(),
                Number::Float(value) => format!("{value:?}"),
                Number::Complex { .. } => return unsupported("complex number"),
            },
            Expr::BooleanLiteral(literal) => literal.value.to_string(),
            Expr::StringLiteral(literal) => quoted(literal.value.to_str()),
            Expr::Name(name) => match (name.id.as_str(), builtin_scalar(&name.id)) {
                ("print" | "len" | "type" | "range", _) => name.id.to_string(),
                (_, Some(scalar)) => types::scalar_name(scalar).to_owned(),
                (name, None) => match self.params.get(name) {
                    Some(variable) => variable.clone(),
                    None => self.names.own(name),
                },
            },
            Expr::Attribute(attribute) => format!("{}.{}", self.expr(&attribute.value)?, attribute.attr),
            Expr::Subscript(subscript) => {
                let of = self.expr(&subscript.value)?;
                let index = match &*subscript.slice {
                    Expr::Tuple(indices) => self.list(&indices.elts)?,
                    index => self.expr(index)?,
                };
                format!("{of}[{index}]")
            }
            Expr::Slice(slice) => {
                let mut bound = |bound: &Option<Box<Expr>>| match bound {
                    Some(bound) => self.expr(bound),
                    None => Ok(String::new()),
                };
                let (start, end) = (bound(&slice.lower)?, bound(&slice.upper)?);
                match &slice.step {
                    Some(_) => format!("{start}..{end} step {}", bound(&slice.step)?),
                    None => format!("{start}..{end}"),
                }
            }
            Expr::Starred(starred) => format!("*{}", self.expr(&starred.value)?),
            Expr::Call(call) => {
                if let Expr::Attribute(maker) = &*call.func
                    && package_member(&maker.value) == Some("types")
                {
                    return unsupported("type without a name in an expression");
                }
                let function = self.expr(&call.func)?;
                let mut arguments = Vec::new();
                for argument in &call.arguments.args {
                    arguments.push(self.expr(argument)?);
                }
                for argument in &call.arguments.keywords {
                    let Some(name) = &argument.arg else { return unsupported("`**` among arguments") };
                    // Parameters of the file's functions are called as they are there.
                    let name = match package_member(&call.func) {
                        Some(_) => name.to_string(),
                        None => self.names.own(name),
                    };
                    arguments.push(format!("{name}={}", self.expr(&argument.value)?));
                }
                format!("{function}({})", arguments.join(", "))
            }
            Expr::UnaryOp(unary) => {
                let op = match unary.op {
                    UnaryOp::USub => "-",
                    UnaryOp::UAdd => "+",
                    UnaryOp::Invert => "~",
                    UnaryOp::Not => "not ",
                };
                format!("({op}{})", self.expr(&unary.operand)?)
            }
            Expr::BinOp(binary) => {
                let (left, right) = (self.expr(&binary.left)?, self.expr(&binary.right)?);
                match binary.op {
                    Operator::FloorDiv => format!("floordiv({left}, {right})"),
                    op => format!("({left} {} {right})", operator(op)?),
                }
            }
            Expr::Compare(compare) => {
                let mut text = self.expr(&compare.left)?;
                for (op, operand) in compare.ops.iter().zip(&compare.comparators) {
                    let op = match op {
                        CmpOp::Lt => "<",
                        CmpOp::LtE => "<=",
                        CmpOp::Gt => ">",
                        CmpOp::GtE => ">=",
                        CmpOp::Eq => "==",
                        CmpOp::NotEq => "!=",
                        _ => return unsupported("such comparison"),
                    };
                    text += &format!(" {op} {}", self.expr(operand)?);
                }
                format!("({text})")
            }
            Expr::BoolOp(logic) => {
                let word = match logic.op {
                    ast::BoolOp::And => " and ",
                    ast::BoolOp::Or => " or ",
                };
                let terms = logic.values.iter().map(|value| self.expr(value)).collect::<Result<Vec<_>, _>>()?;
                format!("({})", terms.join(word))
            }
            Expr::If(choice) => {
                let (cond, then) = (self.expr(&choice.test)?, self.expr(&choice.body)?);
                format!("(if {cond} then {then} else {})", self.expr(&choice.orelse)?)
            }
            Expr::Tuple(values) => match &values.elts[..] {
                [only] => format!("({},)", self.expr(only)?),
                several => format!("({})", self.list(several)?),
            },
            _ => return unsupported("such expression"),
        })
    }
}

fn operator(op: Operator) -> Result<&'static str, String> {
    Ok(match op {
        Operator::Add => "+",
        Operator::Sub => "-",
        Operator::Mult => "*",
        Operator::Div => "/",
        Operator::Mod => "%",
        Operator::Pow => "**",
        Operator::LShift => "<<",
        Operator::RShift => ">>",
        Operator::BitAnd => "&",
        Operator::BitOr => "|",
        Operator::BitXor => "^",
        Operator::FloorDiv | Operator::MatMult => return unsupported("such operator"),
    })
}

/// A text in quotes.
fn quoted(text: &str) -> String {
    let mut made = String::from("\"");
    for character in text.chars() {
        match character {
            '\n' => made.push_str("\\n"),
            '\t' => made.push_str("\\t"),
            '\r' => made.push_str("\\r"),
            '\0' => made.push_str("\\0"),
            '"' | '\\' => made.extend(['\\', character]),
            other => made.push(other),
        }
    }
    made.push('"');
    made
}

/// The names that statements assign as a whole.
fn collect_assigned(body: &[Stmt], assigned: &mut FxHashSet<String>) {
    fn target(expr: &Expr, assigned: &mut FxHashSet<String>) {
        match expr {
            Expr::Name(name) => _ = assigned.insert(name.id.to_string()),
            Expr::Tuple(targets) => targets.elts.iter().for_each(|inner| target(inner, assigned)),
            _ => {}
        }
    }
    for statement in body {
        match statement {
            Stmt::Assign(assign) => assign.targets.iter().for_each(|expr| target(expr, assigned)),
            Stmt::AnnAssign(assign) => target(&assign.target, assigned),
            Stmt::AugAssign(update) => target(&update.target, assigned),
            Stmt::If(branch) => {
                collect_assigned(&branch.body, assigned);
                branch.elif_else_clauses.iter().for_each(|clause| collect_assigned(&clause.body, assigned));
            }
            Stmt::For(inner) => {
                target(&inner.target, assigned);
                collect_assigned(&inner.body, assigned);
                collect_assigned(&inner.orelse, assigned);
            }
            Stmt::While(inner) => {
                collect_assigned(&inner.body, assigned);
                collect_assigned(&inner.orelse, assigned);
            }
            _ => {}
        }
    }
}

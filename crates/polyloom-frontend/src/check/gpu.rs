//! Blocks and warps: the builtins that say more than operands can, an axis, a width, a scope.

use super::call::CallArgument;
use super::function::FunctionChecker;
use super::subscript_meaning::SubscriptMeaning;
use crate::constant;
use crate::environment::CapturedMeaning;
use crate::number::PythonNumber;
use crate::typed_ast::{ExprKind, ExprType, TypedExpr};
use polyloom_ir::arch::WARP_SIZE;
use polyloom_ir::diagnostic::near_names;
use polyloom_ir::fragment::{FragmentAccess, MatrixRole, fragment_type};
use polyloom_ir::function::{CacheUse, NamedBarrier, SharedCopy};
use polyloom_ir::op::OpGroup;
use polyloom_ir::{AddressSpace, AtomicOrdering, Code, Imm, MemoryOrder, MemoryScope, Op, Scalar, Span, Type};
use ruff_python_ast as ast;
use smallvec::SmallVec;

impl<'a> FunctionChecker<'_, '_, 'a> {
    /// A call of an op that says more than its operands do; `None` for other ops.
    pub(super) fn special_call(
        &mut self,
        op: Op,
        call: &'a ast::ExprCall,
        name: &str,
        span: Span,
    ) -> Option<TypedExpr> {
        Some(match op {
            Op::ThreadIdx | Op::BlockIdx | Op::BlockDim | Op::GridDim => self.block_index(op, call, name, span),
            Op::Shuffle | Op::ShuffleUp | Op::ShuffleDown | Op::ShuffleXor => self.shuffle(op, call, name, span),
            Op::ThreadFence => self.thread_fence(call, name, span),
            Op::SyncThreads if !call.arguments.is_empty() => self.named_barrier(call, name, span),
            Op::SharedArray | Op::DynamicShared => {
                let message = format!("`{name}` stands for an array, which only a name can");
                let help = format!("write `tile = {name}(…)` on a line of its own, and then use `tile`");
                self.reject(Code::Unsupported, span, message, help)
            }
            Op::MmaLoadA | Op::MmaLoadB | Op::MmaLoadC | Op::MmaStore => self.fragment(op, call, name, span),
            Op::AsyncCopy => self.async_copy(call, name, span),
            Op::AsyncWait => self.async_wait(call, name, span),
            op if op.info().group == OpGroup::Atomic
                && (call.arguments.find_keyword("scope").is_some()
                    || call.arguments.find_keyword("order").is_some()) =>
            {
                self.ordered_atomic(op, call, name, span)
            }
            _ => return None,
        })
    }

    /// `thread_idx(axis)`.
    fn block_index(&mut self, op: Op, call: &'a ast::ExprCall, name: &str, span: Span) -> TypedExpr {
        let Some(arguments) = self.arguments(call) else { return TypedExpr::error(span) };
        let axis = match &arguments[..] {
            [] => Some(0),
            [CallArgument { name: None | Some("axis"), value }] => {
                known_int(value).filter(|axis| (0..3).contains(axis))
            }
            _ => None,
        };
        match axis {
            Some(axis) => {
                let kind = ExprKind::OpWith { op, imm: Imm::Axis(axis as u8), args: Vec::new() };
                TypedExpr::new(kind, ExprType::Value(Type::I32), span)
            }
            None => {
                let message = format!("`{name}` takes the axis 0, 1 or 2, 0 unless it is given");
                self.reject(Code::NoOverload, span, message, format!("write `{name}()` or `{name}(1)`"))
            }
        }
    }

    /// `shuffle(value, lane, width)`.
    fn shuffle(&mut self, op: Op, call: &'a ast::ExprCall, name: &str, span: Span) -> TypedExpr {
        let Some(mut arguments) = self.arguments(call) else { return TypedExpr::error(span) };
        let place = arguments.iter().position(|argument| argument.name == Some("width")).or_else(|| {
            let third = arguments.get(2)?;
            third.name.is_none().then_some(2)
        });
        let width = place.map(|place| arguments.remove(place).value);
        let n_lanes = match &width {
            None => Some(WARP_SIZE as u8),
            Some(width) => known_int(width)
                .filter(|n| (1..=i128::from(WARP_SIZE)).contains(n))
                .map(|n| n as u8)
                .filter(|n| n.is_power_of_two()),
        };
        let Some(n_lanes) = n_lanes else {
            let at = width.map_or(span, |width| width.span);
            let message = format!("the width of `{name}` is a constant: 1, 2, 4, 8, 16 or 32");
            return self.reject(Code::NoOverload, at, message, "write, for example, `width=16`");
        };
        let value = self.op_call(op, arguments, name, span);
        with(value, Imm::Width(n_lanes))
    }

    fn thread_fence(&mut self, call: &'a ast::ExprCall, name: &str, span: Span) -> TypedExpr {
        let given = call.arguments.find_argument_value("scope", 0);
        if call.arguments.len() > usize::from(given.is_some()) {
            let message = format!("`{name}` takes a scope");
            return self.reject(Code::NoOverload, span, message, format!("write `{name}(scope=\"block\")`"));
        }
        let Some(scope) =
            self.named_option(given, "scope", &MemoryScope::ALL.map(MemoryScope::name), MemoryScope::from_name)
        else {
            return TypedExpr::error(span);
        };
        let imm = Imm::Memory(MemoryOrder { scope, ordering: AtomicOrdering::SeqCst });
        let kind = ExprKind::OpWith { op: Op::ThreadFence, imm, args: Vec::new() };
        TypedExpr::new(kind, ExprType::Values(SmallVec::new()), span)
    }

    /// An atomic with `scope=` or `order=`.
    fn ordered_atomic(&mut self, op: Op, call: &'a ast::ExprCall, name: &str, span: Span) -> TypedExpr {
        let arguments = self.arguments_but(call, &["scope", "order"]);
        let keyword = |name| call.arguments.find_keyword(name).map(|keyword| &keyword.value);
        let scope = self.named_option(
            keyword("scope"),
            "scope",
            &MemoryScope::ALL.map(MemoryScope::name),
            MemoryScope::from_name,
        );
        let names = AtomicOrdering::ALL.map(AtomicOrdering::name);
        let ordering = self.named_option(keyword("order"), "order", &names, AtomicOrdering::from_name);
        let (Some(arguments), Some(scope), Some(ordering)) = (arguments, scope, ordering) else {
            return TypedExpr::error(span);
        };
        if scope == MemoryScope::Thread {
            let message = format!("`{name}` is atomic for other threads: its scope is not `thread`");
            return self.reject(
                Code::NoOverload,
                span,
                message,
                "write `scope=\"block\"`, `\"device\"` or `\"system\"`",
            );
        }
        let value = self.op_call(op, arguments, name, span);
        with(value, Imm::Memory(MemoryOrder { scope, ordering }))
    }

    /// `mma_load_a(array, row, col, layout)` and its like.
    fn fragment(&mut self, op: Op, call: &'a ast::ExprCall, name: &str, span: Span) -> TypedExpr {
        let matrix = match op {
            Op::MmaLoadA => MatrixRole::A,
            Op::MmaLoadB => MatrixRole::B,
            _ => MatrixRole::C,
        };
        let layout = call.arguments.find_keyword("layout").map(|keyword| &keyword.value);
        let by_columns = self.named_option(layout, "layout", &["row", "col"], |name| match name {
            "row" => Some(false),
            "col" => Some(true),
            _ => None,
        });
        let (Some(by_columns), Some(mut arguments)) = (by_columns, self.arguments_but(call, &["layout"])) else {
            return TypedExpr::error(span);
        };
        let has_n = !matches!(op, Op::MmaLoadA | Op::MmaStore);
        let given = arguments.iter().position(|argument| has_n && argument.name == Some("n"));
        let given = given.map(|place| arguments.remove(place).value);
        let usage = match op {
            Op::MmaStore => format!("write `{name}(array, row, col, value)`"),
            _ if has_n => format!("write `{name}(array, row, col, n=16)`"),
            _ => format!("write `{name}(array, row, col)`"),
        };
        let n_arguments = if op == Op::MmaStore { 4 } else { 3 };
        if arguments.len() != n_arguments || arguments.iter().any(|argument| argument.name.is_some()) {
            let message = format!("`{name}` takes a matrix, a row and a column");
            return self.reject(Code::NoOverload, span, message, usage);
        }
        let mut values = arguments.into_iter().map(|argument| argument.value);
        let (Some(array), Some(row), Some(column)) = (values.next(), values.next(), values.next()) else {
            return TypedExpr::error(span);
        };
        let value = values.next();
        let n = match (given, &value) {
            (Some(n), _) => known_int(&n).and_then(|n| u8::try_from(n).ok()).unwrap_or(0),
            // A lane has half as many elements as there are columns.
            (None, Some(value)) => {
                let composite = value.ty.as_value().and_then(Type::as_composite);
                composite.map_or(0, |composite| 2 * composite.n_components().min(100) as u8)
            }
            (None, None) => 16,
        };
        if array.is_error() {
            return TypedExpr::error(span);
        }
        let elem = array.ty.as_value().and_then(Type::as_array).filter(|(_, ndim)| *ndim == 2);
        let (Some((elem, _)), Some(array)) = (elem, self.whole_array(array)) else {
            let message = format!("`{name}` takes a whole array of numbers with two dimensions");
            return self.reject(Code::NoOverload, span, message, usage);
        };
        let Some(part) = fragment_type(matrix, elem, n).map(Type::Composite) else {
            let allowed: Vec<&str> = Scalar::ALL
                .into_iter()
                .filter(|&elem| fragment_type(matrix, elem, 16).is_some())
                .map(Scalar::python_name)
                .collect();
            let (message, help) = match allowed.contains(&elem.python_name()) {
                false => {
                    let given = elem.python_name();
                    let message = format!("`{name}` takes no matrix with elements of type {given}");
                    (message, format!("elements are of type {}", allowed.join(", ")))
                }
                true if value.is_some() => {
                    let message = format!("`{name}` stores what `mma` gives: a lane's 4 or 8 elements of a matrix");
                    (message, usage)
                }
                true => (format!("the matrix of `{name}` has 8 or 16 columns"), "write `n=8` or `n=16`".to_owned()),
            };
            return self.reject(Code::NoOverload, span, message, help);
        };
        let mut args = vec![array];
        for (number, what) in [(row, "the row"), (column, "the column")] {
            args.push(self.expect_value(number, Type::I32, Code::TypeMismatch, what));
        }
        let ty = match value {
            Some(value) => {
                args.push(self.expect_value(value, part, Code::TypeMismatch, "the lane's part"));
                ExprType::Values(SmallVec::new())
            }
            None => ExprType::Value(part),
        };
        if args.iter().any(TypedExpr::is_error) {
            return TypedExpr::error(span);
        }
        TypedExpr::new(ExprKind::OpWith { op, imm: Imm::Fragment(FragmentAccess { by_columns, n }), args }, ty, span)
    }

    /// The variable that holds an array, if it is not a part of one.
    fn whole_array(&self, array: TypedExpr) -> Option<TypedExpr> {
        match array.kind {
            ExprKind::View { array: local, ref indices } if indices.is_empty() && !self.fixed.contains_key(&local) => {
                Some(TypedExpr::new(ExprKind::Local(local), array.ty, array.span))
            }
            ExprKind::Local(_) => Some(array),
            _ => None,
        }
    }

    /// `async_copy(tile[i], a[j], count=4)`.
    fn async_copy(&mut self, call: &'a ast::ExprCall, name: &str, span: Span) -> TypedExpr {
        let usage = format!("write `{name}(tile[i], a[j], count=4)`");
        if !self.takes(call, name, &["target", "source", "count", "cache"]) {
            return TypedExpr::error(span);
        }
        let argument = |name, place| call.arguments.find_argument_value(name, place);
        let (to, from) = (argument("target", 0), argument("source", 1));
        let elements = to.zip(from).and_then(|(to, from)| Some((self.array_element(to)?, self.array_element(from)?)));
        let Some((to, from)) = elements else {
            let message = format!("`{name}` takes an element of a shared array and one of an array of numbers");
            return self.reject(Code::NoOverload, span, message, usage);
        };
        let count = argument("count", 2).map_or(Some(1), |count| known_int(&self.expr(count)));
        let Some(cache) = self.named_option(argument("cache", 3), "cache", &CacheUse::NAMES, CacheUse::from_name)
        else {
            return TypedExpr::error(span);
        };
        let space = |element: &TypedExpr| element.ty.as_value().and_then(Type::space);
        let elem = |element: &TypedExpr| element.ty.as_value().and_then(Type::as_array).map(|(elem, _)| elem);
        let (Some(target), Some(count)) = (elem(&to[0]), count) else {
            return self.reject(Code::NoOverload, span, format!("the count of `{name}` is a constant"), usage);
        };
        let bytes = count.saturating_mul(target.bytes().into());
        let fits = u32::try_from(bytes).is_ok_and(|bytes| cache.takes(bytes));
        if !fits || elem(&from[0]) != Some(target) {
            let message = format!("`{name}` copies 4, 8 or 16 bytes of elements of one type; here it is {bytes}");
            return self.reject(
                Code::NoOverload,
                span,
                message,
                "choose another `count`; with `cache=\"l2\"`, 16 bytes",
            );
        }
        let to_shared = self.compilation.is_alone || space(&to[0]) == Some(AddressSpace::Shared);
        if !to_shared || space(&from[0]) != Some(AddressSpace::Global) {
            let message = format!("`{name}` copies from an argument's memory to shared memory");
            return self.reject(Code::NoOverload, span, message, usage);
        }
        let imm = Imm::Copy(SharedCopy { count: count as u8, cache, is_in_step: false });
        let args = to.into_iter().chain(from).collect();
        let kind = ExprKind::OpWith { op: Op::AsyncCopy, imm, args };
        TypedExpr::new(kind, ExprType::Values(SmallVec::new()), span)
    }

    /// Returns true if a call has only these arguments, by place or name; reports others.
    fn takes(&mut self, call: &'a ast::ExprCall, name: &str, parameters: &[&str]) -> bool {
        let stray = call
            .arguments
            .keywords
            .iter()
            .find(|keyword| keyword.arg.as_ref().is_none_or(|given| !parameters.contains(&given.as_str())));
        let help = format!("its arguments are {}", parameters.join(", "));
        if let Some(stray) = stray {
            let span = self.span(stray);
            let given = stray.arg.as_ref().map_or("**", |given| given.as_str());
            self.reject(Code::NoOverload, span, format!("`{name}` has no argument `{given}`"), help);
            return false;
        }
        if let Some(extra) = call.arguments.args.get(parameters.len()) {
            let span = self.span(extra);
            self.reject(Code::NoOverload, span, format!("`{name}` takes {} arguments at most", parameters.len()), help);
            return false;
        }
        true
    }

    /// `sync_threads(id=1, count=64)`.
    fn named_barrier(&mut self, call: &'a ast::ExprCall, name: &str, span: Span) -> TypedExpr {
        if !self.takes(call, name, &["id", "count"]) {
            return TypedExpr::error(span);
        }
        let mut number = |name, place| {
            let given = call.arguments.find_argument_value(name, place)?;
            known_int(&self.expr(given))
        };
        let (id, count) = (number("id", 0), number("count", 1));
        let barrier = id.zip(count).and_then(|(id, count)| {
            Some(NamedBarrier { id: u8::try_from(id).ok()?, count: u16::try_from(count).ok()? })
        });
        match barrier.filter(|barrier| barrier.is_valid()) {
            Some(barrier) => {
                let imm = Imm::Barrier(barrier);
                let kind = ExprKind::OpWith { op: Op::NamedBarrier, imm, args: Vec::new() };
                TypedExpr::new(kind, ExprType::Values(SmallVec::new()), span)
            }
            None => {
                let message = format!(
                    "`{name}` of some warps takes two constants: `id`, 1 to {}, and `count`, the number of threads, a \
                     multiple of 32 up to 1024",
                    NamedBarrier::MOST
                );
                self.reject(Code::NoOverload, span, message, format!("write `{name}(id=1, count=64)`"))
            }
        }
    }

    /// An element of an array of scalars, as the array and its indices.
    fn array_element(&mut self, expr: &'a ast::Expr) -> Option<Vec<TypedExpr>> {
        let ast::Expr::Subscript(subscript) = expr else { return None };
        let span = self.span(expr);
        match self.indexed(subscript, span)? {
            SubscriptMeaning::Element(element, ty) if ty.as_scalar().is_some() => {
                let is_scalars = element.array.ty.as_value().and_then(Type::as_array).is_some();
                is_scalars.then(|| std::iter::once(*element.array).chain(element.indices).collect())
            }
            _ => None,
        }
    }

    /// `async_wait(pending)`.
    fn async_wait(&mut self, call: &'a ast::ExprCall, name: &str, span: Span) -> TypedExpr {
        let given = call.arguments.find_argument_value("pending", 0).map(|pending| self.expr(pending));
        let (at, number) = given.map_or((span, Some(0)), |pending| (pending.span, known_int(&pending)));
        let pending = number.and_then(|n| u8::try_from(n).ok());
        let Some(pending) = pending.filter(|_| call.arguments.len() <= 1) else {
            let message = match number {
                Some(n) if call.arguments.len() <= 1 => {
                    format!("`{name}` leaves 0 to {} groups of copies unfinished, not {n}", u8::MAX)
                }
                _ => format!("`{name}` takes a constant number of groups"),
            };
            return self.reject(Code::NoOverload, at, message, format!("write `{name}()` or `{name}(1)`"));
        };
        let kind = ExprKind::OpWith { op: Op::AsyncWait, imm: Imm::Pending(pending), args: Vec::new() };
        TypedExpr::new(kind, ExprType::Values(SmallVec::new()), span)
    }

    /// Returns what a string names; the default if there is none.
    fn named_option<T: Default>(
        &mut self,
        given: Option<&'a ast::Expr>,
        what: &str,
        names: &[&str],
        from_name: fn(&str) -> Option<T>,
    ) -> Option<T> {
        let Some(given) = given else { return Some(T::default()) };
        let lookup = |path: &[&str]| self.environment.lookup(path);
        let text = match constant::evaluate(given, &lookup) {
            Some(CapturedMeaning::Text(text)) => text,
            _ => "".into(),
        };
        let found = from_name(&text);
        if found.is_none() {
            let names: Vec<String> = match near_names(&text, names.iter().copied()).first() {
                Some(near) => vec![format!("`\"{near}\"`")],
                None => names.iter().map(|name| format!("`\"{name}\"`")).collect(),
            };
            let at = self.span(given);
            let message = format!("there is no {what} of this name");
            self.reject(Code::NoOverload, at, message, format!("write {}", names.join(" or ")));
        }
        found
    }
}

/// The operation that an expression is, with what it says beyond its operands.
fn with(value: TypedExpr, imm: Imm) -> TypedExpr {
    match value.kind {
        ExprKind::Op { op, args, .. } => TypedExpr { kind: ExprKind::OpWith { op, imm, args }, ..value },
        _ => value,
    }
}

/// The integer that an expression is known to be.
pub(super) fn known_int(value: &TypedExpr) -> Option<i128> {
    match value.number() {
        Some(PythonNumber::Int(value)) => Some(value),
        _ => super::component_expr::constant_index(value),
    }
}

//! Arrays in shared memory.
//!
//! `tile = shared_array(shape=…, dtype=…)` makes a name stand for the array until the branch or loop body ends, as a
//! part of an array does. The variable behind it has its value once and for all, so it is never carried through control
//! flow, which no array could be. An array of structs is an array for each leaf here too.

use super::function::{FunctionChecker, NameMeaning};
use super::gpu::known_int;
use super::view::int_op;
use crate::annotation::elements;
use crate::builtin_function::BuiltinFunction;
use crate::environment::CapturedMeaning;
use crate::structure::ValueType;
use crate::typed_ast::{AssignTarget, ExprKind, ExprType, LocalId, StmtKind, TypedExpr, TypedStmt};
use polyloom_ir::{AddressSpace, Code, Composite, Imm, MAX_AXES, MAX_DIMS, Op, Scalar, SharedArray, Span, Type};
use ruff_python_ast as ast;
use smallvec::{SmallVec, smallvec};

/// Holds what the address of a shared array is a multiple of unless told, because loads of up to 16 bytes can be one.
const DEFAULT_ALIGN: u32 = 16;
/// More than any GPU has.
const MAX_SHARED_BYTES: u64 = 1 << 28;

/// An array in shared memory, by what makes each of its leaves.
struct SharedStructArray {
    ty: ValueType,
    leaves: Vec<TypedExpr>,
}

impl<'a> FunctionChecker<'_, '_, 'a> {
    /// `name = shared_array(…)` and `name = dynamic_shared(…)`: gives whether it is one of these, and done.
    pub(super) fn assign_shared(
        &mut self,
        name: &'a ast::ExprName,
        value: &'a ast::Expr,
        span: Span,
        out: &mut Vec<TypedStmt>,
    ) -> bool {
        let Some((BuiltinFunction::Op(op @ (Op::SharedArray | Op::DynamicShared)), call)) = self.called_builtin(value)
        else {
            return false;
        };
        let shared = match op {
            Op::SharedArray => self.shared_array(call),
            _ => self.dynamic_shared(call, out),
        };
        let (text, at) = (name.id.as_str(), self.span(name));
        let Some(shared) = shared else {
            self.names.insert(text, NameMeaning::Poisoned);
            return true;
        };
        let first = self.n_locals();
        let meaning = match shared.ty {
            ValueType::Plain(ty) => {
                let local = self.new_local(text, ty, at);
                self.view(local, Vec::new(), at).map(|view| self.named_view(view))
            }
            ty => Some(self.new_struct(text, ty, at, true)),
        };
        let Some(meaning) = meaning else { return true };
        let locals: Vec<LocalId> = self.locals_from(first).collect();
        for (local, leaf) in locals.into_iter().zip(shared.leaves) {
            self.flow.set.insert(local);
            let targets = smallvec![AssignTarget::Local(local)];
            out.push(TypedStmt { kind: StmtKind::Assign { targets, values: smallvec![leaf] }, span });
        }
        self.stand_for(text, meaning, "an array", at);
        true
    }

    /// Returns what `shared_array(shape, dtype, align)` makes.
    fn shared_array(&mut self, call: &'a ast::ExprCall) -> Option<SharedStructArray> {
        let span = self.span(call);
        let usage = format!("write `{}.shared_array(shape=(16, 16), dtype=float)`", self.package());
        let (ty, shape) = self.shared_parts(call, &["shape", "dtype", "align"], span, &usage)?;
        let mut extents: SmallVec<[u32; 4]> = SmallVec::new();
        for extent in shape {
            match known_int(&extent).map(|n| u32::try_from(n).ok().filter(|n| *n > 0).ok_or(n)) {
                Some(Ok(n)) => extents.push(n),
                Some(Err(n)) => {
                    let message = format!("an extent of a shared array is a positive `int32`, not {n}");
                    self.reject(Code::Unsupported, extent.span, message, usage);
                    return None;
                }
                None => {
                    self.reject(Code::Unsupported, extent.span, "a shared array has constant extents", usage);
                    return None;
                }
            }
        }
        let mut align = DEFAULT_ALIGN;
        if let Some(given) = call.arguments.find_argument_value("align", 2) {
            let given = self.expr(given);
            let known = known_int(&given).and_then(|n| u32::try_from(n).ok());
            match known.filter(|n| n.is_power_of_two() && *n <= 1024) {
                Some(n) => align = n,
                None => {
                    let message = "the alignment is a constant power of two, up to 1024 bytes";
                    self.reject(Code::Unsupported, given.span, message, "write, for example, `align=16`");
                    return None;
                }
            }
        }
        let mut bytes: u64 = 0;
        let mut leaves = Vec::new();
        for leaf in ty.leaf_types() {
            let (elem, _) = leaf.as_any_array()?;
            // Elements are aligned whatever is asked for.
            let align = align.max(component_bytes(elem));
            let array = SharedArray { id: self.compilation.n_shared_arrays, extents: extents.clone(), align };
            self.compilation.n_shared_arrays += 1;
            bytes = bytes.saturating_add(array.bytes(element_bytes(elem)));
            let kind = ExprKind::OpWith { op: Op::SharedArray, imm: Imm::Shared(Box::new(array)), args: Vec::new() };
            leaves.push(TypedExpr::new(kind, ExprType::Value(leaf), span));
        }
        if bytes > MAX_SHARED_BYTES {
            let message = format!("a shared array of {bytes} bytes");
            self.reject(Code::Limit, span, message, "a block has 48 KiB of shared memory, or some more if asked for");
            return None;
        }
        Some(SharedStructArray { ty, leaves })
    }

    /// Returns what `dynamic_shared(shape, dtype, offset)` makes.
    fn dynamic_shared(&mut self, call: &'a ast::ExprCall, out: &mut Vec<TypedStmt>) -> Option<SharedStructArray> {
        let span = self.span(call);
        let usage = format!("write `{}.dynamic_shared(shape=n, dtype=float, offset=0)`", self.package());
        let (ty, shape) = self.shared_parts(call, &["shape", "dtype", "offset"], span, &usage)?;
        let offset = match call.arguments.find_argument_value("offset", 2) {
            Some(offset) => self.expr(offset),
            None => TypedExpr::constant(0, Scalar::I32, span),
        };
        let elems: Vec<Type> =
            ty.leaf_types().iter().filter_map(|leaf| leaf.as_any_array()).map(|(elem, _)| elem).collect();
        let align = elems.iter().copied().map(component_bytes).max()?;
        let wrong = match known_int(&offset) {
            Some(n) if n < 0 || n % i128::from(align) != 0 => {
                let name = match ty {
                    ValueType::StructArray { elem, .. } => elem.name(),
                    _ => component(elems[0]).map_or("", Scalar::python_name),
                };
                let message = format!("the offset of an array of {name} is a multiple of {align} from 0 on, not {n}");
                Some((offset.span, message))
            }
            _ => shape.iter().find_map(|extent| {
                let n = known_int(extent).filter(|n| *n < 0)?;
                Some((extent.span, format!("an extent of dynamic shared memory is not negative, as {n} is")))
            }),
        };
        if let Some((at, message)) = wrong {
            self.reject(Code::Unsupported, at, message, usage);
            return None;
        }
        let mut args = Vec::with_capacity(1 + shape.len());
        for (number, what) in std::iter::once((offset, "the offset")).chain(shape.into_iter().map(|n| (n, "an extent")))
        {
            let number = self.expect_value(number, Type::I32, Code::TypeMismatch, what);
            if number.is_error() {
                return None;
            }
            args.push(number);
        }
        let mut n_elements = None;
        if elems.len() > 1 {
            args = args.into_iter().map(|arg| self.index_once(arg, out)).collect();
            let product = args[1..].iter().cloned().reduce(|n, extent| int_op(Op::Mul, n, extent, span));
            n_elements = product.map(|n| self.index_once(n, out));
        }
        let leaves = ty.leaf_types().into_iter().zip(leaf_offsets(&elems)).map(|(leaf, before)| {
            let mut args = args.clone();
            if let Some(n) = n_elements.clone().filter(|_| before > 0) {
                let bytes = int_op(Op::Mul, n, TypedExpr::constant(before, Scalar::I32, span), span);
                args[0] = int_op(Op::Add, args[0].clone(), bytes, span);
            }
            let kind = ExprKind::OpWith { op: Op::DynamicShared, imm: Imm::None, args };
            TypedExpr::new(kind, ExprType::Value(leaf), span)
        });
        let leaves = leaves.collect();
        Some(SharedStructArray { ty, leaves })
    }

    /// The type and the extents of an array in shared memory.
    fn shared_parts(
        &mut self,
        call: &'a ast::ExprCall,
        known: &[&str],
        span: Span,
        usage: &str,
    ) -> Option<(ValueType, Vec<TypedExpr>)> {
        let is_known = |keyword: &ast::Keyword| keyword.arg.as_ref().is_some_and(|arg| known.contains(&arg.as_str()));
        if call.arguments.args.len() > known.len() || !call.arguments.keywords.iter().all(is_known) {
            let known: Vec<String> = known.iter().map(|&name| name.to_owned()).collect();
            let message = format!("the arguments are {}", super::call::list(&known));
            self.reject(Code::NoOverload, span, message, usage);
            return None;
        }
        let elem = match call.arguments.find_argument_value("dtype", 1) {
            None => Some(ValueType::Plain(Type::F32)),
            Some(dtype) => match self.meaning(dtype) {
                Some(CapturedMeaning::Type(scalar)) => Some(scalar.into()),
                Some(CapturedMeaning::Composite(composite)) => Some(Type::Composite(composite).into()),
                Some(CapturedMeaning::Struct(of)) => Some(ValueType::Struct(of)),
                _ => None,
            },
        };
        let (Some(elem), Some(shape)) = (elem, call.arguments.find_argument_value("shape", 0)) else {
            let message =
                "an array in shared memory has a shape and a `dtype`: a scalar, a vector, a struct or the like";
            self.reject(Code::NoOverload, span, message, usage);
            return None;
        };
        let shape: Vec<TypedExpr> = elements(shape).iter().map(|extent| self.expr(extent)).collect();
        if shape.iter().any(TypedExpr::is_error) {
            return None;
        }
        let ndim = u8::try_from(shape.len()).unwrap_or(u8::MAX);
        if let ValueType::Struct(of) = elem
            && let Some((_, message, help)) = of.why_no_array()
        {
            let help = match of.array_within() {
                Some(_) => "share a struct without this field, or an array for each field".to_owned(),
                None => help,
            };
            self.reject(Code::Unsupported, span, message, help);
            return None;
        }
        let inner = |leaf: &Type| leaf.as_composite().map_or(0, |composite| composite.shape().len());
        let inner = elem.leaf_types().iter().map(inner).max().unwrap_or(0);
        if !(1..=MAX_DIMS).contains(&shape.len()) || shape.len() + inner > MAX_AXES {
            let message = format!("an array of these elements has 1 to {} dimensions", MAX_DIMS.min(MAX_AXES - inner));
            self.reject(Code::BadRank, span, message, usage);
            return None;
        }
        let ty = match elem {
            ValueType::Struct(of) => ValueType::struct_array(of, ndim),
            elem => Type::array_of(elem.as_plain()?, ndim)?.into(),
        };
        Some((ty.in_space(AddressSpace::Shared), shape))
    }
}

/// Returns the number of bytes an element has before each leaf of an array that begins where the last one ends. Leaves
/// with the widest components come first, so that each has a multiple of the bytes that the next is aligned to,
/// whatever the extents.
fn leaf_offsets(elems: &[Type]) -> Vec<u64> {
    let mut widest_first: Vec<usize> = (0..elems.len()).collect();
    widest_first.sort_by_key(|&leaf| std::cmp::Reverse(component_bytes(elems[leaf])));
    let mut offsets = vec![0; elems.len()];
    let mut bytes = 0;
    for leaf in widest_first {
        offsets[leaf] = bytes;
        bytes += u64::from(element_bytes(elems[leaf]));
    }
    offsets
}

/// The type of an element's components.
fn component(elem: Type) -> Option<Scalar> {
    elem.as_scalar().or_else(|| elem.as_composite().map(Composite::elem))
}

/// The bytes of an element's component, which are what it is aligned to.
fn component_bytes(elem: Type) -> u32 {
    component(elem).map_or(1, Scalar::bytes)
}

fn element_bytes(elem: Type) -> u32 {
    component_bytes(elem) * elem.components().len() as u32
}

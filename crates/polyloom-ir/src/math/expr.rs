//! Expressions over HIR values, so that the library's algorithms read like mathematics.
//!
//! An [`Expr`] is a `Copy` handle of a value in the function under construction; its operators append instructions
//! to the [`Graph`]'s current region. A literal takes the type of the other operand: `x * 0.5` is an `f32` product
//! if `x` is `f32`. Ill-typed expressions panic, which the tests of the library find: every function is built there.

use super::basic;
use crate::builder::Builder;
use crate::entity::{Region, Value};
use crate::function::{Function, FunctionKind, Imm};
use crate::op::Op;
use crate::types::{Scalar, Type};
use std::cell::{Cell, RefCell};
use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Rem, Shl, Shr, Sub};

/// A function under construction.
pub(super) struct Graph {
    func: RefCell<Function>,
    region: Cell<Region>,
}

/// A value of a [`Graph`].
#[derive(Clone, Copy)]
pub(super) struct Expr<'g> {
    graph: &'g Graph,
    value: Value,
}

/// Something that becomes a value once the type of its fellow operand is known.
pub(super) trait Operand<'g> {
    /// The value, of the type of `like`.
    fn like(self, like: Expr<'g>) -> Expr<'g>;
}

impl<'g> Operand<'g> for Expr<'g> {
    fn like(self, _: Expr<'g>) -> Expr<'g> {
        self
    }
}

impl<'g> Operand<'g> for f64 {
    fn like(self, like: Expr<'g>) -> Expr<'g> {
        like.graph.float(like.scalar(), self)
    }
}

impl<'g> Operand<'g> for i64 {
    fn like(self, like: Expr<'g>) -> Expr<'g> {
        match like.scalar() {
            scalar if scalar.is_float() => like.graph.float(scalar, self as f64),
            scalar => like.graph.int(scalar, self),
        }
    }
}

impl Graph {
    /// An empty function with these parameters and results.
    pub(super) fn new(name: &str, params: &[(&str, Type)], results: &[Type]) -> Graph {
        let func = Function::new(name, FunctionKind::Func, params.iter().copied(), results);
        let region = Cell::new(func.body);
        Graph { func: RefCell::new(func), region }
    }

    /// The function, returning `results`.
    pub(super) fn finish(self, results: &[Value]) -> Function {
        self.build(|b| b.return_(results));
        self.func.into_inner()
    }

    fn build<R>(&self, append: impl FnOnce(&mut Builder<'_>) -> R) -> R {
        let mut func = self.func.borrow_mut();
        let mut builder = Builder::new(&mut func);
        builder.switch_to(self.region.get());
        append(&mut builder)
    }

    fn wrap(&self, value: Value) -> Expr<'_> {
        Expr { graph: self, value }
    }

    /// The parameters.
    pub(super) fn params(&self) -> Vec<Expr<'_>> {
        self.func.borrow().params().iter().map(|&value| self.wrap(value)).collect()
    }

    /// A float constant: `value` rounded to `scalar`.
    pub(super) fn float(&self, scalar: Scalar, value: f64) -> Expr<'_> {
        self.wrap(self.build(|b| match scalar {
            Scalar::F32 => b.const_f32(value as f32),
            _ => b.const_f64(value),
        }))
    }

    /// An integer constant, wrapped to the width of `scalar`.
    pub(super) fn int(&self, scalar: Scalar, value: i64) -> Expr<'_> {
        self.wrap(self.build(|b| b.const_int(scalar, value)))
    }

    /// Any op with one result.
    pub(super) fn op<'g>(&'g self, op: Op, operands: &[Expr<'g>]) -> Expr<'g> {
        let operands: Vec<Value> = operands.iter().map(|e| e.value).collect();
        self.wrap(self.build(|b| b.op(op, &operands)))
    }

    /// Any op with `N` results.
    pub(super) fn ops<'g, const N: usize>(&'g self, op: Op, operands: &[Expr<'g>]) -> [Expr<'g>; N] {
        let operands: Vec<Value> = operands.iter().map(|e| e.value).collect();
        let results = self.build(|b| b.op_results(op, &operands));
        std::array::from_fn(|i| self.wrap(results[i]))
    }

    /// Prints values by a C format.
    pub(super) fn print(&self, format: &str, values: &[Expr<'_>]) {
        let values: Vec<Value> = values.iter().map(|e| e.value).collect();
        self.build(|b| b.inst(Op::Print, &values, &[], Imm::Text(format.into())));
    }

    /// The extent of a one-dimensional array.
    pub(super) fn extent<'g>(&'g self, array: Expr<'g>) -> Expr<'g> {
        self.wrap(self.build(|b| b.dim(array.value, 0)))
    }

    /// The values of one of two branches, of which only the chosen one is executed.
    pub(super) fn branch<'g, const N: usize>(
        &'g self,
        cond: Expr<'g>,
        then: impl FnOnce() -> [Expr<'g>; N],
        otherwise: impl FnOnce() -> [Expr<'g>; N],
    ) -> [Expr<'g>; N] {
        let [then_region, else_region] = [self.create_region(&[]), self.create_region(&[])];
        let then_values = self.fill(then_region, then);
        let else_values = self.fill(else_region, otherwise);
        self.finish_region(then_region, &then_values);
        self.finish_region(else_region, &else_values);
        let types = then_values.map(|e| e.ty());
        self.region_inst(Op::If, &[cond.value], &types, &[then_region, else_region])
    }

    /// Repeats `body` on the carried values while `cond` holds of them.
    pub(super) fn repeat_while<'g, const N: usize>(
        &'g self,
        init: [Expr<'g>; N],
        cond: impl FnOnce([Expr<'g>; N]) -> Expr<'g>,
        body: impl FnOnce([Expr<'g>; N]) -> [Expr<'g>; N],
    ) -> [Expr<'g>; N] {
        let types = init.map(|e| e.ty());
        let [cond_region, body_region] = [self.create_region(&types), self.create_region(&types)];
        let test = self.fill(cond_region, || cond(self.region_params(cond_region)));
        self.finish_region(cond_region, &[test]);
        let next = self.fill(body_region, || body(self.region_params(body_region)));
        self.finish_region(body_region, &next);
        self.region_inst(Op::While, &init.map(|e| e.value), &types, &[cond_region, body_region])
    }

    /// Repeats `body` on the carried values `n` times, an `i32`.
    pub(super) fn repeat<'g, const N: usize>(
        &'g self,
        n: Expr<'g>,
        init: [Expr<'g>; N],
        body: impl FnOnce([Expr<'g>; N]) -> [Expr<'g>; N],
    ) -> [Expr<'g>; N] {
        let types = init.map(|e| e.ty());
        let counter_and_carried: Vec<Type> = [Type::I32].into_iter().chain(types).collect();
        let region = self.create_region(&counter_and_carried);
        let carried = || {
            let func = self.func.borrow();
            std::array::from_fn(|i| self.wrap(func.regions[region].params[i + 1]))
        };
        let next = self.fill(region, || body(carried()));
        self.finish_region(region, &next);
        let bounds = [self.int(Scalar::I32, 0), n, self.int(Scalar::I32, 1)];
        let operands: Vec<Value> = bounds.into_iter().chain(init).map(|e| e.value).collect();
        self.region_inst(Op::ForRange, &operands, &types, &[region])
    }

    fn create_region(&self, params: &[Type]) -> Region {
        self.build(|b| b.create_region(params))
    }

    fn fill<R>(&self, region: Region, append: impl FnOnce() -> R) -> R {
        let outer = self.region.replace(region);
        let result = append();
        self.region.set(outer);
        result
    }

    fn region_params<const N: usize>(&self, region: Region) -> [Expr<'_>; N] {
        let func = self.func.borrow();
        std::array::from_fn(|i| self.wrap(func.regions[region].params[i]))
    }

    fn finish_region(&self, region: Region, values: &[Expr<'_>]) {
        let values: Vec<Value> = values.iter().map(|e| e.value).collect();
        self.fill(region, || self.build(|b| b.yield_(&values)));
    }

    fn region_inst<const N: usize>(
        &self,
        op: Op,
        operands: &[Value],
        results: &[Type],
        regions: &[Region],
    ) -> [Expr<'_>; N] {
        let results = self.build(|b| {
            let inst = b.region_inst(op, operands, results, regions);
            b.func.insts[inst].results.clone()
        });
        std::array::from_fn(|i| self.wrap(results[i]))
    }
}

impl<'g> Expr<'g> {
    /// The value's handle.
    pub(super) fn value(self) -> Value {
        self.value
    }

    /// The graph it belongs to.
    pub(super) fn graph(self) -> &'g Graph {
        self.graph
    }

    /// Its type.
    pub(super) fn ty(self) -> Type {
        self.graph.func.borrow().ty(self.value)
    }

    /// Its scalar type.
    pub(super) fn scalar(self) -> Scalar {
        match self.ty() {
            Type::Scalar(scalar) => scalar,
            other => panic!("{other} is not a scalar"),
        }
    }

    /// Whether it is an `f64`, not an `f32`.
    pub(super) fn is_f64(self) -> bool {
        self.scalar() == Scalar::F64
    }

    fn unary(self, op: Op) -> Expr<'g> {
        self.graph.op(op, &[self])
    }

    fn binary(self, op: Op, other: impl Operand<'g>) -> Expr<'g> {
        self.graph.op(op, &[self, other.like(self)])
    }

    /// `literal`, of this value's type.
    pub(super) fn constant(self, literal: impl Operand<'g>) -> Expr<'g> {
        literal.like(self)
    }

    /// `self * factor + addend` with one rounding.
    pub(super) fn fma(self, factor: impl Operand<'g>, addend: impl Operand<'g>) -> Expr<'g> {
        self.graph.op(Op::Fma, &[self, factor.like(self), addend.like(self)])
    }

    /// Numeric conversion.
    pub(super) fn cast(self, to: Scalar) -> Expr<'g> {
        self.graph.wrap(self.graph.build(|b| b.cast(self.value, to)))
    }

    /// Reinterpretation of the bits.
    pub(super) fn bitcast(self, to: Scalar) -> Expr<'g> {
        self.graph.wrap(self.graph.build(|b| b.bitcast(self.value, to)))
    }

    /// The bits of a float as a signed integer.
    pub(super) fn bits(self) -> Expr<'g> {
        self.bitcast(if self.is_f64() { Scalar::I64 } else { Scalar::I32 })
    }

    /// The float with these bits.
    pub(super) fn float_from_bits(self) -> Expr<'g> {
        self.bitcast(if self.scalar().bytes() == 8 { Scalar::F64 } else { Scalar::F32 })
    }

    /// The magnitude with the sign bit of `sign`, even of a NaN: for algorithms whose result is then NaN anyway. The op
    /// of this name takes care of NaNs.
    pub(super) fn copysign(self, sign: Expr<'g>) -> Expr<'g> {
        (basic::magnitude_bits(self) | basic::sign_bit(sign)).float_from_bits()
    }

    /// `a` where this condition holds, else `b`.
    pub(super) fn select(self, a: Expr<'g>, b: impl Operand<'g>) -> Expr<'g> {
        self.graph.op(Op::Select, &[self, a, b.like(a)])
    }

    /// The polynomial `coefficients[0] + coefficients[1] * self + …`, by Horner's rule with fused steps.
    pub(super) fn polynomial(self, coefficients: &[f64]) -> Expr<'g> {
        let mut terms = coefficients.iter().rev();
        let highest = terms.next().copied().unwrap_or(0.0);
        terms.fold(self.constant(highest), |sum, &c| sum.fma(self, c))
    }
}

macro_rules! methods {
    ($($(#[$doc:meta])* $name:ident = $op:ident $(($other:ident))?;)*) => {
        #[allow(dead_code, reason = "one method for every op an algorithm may ask for")]
        impl<'g> Expr<'g> {
            $($(#[$doc])*
            pub(super) fn $name(self $(, $other: impl Operand<'g>)?) -> Expr<'g> {
                methods!(@ self $op $($other)?)
            })*
        }
    };
    (@ $self:ident $op:ident) => { $self.unary(Op::$op) };
    (@ $self:ident $op:ident $other:ident) => { $self.binary(Op::$op, $other) };
}

methods! {
    /// `self == other`
    eq = Eq(other);
    /// `self != other`
    ne = Ne(other);
    /// `self < other`
    lt = Lt(other);
    /// `self <= other`
    le = Le(other);
    /// `self > other`
    gt = Gt(other);
    /// `self >= other`
    ge = Ge(other);
    /// The smaller.
    min = Min(other);
    /// The larger.
    max = Max(other);
    /// The magnitude.
    abs = Abs;
    /// The square root.
    sqrt = Sqrt;
    /// The largest integer not above.
    floor = Floor;
    /// The integer part.
    trunc = Trunc;
    /// The nearest integer, ties to even.
    rint = Rint;
}

macro_rules! operators {
    ($($trait:ident $method:ident $op:ident;)*) => {
        $(impl<'g, R: Operand<'g>> $trait<R> for Expr<'g> {
            type Output = Expr<'g>;
            fn $method(self, other: R) -> Expr<'g> {
                self.binary(Op::$op, other)
            }
        })*
    };
}

operators! {
    Add add Add;
    Sub sub Sub;
    Mul mul Mul;
    Div div Div;
    Rem rem Mod;
    BitAnd bitand BitAnd;
    BitOr bitor BitOr;
    BitXor bitxor BitXor;
    Shl shl Lshift;
    Shr shr Rshift;
}

macro_rules! literal_first {
    ($($trait:ident $method:ident $op:ident;)*) => {
        $(impl<'g> $trait<Expr<'g>> for f64 {
            type Output = Expr<'g>;
            fn $method(self, other: Expr<'g>) -> Expr<'g> {
                self.like(other).binary(Op::$op, other)
            }
        })*
    };
}

literal_first! {
    Add add Add;
    Sub sub Sub;
    Mul mul Mul;
    Div div Div;
}

impl<'g> Neg for Expr<'g> {
    type Output = Expr<'g>;
    fn neg(self) -> Expr<'g> {
        self.unary(Op::Neg)
    }
}

impl<'g> Not for Expr<'g> {
    type Output = Expr<'g>;
    fn not(self) -> Expr<'g> {
        self.unary(if self.scalar() == Scalar::Bool { Op::Not } else { Op::Invert })
    }
}

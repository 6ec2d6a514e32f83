//! Functions written as expressions.
//!
//! An [`ExprBuilder`] holds a function under construction, and an [`Expr`] is a `Copy` handle of one of its values, whose
//! operators append instructions to the current region. A literal takes the type of the other operand: `x * 0.5` is a
//! `float32` product if `x` is `float32`. The mathematics library is written so, and so are kernels that come from no
//! Python text:
//!
//! ```
//! use polyloom_ir::{ExprBuilder, Module, Scalar, Type, verify_module};
//!
//! let array = Type::array(Scalar::F32, 1);
//! let saxpy = ExprBuilder::kernel("saxpy", [("a", Type::F32), ("x", array), ("y", array)], |b, [a, x, y]| {
//!     let i = b.tid(0);
//!     b.if_then(i.lt(x.extent(0)), || y.store(&[i], a * x.load(&[i]) + y.load(&[i])));
//! })?;
//! let mut module = Module::new();
//! module.functions.push(saxpy);
//! assert_eq!(verify_module(&module), Ok(()));
//! # Ok::<(), polyloom_ir::BuildError>(())
//! ```
//!
//! Operators cannot return errors, so the builder keeps the first one, puts a value of no meaning in the place of what
//! could not be built, and returns the error when the function is finished.

use crate::builder::{BuildError, Builder, Values, type_list};
use crate::entity::{FuncId, Region, Value};
use crate::fragment::{FragmentAccess, MatrixRole, fragment_type};
use crate::function::{Function, FunctionKind, Imm, SharedArray, SharedCopy};
use crate::op::Op;
use crate::types::{AddressSpace, Composite, Scalar, Type};
use smallvec::{SmallVec, smallvec};
use std::cell::{Cell, RefCell};
use std::ops::{Add, BitAnd, BitOr, BitXor, Div, Mul, Neg, Not, Rem, Shl, Shr, Sub};

/// A function under construction.
pub struct ExprBuilder {
    func: RefCell<Function>,
    region: Cell<Region>,
    error: RefCell<Option<BuildError>>,
}

/// A value of an [`ExprBuilder`].
#[derive(Clone, Copy)]
pub struct Expr<'g> {
    builder: &'g ExprBuilder,
    value: Value,
}

/// Something that becomes a value once the type of its fellow operand is known.
pub trait IntoExpr<'g> {
    /// Returns the value, of the type of `fellow`.
    fn into_expr(self, fellow: Expr<'g>) -> Expr<'g>;
}

impl<'g> IntoExpr<'g> for Expr<'g> {
    fn into_expr(self, _: Expr<'g>) -> Expr<'g> {
        self
    }
}

impl<'g> IntoExpr<'g> for f64 {
    fn into_expr(self, fellow: Expr<'g>) -> Expr<'g> {
        fellow.builder.float(fellow.scalar(), self)
    }
}

impl<'g> IntoExpr<'g> for i64 {
    fn into_expr(self, fellow: Expr<'g>) -> Expr<'g> {
        match fellow.scalar() {
            scalar if scalar.is_float() => fellow.builder.float(scalar, self as f64),
            scalar => fellow.builder.int(scalar, self),
        }
    }
}

impl ExprBuilder {
    /// Builds a kernel, whose body `write` appends, given the parameters.
    ///
    /// # Errors
    ///
    /// The first [`BuildError`] of the body.
    pub fn kernel<const N: usize>(
        name: &str,
        params: [(&str, Type); N],
        write: impl for<'g> FnOnce(&'g ExprBuilder, [Expr<'g>; N]),
    ) -> Result<Function, BuildError> {
        let builder = ExprBuilder::new(name, FunctionKind::Kernel, &params, &[]);
        let values = builder.params();
        write(&builder, std::array::from_fn(|i| values[i]));
        builder.finish(&[], &[])
    }

    /// Builds a kernel, as [`ExprBuilder::kernel`], with any number of parameters.
    ///
    /// # Errors
    ///
    /// The first [`BuildError`] of the body.
    pub fn kernel_with(
        name: &str,
        params: &[(&str, Type)],
        write: impl for<'g> FnOnce(&'g ExprBuilder, &[Expr<'g>]),
    ) -> Result<Function, BuildError> {
        let builder = ExprBuilder::new(name, FunctionKind::Kernel, params, &[]);
        write(&builder, &builder.params());
        builder.finish(&[], &[])
    }

    /// Builds a function that returns what `write` does, given the parameters.
    ///
    /// # Errors
    ///
    /// The first [`BuildError`] of the body, and [`BuildError::RegionResults`] if it returns values of other types than
    /// `results`.
    pub fn function(
        name: &str,
        params: &[(&str, Type)],
        results: &[Type],
        write: impl for<'g> FnOnce(&'g ExprBuilder, &[Expr<'g>]) -> Vec<Expr<'g>>,
    ) -> Result<Function, BuildError> {
        let builder = ExprBuilder::new(name, FunctionKind::Func, params, results);
        let returned: Vec<Value> = write(&builder, &builder.params()).iter().map(|e| e.value).collect();
        builder.finish(&returned, results)
    }

    fn new(name: &str, kind: FunctionKind, params: &[(&str, Type)], results: &[Type]) -> ExprBuilder {
        let func = Function::new(name, kind, params.iter().copied(), results);
        let region = Cell::new(func.body);
        ExprBuilder { func: RefCell::new(func), region, error: RefCell::default() }
    }

    fn params(&self) -> Vec<Expr<'_>> {
        self.func.borrow().params().iter().map(|&value| self.wrap(value)).collect()
    }

    fn finish(self, returned: &[Value], results: &[Type]) -> Result<Function, BuildError> {
        self.expect_types("the function", returned, results);
        self.build(|b| b.return_(returned));
        match self.error.into_inner() {
            Some(error) => Err(error),
            None => Ok(self.func.into_inner()),
        }
    }

    fn build<R>(&self, append: impl FnOnce(&mut Builder<'_>) -> R) -> R {
        let mut func = self.func.borrow_mut();
        let mut builder = Builder::new(&mut func);
        builder.switch_to(self.region.get());
        append(&mut builder)
    }

    /// Builds what may fail. After an error, which is kept, the value is one of no meaning.
    fn try_build(&self, append: impl FnOnce(&mut Builder<'_>) -> Result<Value, BuildError>) -> Expr<'_> {
        match self.build(append) {
            Ok(value) => self.wrap(value),
            Err(error) => self.fail(error),
        }
    }

    /// Keeps an error if it is the first, and returns a value that stands for what could not be built.
    fn fail(&self, error: BuildError) -> Expr<'_> {
        self.error.borrow_mut().get_or_insert(error);
        self.wrap(self.build(|b| b.const_bool(false)))
    }

    fn expect_types(&self, region: &'static str, values: &[Value], expected: &[Type]) {
        let found = self.build(|b| b.types(values));
        if found[..] != *expected {
            let (expected, found) = (type_list(expected), type_list(&found));
            self.fail(BuildError::RegionResults { region, expected, found });
        }
    }

    fn wrap(&self, value: Value) -> Expr<'_> {
        Expr { builder: self, value }
    }

    /// Returns a float constant: `value` rounded to `scalar`.
    pub fn float(&self, scalar: Scalar, value: f64) -> Expr<'_> {
        if !scalar.is_float() {
            let found = scalar.to_string();
            return self.fail(BuildError::WrongType { role: "the type of a fraction", expected: "a float", found });
        }
        self.wrap(self.build(|b| b.const_float(scalar, value)))
    }

    /// Returns an integer constant, wrapped to the width of `scalar`.
    pub fn int(&self, scalar: Scalar, value: i64) -> Expr<'_> {
        if scalar.is_float() {
            let found = scalar.to_string();
            return self.fail(BuildError::WrongType { role: "the type of an integer", expected: "one", found });
        }
        self.wrap(self.build(|b| b.const_int(scalar, value)))
    }

    /// Returns the thread's coordinate along an axis of the launch, an `int32`.
    pub fn tid(&self, axis: u8) -> Expr<'_> {
        self.wrap(self.build(|b| b.tid(axis)))
    }

    /// Returns the thread's coordinate in its block along an axis, an `int32`.
    pub fn thread_idx(&self, axis: u8) -> Expr<'_> {
        self.coordinate(Op::ThreadIdx, axis)
    }

    /// Returns the coordinate of the thread's block along an axis of the grid, an `int32`.
    pub fn block_idx(&self, axis: u8) -> Expr<'_> {
        self.coordinate(Op::BlockIdx, axis)
    }

    /// Returns the array of a number, of one axis, that the threads of a block have in common.
    pub fn shared_array(&self, id: u32, elem: Scalar, n_elements: u32) -> Expr<'_> {
        let ty = Type::array(elem, 1).in_space(AddressSpace::Shared);
        let array = SharedArray { id, extents: smallvec![n_elements], align: 16 };
        self.with_immediate(Op::SharedArray, &[], ty, Imm::Shared(Box::new(array)))
    }

    /// Returns the array of a number, of rows and columns, that the threads of a block have in common.
    pub fn shared_matrix(&self, id: u32, elem: Scalar, extents: [u32; 2]) -> Expr<'_> {
        let ty = Type::array(elem, 2).in_space(AddressSpace::Shared);
        let array = SharedArray { id, extents: SmallVec::from_slice(&extents), align: 16 };
        self.with_immediate(Op::SharedArray, &[], ty, Imm::Shared(Box::new(array)))
    }

    /// Returns an array of rows and columns in the shared memory that a launch asks for, from a byte on.
    pub fn dynamic_matrix(&self, first_byte: u32, elem: Scalar, extents: [u32; 2]) -> Expr<'_> {
        let ty = Type::array(elem, 2).in_space(AddressSpace::Shared);
        let [first, rows, columns] = [first_byte, extents[0], extents[1]].map(|n| self.int(Scalar::I32, n.into()));
        self.with_immediate(Op::DynamicShared, &[first, rows, columns], ty, Imm::None)
    }

    /// Begins to copy elements that follow each other, from an element of a parameter to one of a shared array. They take 4, 8
    /// or 16 bytes, or 16 past the multiprocessor's own cache.
    pub fn async_copy<'g>(
        &'g self,
        (to, place): (Expr<'g>, &[Expr<'g>]),
        (from, source): (Expr<'g>, &[Expr<'g>]),
        copy: SharedCopy,
    ) {
        let operands: Vec<Value> = [&[to][..], place, &[from][..], source].concat().iter().map(|e| e.value).collect();
        self.build(|b| b.inst(Op::AsyncCopy, &operands, &[], Imm::Copy(copy)));
    }

    /// Makes a group of the copies that the thread has begun since the last one.
    pub fn async_commit(&self) {
        self.build(|b| b.inst(Op::AsyncCommit, &[], &[], Imm::None));
    }

    /// Waits until at most so many of the groups that the thread has made are under way.
    pub fn async_wait(&self, n_pending: u8) {
        self.build(|b| b.inst(Op::AsyncWait, &[], &[], Imm::Pending(n_pending)));
    }

    /// Returns the lane's part of a matrix in an array, which `role` says the use of, from a row and a column on. The type of
    /// the elements is one that the tensor core takes.
    pub fn load_fragment<'g>(
        &'g self,
        role: MatrixRole,
        array: Expr<'g>,
        [row, column]: [Expr<'g>; 2],
        access: FragmentAccess,
    ) -> Expr<'g> {
        let op = match role {
            MatrixRole::A => Op::MmaLoadA,
            MatrixRole::B => Op::MmaLoadB,
            MatrixRole::C => Op::MmaLoadC,
        };
        let part = array.ty().as_array().and_then(|(elem, _)| fragment_type(role, elem, access.n));
        let Some(part) = part else {
            let found = array.ty().to_string();
            return self.fail(BuildError::WrongType { role: "a matrix", expected: "one of the tensor core", found });
        };
        self.with_immediate(op, &[array, row, column], part.into(), Imm::Fragment(access))
    }

    /// Stores the lane's part of the result of an `mma` in an array, from a row and a column on.
    pub fn store_fragment<'g>(
        &'g self,
        array: Expr<'g>,
        [row, column]: [Expr<'g>; 2],
        part: Expr<'g>,
        access: FragmentAccess,
    ) {
        let operands = [array, row, column, part].map(|e| e.value);
        self.build(|b| b.inst(Op::MmaStore, &operands, &[], Imm::Fragment(access)));
    }

    /// Returns a vector of components.
    pub fn vector<'g>(&'g self, components: &[Expr<'g>]) -> Expr<'g> {
        let elem = components.first().map_or(Scalar::F32, |component| component.scalar());
        let ty = Composite::Vector { elem, len: components.len() as u16 };
        self.with_immediate(Op::Construct, components, ty.into(), Imm::None)
    }

    /// Returns the value of the lane of the warp whose number has the bits of `mask` flipped.
    pub fn shuffle_xor<'g>(&'g self, value: Expr<'g>, mask: u8) -> Expr<'g> {
        let mask = self.int(Scalar::I32, mask.into());
        self.with_immediate(Op::ShuffleXor, &[value, mask], value.ty(), Imm::Width(32))
    }

    /// Waits until all threads of the block have come here.
    pub fn sync_threads(&self) {
        self.build(|b| b.inst(Op::SyncThreads, &[], &[], Imm::None));
    }

    fn with_immediate<'g>(&'g self, op: Op, operands: &[Expr<'g>], ty: Type, imm: Imm) -> Expr<'g> {
        let operands: Vec<Value> = operands.iter().map(|e| e.value).collect();
        let results = self.build(|b| {
            let inst = b.inst(op, &operands, &[ty], imm);
            b.func.insts[inst].results.clone()
        });
        self.wrap(results[0])
    }

    fn coordinate(&self, op: Op, axis: u8) -> Expr<'_> {
        self.with_immediate(op, &[], Type::I32, Imm::Axis(axis))
    }

    /// Appends any op with one result.
    pub fn op<'g>(&'g self, op: Op, operands: &[Expr<'g>]) -> Expr<'g> {
        let operands: Values = operands.iter().map(|e| e.value).collect();
        self.try_build(|b| b.try_op(op, &operands))
    }

    /// Appends any op with `N` results.
    pub fn ops<'g, const N: usize>(&'g self, op: Op, operands: &[Expr<'g>]) -> [Expr<'g>; N] {
        let operands: Values = operands.iter().map(|e| e.value).collect();
        let results = self.build(|b| b.try_op_results(op, &operands));
        let results = results.and_then(|results| match results.len() {
            found if found == N => Ok(results),
            found => Err(BuildError::ResultCount { op: op.name(), expected: N, found }),
        });
        match results {
            Ok(results) => std::array::from_fn(|i| self.wrap(results[i])),
            Err(error) => [self.fail(error); N],
        }
    }

    /// Calls a function of the module that this one will stand in, which returns values of these types.
    pub fn call<'g, const N: usize>(
        &'g self,
        callee: FuncId,
        operands: &[Expr<'g>],
        results: [Type; N],
    ) -> [Expr<'g>; N] {
        let operands: Values = operands.iter().map(|e| e.value).collect();
        let values = self.build(|b| b.call(callee, &operands, &results));
        std::array::from_fn(|i| self.wrap(values[i]))
    }

    /// Prints values by a C format.
    pub fn print(&self, format: &str, values: &[Expr<'_>]) {
        let values: Vec<Value> = values.iter().map(|e| e.value).collect();
        self.build(|b| b.inst(Op::Print, &values, &[], Imm::Text(format.into())));
    }

    /// Appends a branch that is executed where a condition holds.
    pub fn if_then(&self, cond: Expr<'_>, then: impl FnOnce()) {
        self.branch(
            cond,
            || {
                then();
                []
            },
            || [],
        );
    }

    /// Returns the values of one of two branches, of which only the chosen one is executed.
    pub fn branch<'g, const N: usize>(
        &'g self,
        cond: Expr<'g>,
        then: impl FnOnce() -> [Expr<'g>; N],
        otherwise: impl FnOnce() -> [Expr<'g>; N],
    ) -> [Expr<'g>; N] {
        self.expect_bool(cond);
        let [then_region, else_region] = [self.create_region(&[]), self.create_region(&[])];
        let then_values = self.fill(then_region, then);
        let else_values = self.fill(else_region, otherwise);
        let types = then_values.map(Expr::ty);
        self.finish_region("the first branch", then_region, &then_values, &types);
        self.finish_region("the second branch", else_region, &else_values, &types);
        self.region_inst(Op::If, &[cond.value], &types, &[then_region, else_region])
    }

    /// Repeats `body` on the carried values while `cond` holds of them, and returns what they are then.
    pub fn while_loop<'g, const N: usize>(
        &'g self,
        init: [Expr<'g>; N],
        cond: impl FnOnce([Expr<'g>; N]) -> Expr<'g>,
        body: impl FnOnce([Expr<'g>; N]) -> [Expr<'g>; N],
    ) -> [Expr<'g>; N] {
        let types = init.map(Expr::ty);
        let [cond_region, body_region] = [self.create_region(&types), self.create_region(&types)];
        let test = self.fill(cond_region, || cond(self.region_params(cond_region)));
        self.finish_region("the condition of a loop", cond_region, &[test], &[Scalar::Bool.into()]);
        let next = self.fill(body_region, || body(self.region_params(body_region)));
        self.finish_region("the body of a loop", body_region, &next, &types);
        self.region_inst(Op::While, &init.map(|e| e.value), &types, &[cond_region, body_region])
    }

    /// Repeats `body` on the counter and the carried values for `start`, `start + step` and so on up to but not including
    /// `end`, as Python's `range`, and returns what the carried values are then. The counter has the type of `end`, an
    /// integer.
    pub fn for_range<'g, const N: usize>(
        &'g self,
        start: impl IntoExpr<'g>,
        end: Expr<'g>,
        step: impl IntoExpr<'g>,
        init: [Expr<'g>; N],
        body: impl FnOnce(Expr<'g>, [Expr<'g>; N]) -> [Expr<'g>; N],
    ) -> [Expr<'g>; N] {
        let body = |counter, carried: &[Expr<'g>]| body(counter, std::array::from_fn(|i| carried[i])).to_vec();
        let results = self.for_range_many(start, end, step, &init, body);
        std::array::from_fn(|i| results[i])
    }

    /// Repeats `body` as [`ExprBuilder::for_range`], with any number of carried values. The body returns as many.
    pub fn for_range_many<'g>(
        &'g self,
        start: impl IntoExpr<'g>,
        end: Expr<'g>,
        step: impl IntoExpr<'g>,
        init: &[Expr<'g>],
        body: impl FnOnce(Expr<'g>, &[Expr<'g>]) -> Vec<Expr<'g>>,
    ) -> Vec<Expr<'g>> {
        let types: Vec<Type> = init.iter().map(|e| e.ty()).collect();
        let counter = end.ty();
        if !counter.as_scalar().is_some_and(Scalar::is_int) {
            let found = counter.to_string();
            self.fail(BuildError::WrongType { role: "the end of a range", expected: "an integer", found });
        }
        let region = self.create_region(&[&[counter], &types[..]].concat());
        let params: Vec<Expr<'g>> =
            self.func.borrow().regions[region].params.iter().map(|&param| self.wrap(param)).collect();
        let next = self.fill(region, || body(params[0], &params[1..]));
        self.finish_region("the body of a loop", region, &next, &types);
        let bounds = [start.into_expr(end), end, step.into_expr(end)].map(|e| e.value);
        self.expect_types("a range", &bounds, &[counter; 3]);
        let operands: Vec<Value> = bounds.into_iter().chain(init.iter().map(|e| e.value)).collect();
        self.region_values(Op::ForRange, &operands, &types, &[region])
    }

    fn expect_bool(&self, cond: Expr<'_>) {
        if let Err(error) = self.build(|b| b.expect_bool(cond.value)) {
            self.fail(error);
        }
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

    fn finish_region(&self, name: &'static str, region: Region, values: &[Expr<'_>], expected: &[Type]) {
        let values: Vec<Value> = values.iter().map(|e| e.value).collect();
        self.expect_types(name, &values, expected);
        self.fill(region, || self.build(|b| b.yield_(&values)));
    }

    fn region_inst<const N: usize>(
        &self,
        op: Op,
        operands: &[Value],
        results: &[Type],
        regions: &[Region],
    ) -> [Expr<'_>; N] {
        let values = self.region_values(op, operands, results, regions);
        std::array::from_fn(|i| values[i])
    }

    fn region_values(&self, op: Op, operands: &[Value], results: &[Type], regions: &[Region]) -> Vec<Expr<'_>> {
        let results = self.build(|b| {
            let inst = b.region_inst(op, operands, results, regions);
            b.func.insts[inst].results.clone()
        });
        results.iter().map(|&value| self.wrap(value)).collect()
    }
}

impl<'g> Expr<'g> {
    /// Returns the value's handle, for what [`Builder`] appends to the same function.
    pub fn value(self) -> Value {
        self.value
    }

    /// Returns the builder it belongs to.
    pub fn builder(self) -> &'g ExprBuilder {
        self.builder
    }

    /// Returns its type.
    pub fn ty(self) -> Type {
        self.builder.func.borrow().ty(self.value)
    }

    /// Returns its scalar type. Of anything but a scalar the builder keeps an error.
    pub fn scalar(self) -> Scalar {
        match self.ty() {
            Type::Scalar(scalar) => scalar,
            other => {
                let found = other.to_string();
                self.builder.fail(BuildError::WrongType { role: "an operand", expected: "a scalar", found });
                Scalar::Bool
            }
        }
    }

    /// Returns a component of a vector.
    pub fn component(self, number: u16) -> Expr<'g> {
        match self.ty().as_composite() {
            Some(composite) => {
                let ty = composite.elem().into();
                self.builder.with_immediate(Op::Component, &[self], ty, Imm::Component(number))
            }
            None => {
                let found = self.ty().to_string();
                self.builder.fail(BuildError::WrongType { role: "what has components", expected: "a vector", found })
            }
        }
    }

    /// Returns the extent of an array along an axis, an `int32`.
    pub fn extent(self, axis: u8) -> Expr<'g> {
        match self.ty().as_any_array() {
            Some((_, ndim)) if axis < ndim => self.builder.wrap(self.builder.build(|b| b.dim(self.value, axis))),
            _ => {
                let found = format!("{} with axis {axis}", self.ty());
                let error =
                    BuildError::WrongType { role: "what has an extent", expected: "an array of that axis", found };
                self.builder.fail(error)
            }
        }
    }

    /// Reads an element of an array, as [`Builder::load`].
    pub fn load(self, indices: &[Expr<'g>]) -> Expr<'g> {
        let indices: Values = indices.iter().map(|e| e.value).collect();
        self.builder.try_build(|b| b.load(self.value, &indices))
    }

    /// Writes an element of an array, as [`Builder::store`].
    pub fn store(self, indices: &[Expr<'g>], value: Expr<'g>) {
        let indices: Values = indices.iter().map(|e| e.value).collect();
        if let Err(error) = self.builder.build(|b| b.store(self.value, &indices, value.value)) {
            self.builder.fail(error);
        }
    }

    fn unary(self, op: Op) -> Expr<'g> {
        self.builder.op(op, &[self])
    }

    fn binary(self, op: Op, other: impl IntoExpr<'g>) -> Expr<'g> {
        self.builder.op(op, &[self, other.into_expr(self)])
    }

    /// Returns `literal`, of this value's type.
    pub fn constant(self, literal: impl IntoExpr<'g>) -> Expr<'g> {
        literal.into_expr(self)
    }

    /// Returns `self * factor + addend` with one rounding.
    pub fn fma(self, factor: impl IntoExpr<'g>, addend: impl IntoExpr<'g>) -> Expr<'g> {
        self.builder.op(Op::Fma, &[self, factor.into_expr(self), addend.into_expr(self)])
    }

    /// Converts a number.
    pub fn cast(self, to: Scalar) -> Expr<'g> {
        self.builder.wrap(self.builder.build(|b| b.cast(self.value, to)))
    }

    /// Reinterprets the bits.
    pub fn bitcast(self, to: Scalar) -> Expr<'g> {
        self.builder.wrap(self.builder.build(|b| b.bitcast(self.value, to)))
    }

    /// Returns `a` where this condition holds, otherwise `b`.
    pub fn select(self, a: Expr<'g>, b: impl IntoExpr<'g>) -> Expr<'g> {
        self.builder.op(Op::Select, &[self, a, b.into_expr(a)])
    }
}

macro_rules! methods {
    ($($(#[$doc:meta])* $name:ident = $op:ident $(($other:ident))?;)*) => {
        impl<'g> Expr<'g> {
            $($(#[$doc])*
            pub fn $name(self $(, $other: impl IntoExpr<'g>)?) -> Expr<'g> {
                methods!(@ self $op $($other)?)
            })*
        }
    };
    (@ $self:ident $op:ident) => { $self.unary(Op::$op) };
    (@ $self:ident $op:ident $other:ident) => { $self.binary(Op::$op, $other) };
}

methods! {
    /// Returns `self == other`.
    eq = Eq(other);
    /// Returns `self != other`.
    ne = Ne(other);
    /// Returns `self < other`.
    lt = Lt(other);
    /// Returns `self <= other`.
    le = Le(other);
    /// Returns `self > other`.
    gt = Gt(other);
    /// Returns `self >= other`.
    ge = Ge(other);
    /// Returns the smaller.
    min = Min(other);
    /// Returns the larger.
    max = Max(other);
    /// Returns the magnitude.
    abs = Abs;
    /// Returns the square root.
    sqrt = Sqrt;
    /// Returns the largest integer not above.
    floor = Floor;
    /// Returns the integer part.
    trunc = Trunc;
    /// Returns the nearest integer, ties to even.
    rint = Rint;
}

macro_rules! operators {
    ($($trait:ident $method:ident $op:ident;)*) => {
        $(impl<'g, R: IntoExpr<'g>> $trait<R> for Expr<'g> {
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
                self.into_expr(other).binary(Op::$op, other)
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

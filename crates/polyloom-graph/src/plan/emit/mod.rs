//! Builds HIR kernels of bodies.

mod accumulate;
mod attention;
mod matrix;
mod pipelined;
mod product;
mod rows;
mod scan;
mod sort;
mod staged;

use super::body::{
    BATCH_THREADS, BodyAddress, BodyExpressionKind, BodyExtent, BodyForm, BodyPlace, BodyStore, BodyStride, KernelBody,
};
use super::expression::CombineOrder;
use crate::op::{TensorOp, apply_scalar};
use crate::reference::N_LANES;
use polyloom_ir::{BuildError, Expr, ExprBuilder, Function, Op, Scalar, Type};
use std::cell::RefCell;

/// The most axes of a launch.
const MAX_THREAD_AXES: usize = 4;
/// The most arrays of a square that are turned in shared memory, of which each takes 8 KiB at most.
const MAX_TURNED: usize = 5;

pub(super) fn emit(body: &KernelBody) -> Result<Function, BuildError> {
    let ty = |param: &super::body::BodyParam| match param.is_array {
        true => Type::array(param.dtype, 1),
        false => Type::Scalar(param.dtype),
    };
    let names: Vec<String> = (0..body.params.len()).map(|index| format!("p{index}")).collect();
    let params: Vec<(&str, Type)> = names.iter().map(String::as_str).zip(body.params.iter().map(ty)).collect();
    let mut function = ExprBuilder::kernel_with(&body.name(), &params, |b, params| {
        let emitter = BodyEmitter::new(body, b, params);
        match body.form {
            BodyForm::Each | BodyForm::Numbered | BodyForm::Totals => emitter.each(),
            BodyForm::Batched(n) => emitter.batched(n),
            BodyForm::ScanTiles => emitter.scan_tiles(),
            BodyForm::Tiled { row_axis } => emitter.tiled(usize::from(row_axis)),
            BodyForm::Squares { row_axis } => emitter.squares(usize::from(row_axis)),
            BodyForm::Scan { .. } => emitter.scan(),
            BodyForm::Product { tile, params } => emitter.products(tile, params),
            BodyForm::MatrixProduct(tile) => emitter.matrix_product(tile),
            BodyForm::PipelinedProduct(tile) => emitter.pipelined_product(tile),
            BodyForm::Attention(tile) => emitter.attention(tile),
            BodyForm::Sort { step, param } => emitter.sort(step, param),
            BodyForm::Staged(rows) => emitter.staged_rows(rows),
            _ => emitter.rows(),
        }
    })?;
    function.metadata.float_mode = body.float_mode;
    function.metadata.indices_from_start = true;
    function.metadata.dense_arrays = true;
    if let Some(n_threads) = body.block_size() {
        function.metadata.workgroup_size = Some([n_threads, 1, 1]);
    }
    if let BodyForm::Scan { has_few_rows: true } = body.form {
        function.metadata.hints = vec![("vector_width".to_owned(), "1".to_owned())];
    }
    function.metadata.shared_bytes = match body.form {
        BodyForm::PipelinedProduct(tile) => Some(tile.shared_ends()[1]),
        BodyForm::Staged(rows) => rows.slot_starts(&body.slots.dtypes).last().copied(),
        _ => None,
    };
    Ok(function)
}

/// The values of expressions that have been computed, for the row and for the element at hand.
struct BodyEmitter<'b, 'g> {
    body: &'b KernelBody,
    b: &'g ExprBuilder,
    params: &'b [Expr<'g>],
    /// The coordinates along the outer axes.
    outer: Vec<Expr<'g>>,
    of_row: RefCell<Vec<Option<Expr<'g>>>>,
    /// The results of the reductions of each pass.
    totals: RefCell<Vec<Vec<Expr<'g>>>>,
    /// The rows that wait in shared memory, if they do.
    staged: Option<StagedPlace<'g>>,
}

/// The rows of a block in shared memory, and the one that the thread works on.
struct StagedPlace<'g> {
    slots: Vec<Expr<'g>>,
    /// The row's number in the block.
    row: Expr<'g>,
    /// The thread's number among those of the row.
    member: Expr<'g>,
    /// False for a warp beyond the last row, which does nothing.
    is_own: Expr<'g>,
}

/// One element of a row: its coordinates along the inner axes, and what has been computed of it.
struct Element<'g> {
    inner: Vec<Expr<'g>>,
    values: RefCell<Vec<Option<Expr<'g>>>>,
}

impl<'b, 'g> BodyEmitter<'b, 'g> {
    fn new(body: &'b KernelBody, b: &'g ExprBuilder, params: &'b [Expr<'g>]) -> BodyEmitter<'b, 'g> {
        let mut emitter = BodyEmitter {
            body,
            b,
            params,
            outer: Vec::new(),
            of_row: RefCell::new(vec![None; body.expressions.len()]),
            totals: RefCell::default(),
            staged: None,
        };
        emitter.outer = emitter.outer_coordinates();
        emitter
    }

    fn place_type(&self) -> Scalar {
        if self.body.is_wide { Scalar::I64 } else { Scalar::I32 }
    }

    fn widened(&self, index: Expr<'g>) -> Expr<'g> {
        if index.scalar() == self.place_type() { index } else { index.cast(self.place_type()) }
    }

    fn extent(&self, extent: BodyExtent) -> Expr<'g> {
        match extent {
            BodyExtent::Constant(n) => self.b.int(self.place_type(), n as i64),
            BodyExtent::Param(param) => self.params[param as usize],
        }
    }

    fn outer_coordinates(&self) -> Vec<Expr<'g>> {
        let axes = &self.body.outer;
        let finds_own = matches!(
            self.body.form,
            BodyForm::Tiled { .. }
                | BodyForm::Squares { .. }
                | BodyForm::Batched(_)
                | BodyForm::ScanTiles
                | BodyForm::Product { .. }
                | BodyForm::MatrixProduct(_)
                | BodyForm::PipelinedProduct(_)
                | BodyForm::Attention(_)
                | BodyForm::Sort { .. }
                | BodyForm::Staged(_)
        );
        if finds_own {
            return Vec::new();
        }
        if self.body.form.has_blocks() {
            return self.split(self.widened(self.b.block_idx(0)), axes);
        }
        if axes.is_empty() {
            return Vec::new();
        }
        if self.body.form == BodyForm::Numbered {
            return self.split(self.widened(self.b.tid(0)), axes);
        }
        let n_merged = if axes.len() <= MAX_THREAD_AXES { 1 } else { axes.len() - (MAX_THREAD_AXES - 1) };
        let mut coordinates = self.split(self.widened(self.b.tid(0)), &axes[..n_merged]);
        let rest = 1..=axes.len() - n_merged;
        coordinates.extend(rest.map(|axis| self.widened(self.b.tid(axis as u8))));
        coordinates
    }

    /// Returns the coordinates of an element from its number in row-major order.
    fn split(&self, number: Expr<'g>, axes: &[BodyExtent]) -> Vec<Expr<'g>> {
        let extents: Vec<Expr<'g>> = axes.iter().map(|&axis| self.extent(axis)).collect();
        self.split_by(number, &extents)
    }

    fn split_by(&self, number: Expr<'g>, extents: &[Expr<'g>]) -> Vec<Expr<'g>> {
        let mut coordinates = Vec::new();
        let mut rest = number;
        for &extent in extents.iter().skip(1).rev() {
            coordinates.push(self.b.op(Op::Mod, &[rest, extent]));
            rest = self.b.op(Op::FloorDiv, &[rest, extent]);
        }
        if !extents.is_empty() {
            coordinates.push(rest);
        }
        coordinates.reverse();
        coordinates
    }

    /// Returns the number of elements of a row.
    fn row_length(&self) -> Expr<'g> {
        let extents = self.body.inner.iter().map(|&extent| self.extent(extent));
        let length = extents.reduce(|n, extent| n * extent).unwrap_or_else(|| self.b.int(self.place_type(), 1));
        match &self.staged {
            Some(staged) => staged.is_own.select(length, self.integer(0)),
            None => length,
        }
    }

    fn element(&self, number: Expr<'g>) -> Element<'g> {
        let inner = self.split(number, &self.body.inner);
        Element { inner, values: RefCell::new(vec![None; self.body.expressions.len()]) }
    }

    fn place(&self, place: &BodyPlace, inner: &[Expr<'g>]) -> Expr<'g> {
        if place.is_number {
            let number = self.widened(self.b.tid(0));
            return place.offset.map_or(number, |param| self.params[param as usize] + number);
        }
        let coordinates = self.outer.iter().chain(inner);
        let terms = coordinates.zip(&place.strides).filter_map(|(&coordinate, stride)| match stride {
            BodyStride::Zero => None,
            BodyStride::One => Some(coordinate),
            BodyStride::Param(param) => Some(coordinate * self.params[*param as usize]),
        });
        let offset = place.offset.map(|param| self.params[param as usize]);
        offset.into_iter().chain(terms).reduce(|a, b| a + b).unwrap_or_else(|| self.b.int(self.place_type(), 0))
    }

    fn load(&self, address: &BodyAddress, inner: &[Expr<'g>]) -> Expr<'g> {
        self.params[address.array as usize].load(&[self.place(&address.place, inner)])
    }

    fn store(&self, address: &BodyAddress, inner: &[Expr<'g>], value: Expr<'g>) {
        self.params[address.array as usize].store(&[self.place(&address.place, inner)], value);
    }

    /// Computes an expression of a row.
    fn row_value(&self, index: u32) -> Expr<'g> {
        let zeros: Vec<Expr<'g>> = self.body.inner.iter().map(|_| self.b.int(self.place_type(), 0)).collect();
        let element = Element { inner: zeros, values: RefCell::new(Vec::new()) };
        self.value(index, &element)
    }

    /// Computes an expression of an element, unless it has been computed.
    fn value(&self, index: u32, element: &Element<'g>) -> Expr<'g> {
        let expression = &self.body.expressions[index as usize];
        let known = if expression.is_of_row { &self.of_row } else { &element.values };
        if let Some(value) = known.borrow()[index as usize] {
            return value;
        }
        let value = match &expression.kind {
            BodyExpressionKind::Load(address) => self.load(address, &element.inner),
            BodyExpressionKind::Kept(slot) => self.slot(*slot, element),
            BodyExpressionKind::Place(place) => {
                let place = self.place(place, &element.inner);
                if place.scalar() == Scalar::I64 { place } else { place.cast(Scalar::I64) }
            }
            BodyExpressionKind::Constant(bits) => self.constant(expression.dtype, *bits),
            BodyExpressionKind::Number(param) => self.params[*param as usize],
            BodyExpressionKind::Apply(op, operands) => {
                let operands: Vec<Expr<'g>> = operands.iter().map(|&operand| self.value(operand, element)).collect();
                self.apply(*op, &operands, expression.dtype)
            }
            BodyExpressionKind::Gather { address, index, n, stride } => {
                let [n, stride] = [*n, *stride].map(|param| self.params[param as usize]);
                let index = self.counted(self.value(*index, element), n);
                let zero = self.b.int(Scalar::I64, 0);
                let index = self.widened(index.max(zero).min(n.cast(Scalar::I64) - 1));
                let place = self.place(&address.place, &element.inner) + index * stride;
                self.params[address.array as usize].load(&[place])
            }
            BodyExpressionKind::Random(op, seed, place) => {
                let seed = self.value(*seed, element).cast(Scalar::I32);
                let place = self.value(*place, element).cast(Scalar::I32);
                let state = self.b.op(Op::RandInit, &[seed, place]);
                let draw = if *op == TensorOp::Randn { Op::Randn } else { Op::Randf };
                let [drawn, _] = self.b.ops(draw, &[state]);
                drawn
            }
            BodyExpressionKind::Total { pass, index } => self.totals.borrow()[*pass as usize][*index as usize],
            BodyExpressionKind::Combined { op, order, address, n, distance } => {
                let [n, distance] = [*n, *distance].map(|param| self.params[param as usize]);
                match order {
                    CombineOrder::Lanes => self.combine_lanes(*op, address, distance),
                    CombineOrder::Pairs if self.body.form == BodyForm::Totals => {
                        self.combine_by_block(*op, address, n, index)
                    }
                    CombineOrder::Pairs => {
                        let first = self.place(&address.place, &[]);
                        self.combine_pairs(*op, address, first, n)
                    }
                }
            }
        };
        let known = if expression.is_of_row { &self.of_row } else { &element.values };
        known.borrow_mut()[index as usize] = Some(value);
        value
    }

    /// Counts an index below 0 from the end of `n` elements.
    fn counted(&self, index: Expr<'g>, n: Expr<'g>) -> Expr<'g> {
        let index = if index.scalar() == Scalar::I64 { index } else { index.cast(Scalar::I64) };
        index.lt(0).select(index + n.cast(Scalar::I64), index)
    }

    fn constant(&self, dtype: Scalar, bits: u64) -> Expr<'g> {
        match dtype {
            Scalar::Bool => self.b.int(Scalar::I32, bits as i64).ne(0),
            _ if dtype.is_float() => {
                self.b.float(dtype, f64::from_bits(crate::builder::convert(dtype, bits, Scalar::F64)))
            }
            _ => self.b.int(dtype, bits as i64),
        }
    }

    fn apply(&self, op: TensorOp, operands: &[Expr<'g>], dtype: Scalar) -> Expr<'g> {
        apply_scalar(op, operands, dtype)
    }

    fn each(&self) {
        let element = self.single();
        for store in self.stores() {
            if self.body.form == BodyForm::Totals {
                let value = self.value(store.value, &element);
                self.b.if_then(self.b.thread_idx(0).eq(0), || self.store(&store.address, &[], value));
                continue;
            }
            self.store_value(store, &element);
        }
    }

    /// Computes some elements of a row a block's width apart, and then stores them, so that their loads are under way together.
    fn batched(&self, n: u8) {
        let (b, [rows @ .., columns]) = (self.b, &self.body.outer[..]) else { return };
        let width = i64::from(BATCH_THREADS);
        let n_of_block = i64::from(n) * width;
        let length = self.extent(*columns);
        let mut number = self.widened(b.block_idx(0));
        let mut row = Vec::new();
        if !rows.is_empty() {
            let n_of_row = b.op(Op::FloorDiv, &[length + (n_of_block - 1), self.integer(n_of_block)]);
            row = self.split(b.op(Op::FloorDiv, &[number, n_of_row]), rows);
            number = number % n_of_row;
        }
        let first_of_block = number * n_of_block;
        let first = first_of_block + self.widened(b.thread_idx(0));
        let end = (first_of_block + n_of_block).min(length);
        let of_place = |place: Expr<'g>| {
            let outer = [&row[..], &[place]].concat();
            BodyEmitter { outer, ..BodyEmitter::new(self.body, b, self.params) }
        };
        let is_whole = (end - first_of_block).eq(n_of_block);
        let whole = || {
            let emitters: Vec<_> = (0..i64::from(n)).map(|number| of_place(first + number * width)).collect();
            let values: Vec<Vec<Expr<'g>>> = emitters
                .iter()
                .map(|emitter| {
                    let element = emitter.single();
                    self.stores().map(|store| emitter.value(store.value, &element)).collect()
                })
                .collect();
            for (emitter, values) in emitters.iter().zip(values) {
                self.stores().zip(values).for_each(|(store, value)| emitter.store(&store.address, &[], value));
            }
            []
        };
        let [] = b.branch(is_whole, whole, || {
            b.for_range(first, end, width, [], |place, []| {
                of_place(place).each();
                []
            });
            []
        });
    }

    fn single(&self) -> Element<'g> {
        Element { inner: Vec::new(), values: RefCell::new(vec![None; self.body.expressions.len()]) }
    }

    fn stores(&self) -> impl Iterator<Item = &BodyStore> {
        self.body.passes.iter().flat_map(|pass| pass.row_stores.iter().chain(&pass.element_stores))
    }

    /// Returns the block's square: its coordinates, of which those along two axes are numbers of squares, and the extents.
    fn square(&self, row_axis: usize) -> (Vec<Expr<'g>>, Vec<Expr<'g>>) {
        let (b, n_lanes) = (self.b, N_LANES as i64);
        let extents: Vec<Expr<'g>> = self.body.outer.iter().map(|&axis| self.extent(axis)).collect();
        let column_axis = extents.len() - 1;
        let in_tiles = |(axis, &extent): (usize, &Expr<'g>)| match axis == row_axis || axis == column_axis {
            true => b.op(Op::FloorDiv, &[extent + (n_lanes - 1), b.int(self.place_type(), n_lanes)]),
            false => extent,
        };
        let tiles: Vec<Expr<'g>> = extents.iter().enumerate().map(in_tiles).collect();
        (self.split_by(self.widened(b.block_idx(0)), &tiles), extents)
    }

    /// Computes a square. Elements that follow each other down its columns in memory are loaded so, and turned in shared
    /// memory.
    fn squares(&self, row_axis: usize) {
        let (b, n_lanes) = (self.b, N_LANES as i64);
        let (tile, extents) = self.square(row_axis);
        let column_axis = extents.len() - 1;
        let (lane, warp) = (b.thread_idx(0) & (n_lanes - 1), b.op(Op::WarpId, &[]));
        let n_warps = BATCH_THREADS / N_LANES as u32;
        let others: Vec<Expr<'g>> =
            (0..N_LANES as u32 / n_warps).map(|number| warp + i64::from(number * n_warps)).collect();
        let first = [row_axis, column_axis].map(|axis| tile[axis] * n_lanes);
        let last = [row_axis, column_axis].map(|axis| extents[axis] - 1);
        let at = |[row, column]: [Expr<'g>; 2]| {
            let mut outer = tile.clone();
            (outer[row_axis], outer[column_axis]) = (row, column);
            BodyEmitter { outer, ..BodyEmitter::new(self.body, b, self.params) }
        };
        let leaps = |place: &BodyPlace| {
            place.strides.get(row_axis) == Some(&BodyStride::One)
                && matches!(place.strides.get(column_axis), Some(BodyStride::Param(_)))
        };
        let turned =
            self.body.expressions.iter().enumerate().filter_map(|(index, expression)| match &expression.kind {
                BodyExpressionKind::Load(address) if leaps(&address.place) => Some((index, address, expression.dtype)),
                _ => None,
            });
        // A column of the square is in 32 banks.
        let turned: Vec<_> = turned
            .zip(0..)
            .take(MAX_TURNED)
            .map(|((index, address, dtype), id)| {
                (index, address, b.shared_matrix(id, dtype, [N_LANES as u32, N_LANES as u32 + 1]))
            })
            .collect();
        let mut loaded = Vec::new();
        for &(_, address, shared) in &turned {
            for &column in &others {
                let place = [first[0] + self.widened(lane), first[1] + self.widened(column)];
                let [row, own] = [0, 1].map(|axis: usize| place[axis].min(last[axis]));
                loaded.push((shared, column, at([row, own]).load(address, &[])));
            }
        }
        loaded.into_iter().for_each(|(shared, column, value)| shared.store(&[column, lane], value));
        if !turned.is_empty() {
            b.sync_threads();
        }
        let elements = others.iter().map(|&row| {
            let emitter = at([first[0] + self.widened(row), first[1] + self.widened(lane)]);
            for &(index, _, shared) in &turned {
                let known = if self.body.expressions[index].is_of_row { &emitter.of_row } else { continue };
                known.borrow_mut()[index] = Some(shared.load(&[lane, row]));
            }
            emitter
        });
        let elements: Vec<BodyEmitter<'_, 'g>> = elements.collect();
        let is_within = |emitter: &BodyEmitter<'_, 'g>| {
            emitter.outer[row_axis].le(last[0]) & emitter.outer[column_axis].le(last[1])
        };
        let ends = [0, 1].map(|axis: usize| (first[axis] + (n_lanes - 1)).le(last[axis]));
        let whole = || {
            let values: Vec<Vec<Expr<'g>>> = elements
                .iter()
                .map(|emitter| {
                    let element = emitter.single();
                    let emitter = emitter.for_one_branch();
                    self.stores().map(|store| emitter.value(store.value, &element)).collect()
                })
                .collect();
            for (emitter, values) in elements.iter().zip(values) {
                self.stores().zip(values).for_each(|(store, value)| emitter.store(&store.address, &[], value));
            }
            []
        };
        let [] = b.branch(ends[0] & ends[1], whole, || {
            for emitter in &elements {
                b.if_then(is_within(emitter), || emitter.for_one_branch().each());
            }
            []
        });
    }

    /// Returns an emitter of the same element that keeps what it computes to itself, for one branch.
    fn for_one_branch(&self) -> BodyEmitter<'b, 'g> {
        BodyEmitter {
            outer: self.outer.clone(),
            of_row: self.of_row.clone(),
            ..BodyEmitter::new(self.body, self.b, self.params)
        }
    }

    /// Goes down the rows of a square, so that what neighbouring columns load far from each other stays in cache.
    fn tiled(&self, row_axis: usize) {
        let (b, n_lanes) = (self.b, N_LANES as i64);
        let (tile, extents) = self.square(row_axis);
        let column_axis = extents.len() - 1;
        let column = tile[column_axis] * n_lanes + self.widened(b.thread_idx(0));
        let first = tile[row_axis] * n_lanes;
        let end = (first + n_lanes).min(extents[row_axis]);
        b.if_then(column.lt(extents[column_axis]), || {
            b.for_range(first, end, 1, [], |row, []| {
                let mut outer = tile.clone();
                (outer[row_axis], outer[column_axis]) = (row, column);
                BodyEmitter { outer, ..BodyEmitter::new(self.body, b, self.params) }.each();
                []
            });
        });
    }

    fn store_value(&self, store: &BodyStore, element: &Element<'g>) {
        let value = self.value(store.value, element);
        self.store(&store.address, &element.inner, value);
    }
}

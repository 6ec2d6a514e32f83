//! Components of vectors and matrices, which lie side by side in memory.
//!
//! A group's lanes that take one component each of neighbouring vectors load all of these as neighbouring elements and
//! transpose them. The loads of other components that follow take theirs from the same transposition. Stores of all
//! components of a vector, with nothing but pure instructions between them, become stores of whole registers, which the
//! lanes' components are transposed into.
//!
//! Lanes that take a component each of vectors anywhere load a block of four with one instruction a lane, and transpose
//! the blocks to four vectors with a component of every lane, which the other components are found in: LLVM sees to
//! that.

use super::memory::GroupAddress;
use super::{FunctionLowering, Reps, Result, ValueRep, transpose};
use crate::ir::*;
use polyloom_codegen::CodegenError;
use polyloom_ir::op::OpEffect;
use polyloom_ir::{Inst, Op, Scalar, Value};
use smallvec::SmallVec;

/// Longest rows worth it, because a component costs as many shuffles as the length has bits.
const MAX_LENGTH: i64 = 16;

/// Longest rows of elements of less than four bytes, for which there are no masked loads.
const MAX_SHORT_LENGTH: i64 = 4;

/// Elements in a block.
const BLOCK: u32 = 4;

/// An element for each lane.
#[derive(Clone, Copy)]
pub(crate) struct ScatteredElements {
    /// The place where each lane's is, or the block that has it.
    pub(crate) first: Val,
    /// Says which element of its block it is, if it is part of one.
    pub(crate) place_in_block: Option<u32>,
}

impl ScatteredElements {
    /// Returns where each lane's element is.
    pub(crate) fn elements(&self, ir: &IrEmitter<'_>, elem: Ty) -> Val {
        match self.place_in_block {
            Some(place) => ir.offset(elem, self.first, ir.splat(ir.i64_const(place.into()), ir.n_lanes(self.first))),
            None => self.first,
        }
    }
}

/// As many neighbouring rows as there are lanes, and a place in them.
#[derive(Clone, Copy)]
pub(crate) struct RowBlock {
    /// The first row's first element.
    pub(crate) first: Val,
    /// Elements in a row.
    pub(crate) length: u32,
    /// Says which element of each row is meant.
    pub(crate) place: u32,
}

impl RowBlock {
    /// Returns where a lane's element is, or each lane's for a vector of them.
    pub(crate) fn element(&self, ir: &IrEmitter<'_>, elem: Ty, lane: Val) -> Val {
        let [length, place] = [self.length, self.place].map(|n| ir.splat(ir.i64_const(n.into()), ir.n_lanes(lane)));
        ir.offset(elem, self.first, ir.add(ir.mul(lane, length), place))
    }
}

/// Says which element of a row a load reads or a store writes.
struct PlaceInRow<'f> {
    array: Value,
    /// The indices that say which row.
    row: &'f [Value],
    place: usize,
    /// Elements in the row.
    length: usize,
}

/// Stores that write all of a row together.
pub(crate) struct RowStore {
    /// Indexed by place in the row.
    stores: SmallVec<[Inst; 4]>,
    /// Says how many of them have been passed by.
    n_passed: usize,
}

impl FunctionLowering<'_, '_> {
    /// Returns, for an element `inner` bytes into a row, how many elements the row has and which it is, if rows are short
    /// enough to be moved together.
    pub(super) fn place_of(&self, elem: Scalar, row_bytes: i64, inner: i64) -> Option<(u32, u32)> {
        let bytes = i64::from(elem.bytes());
        let (length, place) = (row_bytes / bytes, inner / bytes);
        let longest = if bytes < 4 { MAX_SHORT_LENGTH } else { MAX_LENGTH };
        let fits = (2..=longest).contains(&length) && (0..length).contains(&place);
        (fits && self.lanes > 1 && elem != Scalar::Bool).then_some((length as u32, place as u32))
    }

    /// Returns, for an element `inner` bytes into a row, where its block begins, in bytes, and its place in the block, if
    /// rows are as long as a block. A row's last block may share elements with the one before.
    pub(super) fn block_of(&self, elem: Scalar, row_bytes: i64, inner: i64) -> Option<(i64, u32)> {
        let bytes = i64::from(elem.bytes());
        let block_bytes = bytes * i64::from(BLOCK);
        let fits = row_bytes >= block_bytes && (0..row_bytes).contains(&inner) && (row_bytes | inner) % bytes == 0;
        (fits && self.lanes >= BLOCK && matches!(elem.bytes(), 4 | 8)).then(|| {
            let block = (inner - inner % block_bytes).min(row_bytes - block_bytes);
            (block, ((inner - block) / bytes) as u32)
        })
    }

    /// Loads each lane's block, of which `first` holds the addresses, and gives the elements at one place.
    pub(super) fn load_blocks(&mut self, array: usize, first: Val, place: u32) -> Result<Val> {
        let mask = self.mask();
        let ir = self.ir;
        let elem = self.array_arg(array)?.elem;
        let block = ir.lanes(self.memory_type(elem), BLOCK);
        let pointers = match mask {
            None => first,
            // Idle lanes read zeros from the stack, because their addresses may be invalid and every lane may be idle.
            Some(mask) => {
                let zeros = ir.alloca(block);
                ir.set(zeros, ir.zero(block));
                ir.select(mask, first, ir.splat(zeros, self.lanes))
            }
        };
        let mut loads = Vec::with_capacity(self.lanes as usize);
        for lane in 0..self.lanes {
            let pointer = ir.extract(pointers, ir.i64_const(lane.into()));
            let load = ir.load(block, pointer, elem.bytes());
            self.tag(load, array)?;
            loads.push(load);
        }
        // Every fourth lane's blocks side by side, from each of the first four lanes on.
        let every_fourth = |lane: usize| loads[lane..].iter().step_by(BLOCK as usize).copied().collect();
        let parts = [0, 1, 2, 3].map(|lane| self.side_by_side(every_fourth(lane)));
        let groups = self.lanes / BLOCK;
        let zip = |a: Val, b: Val, from: u32, stride: u32| {
            let lanes = groups * BLOCK;
            let pick = move |group: u32, k: u32| {
                // Runs of `stride` elements, from `a` and `b` in turn.
                let (run, within) = (k / stride, k % stride);
                let element = group * BLOCK + from + run / 2 * stride + within;
                if run % 2 == 0 { element } else { lanes + element }
            };
            ir.shuffle(a, b, (0..groups).flat_map(move |group| (0..BLOCK).map(move |k| pick(group, k))))
        };
        // Halves of the blocks first, then halves of those.
        let half = place / 2 * 2;
        let (even, odd) = (zip(parts[0], parts[1], half, 1), zip(parts[2], parts[3], half, 1));
        Ok(zip(even, odd, place % 2 * 2, 2))
    }

    /// Vectors one after the other in one vector. There are as many as some power of two.
    pub(super) fn side_by_side(&self, mut vectors: Vec<Val>) -> Val {
        let ir = self.ir;
        while let [first, _, ..] = vectors[..] {
            let n = 2 * ir.n_lanes(first);
            vectors = vectors.chunks(2).map(|pair| ir.shuffle(pair[0], pair[1], 0..n)).collect();
        }
        vectors[0]
    }

    /// Returns the number of lanes that are transposed together: a register's.
    fn lanes_together(&self, elem: Scalar) -> u32 {
        self.lanes.min((self.arith.processor.vector_bytes / elem.bytes()).max(2))
    }

    /// The executing lanes' mask for each of the registers that their rows fill, `None` for all lanes.
    fn register_masks(&mut self, elem: Scalar, length: u32) -> Option<Vec<Val>> {
        let mask = self.mask()?;
        let n = self.lanes_together(elem);
        let row_of = |element: u32| element / length;
        let of_register = |from: u32| self.ir.shuffle(mask, mask, (from..from + n).map(row_of));
        Some((0..self.lanes * length).step_by(n as usize).map(of_register).collect())
    }

    /// Returns where each of the registers is that the lanes' rows fill.
    fn register_pointers(&self, elem: Scalar, rows: RowBlock) -> Vec<Val> {
        let (ir, ty) = (self.ir, self.memory_type(elem));
        let places = (0..self.lanes * rows.length).step_by(self.lanes_together(elem) as usize);
        places.map(|place| ir.offset(ty, rows.first, ir.i64_const(place.into()))).collect()
    }

    /// Loads neighbouring rows and gives a vector for each place in a row.
    fn load_columns(&mut self, array: usize, rows: RowBlock) -> Result<Vec<Val>> {
        let elem = self.array_arg(array)?.elem;
        let (n, length) = (self.lanes_together(elem), rows.length as usize);
        let masks = self.register_masks(elem, rows.length);
        let mask = |register: usize| masks.as_ref().map(|masks| masks[register]);
        let pointers = self.register_pointers(elem, rows);
        let load = |(register, &pointer)| self.load_neighbours(array, pointer, mask(register), n);
        let registers = pointers.iter().enumerate().map(load).collect::<Result<Vec<Val>>>()?;
        let groups: Vec<Vec<Val>> =
            registers.chunks(length).map(|rows| transpose::columns(self.ir, rows, elem.bytes())).collect();
        Ok((0..length).map(|place| self.side_by_side(groups.iter().map(|group| group[place]).collect())).collect())
    }

    pub(super) fn load_interleaved(&mut self, array: usize, rows: RowBlock) -> Result<Val> {
        Ok(self.load_columns(array, rows)?[rows.place as usize])
    }

    /// Lowers a load together with those of the same row that follow before anything is written. `insts` begins with
    /// the load; those that follow are added to `loaded`.
    pub(super) fn load_row(&mut self, insts: &[Inst], loaded: &mut SmallVec<[Inst; 8]>) -> Result<()> {
        let func = self.func;
        let Some(first) = self.place_in_row(insts[0])? else { return self.lower_instruction(insts[0]) };
        let mut loads: SmallVec<[(Inst, usize); 8]> = SmallVec::from_slice(&[(insts[0], first.place)]);
        for &inst in &insts[1..] {
            let data = &func.insts[inst];
            if !matches!(data.op.info().effect, OpEffect::Pure | OpEffect::Read) || !data.regions.is_empty() {
                break;
            }
            if data.op == Op::ArrayLoad
                && let Some(next) = self.place_in_row(inst)?
                && next.array == first.array
                && next.row == first.row
            {
                loads.push((inst, next.place));
            }
        }
        let array = self.array(first.array)?;
        let reps = self.with_unwrapped(&func.insts[insts[0]].operands[1..], |this, reps, indices| {
            if let GroupAddress::Interleaved(rows) = this.address(array, indices, reps)? {
                let columns = this.load_columns(array, rows)?;
                return Ok(loads.iter().map(|&(_, place)| ValueRep::Vector(columns[place])).collect());
            }
            let load = |&(inst, _): &(Inst, usize)| {
                let indices = this.with_constants(&func.insts[inst].operands[1..], indices);
                let address = this.address(array, &indices, reps)?;
                this.load_from(array, address)
            };
            loads.iter().map(load).collect()
        })?;
        for (&(inst, _), rep) in loads.iter().zip(reps) {
            self.values[func.insts[inst].results[0]] = Some(rep);
        }
        loaded.extend(loads[1..].iter().map(|&(inst, _)| inst));
        Ok(())
    }

    /// The indices of another element of the row: `own` differ in constants behind the row's, which count in known
    /// steps and so need no values.
    fn with_constants(&self, own: &[Value], indices: &[Value]) -> Vec<Value> {
        let of_axis = |(&own, &index)| if self.func.as_const(own).is_some() { own } else { index };
        own.iter().zip(indices).map(of_axis).collect()
    }

    /// Lowers a store together with those of the rest of its row, once it comes to the last of them. `insts` begins
    /// with the store. Gives whether it is one of several.
    pub(super) fn part_of_row(&mut self, insts: &[Inst], rows: &mut SmallVec<[RowStore; 2]>) -> Result<bool> {
        let inst = insts[0];
        if let Some(row) = rows.iter_mut().find(|row| row.stores.contains(&inst)) {
            row.n_passed += 1;
            if row.n_passed == row.stores.len() {
                let stores = row.stores.clone();
                self.store_interleaved(&stores)?;
            }
            return Ok(true);
        }
        let Some(stores) = self.row_from(insts)? else { return Ok(false) };
        rows.push(RowStore { stores, n_passed: 1 });
        Ok(true)
    }

    /// The stores, by place, that together with the first of `insts` write whole rows before anything else happens.
    fn row_from(&self, insts: &[Inst]) -> Result<Option<SmallVec<[Inst; 4]>>> {
        let func = self.func;
        let Some(first) = self.place_in_row(insts[0])? else { return Ok(None) };
        let mut stores: SmallVec<[Option<Inst>; 4]> = SmallVec::from_elem(None, first.length);
        stores[first.place] = Some(insts[0]);
        for &inst in &insts[1..] {
            let data = &func.insts[inst];
            if data.op == Op::ArrayStore {
                match self.place_in_row(inst)? {
                    Some(next)
                        if next.array == first.array && next.row == first.row && stores[next.place].is_none() =>
                    {
                        stores[next.place] = Some(inst);
                    }
                    _ => return Ok(None),
                }
                if stores.iter().all(Option::is_some) {
                    return Ok(Some(stores.into_iter().flatten().collect()));
                }
            } else if data.op.info().effect != OpEffect::Pure || !data.regions.is_empty() {
                break;
            }
        }
        Ok(None)
    }

    /// Returns what a load reads or a store writes if that is an element of a row that constant indices name.
    fn place_in_row(&self, inst: Inst) -> Result<Option<PlaceInRow<'_>>> {
        let data = &self.func.insts[inst];
        let n_values = usize::from(data.op == Op::ArrayStore);
        let (array, indices) = (data.operands[0], &data.operands[1..data.operands.len() - n_values]);
        let arg = self.array_arg(self.array(array)?)?;
        let n_constant = indices.iter().rev().take_while(|&&index| self.func.as_const(index).is_some()).count();
        let n_leading = indices.len() - n_constant;
        let Some(row_axis) = n_leading.checked_sub(1) else { return Ok(None) };
        let mut inner = 0;
        for (&index, stride) in indices.iter().zip(&arg.known_strides).skip(n_leading) {
            let (Some(index), &Some(stride)) = (self.small_constant(index), stride) else { return Ok(None) };
            inner += index * stride;
        }
        let Some(row_bytes) = arg.known_strides[row_axis] else { return Ok(None) };
        let found = self.place_of(arg.elem, row_bytes, inner);
        let row = &indices[..n_leading];
        Ok(found.map(|(length, place)| PlaceInRow { array, row, place: place as usize, length: length as usize }))
    }

    /// Stores all elements of each lane's row. The stores are in the order of the row's elements.
    fn store_interleaved(&mut self, stores: &[Inst]) -> Result<()> {
        self.forget_stored_rows();
        self.has_effects = true;
        let func = self.func;
        let operands: SmallVec<[&[Value]; 4]> = stores.iter().map(|&store| &func.insts[store].operands[..]).collect();
        let array = self.array(operands[0][0])?;
        let split = |operands: &[Value]| match operands.split_last() {
            Some((&value, rest)) => Ok((rest[1..].to_vec(), value)),
            None => Err(CodegenError::new("internal error: a store of nothing")),
        };
        let stores: Vec<(Vec<Value>, Value)> = operands.into_iter().map(split).collect::<Result<_>>()?;
        let values = stores.iter().map(|(_, value)| self.rep(*value)).collect::<Result<SmallVec<[ValueRep; 4]>>>()?;
        self.with_unwrapped(&stores[0].0, |this, reps, indices| {
            if let GroupAddress::Interleaved(rows) = this.address(array, indices, reps)? {
                this.store_columns(array, &values, rows)?;
                return Ok(Reps::new());
            }
            for ((own, _), &value) in stores.iter().zip(&values) {
                let indices = this.with_constants(own, indices);
                let address = this.address(array, &indices, reps)?;
                this.store_to(array, address, value)?;
            }
            Ok(Reps::new())
        })?;
        Ok(())
    }

    /// Stores neighbouring rows, of which there is a vector for each place in a row.
    fn store_columns(&mut self, array: usize, values: &[ValueRep], rows: RowBlock) -> Result<()> {
        let elem = self.array_arg(array)?.elem;
        let n = self.lanes_together(elem);
        let columns = values.iter().map(|&value| self.vector(value)).collect::<Result<Vec<Val>>>()?;
        let masks = self.register_masks(elem, rows.length);
        let (ir, lanes) = (self.ir, self.lanes);
        let registers = (0..lanes).step_by(n as usize).flat_map(|from| {
            let part = |&column: &Val| if n == lanes { column } else { ir.shuffle(column, column, from..from + n) };
            transpose::rows(ir, &columns.iter().map(part).collect::<Vec<_>>(), elem.bytes())
        });
        for (register, (value, pointer)) in registers.zip(self.register_pointers(elem, rows)).enumerate() {
            self.store_row(array, value, pointer, masks.as_ref().map(|masks| masks[register]))?;
        }
        Ok(())
    }
}

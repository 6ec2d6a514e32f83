//! Matrices spread over a warp: `ldmatrix`, `stmatrix`, `movmatrix`, `mma` and `wmma` (PTX ISA 9.0 §9.7.14).
//!
//! A product of floats adds the exact products to the accumulator one by one, in the order of k, each sum rounded to
//! f32. The ISA asks for at least that precision and leaves the order, and how sums are rounded, to the machine. How
//! the fragments of `wmma` lie in registers is the machine's as well; those of `mma` are the ISA's.

use super::address::take_space;
use super::function::FunctionDecoder;
use super::op::{
    AccessAddress, AnySource, DecodedOp, DestRegister, LaneElement, MatrixAccess, MatrixRows, RegisterPiece, WarpKind,
    WarpOp,
};
use super::product::{BitOperation, FragmentPart, MatrixProduct, ProductFragment, ProductOutput, element_bits};
use super::symbol::RegisterFile;
use super::types::PtxType;
use super::{Decoded, InstClass, InstructionLine};
use crate::exec::registers::{Compute, LANES, SourceOperand, map1, put};
use crate::number::Rounding;
use crate::syntax::ast::{PtxOperand, StateSpace};

/// The extents of a product.
#[derive(Clone, Copy, Debug)]
struct ProductShape {
    m: u32,
    n: u32,
    k: u32,
}

impl ProductShape {
    fn parse(text: &str) -> Option<ProductShape> {
        let rest = text.strip_prefix('m')?;
        let (m, rest) = rest.split_once('n')?;
        let (n, k) = rest.split_once('k')?;
        let shape = ProductShape { m: m.parse().ok()?, n: n.parse().ok()?, k: k.parse().ok()? };
        [shape.m, shape.n, shape.k].iter().all(|extent| (1..=256).contains(extent)).then_some(shape)
    }

    fn of(self, role: FactorRole) -> (u32, u32) {
        match role {
            FactorRole::A => (self.m, self.k),
            FactorRole::B => (self.k, self.n),
            FactorRole::C => (self.m, self.n),
        }
    }
}

/// Says which matrix of a product; C stands for D too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum FactorRole {
    A,
    B,
    C,
}

/// The shapes of which `mma` has products with a fragment of `ty` as A.
fn mma_has(ProductShape { m, n, k }: ProductShape, ty: PtxType) -> bool {
    let (of_eight, of_sixteen): (&[u32], &[u32]) = match ty {
        PtxType::F16 => (&[4], &[8, 16]),
        PtxType::Bf16 => (&[], &[8, 16]),
        PtxType::Tf32 => (&[], &[4, 8]),
        PtxType::F64 => (&[4], &[4, 8, 16]),
        PtxType::E4m3 | PtxType::E5m2 => (&[], &[16, 32]),
        PtxType::S(8) | PtxType::U(8) => (&[16], &[16, 32]),
        PtxType::S4 | PtxType::U4 => (&[32], &[32, 64]),
        PtxType::B1 => (&[128], &[128, 256]),
        _ => (&[], &[]),
    };
    match (m, n) {
        (8, 8) => of_eight.contains(&k),
        (16, 8) => of_sixteen.contains(&k),
        _ => false,
    }
}

/// As `mma_has`, of `wmma`.
fn wmma_has(ProductShape { m, n, k }: ProductShape, ty: PtxType) -> bool {
    match ty {
        PtxType::F16 | PtxType::Bf16 | PtxType::S(8) | PtxType::U(8) => {
            matches!((m, n, k), (16, 16, 16) | (32, 8, 16) | (8, 32, 16))
        }
        PtxType::Tf32 => (m, n, k) == (16, 16, 8),
        PtxType::F64 => (m, n, k) == (8, 8, 4),
        PtxType::S4 | PtxType::U4 => (m, n, k) == (8, 8, 32),
        PtxType::B1 => (m, n, k) == (8, 8, 128),
        _ => false,
    }
}

/// Returns true if matrices of these types are multiplied: those of A and B, and of C and D.
fn goes_together(spread: LaneSpread, [a, b]: [PtxType; 2], [c, d]: [PtxType; 2]) -> bool {
    let wmma = spread == LaneSpread::Wmma;
    let single = c == PtxType::F32 && d == PtxType::F32;
    let half = |ty| matches!(ty, PtxType::F16 | PtxType::F32);
    match (a, b) {
        (PtxType::F16, PtxType::F16) if matches!(spread, LaneSpread::Quarters(_)) => {
            half(c) && (c == d || d == PtxType::F32)
        }
        (PtxType::F16, PtxType::F16) => half(c) && half(d) && (wmma || c == d),
        (PtxType::Bf16, PtxType::Bf16) | (PtxType::Tf32, PtxType::Tf32) => single,
        (PtxType::F64, PtxType::F64) => c == PtxType::F64 && d == PtxType::F64,
        (PtxType::E4m3 | PtxType::E5m2, PtxType::E4m3 | PtxType::E5m2) => half(c) && c == d,
        (PtxType::S(8) | PtxType::U(8), PtxType::S(8) | PtxType::U(8)) if wmma => {
            a == b && c == PtxType::S(32) && d == c
        }
        (PtxType::S(8) | PtxType::U(8), PtxType::S(8) | PtxType::U(8)) => c == PtxType::S(32) && d == c,
        (PtxType::S4 | PtxType::U4, PtxType::S4 | PtxType::U4) => (!wmma || a == b) && c == PtxType::S(32) && d == c,
        (PtxType::B1, PtxType::B1) => c == PtxType::S(32) && d == c,
        _ => false,
    }
}

fn take_shape(line: &mut InstructionLine<'_>) -> Decoded<ProductShape> {
    let name = line.instruction.modifiers.iter().find(|name| ProductShape::parse(name).is_some());
    let Some(name) = name else {
        return line.error(format!("`{}` needs a shape such as `.m16n8k16`", line.instruction.opcode));
    };
    line.mods.take(name);
    Ok(ProductShape::parse(name).unwrap_or(ProductShape { m: 1, n: 1, k: 1 }))
}

/// Describes how the matrices of a product are spread over lanes and their registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum LaneSpread {
    Wmma,
    Mma,
    /// The m8n8k4 of f16: four products, each of a quarter of the warp, whose matrices are one below the other. Whether
    /// A and B are given by rows.
    Quarters([bool; 2]),
}

impl LaneSpread {
    /// Rows and columns of the matrix that the warp holds.
    fn extents(self, role: FactorRole, shape: ProductShape) -> (u32, u32) {
        let (rows, columns) = shape.of(role);
        (if let LaneSpread::Quarters(_) = self { 4 * rows } else { rows }, columns)
    }

    fn fragment(self, role: FactorRole, shape: ProductShape, ty: PtxType, registers: usize) -> Vec<FragmentPart> {
        match self {
            LaneSpread::Wmma => wmma_fragment(role, shape, ty, registers),
            LaneSpread::Mma => mma_fragment(role, shape, ty, registers),
            LaneSpread::Quarters(by_rows) => quarter_fragment(role, by_rows, ty, registers),
        }
    }
}

/// Returns how the `mma` of quarters of a warp spreads matrices (PTX ISA 9.0 §9.7.14.5.1): lanes `4 q + t` and `16 + 4
/// q + t` have those of the quarter `q`.
fn quarter_fragment(role: FactorRole, by_rows: [bool; 2], ty: PtxType, registers: usize) -> Vec<FragmentPart> {
    let bits = element_bits(ty);
    let each = 32 / bits;
    let mut parts = Vec::new();
    for lane in 0..LANES as u32 {
        let (quarter, t, upper) = (lane / 4 % 4, lane % 4, lane / 16 * 4);
        for i in 0..registers as u32 * each {
            let (rows, row, column) = match (role, by_rows) {
                (FactorRole::A, [true, _]) => (8, t + upper, i),
                (FactorRole::A, _) => (8, i + upper, t),
                (FactorRole::B, [_, true]) => (4, t, i + upper),
                (FactorRole::B, _) => (4, i, t + upper),
                (FactorRole::C, _) if bits == 16 => (8, t + upper, i),
                (FactorRole::C, _) => (8, (t & 1) + (i & 2) + upper, (i & 4) + (t & 2) + (i & 1)),
            };
            let (lane, register, bit) = (lane as u8, (i / each) as u8, (i % each * bits) as u8);
            parts.push(FragmentPart { lane, register, bit, row: rows * quarter + row, column });
        }
    }
    parts
}

/// Returns how `mma` spreads a matrix (PTX ISA 9.0 §9.7.14.5): lane `4 g + t` has rows around `g` and columns around
/// `t`.
fn mma_fragment(role: FactorRole, shape: ProductShape, ty: PtxType, registers: usize) -> Vec<FragmentPart> {
    let bits = element_bits(ty);
    let each = if bits == 64 { 1 } else { 32 / bits };
    let mut parts = Vec::new();
    for lane in 0..LANES as u32 {
        let (g, t) = (lane / 4, lane % 4);
        for register in 0..registers as u32 {
            for index in 0..each {
                let (row, column) = match role {
                    FactorRole::A if shape.m == 16 => {
                        (g + 8 * (register % 2), register / 2 * 4 * each + t * each + index)
                    }
                    FactorRole::A => (g, register * 4 * each + t * each + index),
                    FactorRole::B => (register * 4 * each + t * each + index, g),
                    FactorRole::C => {
                        let at = register * each + index;
                        (g + 8 * (at / 2), 2 * t + at % 2)
                    }
                };
                let (lane, register, bit) = (lane as u8, register as u8, (index * bits) as u8);
                parts.push(FragmentPart { lane, register, bit, row, column });
            }
        }
    }
    parts
}

/// Returns how `wmma` spreads a matrix here: row by row, over registers, their lanes and parts of these; if there is
/// room for two copies, two.
fn wmma_fragment(role: FactorRole, shape: ProductShape, ty: PtxType, registers: usize) -> Vec<FragmentPart> {
    let bits = element_bits(ty);
    let each = if bits == 64 { 1 } else { 32 / bits };
    let (rows, columns) = shape.of(role);
    let mut parts = Vec::new();
    for register in 0..registers as u32 {
        for lane in 0..LANES as u32 {
            for index in 0..each {
                let slot = ((register * LANES as u32 + lane) * each + index) % (rows * columns).max(1);
                let (lane, register, bit) = (lane as u8, register as u8, (index * bits) as u8);
                // Elements of less than a byte lie in words of memory, which are of columns of B.
                let (row, column) = if role == FactorRole::B && bits < 8 {
                    (slot % rows, slot / rows)
                } else {
                    (slot / columns, slot % columns)
                };
                parts.push(FragmentPart { lane, register, bit, row, column });
            }
        }
    }
    parts
}

/// Returns true if the parts are a whole matrix.
fn covers(parts: &[FragmentPart], (rows, columns): (u32, u32)) -> bool {
    let mut seen = vec![false; (rows * columns) as usize];
    for part in parts {
        if part.row >= rows || part.column >= columns {
            return false;
        }
        seen[(part.row * columns + part.column) as usize] = true;
    }
    seen.iter().all(|seen| *seen)
}

impl MatrixAccess {
    fn new(
        (space, address, stride): (Option<StateSpace>, AccessAddress, Option<SourceOperand<u32>>),
        registers: Vec<DestRegister>,
        store: bool,
        size: u32,
        elements: Vec<LaneElement>,
        rows: MatrixRows,
    ) -> MatrixAccess {
        let mut pieces: Vec<RegisterPiece> = Vec::new();
        for elements in elements.chunk_by(|a, b| (a.register, a.bit) == (b.register, b.bit)) {
            let (register, bit) = (elements[0].register, elements[0].bit);
            let mut piece = RegisterPiece { register, bit, bytes: size as u8, offsets: [0; LANES], consecutive: false };
            for element in elements {
                let row = if stride.is_some() { element.major } else { element.row_lane.into() };
                piece.offsets[usize::from(element.lane)] = (row * rows.size + element.minor * size) as u16;
            }
            match pieces.last_mut() {
                Some(last) if last.goes_on_with(&piece) => last.bytes += piece.bytes,
                _ => pieces.push(piece),
            }
        }
        for piece in &mut pieces {
            let follows = piece.offsets.windows(2).all(|pair| pair[0] + 4 == pair[1]);
            piece.consecutive = (piece.bit, piece.bytes) == (0, 4) && follows;
        }
        MatrixAccess { space, address, stride, registers, store, size, elements, rows, pieces }
    }
}

impl RegisterPiece {
    /// Returns true if another follows it, in the register and in memory.
    fn goes_on_with(&self, next: &RegisterPiece) -> bool {
        self.register == next.register
            && u32::from(self.bit) + 8 * u32::from(self.bytes) == next.bit.into()
            && self.offsets.iter().zip(&next.offsets).all(|(offset, next)| offset + u16::from(self.bytes) == *next)
    }
}

impl FunctionDecoder<'_> {
    pub(super) fn matrix(&mut self, line: &mut InstructionLine<'_>) -> Decoded<(DecodedOp, InstClass)> {
        if !(line.mods.take("sync") && line.mods.take("aligned")) {
            return line.error(format!("`{}` needs `.sync.aligned`", line.instruction.opcode));
        }
        let kind = match line.instruction.opcode.as_str() {
            "ldmatrix" => self.matrix_rows(line, false)?,
            "stmatrix" => self.matrix_rows(line, true)?,
            "movmatrix" => WarpKind::Lanes(self.transpose(line)?),
            "mma" => WarpKind::Lanes(self.product(line, false)?),
            _ if line.mods.take("mma") => WarpKind::Lanes(self.product(line, true)?),
            _ => self.wmma_access(line)?,
        };
        // All lanes take part.
        let members = Some(SourceOperand::constant(u32::MAX));
        Ok((DecodedOp::Warp(Box::new(WarpOp { members, sources: None, unguarded: false, kind })), InstClass::Matrix))
    }

    fn matrix_rows(&mut self, line: &mut InstructionLine<'_>, store: bool) -> Decoded<WarpKind> {
        let shape = line.mods.take("m8n8");
        let count = line.mods.need_of(&[("x1", 1u8), ("x2", 2), ("x4", 4)])?;
        let transposed = line.mods.take("trans");
        let space = take_space(&mut line.mods);
        let ty = line.mods.ty()?;
        line.check(2, 2)?;
        if !shape || ty.bits() != 16 {
            return line.error(format!("the simulator has `{}` of `.m8n8` and `.b16`", line.instruction.opcode));
        }
        let all = &line.instruction.operands;
        let (registers, address) = if store { (&all[1], &all[0]) } else { (&all[0], &all[1]) };
        let (address, space) = self.address(line, address, space)?;
        let registers = self.elements(registers);
        if registers.len() != usize::from(count) {
            return line.error(format!("{count} registers are wanted, not {}", registers.len()));
        }
        let registers = registers.iter().map(|each| self.destination(each, 32)).collect::<Decoded<Vec<_>>>()?;
        let mut elements = Vec::new();
        for register in 0..count {
            for index in 0..2 {
                for lane in 0..LANES as u8 {
                    let (long, short) = (lane / 4, lane % 4 * 2 + index);
                    let (row, column) = if transposed { (short, long) } else { (long, short) };
                    let (bit, row_lane) = (16 * index, 8 * register + row);
                    elements.push(LaneElement { lane, register, bit, row_lane, major: 0, minor: column.into() });
                }
            }
        }
        // Eight lanes of each matrix have the addresses of its rows.
        let starts = (0..8 * count).map(|lane| (lane, 0)).collect();
        let rows = MatrixRows { starts, size: 16, align: 16 };
        let access = MatrixAccess::new((space, address, None), registers, store, 2, elements, rows);
        Ok(WarpKind::Matrix(Box::new(access)))
    }

    fn transpose(&mut self, line: &mut InstructionLine<'_>) -> Decoded<Compute> {
        let names = ["m8n8", "trans", "b16"];
        if !names.map(|name| line.mods.take(name)).into_iter().all(|found| found) {
            return line.error("the simulator has `movmatrix.sync.aligned.m8n8.trans.b16` alone");
        }
        line.check(2, 2)?;
        let all = &line.instruction.operands;
        let d = self.slot::<u32>(&all[0], PtxType::B(32))?;
        let a = self.source::<u32>(&all[1], PtxType::B(32))?;
        Ok(Box::new(move |registers, mask| {
            let words = a.get(registers);
            let element = |row: usize, column: usize| words[row * 4 + column / 2] >> (column % 2 * 16) & 0xffff;
            let mut out = [0; LANES];
            for (lane, out) in out.iter_mut().enumerate() {
                let (row, column) = (lane / 4, lane % 4 * 2);
                *out = element(column, row) | element(column + 1, row) << 16;
            }
            put(registers, d, &out, mask);
        }))
    }

    fn wmma_access(&mut self, line: &mut InstructionLine<'_>) -> Decoded<WarpKind> {
        let store = line.mods.need_of(&[("load", false), ("store", true)])?;
        let role = line.mods.need_of(&[
            ("a", FactorRole::A),
            ("b", FactorRole::B),
            ("c", FactorRole::C),
            ("d", FactorRole::C),
        ])?;
        let by_rows = line.mods.need_of(&[("row", true), ("col", false)])?;
        let shape = take_shape(line)?;
        let space = take_space(&mut line.mods);
        let ty = line.mods.ty()?;
        line.check(2, 3)?;
        let all = &line.instruction.operands;
        let (registers, address) = if store { (&all[1], &all[0]) } else { (&all[0], &all[1]) };
        let (address, space) = self.address(line, address, space)?;
        let bits = element_bits(ty);
        let registers = self.elements(registers);
        let (rows, columns) = shape.of(role);
        let parts = wmma_fragment(role, shape, ty, registers.len());
        // Fragments of less than a byte an element are whole words of A's rows and B's columns.
        let narrow = bits < 8;
        let known = wmma_has(shape, ty)
            || role == FactorRole::C && matches!(ty, PtxType::F16 | PtxType::F32 | PtxType::F64 | PtxType::S(32));
        if !known || narrow && by_rows != (role == FactorRole::A) || !covers(&parts, (rows, columns)) {
            return line.error(format!("{} registers of `.{}` are no such fragment", registers.len(), ty.name()));
        }
        let width = if bits == 64 { 64 } else { 32 };
        let registers = registers.iter().map(|each| self.destination(each, width)).collect::<Decoded<Vec<_>>>()?;
        let stride = match all.get(2) {
            Some(stride) => self.source(stride, PtxType::B(32))?,
            None => SourceOperand::constant(if by_rows { columns } else { rows }),
        };
        let (unit, stride) = if narrow { (32 / bits, self.words(stride, 32 / bits)) } else { (1, stride) };
        // Only the first of several copies is stored.
        let limit = if store { (rows * columns) as usize } else { parts.len() };
        let places = parts.iter().take(limit).filter(|part| !narrow || part.bit == 0);
        let elements = places.map(|part| {
            let (major, minor) = if by_rows { (part.row, part.column) } else { (part.column, part.row) };
            let minor = minor / unit;
            LaneElement { lane: part.lane, register: part.register, bit: part.bit, row_lane: part.lane, major, minor }
        });
        let mut elements: Vec<LaneElement> = elements.collect();
        elements.sort_by_key(|element| (element.register, element.bit));
        let (majors, minors) = if by_rows { (rows, columns) } else { (columns, rows) };
        let (size, minors) = (bits * unit / 8, minors / unit);
        // Rows need no more than 16 bytes, because CUDA C++ asks no more of the stride, though PTX asks for the bytes
        // of a fragment (PTX ISA 9.0 §9.7.14.2).
        let align = (registers.len() as u32 * width / 8).min(16);
        let rows = MatrixRows { starts: (0..majors).map(|major| (0, major)).collect(), size: minors * size, align };
        let access = MatrixAccess::new((space, address, Some(stride)), registers, store, size, elements, rows);
        Ok(WarpKind::Matrix(Box::new(access)))
    }

    /// A stride in elements as one in words, of `each` elements.
    fn words(&mut self, stride: SourceOperand<u32>, each: u32) -> SourceOperand<u32> {
        let slot = self.fresh(RegisterFile::Word);
        self.emit(DecodedOp::Compute(map1(Some(slot), stride, move |stride: u32| stride / each)), InstClass::Integer);
        SourceOperand::Register(slot)
    }

    fn fragment(
        &mut self,
        line: &InstructionLine<'_>,
        operand: &PtxOperand,
        (role, shape, ty, spread): (FactorRole, ProductShape, PtxType, LaneSpread),
    ) -> Decoded<(Vec<AnySource>, Vec<FragmentPart>)> {
        let width = if element_bits(ty) == 64 { 64 } else { 32 };
        let operands = self.elements(operand);
        let sources =
            operands.iter().map(|each| self.any_source(each, PtxType::B(width))).collect::<Decoded<Vec<_>>>()?;
        let parts = spread.fragment(role, shape, ty, sources.len());
        if !covers(&parts, spread.extents(role, shape)) {
            return line.error(format!("{} registers of `.{}` are no such fragment", sources.len(), ty.name()));
        }
        Ok((sources, parts))
    }

    fn product(&mut self, line: &mut InstructionLine<'_>, wmma: bool) -> Decoded<Compute> {
        let shape = take_shape(line)?;
        let operation = line.mods.take_of(&[("and", BitOperation::And), ("xor", BitOperation::Xor)]);
        let operation = operation.filter(|_| line.mods.take("popc"));
        let layouts = [
            line.mods.need_of(&[("row", true), ("col", false)])?,
            line.mods.need_of(&[("row", true), ("col", false)])?,
        ];
        let saturating = line.mods.take("satfinite");
        let mut types = Vec::new();
        while let Some(ty) = line.mods.optional_ty() {
            types.push(ty);
        }
        let doubles = types.first() == Some(&PtxType::F64);
        let rounding = if doubles { line.mods.rounding().unwrap_or(Rounding::Nearest) } else { Rounding::Nearest };
        line.check(4, 4)?;
        // `wmma` of f16 names the accumulators' types alone.
        let [d_type, a_type, b_type, c_type] = match types[..] {
            [d, c] if wmma => [d, PtxType::F16, PtxType::F16, c],
            [d, a, b, c] => [d, a, b, c],
            _ => return line.error("a product names the types of d, a, b and c"),
        };
        let spread = match a_type {
            _ if wmma => LaneSpread::Wmma,
            PtxType::F16 if shape.m == 8 => LaneSpread::Quarters(layouts),
            _ => LaneSpread::Mma,
        };
        let has = if wmma { wmma_has(shape, a_type) } else { mma_has(shape, a_type) };
        if !has || !goes_together(spread, [a_type, b_type], [c_type, d_type]) || rounding == Rounding::NearestAway {
            return line.error("the simulator has no product of these types and this shape");
        }
        if operation.is_some() != (a_type == PtxType::B1) {
            return line.error("products of `.b1`, and no others, have `.and.popc` or `.xor.popc`");
        }
        if saturating && (a_type == PtxType::B1 || d_type != PtxType::S(32) && !(wmma && a_type == PtxType::F16)) {
            return line.error(format!("a product of `.{}` has no `.satfinite`", a_type.name()));
        }
        // `wmma` fragments know their layout since they were loaded; those of `mma` are row and column, but for one.
        let has_layouts = matches!(spread, LaneSpread::Wmma | LaneSpread::Quarters(_)) && element_bits(a_type) >= 8;
        if !has_layouts && layouts != [true, false] {
            return line.error("the simulator has products of `.row.col` alone");
        }
        let all = &line.instruction.operands;
        let (a, a_parts) = self.fragment(line, &all[1], (FactorRole::A, shape, a_type, spread))?;
        let (b, mut b_parts) = self.fragment(line, &all[2], (FactorRole::B, shape, b_type, spread))?;
        let (c, mut c_parts) = self.fragment(line, &all[3], (FactorRole::C, shape, c_type, spread))?;
        let outputs = self.elements(&all[0]);
        let width = if d_type == PtxType::F64 { 64 } else { 32 };
        let slots = outputs.iter().map(|each| self.destination(each, width)).collect::<Decoded<Vec<_>>>()?;
        let mut d_parts = spread.fragment(FactorRole::C, shape, d_type, slots.len());
        if !covers(&d_parts, spread.extents(FactorRole::C, shape)) {
            return line.error(format!("{} registers of `.{}` are no such fragment", slots.len(), d_type.name()));
        }
        // In the order in which registers have the columns they are moved fastest.
        let first = c_parts.iter().filter(|part| part.row == 0);
        let mut columns: Vec<(u8, u8, u8, u32)> =
            first.map(|part| (part.register, part.lane, part.bit, part.column)).collect();
        columns.sort_unstable();
        let rank = |column| columns.iter().position(|(.., other)| *other == column).unwrap_or(0) as u32;
        for parts in [&mut b_parts, &mut c_parts, &mut d_parts] {
            parts.iter_mut().for_each(|part| part.column = rank(part.column));
        }
        let a = ProductFragment::new(a, &a_parts, a_type, spread.extents(FactorRole::A, shape));
        let b = ProductFragment::new(b, &b_parts, b_type, spread.extents(FactorRole::B, shape));
        let c = ProductFragment::new(c, &c_parts, c_type, spread.extents(FactorRole::C, shape));
        let d = ProductOutput::new(slots, &d_parts, d_type, shape.n, saturating);
        let [m, n, k] = [shape.m, shape.n, shape.k].map(|extent| extent as usize);
        let product = MatrixProduct { a, b, c, d, m, n, k, operation, rounding };
        product.compute().map_or_else(|| line.error(format!("the simulator has no products of {n} columns")), Ok)
    }
}

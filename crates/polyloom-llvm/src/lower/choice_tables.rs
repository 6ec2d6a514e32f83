//! Tables of constants, in constant memory.
//!
//! The component of a constant vector or matrix that an index names is, once composites are taken apart, a chain of
//! choices: this constant if the index is 0, that one if it is 1. From some length on, a load from a table is shorter.

use crate::ir::*;
use crate::lower::{FunctionLowering, Result, ValueRep};
use polyloom_codegen::LEAST_TABLE;
use polyloom_ir::arch::CONSTANT_BYTES;
use polyloom_ir::{Function, Inst, Op, Scalar, Value, ValueDef};
use rustc_hash::FxHashSet;

/// Bytes of all tables of a kernel: half of what constant memory there is (PTX ISA 9.0 §5.1.3).
const MOST_BYTES: u64 = CONSTANT_BYTES as u64 / 2;

/// The index up to which a table is worth its memory.
const MOST_ENTRIES: u64 = 4096;

/// Describes what is known of the choices of a function, and the tables made.
#[derive(Default)]
pub(crate) struct ChoiceTables {
    /// Those that continue another chain; `None` before they have been looked for.
    inner: Option<FxHashSet<Inst>>,
    n_bytes: u64,
}

/// A choice of a constant: `where(eq(index, key), constant, rest)`.
struct ConstantChoice {
    index: Value,
    key: u64,
    constant: u64,
    rest: Value,
}

fn choice(func: &Function, inst: Inst) -> Option<ConstantChoice> {
    let data = &func.insts[inst];
    let (Op::Select, &[cond, constant, rest]) = (data.op, &data.operands[..]) else { return None };
    let ValueDef::Result(test, _) = func.values[cond].def else { return None };
    let test = &func.insts[test];
    let (Op::Eq, &[a, b]) = (test.op, &test.operands[..]) else { return None };
    let (index, key) = match (func.as_const(a), func.as_const(b)) {
        (None, Some(key)) => (a, key),
        (Some(key), None) => (b, key),
        _ => return None,
    };
    let is_index = func.ty(index).as_scalar() == Some(Scalar::I32) && key < MOST_ENTRIES;
    is_index.then_some(())?;
    Some(ConstantChoice { index, key, constant: func.as_const(constant)?, rest })
}

/// The choice that a choice goes on to.
fn next(func: &Function, choice: &ConstantChoice) -> Option<Inst> {
    let ValueDef::Result(inst, _) = func.values[choice.rest].def else { return None };
    self::choice(func, inst).filter(|next| next.index == choice.index).map(|_| inst)
}

impl FunctionLowering<'_, '_> {
    /// A choice as a load from a table, if it is the first of many.
    pub(crate) fn load_from_table(&mut self, inst: Inst) -> Result<Option<ValueRep>> {
        let func = self.func;
        let Some(first) = choice(func, inst) else { return Ok(None) };
        let inner = self.choices.inner.get_or_insert_with(|| {
            let all = func.insts.keys().filter_map(|inst| next(func, &choice(func, inst)?));
            all.collect()
        });
        if inner.contains(&inst) {
            return Ok(None);
        }
        let index = first.index;
        let mut entries: Vec<Option<u64>> = Vec::new();
        let (mut n, mut last) = (0, first);
        loop {
            let key = last.key as usize;
            entries.resize(entries.len().max(key + 1), None);
            // The outermost choice decides.
            entries[key].get_or_insert(last.constant);
            n += 1;
            match next(func, &last).and_then(|inst| choice(func, inst)) {
                Some(next) => last = next,
                None => break,
            }
        }
        let (Some(default), Some(&result)) = (func.as_const(last.rest), func.insts[inst].results.first()) else {
            return Ok(None);
        };
        let elem = self.scalar_of(result)?;
        let bytes = entries.len() as u64 * u64::from(elem.bytes());
        // A table with many holes is none.
        let is_worthwhile = n >= LEAST_TABLE && entries.len() <= 4 * n && elem != Scalar::Bool;
        if !is_worthwhile || self.choices.n_bytes + bytes > MOST_BYTES {
            return Ok(None);
        }
        self.choices.n_bytes += bytes;
        let ir = self.ir;
        let constants: Vec<Val> = entries.iter().map(|entry| self.constant(elem, entry.unwrap_or(default))).collect();
        let ty = ir.scalar(elem);
        let table = ir.constant_table(ty, &constants, elem.bytes());
        let rep = self.rep(index)?;
        let index = self.base(rep)?;
        let is_inside = ir.icmp(ULT, index, ir.int_const(ir.int(32), entries.len() as u64));
        // Outside, the first entry is loaded and not used, so that no load is past the table.
        let place = ir.zext(ir.select(is_inside, index, ir.zero(ir.int(32))), ir.int(64));
        let value = ir.load(ty, ir.offset(ty, table, place), elem.bytes());
        ir.attach(value, "invariant.load", ir.meta_node(&[]));
        Ok(Some(ValueRep::Uniform(ir.select(is_inside, value, self.constant(elem, default)))))
    }
}

//! The identity of a kernel's code: a hash over its canonical form.
//!
//! Two kernels have the same hash just when they are the same code: ops, operands, types, constants, structure, and
//! the metadata and constraints that decide how it is compiled, of the kernel and of everything it calls. Names,
//! spans, and entities that are no longer part of the code do not count: values and labels are numbered in order of
//! definition, and what a trap or a print says is looked up in the HIR, not in the code.

use cranelift_entity::SecondaryMap;
use polyloom_ir::{CheckKind, FuncId, Function, Imm, Inst, Module, Op, Region, Scalar, Type, Value};
use std::fmt::Write;
use std::sync::LazyLock;

/// The hash of a kernel and what it calls.
///
/// It depends on the op table, so it changes with the meaning of HIR. It says nothing of passes and back ends: a cache
/// adds the compiler's version and the back end's fingerprint to its key.
pub fn canonical_hash(module: &Module, kernel: FuncId) -> [u8; 32] {
    let mut form = Form {
        bytes: Vec::with_capacity(2048),
        functions: vec![kernel],
        values: SecondaryMap::new(),
        labels: SecondaryMap::new(),
        n_values: 0,
        n_labels: 0,
    };
    form.bytes.extend_from_slice(&*TABLE);
    let mut next = 0;
    while let Some(&id) = form.functions.get(next) {
        next += 1;
        form.function(&module.functions[id]);
    }
    *blake3::hash(&form.bytes).as_bytes()
}

/// A hash of the op table: op numbers in the canonical form mean nothing without it.
static TABLE: LazyLock<[u8; 32]> = LazyLock::new(|| {
    let mut text = String::new();
    for info in Op::all() {
        // Writing to a string does not fail.
        let _ = write!(text, "{} {:?} {:?}", info.name, info.effect, info.lowering);
        for signature in &info.signatures {
            let _ = write!(text, " {signature}");
        }
        text.push('\n');
    }
    *blake3::hash(text.as_bytes()).as_bytes()
});

struct Form {
    bytes: Vec<u8>,
    /// The functions to hash, numbered in order of their first call.
    functions: Vec<FuncId>,
    values: SecondaryMap<Value, u32>,
    labels: SecondaryMap<Inst, u32>,
    n_values: u32,
    n_labels: u32,
}

impl Form {
    fn number(&mut self, number: u32) {
        self.bytes.extend_from_slice(&number.to_le_bytes());
    }

    fn ty(&mut self, ty: Type) {
        let code = |scalar: Scalar| scalar as u8;
        match ty {
            Type::Scalar(scalar) => self.bytes.push(code(scalar)),
            Type::Array { elem, ndim } => self.bytes.extend_from_slice(&[0x80 | code(elem), ndim]),
        }
    }

    fn text(&mut self, text: &str) {
        self.number(text.len() as u32);
        self.bytes.extend_from_slice(text.as_bytes());
    }

    fn function(&mut self, func: &Function) {
        self.values.clear();
        self.labels.clear();
        self.n_values = 0;
        self.n_labels = 0;
        self.bytes.push(func.kind as u8);
        let attributes = format!("{:?} {:?}", func.metadata, func.constraints);
        self.text(&attributes);
        self.number(func.results.len() as u32);
        for &ty in &func.results {
            self.ty(ty);
        }
        self.region(func, func.body);
    }

    fn define(&mut self, func: &Function, values: &[Value]) {
        self.number(values.len() as u32);
        for &value in values {
            self.values[value] = self.n_values;
            self.n_values += 1;
            self.ty(func.ty(value));
        }
    }

    fn region(&mut self, func: &Function, region: Region) {
        let data = &func.regions[region];
        self.define(func, &data.params);
        self.number(data.insts.len() as u32);
        for &inst in &data.insts {
            self.inst(func, inst);
        }
    }

    fn inst(&mut self, func: &Function, inst: Inst) {
        let data = &func.insts[inst];
        self.bytes.extend_from_slice(&(data.op as u16).to_le_bytes());
        match &data.imm {
            Imm::None => self.bytes.push(0),
            Imm::Bits(bits) => {
                self.bytes.push(1);
                self.bytes.extend_from_slice(&bits.to_le_bytes());
            }
            Imm::Axis(axis) => self.bytes.extend_from_slice(&[2, *axis]),
            Imm::Func(callee) => {
                let known = self.functions.iter().position(|f| f == callee);
                let number = known.unwrap_or_else(|| {
                    self.functions.push(*callee);
                    self.functions.len() - 1
                });
                self.bytes.push(3);
                self.number(number as u32);
            }
            Imm::Target(target) => {
                self.bytes.push(4);
                self.number(self.labels[*target]);
            }
            // What a site says is not part of the code; which sites there are, and their operands, is.
            Imm::Text(_) => self.bytes.push(5),
            Imm::Check(CheckKind::Bounds { .. }) => self.bytes.push(6),
            Imm::Check(CheckKind::Division) => self.bytes.push(7),
        }
        self.number(data.operands.len() as u32);
        for &operand in &data.operands {
            self.number(self.values[operand]);
        }
        if !data.regions.is_empty() {
            self.labels[inst] = self.n_labels;
            self.n_labels += 1;
        }
        for &region in &data.regions {
            self.region(func, region);
        }
        self.define(func, &data.results);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use polyloom_ir::{FileId, parse_module};

    fn hash(text: &str) -> [u8; 32] {
        let module = parse_module(text, FileId::from_u32(0)).expect("the text is HIR");
        let kernel = module.find("k").expect("it has a kernel `k`");
        canonical_hash(&module, kernel)
    }

    const KERNEL: &str = "
        func @twice(%x x: f32) -> (f32) {
          %y: f32 = add %x, %x
          return %y
        }
        kernel @k(%a a: array<f32, 1>, %n n: i32) {
          %zero: i32 = const 0
          %one: i32 = const 1
          for_range ^0 %zero, %n, %one (%i: i32) {
            %x: f32 = array_load %a, %i
            %y: f32 = call @twice %x
            array_store %a, %i, %y
            yield
          }
          return
        }";

    #[test]
    fn names_and_order_of_functions_do_not_count() {
        let renamed = KERNEL.replace("twice", "double").replace("%x", "%input").replace(" a: ", " data: ");
        assert_eq!(hash(KERNEL), hash(&renamed));
        let (func, kernel) = KERNEL.split_at(KERNEL.find("kernel").expect("there is a kernel"));
        assert_eq!(hash(KERNEL), hash(&format!("{kernel}\n{func}")));
        assert_eq!(hash(KERNEL), hash(&format!("func @unused() {{\n return\n }}\n{KERNEL}")));
    }

    #[test]
    fn everything_that_is_code_counts() {
        for (from, to) in [
            ("add %x, %x", "mul %x, %x"),
            ("const 1", "const 2"),
            ("%zero, %n, %one (", "%n, %zero, %one ("),
            ("array<f32, 1>, %n n: i32", "array<f32, 1>, %m m: i32, %n n: i32"),
            ("yield", "continue ^0"),
            ("%n n: i32) {", "%n n: i32) [float_mode = fast] {"),
            ("-> (f32) {", "-> (f32) [inline_always] {"),
        ] {
            let changed = KERNEL.replace(from, to);
            assert_ne!(changed, KERNEL, "{from}");
            assert_ne!(hash(KERNEL), hash(&changed), "{from} became {to}");
        }
    }
}

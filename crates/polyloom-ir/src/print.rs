//! HIR as text.
//!
//! Values are numbered in order of definition and labels in order of appearance, so that printing, parsing and
//! printing again gives the same text. Constants print as numbers where that loses nothing, else as bits.

use crate::entity::{Inst, Region, Value};
use crate::function::{CheckKind, Function, FunctionKind, Imm, Module};
use crate::op::Op;
use crate::types::{Scalar, Type};
use rustc_hash::FxHashMap;
use std::fmt::{self, Display, Write};

impl Display for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, function) in self.functions.values().enumerate() {
            if i > 0 {
                f.write_char('\n')?;
            }
            write_function(f, function, Some(self))?;
        }
        Ok(())
    }
}

impl Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_function(f, self, None)
    }
}

struct Printer<'a> {
    func: &'a Function,
    module: Option<&'a Module>,
    numbers: FxHashMap<Value, u32>,
    labels: FxHashMap<Inst, u32>,
}

fn write_function(f: &mut impl Write, func: &Function, module: Option<&Module>) -> fmt::Result {
    let mut printer = Printer { func, module, numbers: FxHashMap::default(), labels: FxHashMap::default() };
    // Labels are printed only on instructions that something names.
    let mut targets = Vec::new();
    func.walk(func.body, &mut |_, data| {
        if let Imm::Target(target) = data.imm {
            targets.push(target);
        }
    });
    func.walk(func.body, &mut |inst, _| {
        if targets.contains(&inst) {
            let next = printer.labels.len() as u32;
            printer.labels.insert(inst, next);
        }
    });
    let kind = match func.kind {
        FunctionKind::Kernel => "kernel",
        FunctionKind::Func => "func",
    };
    write!(f, "{kind} @{}(", func.name)?;
    for (i, (&param, name)) in func.params().iter().zip(&func.param_names).enumerate() {
        let comma = if i > 0 { ", " } else { "" };
        let number = printer.define(param);
        write!(f, "{comma}%{number} {name}: {}", func.ty(param))?;
    }
    f.write_char(')')?;
    if !func.results.is_empty() {
        write!(f, " -> {}", TypeList(&func.results))?;
    }
    f.write_str(" {\n")?;
    printer.region(f, func.body, 1)?;
    f.write_str("}\n")
}

struct TypeList<'a>(&'a [Type]);

impl Display for TypeList<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('(')?;
        for (i, ty) in self.0.iter().enumerate() {
            write!(f, "{}{ty}", if i > 0 { ", " } else { "" })?;
        }
        f.write_char(')')
    }
}

impl Printer<'_> {
    fn define(&mut self, value: Value) -> u32 {
        let next = self.numbers.len() as u32;
        *self.numbers.entry(value).or_insert(next)
    }

    fn use_(&self, f: &mut impl Write, value: Value) -> fmt::Result {
        match self.numbers.get(&value) {
            Some(number) => write!(f, "%{number}"),
            None => write!(f, "%undefined_{value}"),
        }
    }

    fn values(&self, f: &mut impl Write, values: &[Value]) -> fmt::Result {
        for (i, &value) in values.iter().enumerate() {
            f.write_str(if i > 0 { ", " } else { " " })?;
            self.use_(f, value)?;
        }
        Ok(())
    }

    fn region(&mut self, f: &mut impl Write, region: Region, depth: usize) -> fmt::Result {
        for &inst in &self.func.regions[region].insts {
            self.inst(f, inst, depth)?;
        }
        Ok(())
    }

    fn inst(&mut self, f: &mut impl Write, inst: Inst, depth: usize) -> fmt::Result {
        let func = self.func;
        let data = &func.insts[inst];
        write!(f, "{:1$}", "", depth * 2)?;
        // Operands are named before results, but results number after the regions' own values would be confusing to
        // read: number results first.
        let results: Vec<u32> = data.results.iter().map(|&v| self.define(v)).collect();
        for (i, (number, &value)) in results.iter().zip(&data.results).enumerate() {
            write!(f, "{}%{number}: {}", if i > 0 { ", " } else { "" }, func.ty(value))?;
        }
        if !results.is_empty() {
            f.write_str(" = ")?;
        }
        f.write_str(data.op.name())?;
        if let Some(label) = self.labels.get(&inst) {
            write!(f, " ^{label}")?;
        }
        match &data.imm {
            Imm::None => {}
            Imm::Bits(bits) => write!(f, " {}", ConstText(func.ty(data.results[0]), *bits))?,
            Imm::Axis(axis) => write!(f, " {axis}")?,
            Imm::Func(callee) => match self.module.and_then(|m| m.functions.get(*callee)) {
                Some(callee) => write!(f, " @{}", callee.name)?,
                None => write!(f, " @{callee}")?,
            },
            Imm::Target(target) => match self.labels.get(target) {
                Some(label) => write!(f, " ^{label}")?,
                None => write!(f, " ^undefined_{target}")?,
            },
            Imm::Text(text) => write!(f, " {}", Quoted(text))?,
            Imm::Check(CheckKind::Bounds { array, axis }) => write!(f, " bounds {} {axis}", Quoted(array))?,
            Imm::Check(CheckKind::Division) => write!(f, " division")?,
        }
        self.values(f, &data.operands)?;
        for (i, &region) in data.regions.iter().enumerate() {
            f.write_str(match (data.op, i) {
                (Op::If, 1) => " else",
                (Op::While, 1) => " do",
                _ => "",
            })?;
            let params = &func.regions[region].params;
            if !params.is_empty() {
                f.write_str(" (")?;
                for (i, &param) in params.iter().enumerate() {
                    let number = self.define(param);
                    write!(f, "{}%{number}: {}", if i > 0 { ", " } else { "" }, func.ty(param))?;
                }
                f.write_char(')')?;
            }
            f.write_str(" {\n")?;
            self.region(f, region, depth + 1)?;
            write!(f, "{:1$}}}", "", depth * 2)?;
        }
        f.write_char('\n')
    }
}

/// A string in double quotes with the escapes the HIR reader knows.
struct Quoted<'a>(&'a str);

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for c in self.0.chars() {
            match c {
                '"' => f.write_str("\\\"")?,
                '\\' => f.write_str("\\\\")?,
                '\n' => f.write_str("\\n")?,
                '\t' => f.write_str("\\t")?,
                '\r' => f.write_str("\\r")?,
                c if c.is_control() => write!(f, "\\u{{{:x}}}", c as u32)?,
                c => f.write_char(c)?,
            }
        }
        f.write_char('"')
    }
}

/// A constant: decimal where reading it back gives the same bits, else `0x…` bits.
struct ConstText(Type, u64);

impl Display for ConstText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = self.1;
        match self.0 {
            Type::Scalar(Scalar::Bool) => write!(f, "{}", bits != 0),
            Type::Scalar(Scalar::F32) if f32::from_bits(bits as u32).is_finite() => {
                write!(f, "{:?}", f32::from_bits(bits as u32))
            }
            Type::Scalar(Scalar::F64) if f64::from_bits(bits).is_finite() => write!(f, "{:?}", f64::from_bits(bits)),
            Type::Scalar(s) if s.is_signed_int() => {
                let shift = 64 - s.bits();
                write!(f, "{}", ((bits << shift) as i64) >> shift)
            }
            Type::Scalar(s) if s.is_unsigned_int() => write!(f, "{bits}"),
            _ => write!(f, "0x{bits:x}"),
        }
    }
}

//! HIR to text. See [`crate::text`] for the form.

use super::constant::TypedConstant;
use super::is_bare_name;
use crate::entity::{FuncId, Inst, Region, Value};
use crate::function::{AxisExtent, CacheUse, CheckKind, Function, FunctionKind, Imm, Module};
use crate::metadata::{ExecutionConstraints, FloatMode, KernelKind, KernelMetadata};
use crate::op::Op;
use crate::span::Span;
use rustc_hash::{FxHashMap, FxHashSet};
use std::fmt::{self, Display, Write};

/// Describes what to print beside the code.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PrintOptions {
    /// The source range of every function and instruction.
    pub spans: bool,
}

/// A module as HIR text. `Display` prints with the default options.
pub fn print_module(module: &Module, options: PrintOptions) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = write_module(&mut text, module, options);
    text
}

impl Display for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_module(f, self, PrintOptions::default())
    }
}

impl Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        HirPrinter::new(self, None, PrintOptions::default()).function(f)
    }
}

fn write_module(f: &mut impl Write, module: &Module, options: PrintOptions) -> fmt::Result {
    for (i, function) in module.functions.values().enumerate() {
        if i > 0 {
            f.write_char('\n')?;
        }
        HirPrinter::new(function, Some(module), options).function(f)?;
    }
    Ok(())
}

/// Prints one function, values numbered in order of definition and labels in order of appearance.
pub(crate) struct HirPrinter<'a> {
    func: &'a Function,
    module: Option<&'a Module>,
    options: PrintOptions,
    numbers: FxHashMap<Value, u32>,
    /// Only of instructions that something names.
    labels: FxHashMap<Inst, u32>,
}

impl<'a> HirPrinter<'a> {
    pub(crate) fn new(func: &'a Function, module: Option<&'a Module>, options: PrintOptions) -> HirPrinter<'a> {
        let mut printer =
            HirPrinter { func, module, options, numbers: FxHashMap::default(), labels: FxHashMap::default() };
        let mut targets = FxHashSet::default();
        printer.number(func.body, &mut targets);
        func.walk(func.body, &mut |inst, _| {
            if targets.contains(&inst) {
                let next = printer.labels.len() as u32;
                printer.labels.insert(inst, next);
            }
        });
        printer
    }

    fn number(&mut self, region: Region, targets: &mut FxHashSet<Inst>) {
        let func = self.func;
        self.define(&func.regions[region].params);
        for &inst in &func.regions[region].insts {
            let data = &func.insts[inst];
            if let Imm::Target(target) = data.imm {
                targets.insert(target);
            }
            self.define(&data.results);
            for &inner in &data.regions {
                self.number(inner, targets);
            }
        }
    }

    fn define(&mut self, values: &[Value]) {
        for &value in values {
            let next = self.numbers.len() as u32;
            self.numbers.entry(value).or_insert(next);
        }
    }

    fn function(&self, f: &mut impl Write) -> fmt::Result {
        let func = self.func;
        let kind = match func.kind {
            FunctionKind::Kernel => "kernel",
            FunctionKind::Func => "func",
        };
        write!(f, "{kind} @{}(", BareOrQuoted(&func.name))?;
        for (i, &param) in func.params().iter().enumerate() {
            let comma = if i > 0 { ", " } else { "" };
            let name = func.param_names.get(i).map_or("", |name| name);
            write!(f, "{comma}{} {}: {}", self.value(param), BareOrQuoted(name), func.ty(param))?;
        }
        f.write_char(')')?;
        for (i, ty) in func.results.iter().enumerate() {
            write!(f, "{}{ty}", if i > 0 { ", " } else { " -> (" })?;
        }
        if !func.results.is_empty() {
            f.write_char(')')?;
        }
        for (word, function) in [("gradient", func.gradient), ("replay", func.replay)] {
            if let Some(function) = function {
                write!(f, " {word}")?;
                self.function_name(f, function)?;
            }
        }
        let attributes = attributes(&func.metadata, &func.constraints);
        if !attributes.is_empty() {
            write!(f, " [{}]", attributes.join(", "))?;
        }
        self.span(f, func.span)?;
        f.write_str(" {\n")?;
        self.region(f, func.body, 1)?;
        f.write_str("}\n")
    }

    fn function_name(&self, f: &mut impl Write, function: FuncId) -> fmt::Result {
        match self.module.and_then(|module| module.functions.get(function)) {
            Some(function) => write!(f, " @{}", BareOrQuoted(&function.name)),
            None => write!(f, " @{function}"),
        }
    }

    pub(crate) fn value(&self, value: Value) -> impl Display {
        struct ValueNumber(Result<u32, Value>);
        impl Display for ValueNumber {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self.0 {
                    Ok(number) => write!(f, "%{number}"),
                    Err(value) => write!(f, "%undefined_{value}"),
                }
            }
        }
        ValueNumber(self.numbers.get(&value).copied().ok_or(value))
    }

    fn definitions(&self, f: &mut impl Write, values: &[Value]) -> fmt::Result {
        for (i, &value) in values.iter().enumerate() {
            write!(f, "{}{}", if i > 0 { ", " } else { "" }, self.value(value))?;
            if let Some(name) = &self.func.value_names[value] {
                write!(f, " {}", BareOrQuoted(name))?;
            }
            write!(f, ": {}", self.func.ty(value))?;
        }
        Ok(())
    }

    fn span(&self, f: &mut impl Write, span: Span) -> fmt::Result {
        match self.options.spans {
            true if span.is_none() => f.write_str(" !none"),
            true => write!(f, " !{}:{}..{}", span.file.as_u32(), span.start, span.end),
            false => Ok(()),
        }
    }

    fn region(&self, f: &mut impl Write, region: Region, depth: usize) -> fmt::Result {
        for &inst in &self.func.regions[region].insts {
            write!(f, "{:1$}", "", depth * 2)?;
            self.header(f, inst)?;
            let data = &self.func.insts[inst];
            for (i, &region) in data.regions.iter().enumerate() {
                f.write_str(match (data.op, i) {
                    (Op::If, 1) => " else",
                    (Op::While, 1) => " do",
                    _ => "",
                })?;
                let params = &self.func.regions[region].params;
                if !params.is_empty() {
                    f.write_str(" (")?;
                    self.definitions(f, params)?;
                    f.write_char(')')?;
                }
                f.write_str(" {\n")?;
                self.region(f, region, depth + 1)?;
                write!(f, "{:1$}}}", "", depth * 2)?;
            }
            f.write_char('\n')?;
        }
        Ok(())
    }

    /// An instruction without its regions.
    pub(crate) fn header(&self, f: &mut impl Write, inst: Inst) -> fmt::Result {
        let func = self.func;
        let data = &func.insts[inst];
        self.definitions(f, &data.results)?;
        if !data.results.is_empty() {
            f.write_str(" = ")?;
        }
        f.write_str(data.op.name())?;
        if let Some(label) = self.labels.get(&inst) {
            write!(f, " ^{label}")?;
        }
        match &data.imm {
            Imm::None => {}
            Imm::Bits(bits) => {
                let ty = data.results.first().and_then(|&v| func.ty(v).as_scalar());
                write!(f, " {}", TypedConstant(ty, *bits))?;
            }
            Imm::Axis(axis) => write!(f, " {axis}")?,
            Imm::Component(component) => write!(f, " {component}")?,
            Imm::Extent(AxisExtent { name, axis, extent }) => write!(f, " {} {axis} {extent}", QuotedString(name))?,
            Imm::Func(callee) => self.function_name(f, *callee)?,
            Imm::Target(target) => match self.labels.get(target) {
                Some(label) => write!(f, " ^{label}")?,
                None => write!(f, " ^undefined_{target}")?,
            },
            Imm::Text(text) => write!(f, " {}", QuotedString(text))?,
            Imm::Check(CheckKind::Bounds { array, axis, unsigned }) => {
                let unsigned = if *unsigned { " unsigned" } else { "" };
                write!(f, " bounds{unsigned} {} {axis}", QuotedString(array))?;
            }
            Imm::Check(CheckKind::Division) => f.write_str(" division")?,
            Imm::Shared(array) => {
                let extents: Vec<String> = array.extents.iter().map(u32::to_string).collect();
                write!(f, " {} ({}) align {}", array.id, extents.join(", "), array.align)?;
            }
            Imm::Memory(order) if data.op == Op::ThreadFence => write!(f, " {}", order.scope.name())?,
            Imm::Memory(order) => write!(f, " {} {}", order.scope.name(), order.ordering.name())?,
            Imm::Width(width) => write!(f, " {width}")?,
            Imm::Fragment(fragment) => {
                let layout = if fragment.by_columns { "columns" } else { "rows" };
                write!(f, " {layout} {}", fragment.n)?;
            }
            Imm::Copy(copy) => {
                write!(f, " {}", copy.count)?;
                f.write_str(if copy.is_in_step { " in_step" } else { "" })?;
                if copy.cache != CacheUse::default() {
                    write!(f, " {}", copy.cache.name())?;
                }
            }
            Imm::Barrier(barrier) => write!(f, " {} {}", barrier.id, barrier.count)?,
            Imm::Pending(n) => write!(f, " {n}")?,
            Imm::Parallel => f.write_str(" parallel")?,
        }
        for (i, &value) in data.operands.iter().enumerate() {
            write!(f, "{} {}", if i > 0 { "," } else { "" }, self.value(value))?;
        }
        self.span(f, data.span)
    }
}

/// The attributes that differ from the default, in the order of their declaration.
pub fn attributes(metadata: &KernelMetadata, constraints: &ExecutionConstraints) -> Vec<String> {
    let KernelMetadata {
        kind,
        target,
        workgroup_size,
        shared_bytes,
        launch_bounds,
        max_registers,
        float_mode,
        check,
        backward,
        by_block,
        reads_size,
        indices_from_start,
        dense_arrays,
        hints,
    } = metadata;
    let ExecutionConstraints {
        no_allocation,
        no_syscalls,
        inline_always,
        inline_never,
        unchecked,
        critical_path,
        cpu_affinity,
        target_latency_ns,
    } = constraints;
    let mut list = Vec::new();
    if *kind != KernelKind::default() {
        list.push(format!("kind = {}", kind.name()));
    }
    if let Some(target) = target {
        list.push(format!("target = {}", QuotedString(&target.to_string())));
    }
    if let Some([x, y, z]) = workgroup_size {
        list.push(format!("workgroup_size = ({x}, {y}, {z})"));
    }
    if let Some(bytes) = shared_bytes {
        list.push(format!("shared_bytes = {bytes}"));
    }
    match launch_bounds {
        Some((threads, Some(blocks))) => list.push(format!("launch_bounds = ({threads}, {blocks})")),
        Some((threads, None)) => list.push(format!("launch_bounds = ({threads})")),
        None => {}
    }
    if let Some(registers) = max_registers {
        list.push(format!("max_registers = {registers}"));
    }
    if *float_mode != FloatMode::default() {
        list.push(format!("float_mode = {}", float_mode.name()));
    }
    list.extend(check.then(|| "check".to_owned()));
    list.extend(backward.then(|| "backward".to_owned()));
    list.extend(by_block.then(|| "by_block".to_owned()));
    list.extend(reads_size.then(|| "reads_size".to_owned()));
    list.extend(indices_from_start.then(|| "indices_from_start".to_owned()));
    list.extend(dense_arrays.then(|| "dense_arrays".to_owned()));
    for (key, value) in hints {
        list.push(format!("hint {} = {}", QuotedString(key), QuotedString(value)));
    }
    for (holds, name) in [
        (no_allocation, "no_allocation"),
        (no_syscalls, "no_syscalls"),
        (inline_always, "inline_always"),
        (inline_never, "inline_never"),
        (unchecked, "unchecked"),
        (critical_path, "critical_path"),
    ] {
        list.extend(holds.then(|| name.to_owned()));
    }
    if !cpu_affinity.is_empty() {
        let cores: Vec<String> = cpu_affinity.iter().map(u32::to_string).collect();
        list.push(format!("cpu_affinity = ({})", cores.join(", ")));
    }
    if let Some(nanoseconds) = target_latency_ns {
        list.push(format!("target_latency_ns = {nanoseconds}"));
    }
    list
}

/// A name, in quotes where it needs them.
struct BareOrQuoted<'a>(&'a str);

impl Display for BareOrQuoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if is_bare_name(self.0) { f.write_str(self.0) } else { QuotedString(self.0).fmt(f) }
    }
}

/// A string in double quotes with the escapes the reader knows.
struct QuotedString<'a>(&'a str);

impl Display for QuotedString<'_> {
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

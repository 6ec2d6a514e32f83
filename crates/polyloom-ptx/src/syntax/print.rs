//! The syntax tree as text. What is printed parses to the same tree, positions apart.

use super::ast::{
    FloatLiteral, InitialValue, LocDirective, ModuleItem, PtxAst, PtxFunction, PtxInstruction, PtxOperand, PtxVariable,
    Statement, SymbolLinkage,
};
use std::fmt::{Display, Formatter, Result, Write};

/// Writes `items` with commas between.
fn list<T: Display>(f: &mut Formatter<'_>, items: &[T]) -> Result {
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            f.write_str(", ")?;
        }
        write!(f, "{item}")?;
    }
    Ok(())
}

fn linkage(f: &mut Formatter<'_>, linkage: Option<SymbolLinkage>) -> Result {
    match SymbolLinkage::ALL.iter().find(|(each, _)| Some(*each) == linkage) {
        Some((_, name)) => write!(f, ".{name} "),
        None => Ok(()),
    }
}

/// A string literal. ptxas knows no escaped quote, so whatever is not plain is a number there.
struct QuotedLiteral<'a>(&'a str);

impl Display for QuotedLiteral<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_char('"')?;
        for byte in self.0.bytes() {
            match byte {
                b' '..=b'~' if !matches!(byte, b'"' | b'\\') => f.write_char(byte.into())?,
                _ => write!(f, "\\{byte:03o}")?,
            }
        }
        f.write_char('"')
    }
}

fn pragma(f: &mut Formatter<'_>, texts: &[String]) -> Result {
    f.write_str(".pragma ")?;
    list(f, &texts.iter().map(|text| QuotedLiteral(text)).collect::<Vec<_>>())?;
    f.write_str(";\n")
}

/// `+4`, or `+-4`, because assemblers take no other form of a negative offset.
fn offset(f: &mut Formatter<'_>, offset: i64) -> Result {
    if offset == 0 { Ok(()) } else { write!(f, "+{offset}") }
}

impl Display for PtxAst {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        writeln!(f, ".version {}.{}", self.version.0, self.version.1)?;
        if !self.target.is_empty() {
            f.write_str(".target ")?;
            list(f, &self.target)?;
            f.write_char('\n')?;
        }
        writeln!(f, ".address_size {}", self.address_size)?;
        for item in &self.items {
            match item {
                ModuleItem::Variable(variable) => writeln!(f, "{variable};")?,
                ModuleItem::Function(function) => write!(f, "\n{function}")?,
                ModuleItem::File(index, name) => writeln!(f, ".file {index} {}", QuotedLiteral(name))?,
                ModuleItem::Section(name, lines) => {
                    let dot = if name.starts_with('.') { "" } else { "." };
                    writeln!(f, ".section {dot}{name}\n{{")?;
                    for line in lines {
                        writeln!(f, "{line}")?;
                    }
                    writeln!(f, "}}")?;
                }
                ModuleItem::Alias(name, target) => writeln!(f, ".alias {name}, {target};")?,
                ModuleItem::Pragma(texts) => pragma(f, texts)?,
            }
        }
        Ok(())
    }
}

impl Display for PtxVariable {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        linkage(f, self.linkage)?;
        write!(f, ".{}", self.space.name())?;
        if let Some(align) = self.align {
            write!(f, " .align {align}")?;
        }
        if self.lanes > 1 {
            write!(f, " .v{}", self.lanes)?;
        }
        write!(f, " .{}", self.ty)?;
        if let Some(pointer) = &self.pointer {
            f.write_str(" .ptr")?;
            if let Some(space) = pointer.space {
                write!(f, " .{}", space.name())?;
            }
            if let Some(align) = pointer.align {
                write!(f, " .align {align}")?;
            }
        }
        write!(f, " {}", self.name)?;
        if let Some(count) = self.count {
            write!(f, "<{count}>")?;
        }
        for extent in &self.extents {
            match extent {
                Some(extent) => write!(f, "[{extent}]")?,
                None => f.write_str("[]")?,
            }
        }
        match &self.initial {
            Some(initial) => write!(f, " = {initial}"),
            None => Ok(()),
        }
    }
}

impl Display for InitialValue {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            InitialValue::List(all) => {
                f.write_char('{')?;
                list(f, all)?;
                f.write_char('}')
            }
            InitialValue::Integer(value) => write!(f, "{value}"),
            InitialValue::Float(value) => write!(f, "{value}"),
            InitialValue::Address { name, offset: bytes, generic } => {
                if *generic {
                    write!(f, "generic({name})")?;
                } else {
                    f.write_str(name)?;
                }
                offset(f, *bytes)
            }
            InitialValue::Field { name, value } => write!(f, "{name} = {value}"),
            InitialValue::Masked { mask, address } => write!(f, "0x{mask:x}({address})"),
        }
    }
}

impl Display for FloatLiteral {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            FloatLiteral::Single(bits) => write!(f, "0f{bits:08X}"),
            FloatLiteral::Double(bits) => write!(f, "0d{bits:016X}"),
        }
    }
}

fn directives(f: &mut Formatter<'_>, directives: &[(String, Vec<u64>)], separator: &str) -> Result {
    for (name, values) in directives {
        write!(f, "{separator}.{name} ")?;
        list(f, values)?;
    }
    Ok(())
}

impl Display for PtxFunction {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        linkage(f, self.linkage)?;
        f.write_str(if self.entry { ".entry " } else { ".func " })?;
        if !self.results.is_empty() {
            f.write_char('(')?;
            list(f, &self.results)?;
            f.write_str(") ")?;
        }
        write!(f, "{}(", self.name)?;
        for (index, parameter) in self.parameters.iter().enumerate() {
            write!(f, "{}\n\t{parameter}", if index > 0 { "," } else { "" })?;
        }
        f.write_str(if self.parameters.is_empty() { ")" } else { "\n)" })?;
        directives(f, &self.directives, "\n")?;
        match &self.body {
            None => f.write_str(";\n"),
            Some(body) => {
                f.write_str("\n{\n")?;
                statements(f, body, 1)?;
                f.write_str("}\n")
            }
        }
    }
}

fn statements(f: &mut Formatter<'_>, body: &[Statement], depth: usize) -> Result {
    for statement in body {
        if !matches!(statement, Statement::Label(..)) {
            for _ in 0..depth {
                f.write_char('\t')?;
            }
        }
        match statement {
            Statement::Label(name, _) => writeln!(f, "{name}:")?,
            Statement::Variable(variable) => writeln!(f, "{variable};")?,
            Statement::Instruction(instruction) => writeln!(f, "{instruction};")?,
            Statement::Block(inner) => {
                f.write_str("{\n")?;
                statements(f, inner, depth + 1)?;
                for _ in 0..depth {
                    f.write_char('\t')?;
                }
                f.write_str("}\n")?;
            }
            Statement::Location(location) => writeln!(f, "{location}")?,
            Statement::Pragma(texts) => pragma(f, texts)?,
            Statement::Targets { name, calls, targets } => {
                write!(f, "{name}: .{} ", if *calls { "calltargets" } else { "branchtargets" })?;
                list(f, targets)?;
                f.write_str(";\n")?;
            }
            Statement::Prototype { name, results, parameters, directives: all } => {
                write!(f, "{name}: .callprototype (")?;
                list(f, results)?;
                f.write_str(") _ (")?;
                list(f, parameters)?;
                f.write_char(')')?;
                directives(f, all, " ")?;
                f.write_str(";\n")?;
            }
        }
    }
    Ok(())
}

impl Display for LocDirective {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, ".loc {} {} {}", self.file, self.line, self.column)?;
        if let Some((label, bytes)) = &self.function_name {
            write!(f, ", function_name {label}")?;
            offset(f, *bytes)?;
        }
        if let Some((file, line, column)) = self.inlined_at {
            write!(f, ", inlined_at {file} {line} {column}")?;
        }
        Ok(())
    }
}

impl Display for PtxInstruction {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        if let Some((negated, name)) = &self.guard {
            write!(f, "@{}{name} ", if *negated { "!" } else { "" })?;
        }
        f.write_str(&self.opcode)?;
        for modifier in &self.modifiers {
            write!(f, ".{modifier}")?;
        }
        if !self.operands.is_empty() {
            f.write_char('\t')?;
        }
        list(f, &self.operands)
    }
}

impl Display for PtxOperand {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            PtxOperand::Name(name) => f.write_str(name),
            PtxOperand::Component(name, component) => write!(f, "{name}.{component}"),
            PtxOperand::Integer(value) if (*value as i64) < 0 => write!(f, "{}", *value as i64),
            PtxOperand::Integer(value) => write!(f, "{value}"),
            PtxOperand::Float(value) => write!(f, "{value}"),
            PtxOperand::Offset(name, bytes) if *bytes == 0 => write!(f, "{name}+0"),
            PtxOperand::Offset(name, bytes) => {
                f.write_str(name)?;
                offset(f, *bytes)
            }
            PtxOperand::Element { array, index: None, offset } => write!(f, "{array}[{offset}]"),
            PtxOperand::Element { array, index: Some(index), offset: 0 } => write!(f, "{array}[{index}]"),
            PtxOperand::Element { array, index: Some(index), offset } => write!(f, "{array}[{index}{offset:+}]"),
            PtxOperand::Vector(all) => {
                f.write_char('{')?;
                list(f, all)?;
                f.write_char('}')
            }
            PtxOperand::List(all) => {
                f.write_char('(')?;
                list(f, all)?;
                f.write_char(')')
            }
            PtxOperand::Pair(a, b) => write!(f, "{a}|{b}"),
            PtxOperand::Not(a) => write!(f, "!{a}"),
            PtxOperand::Negative(a) => write!(f, "-{a}"),
            PtxOperand::Address { base, offset: bytes, more } => {
                write!(f, "[{base}")?;
                offset(f, *bytes)?;
                if !more.is_empty() {
                    f.write_str(", ")?;
                    list(f, more)?;
                }
                f.write_char(']')
            }
        }
    }
}

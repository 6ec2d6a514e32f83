//! The bracketed attributes of a function: [`KernelMetadata`] and [`ExecutionConstraints`] as text.

use super::lexer::TokenKind;
use super::reader::{HirReader, Parsed};
use crate::diagnostic::near_names;
use crate::metadata::{CompileTarget, ExecutionConstraints, FloatMode, KernelKind, KernelMetadata};

const NAMES: [&str; 22] = [
    "kind",
    "target",
    "workgroup_size",
    "shared_bytes",
    "launch_bounds",
    "max_registers",
    "float_mode",
    "check",
    "backward",
    "by_block",
    "reads_size",
    "indices_from_start",
    "dense_arrays",
    "hint",
    "no_allocation",
    "no_syscalls",
    "inline_always",
    "inline_never",
    "unchecked",
    "critical_path",
    "cpu_affinity",
    "target_latency_ns",
];

impl HirReader<'_> {
    /// `[attribute, …]`; an attribute given twice has the last value, a hint adds to those before it.
    pub(super) fn attributes(&mut self) -> Parsed<(KernelMetadata, ExecutionConstraints)> {
        let (mut metadata, mut constraints) = (KernelMetadata::default(), ExecutionConstraints::default());
        self.expect("[")?;
        loop {
            self.attribute(&mut metadata, &mut constraints)?;
            if self.eat("]") {
                return Ok((metadata, constraints));
            }
            self.expect(",")?;
        }
    }

    fn attribute(&mut self, metadata: &mut KernelMetadata, constraints: &mut ExecutionConstraints) -> Parsed<()> {
        let token = self.kind(TokenKind::Word, "an attribute")?;
        let name = self.str(token);
        match name {
            "check" => metadata.check = true,
            "backward" => metadata.backward = true,
            "by_block" => metadata.by_block = true,
            "reads_size" => metadata.reads_size = true,
            "indices_from_start" => metadata.indices_from_start = true,
            "dense_arrays" => metadata.dense_arrays = true,
            "no_allocation" => constraints.no_allocation = true,
            "no_syscalls" => constraints.no_syscalls = true,
            "inline_always" => constraints.inline_always = true,
            "inline_never" => constraints.inline_never = true,
            "unchecked" => constraints.unchecked = true,
            "critical_path" => constraints.critical_path = true,
            "hint" => {
                let key = self.string("the hint's key in quotes")?;
                self.expect("=")?;
                metadata.hints.push((key, self.string("the hint's value in quotes")?));
            }
            _ if NAMES.contains(&name) => {
                self.expect("=")?;
                self.attribute_value(name, metadata, constraints)?;
            }
            _ => {
                let near = near_names(name, NAMES);
                let suggestion = near.first().map_or(String::new(), |near| format!("; did you mean `{near}`?"));
                return self.fail(token, format!("there is no attribute `{name}`{suggestion}"));
            }
        }
        Ok(())
    }

    fn attribute_value(
        &mut self,
        name: &str,
        metadata: &mut KernelMetadata,
        constraints: &mut ExecutionConstraints,
    ) -> Parsed<()> {
        match name {
            "kind" => metadata.kind = self.choice("a kernel kind", KernelKind::from_name)?,
            "float_mode" => metadata.float_mode = self.choice("a float mode", FloatMode::from_name)?,
            "target" => {
                let token = self.peek();
                let name = self.string("a target in quotes")?;
                match CompileTarget::from_name(&name) {
                    Some(target) => metadata.target = Some(target),
                    None => return self.fail(token, format!("`{name}` is not a target")),
                }
            }
            "shared_bytes" => metadata.shared_bytes = Some(self.number("a number of bytes")?),
            "max_registers" => metadata.max_registers = Some(self.number("a number of registers")?),
            "target_latency_ns" => constraints.target_latency_ns = Some(self.number("a number of nanoseconds")?),
            "cpu_affinity" => constraints.cpu_affinity = self.numbers()?,
            "workgroup_size" => {
                let token = self.peek();
                match self.numbers()?[..] {
                    [x, y, z] => metadata.workgroup_size = Some([x, y, z]),
                    _ => return self.fail(token, "`workgroup_size` is three numbers, `(x, y, z)`"),
                }
            }
            _ => {
                let token = self.peek();
                match self.numbers()?[..] {
                    [threads] => metadata.launch_bounds = Some((threads, None)),
                    [threads, blocks] => metadata.launch_bounds = Some((threads, Some(blocks))),
                    _ => return self.fail(token, "`launch_bounds` is `(threads)` or `(threads, blocks)`"),
                }
            }
        }
        Ok(())
    }

    pub(super) fn choice<T>(&mut self, what: &str, from_name: fn(&str) -> Option<T>) -> Parsed<T> {
        let token = self.kind(TokenKind::Word, what)?;
        match from_name(self.str(token)) {
            Some(choice) => Ok(choice),
            None => self.fail(token, format!("`{}` is not {what}", self.str(token))),
        }
    }

    /// `(a, b, …)`
    pub(super) fn numbers(&mut self) -> Parsed<Vec<u32>> {
        let mut list = Vec::new();
        self.expect("(")?;
        loop {
            list.push(self.number("a number")?);
            if self.eat(")") {
                return Ok(list);
            }
            self.expect(",")?;
        }
    }
}

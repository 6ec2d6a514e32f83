//! Sequences, [`polyloom_codegen::sequence`], as LLVM IR in text: there is no kernel in them, so that nothing is lowered.
//!
//! ```text
//! entry: what is given is loaded
//! checks, each of which leaves with its number
//! a comparison for each range of the extent that callers choose
//! the steps of a range: descriptors of arrays on the stack, calls, copies
//! ```

use crate::dispatch::{self, llvm_type};
use crate::target::HostProcessor;
use polyloom_codegen::sequence::{
    SequenceArg, SequenceAxis, SequenceNumber, SequencePlace, SequenceStep, is_written_argument,
};
use polyloom_codegen::{CodegenError, NativeArgument, NativeSequence, WORKSPACE_ALIGN};
use polyloom_ir::Scalar;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Compiles a sequence to an object file.
pub(crate) fn compile(processor: &HostProcessor, sequence: &NativeSequence<'_>) -> Result<Vec<u8>, CodegenError> {
    let text = SequenceText::new(sequence).module()?;
    dispatch::compile_text(processor, &sequence.signature.name, &text)
}

/// Says what is loaded of an argument that is an array.
struct LoadedArray {
    shape: Vec<String>,
    strides: Vec<String>,
}

struct SequenceText<'a> {
    sequence: &'a NativeSequence<'a>,
    arguments: Vec<NativeArgument>,
    /// The instructions of the function.
    text: String,
    /// Allocations, which the first block has.
    stack: String,
    n_values: usize,
    n_blocks: usize,
    /// For each argument the address of its elements, if it has any.
    addresses: Vec<Option<String>>,
    arrays: Vec<Option<LoadedArray>>,
    /// The statuses that checks leave with.
    failures: BTreeSet<usize>,
    n_views: usize,
    n_counters: usize,
}

impl<'a> SequenceText<'a> {
    fn new(sequence: &'a NativeSequence<'a>) -> SequenceText<'a> {
        SequenceText {
            sequence,
            arguments: sequence.signature.arguments(),
            text: String::new(),
            stack: String::new(),
            n_values: 0,
            n_blocks: 0,
            addresses: Vec::new(),
            arrays: Vec::new(),
            failures: BTreeSet::new(),
            n_views: 0,
            n_counters: 0,
        }
    }

    fn module(mut self) -> Result<String, CodegenError> {
        let mut declared = String::new();
        for callee in self.sequence.callees {
            let types: Vec<String> = callee.signature.arguments().iter().map(type_of).collect();
            let _ = writeln!(declared, "declare hidden i32 @\"{}\"({}) nounwind", callee.symbol, types.join(", "));
        }
        self.load_arguments();
        self.check();
        self.variants()?;
        let params: Vec<String> =
            self.arguments.iter().enumerate().map(|(n, argument)| format!("{} %arg{n}", type_of(argument))).collect();
        let hidden = if self.sequence.is_hidden() { "hidden " } else { "" };
        let mut failures = String::new();
        for status in &self.failures {
            let _ = writeln!(failures, "fail{status}:\n  ret i32 {status}");
        }
        Ok(format!(
            "{declared}define {hidden}i32 @\"{}\"({}) nounwind {{\nentry:\n{}{}{failures}}}\n",
            self.sequence.symbol,
            params.join(", "),
            self.stack,
            self.text,
        ))
    }

    /// Adds an instruction that gives a value, which is named.
    fn value(&mut self, instruction: &str) -> String {
        let name = format!("%v{}", self.n_values);
        self.n_values += 1;
        let _ = writeln!(self.text, "  {name} = {instruction}");
        name
    }

    fn line(&mut self, instruction: &str) {
        let _ = writeln!(self.text, "  {instruction}");
    }

    fn block(&mut self) -> String {
        self.n_blocks += 1;
        format!("b{}", self.n_blocks)
    }

    fn begin(&mut self, block: &str) {
        let _ = writeln!(self.text, "{block}:");
    }

    /// The address so many bytes after another.
    fn after(&mut self, base: &str, bytes: &str) -> String {
        match bytes {
            "0" => base.to_owned(),
            _ => self.value(&format!("getelementptr i8, ptr {base}, i64 {bytes}")),
        }
    }

    /// A number, given the extent that callers choose.
    fn number(&mut self, number: SequenceNumber) -> String {
        let SequenceNumber { constant, slope } = number;
        if slope == 0 {
            return constant.to_string();
        }
        let product = if slope == 1 { "%chosen".to_owned() } else { self.value(&format!("mul i64 %chosen, {slope}")) };
        if constant == 0 { product } else { self.value(&format!("add i64 {product}, {constant}")) }
    }

    /// Loads what arrays say of themselves, and stores scalars where kernels read arrays of one element.
    fn load_arguments(&mut self) {
        for (n, argument) in self.arguments.clone().into_iter().enumerate() {
            let (mut address, mut array) = (None, None);
            match argument {
                NativeArgument::Array { ndim, .. } => {
                    let word = |place: u32| (8 * place).to_string();
                    address = Some(self.value(&format!("load ptr, ptr %arg{n}")));
                    let loaded = |this: &mut Self, place: u32| {
                        let at = this.after(&format!("%arg{n}"), &word(place));
                        this.value(&format!("load i64, ptr {at}"))
                    };
                    let ndim = u32::from(ndim);
                    let shape = (0..ndim).map(|axis| loaded(self, 1 + axis)).collect();
                    let strides = (0..ndim).map(|axis| loaded(self, 1 + ndim + axis)).collect();
                    array = Some(LoadedArray { shape, strides });
                }
                NativeArgument::Scalar(scalar) => {
                    let _ = writeln!(self.stack, "  %scalar{n} = alloca i64, align 8");
                    match scalar {
                        Scalar::Bool => {
                            let byte = self.value(&format!("zext i1 %arg{n} to i8"));
                            self.line(&format!("store i8 {byte}, ptr %scalar{n}"));
                        }
                        _ => self.line(&format!("store {} %arg{n}, ptr %scalar{n}", llvm_type(scalar))),
                    }
                    address = Some(format!("%scalar{n}"));
                }
                NativeArgument::Result(_) => address = Some(format!("%arg{n}")),
                NativeArgument::Workspace => {
                    let begin = self.value(&format!("ptrtoint ptr %arg{n} to i64"));
                    let up = self.value(&format!("add i64 {begin}, {}", WORKSPACE_ALIGN - 1));
                    let down = self.value(&format!("and i64 {up}, -{WORKSPACE_ALIGN}"));
                    let gap = self.value(&format!("sub i64 {down}, {begin}"));
                    self.line(&format!("%workspace = getelementptr i8, ptr %arg{n}, i64 {gap}"));
                }
                NativeArgument::Extent | NativeArgument::Components(_) => {}
            }
            self.addresses.push(address);
            self.arrays.push(array);
        }
    }

    /// Goes on where a condition holds, and leaves with a status where it does not.
    fn demand(&mut self, condition: &str, status: usize) {
        let next = self.block();
        self.failures.insert(status);
        self.line(&format!("br i1 {condition}, label %{next}, label %fail{status}"));
        self.begin(&next);
    }

    fn all(&mut self, conditions: &[String]) -> String {
        let mut all = "true".to_owned();
        for condition in conditions {
            all = if all == "true" { condition.clone() } else { self.value(&format!("and i1 {all}, {condition}")) };
        }
        all
    }

    /// The checks, in the order of their texts.
    fn check(&mut self) {
        let checks = self.sequence.checks;
        let mut status = 0;
        if let Some(chosen) = &checks.chosen {
            let (argument, axis) = chosen.place;
            let extent =
                self.arrays[argument].as_ref().map_or_else(|| "0".to_owned(), |array| array.shape[axis].clone());
            self.line(&format!("%chosen = add i64 {extent}, 0"));
            let (low, high) = chosen.range;
            let least = self.value(&format!("icmp sge i64 %chosen, {low}"));
            let most = self.value(&format!("icmp sle i64 %chosen, {high}"));
            let within = self.all(&[least, most]);
            status += 1;
            self.demand(&within, status);
        }
        // The bytes of each argument with elements, once shapes are known to be right.
        let mut sizes: Vec<Option<String>> = vec![None; self.arguments.len()];
        for (n, shape) in checks.shapes.iter().enumerate() {
            match (self.arguments[n], shape) {
                (NativeArgument::Array { elem, .. }, Some(shape)) => {
                    status += 1;
                    sizes[n] = Some(self.check_array(n, elem, shape, status));
                }
                (NativeArgument::Result(ty), _) => sizes[n] = Some(ty.scalar_within().bytes().to_string()),
                _ => {}
            }
        }
        for n in 0..self.arguments.len() {
            if !is_written_argument(&self.arguments[n]) {
                continue;
            }
            status += 1;
            let mut apart = Vec::new();
            for other in (0..self.arguments.len()).filter(|&other| other != n) {
                if let (Some(size), Some(other_size)) = (sizes[n].clone(), sizes[other].clone()) {
                    let (begin, other_begin) = (self.address_word(n), self.address_word(other));
                    let end = self.value(&format!("add i64 {begin}, {size}"));
                    let other_end = self.value(&format!("add i64 {other_begin}, {other_size}"));
                    let before = self.value(&format!("icmp ule i64 {end}, {other_begin}"));
                    let after = self.value(&format!("icmp ule i64 {other_end}, {begin}"));
                    let is_empty = self.value(&format!("icmp eq i64 {size}, 0"));
                    let is_other_empty = self.value(&format!("icmp eq i64 {other_size}, 0"));
                    let apart_or = self.value(&format!("or i1 {before}, {after}"));
                    let empty = self.value(&format!("or i1 {is_empty}, {is_other_empty}"));
                    apart.push(self.value(&format!("or i1 {apart_or}, {empty}")));
                }
            }
            if !apart.is_empty() {
                let all = self.all(&apart);
                self.demand(&all, status);
            }
        }
    }

    fn address_word(&mut self, argument: usize) -> String {
        let address = self.addresses[argument].clone().unwrap_or_else(|| "null".to_owned());
        self.value(&format!("ptrtoint ptr {address} to i64"))
    }

    /// Checks the shape of an array and that there are no gaps; returns its bytes.
    fn check_array(&mut self, argument: usize, elem: Scalar, shape: &[SequenceNumber], status: usize) -> String {
        let Some(LoadedArray { shape: extents, strides }) = self.arrays[argument].take() else { return "0".to_owned() };
        let mut conditions = Vec::new();
        let mut expected = elem.bytes().to_string();
        let mut is_empty = "false".to_owned();
        let mut dense = Vec::new();
        for (axis, &extent) in shape.iter().enumerate().rev() {
            let wanted = self.number(extent);
            conditions.push(self.value(&format!("icmp eq i64 {}, {wanted}", extents[axis])));
            let is_single = self.value(&format!("icmp eq i64 {wanted}, 1"));
            let follows = self.value(&format!("icmp eq i64 {}, {expected}", strides[axis]));
            dense.push(self.value(&format!("or i1 {is_single}, {follows}")));
            let is_zero = self.value(&format!("icmp eq i64 {wanted}, 0"));
            is_empty = self.value(&format!("or i1 {is_empty}, {is_zero}"));
            expected = self.value(&format!("mul i64 {expected}, {wanted}"));
        }
        let dense = self.all(&dense);
        conditions.push(self.value(&format!("or i1 {dense}, {is_empty}")));
        let all = self.all(&conditions);
        self.demand(&all, status);
        expected
    }

    fn variants(&mut self) -> Result<(), CodegenError> {
        let sequence = self.sequence;
        let Some((last, others)) = sequence.variants.split_last() else {
            return Err(CodegenError::new("internal error: a sequence has no steps for any extent"));
        };
        for variant in others {
            // Ranges are in ascending order, and the extent is within the bounds of all.
            let (own, next) = (self.block(), self.block());
            let is_own = self.value(&format!("icmp sle i64 %chosen, {}", variant.range.1));
            self.line(&format!("br i1 {is_own}, label %{own}, label %{next}"));
            self.begin(&own);
            self.steps(&variant.steps)?;
            self.begin(&next);
        }
        self.steps(&last.steps)
    }

    /// The steps of a variant, and the return after them.
    fn steps(&mut self, steps: &[SequenceStep]) -> Result<(), CodegenError> {
        for step in steps {
            match step {
                SequenceStep::Call { callee, extents, args, workspace } => {
                    self.call(*callee, extents, args, *workspace)?;
                }
                SequenceStep::Copy { elem_bytes, from, byte_offset, axes, to } => {
                    let source = self.place(*from);
                    let offset = self.number(*byte_offset);
                    let source = self.after(&source, &offset);
                    let target = self.place(*to);
                    self.copy(*elem_bytes, &source, axes, &target);
                }
            }
        }
        self.line("ret i32 0");
        Ok(())
    }

    fn place(&mut self, place: SequencePlace) -> String {
        match place {
            SequencePlace::Argument(argument) => self.addresses[argument].clone().unwrap_or_else(|| "null".to_owned()),
            SequencePlace::Workspace(offset) => self.after("%workspace", &offset.to_string()),
        }
    }

    fn call(
        &mut self,
        callee: usize,
        extents: &[SequenceNumber],
        args: &[SequenceArg],
        workspace: u64,
    ) -> Result<(), CodegenError> {
        let wrong = || CodegenError::new("internal error: a call of a sequence has not the arguments of its kernel");
        let callee = self.sequence.callees.get(callee).ok_or_else(wrong)?;
        let (mut extents, mut args, mut n_views) = (extents.iter(), args.iter(), 0);
        let mut given = Vec::new();
        for argument in callee.signature.arguments() {
            given.push(match argument {
                NativeArgument::Extent => {
                    let extent = self.number(*extents.next().ok_or_else(wrong)?);
                    format!("i64 {extent}")
                }
                NativeArgument::Array { elem, .. } => {
                    let Some(SequenceArg::Array { place, byte_offset, n_elements }) = args.next() else {
                        return Err(wrong());
                    };
                    let base = self.place(*place);
                    let offset = self.number(*byte_offset);
                    let data = self.after(&base, &offset);
                    let n_elements = self.number(*n_elements);
                    let view = format!("%view{n_views}");
                    n_views += 1;
                    self.line(&format!("store ptr {data}, ptr {view}"));
                    for (at, word) in [("8", n_elements), ("16", elem.bytes().to_string())] {
                        let at = self.after(&view, at);
                        self.line(&format!("store i64 {word}, ptr {at}"));
                    }
                    format!("ptr {view}")
                }
                NativeArgument::Scalar(scalar) => match *args.next().ok_or_else(wrong)? {
                    SequenceArg::Integer(number) => self.integer(number, scalar),
                    SequenceArg::Bits(bits) => constant(bits, scalar),
                    SequenceArg::Array { .. } => return Err(wrong()),
                },
                NativeArgument::Workspace => {
                    let memory = self.place(SequencePlace::Workspace(workspace));
                    format!("ptr {memory}")
                }
                NativeArgument::Components(_) | NativeArgument::Result(_) => return Err(wrong()),
            });
        }
        while self.n_views < n_views {
            let _ = writeln!(self.stack, "  %view{} = alloca [3 x i64], align 8", self.n_views);
            self.n_views += 1;
        }
        let status = self.value(&format!("call i32 @\"{}\"({})", callee.symbol, given.join(", ")));
        let (failed, next) = (self.block(), self.block());
        let is_fine = self.value(&format!("icmp eq i32 {status}, 0"));
        self.line(&format!("br i1 {is_fine}, label %{next}, label %{failed}"));
        self.begin(&failed);
        let number = self.value(&format!("add i32 {status}, {}", callee.first_check));
        self.line(&format!("ret i32 {number}"));
        self.begin(&next);
        Ok(())
    }

    /// An integer argument.
    fn integer(&mut self, number: SequenceNumber, scalar: Scalar) -> String {
        let ty = llvm_type(scalar);
        if number.slope == 0 {
            return constant(number.constant.cast_unsigned(), scalar);
        }
        let wide = self.number(number);
        if scalar.bits() == 64 {
            return format!("{ty} {wide}");
        }
        let narrow = self.value(&format!("trunc i64 {wide} to {ty}"));
        format!("{ty} {narrow}")
    }

    /// Copies elements to dense memory, axis by axis.
    fn copy(&mut self, elem_bytes: u32, source: &str, axes: &[SequenceAxis], target: &str) {
        let Some((axis, inner)) = axes.split_first() else {
            let ty = format!("i{}", 8 * elem_bytes);
            let element = self.value(&format!("load {ty}, ptr {source}"));
            self.line(&format!("store {ty} {element}, ptr {target}"));
            return;
        };
        // The bytes of a row of the target.
        let mut row = elem_bytes.to_string();
        for axis in inner {
            let extent = self.number(axis.extent);
            row = self.value(&format!("mul i64 {row}, {extent}"));
        }
        let (extent, stride) = (self.number(axis.extent), self.number(axis.stride));
        let counter = format!("%counter{}", self.n_counters);
        self.n_counters += 1;
        let _ = writeln!(self.stack, "  {counter} = alloca i64, align 8");
        let (head, body, done) = (self.block(), self.block(), self.block());
        self.line(&format!("store i64 0, ptr {counter}"));
        self.line(&format!("br label %{head}"));
        self.begin(&head);
        let index = self.value(&format!("load i64, ptr {counter}"));
        let goes_on = self.value(&format!("icmp slt i64 {index}, {extent}"));
        self.line(&format!("br i1 {goes_on}, label %{body}, label %{done}"));
        self.begin(&body);
        let (read, write) =
            (self.value(&format!("mul i64 {index}, {stride}")), self.value(&format!("mul i64 {index}, {row}")));
        let (from, to) = (self.after(source, &read), self.after(target, &write));
        self.copy(elem_bytes, &from, inner, &to);
        let next = self.value(&format!("add i64 {index}, 1"));
        self.line(&format!("store i64 {next}, ptr {counter}"));
        self.line(&format!("br label %{head}"));
        self.begin(&done);
    }
}

fn type_of(argument: &NativeArgument) -> String {
    match argument {
        NativeArgument::Extent => "i64".to_owned(),
        NativeArgument::Scalar(scalar) => llvm_type(*scalar),
        _ => "ptr".to_owned(),
    }
}

/// A constant argument of its bits.
fn constant(bits: u64, scalar: Scalar) -> String {
    let n = scalar.bits();
    let bits = if n == 64 { bits } else { bits & ((1 << n) - 1) };
    match scalar {
        Scalar::F32 => format!("float bitcast (i32 {bits} to float)"),
        Scalar::F64 => format!("double bitcast (i64 {bits} to double)"),
        Scalar::Bool => format!("i1 {}", if bits == 0 { "false" } else { "true" }),
        _ => format!("{} {bits}", llvm_type(scalar)),
    }
}

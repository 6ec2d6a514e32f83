//! Sequences: native functions that call others of their library one after the other, over memory of the caller.
//!
//! A function of tensors is planned to a few kernels with temporaries between them. In a library each kernel is a hidden native
//! function, and a sequence is the function that programs call: it looks at the arrays that it is given, lays temporaries out in
//! the workspace, and makes the calls.

use crate::native::{NativeArgument, NativeSignature};
use std::sync::Arc;

/// A number of a sequence: fixed, or a multiple of the extent that callers choose and a number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct SequenceNumber {
    /// The number where the extent is 0.
    pub constant: i64,
    /// Says what each further one of the extent adds.
    pub slope: i64,
}

impl SequenceNumber {
    /// A fixed number.
    pub fn fixed(constant: i64) -> SequenceNumber {
        SequenceNumber { constant, slope: 0 }
    }
}

/// Memory that a call reads or writes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SequencePlace {
    /// That of an argument of the sequence, by its place among [`NativeSignature::arguments`]: an array's, a scalar's or a result's.
    Argument(usize),
    /// A part of the workspace, which begins so many bytes from its start.
    Workspace(u64),
}

/// An argument of a call, in the order of the callee's parameters; extents come before, and a workspace after them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SequenceArg {
    /// A dense array of one axis.
    Array {
        /// The memory.
        place: SequencePlace,
        /// The bytes from the beginning of the memory.
        byte_offset: SequenceNumber,
        /// The number of elements.
        n_elements: SequenceNumber,
    },
    /// An integer, by its bits as a signed number.
    Integer(SequenceNumber),
    /// A number, by its bits.
    Bits(u64),
}

/// An axis of a copy.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SequenceAxis {
    /// The extent.
    pub extent: SequenceNumber,
    /// The bytes between neighbours in the memory that is read.
    pub stride: SequenceNumber,
}

/// A step of a sequence.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum SequenceStep {
    /// Calls a kernel.
    Call {
        /// The kernel's place among [`NativeSequence::callees`].
        callee: usize,
        /// The extents of the launch.
        extents: Vec<SequenceNumber>,
        /// The arguments.
        args: Vec<SequenceArg>,
        /// The workspace of the callee, so many bytes from the start of the sequence's.
        workspace: u64,
    },
    /// Copies elements to dense memory.
    Copy {
        /// The bytes of an element.
        elem_bytes: u32,
        /// The memory that is read.
        from: SequencePlace,
        /// The bytes from its beginning to the element whose indices are all 0.
        byte_offset: SequenceNumber,
        /// The axes.
        axes: Vec<SequenceAxis>,
        /// The memory that is written.
        to: SequencePlace,
    },
}

impl SequenceStep {
    /// Looks at each number, in an order that is the same for steps that differ in their numbers alone.
    pub fn visit_numbers(&mut self, look: &mut dyn FnMut(&mut SequenceNumber)) {
        match self {
            SequenceStep::Call { extents, args, .. } => {
                extents.iter_mut().for_each(&mut *look);
                for arg in args {
                    match arg {
                        SequenceArg::Array { byte_offset, n_elements, .. } => {
                            look(byte_offset);
                            look(n_elements);
                        }
                        SequenceArg::Integer(number) => look(number),
                        SequenceArg::Bits(_) => {}
                    }
                }
            }
            SequenceStep::Copy { byte_offset, axes, .. } => {
                look(byte_offset);
                for axis in axes {
                    look(&mut axis.extent);
                    look(&mut axis.stride);
                }
            }
        }
    }
}

/// The steps for some values of the extent that callers choose.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SequenceVariant {
    /// The least and the greatest value; of no account where there is no such extent.
    pub range: (u64, u64),
    /// The steps.
    pub steps: Vec<SequenceStep>,
}

/// A kernel that a sequence calls.
#[derive(Clone, Copy, Debug)]
pub struct SequenceCallee<'a> {
    /// The symbol of its code.
    pub symbol: &'a str,
    /// Its ABI.
    pub signature: &'a NativeSignature,
    /// Says what is added to the status that it returns, if that is not 0.
    pub first_check: i32,
}

/// The place where callers choose an extent, and the bounds that it has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChosenExtent {
    /// Says what it is called.
    pub name: Arc<str>,
    /// The array that tells it, by its place among [`NativeSignature::arguments`], and the axis.
    pub place: (usize, usize),
    /// The least and the greatest value.
    pub range: (u64, u64),
}

/// Says what a sequence demands of its arguments. What is not met is a check that fails, by the numbers of [`SequenceChecks::texts`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SequenceChecks {
    /// The extents of each argument that is an array; nothing for others.
    pub shapes: Vec<Option<Vec<SequenceNumber>>>,
    /// The extent that callers choose, if they choose one.
    pub chosen: Option<ChosenExtent>,
}

impl SequenceChecks {
    /// The texts of the checks in the order of their numbers: that the extent which callers choose is within its bounds, then for
    /// each array that it has its shape and no gaps, then for each argument that is written that its memory is its own.
    pub fn texts(&self, signature: &NativeSignature) -> Vec<String> {
        let name = &signature.name;
        let chosen = self.chosen.as_ref().map(|chosen| {
            let (low, high) = chosen.range;
            format!("the extent {} of `{name}` is from {low} to {high}", chosen.name)
        });
        let arguments: Vec<_> = signature.arguments().into_iter().zip(signature.argument_names()).collect();
        let shaped = arguments.iter().zip(&self.shapes).filter_map(|((_, argument), shape)| {
            let extents: Vec<String> = shape.as_ref()?.iter().map(|extent| self.describe(*extent)).collect();
            let comma = if extents.len() == 1 { "," } else { "" };
            Some(format!(
                "`{argument}` of `{name}` has the shape ({}{comma}) and no gaps between its elements",
                extents.join(", ")
            ))
        });
        let written = arguments.iter().filter(|(argument, _)| is_written_argument(argument));
        let written = written.map(|(_, argument)| {
            format!("`{argument}` of `{name}` is written, and shares no memory with another argument")
        });
        chosen.into_iter().chain(shaped).chain(written).collect()
    }

    /// An extent in words: `64`, `N`, `2 N + 1`.
    pub fn describe(&self, extent: SequenceNumber) -> String {
        let SequenceNumber { constant, slope } = extent;
        let name = self.chosen.as_ref().map_or("N", |chosen| &*chosen.name);
        match (slope, constant) {
            (0, _) => constant.to_string(),
            (1, 0) => name.to_owned(),
            (_, 0) => format!("{slope} {name}"),
            (1, _) => format!("{name} {} {}", if constant < 0 { '-' } else { '+' }, constant.unsigned_abs()),
            _ => format!("{slope} {name} {} {}", if constant < 0 { '-' } else { '+' }, constant.unsigned_abs()),
        }
    }
}

/// Describes a sequence.
#[derive(Clone, Copy, Debug)]
pub struct NativeSequence<'a> {
    /// The ABI.
    pub signature: &'a NativeSignature,
    /// The symbol of the C function, or of its code for one kind of processor.
    pub symbol: &'a str,
    /// The kernels.
    pub callees: &'a [SequenceCallee<'a>],
    /// The steps, for each range of the extent that callers choose; one variant if there is no such extent.
    pub variants: &'a [SequenceVariant],
    /// Says what is looked at before anything runs.
    pub checks: &'a SequenceChecks,
}

impl NativeSequence<'_> {
    /// True if the symbol is for the library alone.
    pub fn is_hidden(&self) -> bool {
        *self.symbol != *self.signature.name
    }
}

/// True of an argument in whose memory a sequence writes.
pub fn is_written_argument(argument: &NativeArgument) -> bool {
    matches!(argument, NativeArgument::Array { is_written: true, .. } | NativeArgument::Result(_))
}

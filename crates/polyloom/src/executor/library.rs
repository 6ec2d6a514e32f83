//! Libraries whose functions a path calls, such as NumPy, behind a trait.

use crate::fusion::{BoundFusion, FusionError, RunNumber};
use polyloom_graph::{Attributes, Backend, Layout, Residence, TensorOp, TensorType};
use polyloom_ir::Scalar;
use polyloom_runtime::LaunchOptions;
use std::fmt::Display;

/// Says where the elements of an array lie in the memory of the host.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostView {
    /// The address of the element whose indices are all 0.
    pub address: usize,
    /// The strides, in elements, from there; the offset is 0.
    pub layout: Layout,
}

/// An operand of a call, as far as it is known when the path is compiled.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum CallOperand {
    /// The next of the arrays that the call is given.
    Array,
    /// A number of a type, by its bits.
    Constant {
        /// The type.
        dtype: Scalar,
        /// The bits, zero-extended.
        bits: u64,
    },
    /// A number that each run is given, by its place among them, as one of a type.
    Number {
        /// The place.
        index: u32,
        /// The type.
        dtype: Scalar,
    },
    /// An optional operand that is not there.
    Absent,
}

/// A node that a library computes.
#[derive(Clone, Debug)]
pub struct LibraryCall<'a> {
    /// The backend.
    pub backend: Backend,
    /// The name of the kernel in the registry.
    pub kernel: &'a str,
    /// The op.
    pub op: TensorOp,
    /// The attributes in canonical form.
    pub attributes: &'a Attributes,
    /// The operands.
    pub operands: Vec<CallOperand>,
    /// The type of the result, of known extents.
    pub result: &'a TensorType,
}

/// The libraries of arrays that a path may call, and the inputs of a run as their arrays.
pub trait ArrayLibrary {
    /// An array of one of the libraries. A clone is the same array.
    type Array: Clone;
    /// A kernel with what its node fixes: attributes and constants.
    type Kernel;
    /// The error of a call.
    type Error: Display;

    /// Returns the kernel for a node.
    ///
    /// # Errors
    ///
    /// If the library has none.
    fn kernel(&self, call: &LibraryCall<'_>) -> Result<Self::Kernel, Self::Error>;

    /// Returns what identifies the code of the kernel for a node beyond its name: nothing if the version of the library does.
    fn code(&self, _call: &LibraryCall<'_>) -> String {
        String::new()
    }

    /// Returns the library with these arrays of NumPy as the inputs of runs.
    #[must_use]
    fn with_inputs(&self, inputs: Vec<Self::Array>) -> Self
    where
        Self: Sized;

    /// Calls a kernel. The result has the element type of the node.
    ///
    /// # Errors
    ///
    /// Those of the library.
    fn call(
        &self,
        kernel: &Self::Kernel,
        operands: &[Self::Array],
        numbers: &[RunNumber],
    ) -> Result<Self::Array, Self::Error>;

    /// Returns an input of this run as an array of NumPy.
    ///
    /// # Errors
    ///
    /// If it cannot be one.
    fn input(&self, index: usize) -> Result<Self::Array, Self::Error>;

    /// Makes an array of NumPy whose elements lie so, with any values; returns the address of its element 0 too.
    ///
    /// # Errors
    ///
    /// If there is no memory.
    fn new_array(&self, dtype: Scalar, layout: &Layout) -> Result<(Self::Array, usize), Self::Error>;

    /// Makes an array available at another residence, over the same memory where that is possible.
    ///
    /// # Errors
    ///
    /// If the other library does not take it.
    fn copy_to(
        &self,
        array: &Self::Array,
        dtype: Scalar,
        from: Residence,
        to: Residence,
    ) -> Result<Self::Array, Self::Error>;

    /// Returns an array of NumPy with the same elements in row-major order without gaps, and where they lie.
    ///
    /// # Errors
    ///
    /// If there is no memory.
    fn dense(&self, array: &Self::Array) -> Result<(Self::Array, usize), Self::Error>;

    /// Does something that needs no library and may take long, so that others may use the libraries meanwhile.
    fn detached<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        work()
    }

    /// Lets others use the libraries, between two batches of a measurement.
    fn pause(&self) {}

    /// Runs the launches of a plan whose memory has been placed.
    ///
    /// # Errors
    ///
    /// Those of a launch, and what a signal raised meanwhile, which is the library's.
    ///
    /// # Safety
    ///
    /// The memory that was placed is valid and large enough, and nobody writes to it until the run is over.
    unsafe fn launch(&self, bound: &BoundFusion) -> Result<Result<(), FusionError>, Self::Error> {
        // SAFETY: passed on to the caller.
        Ok(unsafe { bound.run_from(0, &LaunchOptions::default()) }.map(|_| ()))
    }
}

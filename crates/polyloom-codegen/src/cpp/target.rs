//! The languages in which kernels are written as text.

/// The language of the text.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum TextTarget {
    /// C++17 for the CPU.
    Cpp,
    /// CUDA C++ for NVIDIA GPUs.
    Cuda,
}

impl TextTarget {
    /// Returns what stands before a function.
    pub(super) fn function(self) -> &'static str {
        match self {
            TextTarget::Cpp => "inline",
            TextTarget::Cuda => "__device__ inline",
        }
    }

    pub(super) fn member_function(self) -> &'static str {
        match self {
            TextTarget::Cpp => "",
            TextTarget::Cuda => "__device__ ",
        }
    }
}

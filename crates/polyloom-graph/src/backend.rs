//! Backends: who computes the nodes of a graph, and where the tensors that it reads and gives are.
//!
//! A path may change from one backend to another at any value. What that takes follows from the two residences alone: nothing but a new
//! header over the same memory where they share it, otherwise a copy.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A way to compute nodes. Names in JSON and text are those of [`Backend::name`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Backend {
    /// NumPy's functions, one call a node.
    CpuNumpy,
    /// PyTorch's functions on tensors of the CPU, one call a node.
    CpuTorch,
    /// PyTorch's functions on tensors of a GPU, one call a node.
    GpuTorch,
    /// Polyloom's code for the CPU, planned for groups of nodes.
    CpuNative,
    /// Polyloom's PTX on a GPU, planned for groups of nodes.
    GpuCuda,
    /// Polyloom's PTX on the simulator. It shows that code is right; it is never chosen for speed.
    Sim,
}

/// The memory that elements are in.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemorySpace {
    /// The memory of the process.
    Host,
    /// The memory of a GPU.
    Device,
    /// The memory of the simulator's device.
    Simulated,
}

/// Says where a tensor is: whose array it is, in which memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Residence {
    /// An array of NumPy, which is also what Polyloom's code for the CPU reads and gives.
    Numpy,
    /// A tensor of PyTorch on the CPU.
    TorchCpu,
    /// A tensor of PyTorch on a GPU.
    TorchCuda,
    /// An array of Polyloom on a GPU.
    LoomCuda,
    /// An array of Polyloom on the simulator.
    LoomSim,
}

impl Backend {
    /// Every backend, in declaration order.
    pub const ALL: [Backend; 6] =
        [Backend::CpuNumpy, Backend::CpuTorch, Backend::GpuTorch, Backend::CpuNative, Backend::GpuCuda, Backend::Sim];

    /// Returns its name, such as `CPU_NUMPY`.
    pub fn name(self) -> &'static str {
        match self {
            Backend::CpuNumpy => "CPU_NUMPY",
            Backend::CpuTorch => "CPU_TORCH",
            Backend::GpuTorch => "GPU_TORCH",
            Backend::CpuNative => "CPU_NATIVE",
            Backend::GpuCuda => "GPU_CUDA",
            Backend::Sim => "SIM",
        }
    }

    /// Returns the backend of a name.
    ///
    /// ```
    /// use polyloom_graph::Backend;
    /// assert_eq!(Backend::from_name("GPU_CUDA"), Some(Backend::GpuCuda));
    /// ```
    pub fn from_name(name: &str) -> Option<Backend> {
        Backend::ALL.into_iter().find(|backend| backend.name() == name)
    }

    /// Returns where the tensors are that it reads and gives.
    pub fn residence(self) -> Residence {
        match self {
            Backend::CpuNumpy | Backend::CpuNative => Residence::Numpy,
            Backend::CpuTorch => Residence::TorchCpu,
            Backend::GpuTorch => Residence::TorchCuda,
            Backend::GpuCuda => Residence::LoomCuda,
            Backend::Sim => Residence::LoomSim,
        }
    }

    /// Returns true if groups of nodes become kernels by [`crate::plan`], rather than a call of a library each.
    pub fn plans_groups(self) -> bool {
        matches!(self, Backend::CpuNative | Backend::GpuCuda | Backend::Sim)
    }

    /// Returns true if its time says anything about speed.
    pub fn may_be_fastest(self) -> bool {
        self != Backend::Sim
    }
}

impl Residence {
    /// Every residence, in declaration order.
    pub const ALL: [Residence; 5] =
        [Residence::Numpy, Residence::TorchCpu, Residence::TorchCuda, Residence::LoomCuda, Residence::LoomSim];

    /// Returns the memory of its elements.
    pub fn memory(self) -> MemorySpace {
        match self {
            Residence::Numpy | Residence::TorchCpu => MemorySpace::Host,
            Residence::TorchCuda | Residence::LoomCuda => MemorySpace::Device,
            Residence::LoomSim => MemorySpace::Simulated,
        }
    }

    /// Returns true if a tensor here becomes one there without a copy of its elements, as NumPy's and PyTorch's do on the CPU by DLPack.
    ///
    /// ```
    /// use polyloom_graph::Residence;
    /// assert!(Residence::Numpy.is_zero_copy_to(Residence::TorchCpu));
    /// assert!(!Residence::TorchCpu.is_zero_copy_to(Residence::TorchCuda));
    /// ```
    pub fn is_zero_copy_to(self, other: Residence) -> bool {
        self.memory() == other.memory()
    }

    /// Returns its name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Residence::Numpy => "numpy",
            Residence::TorchCpu => "torch_cpu",
            Residence::TorchCuda => "torch_cuda",
            Residence::LoomCuda => "loom_cuda",
            Residence::LoomSim => "loom_sim",
        }
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Residence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

//! What there is to know of a kernel's GPU code without running it: for those who store it, ship it, or choose among
//! it.

use crate::device::gpu_available;
use crate::emit_options::{EmitError, EmitOptions, GpuTarget};
use crate::kernel::Kernel;
use polyloom_codegen::{CodegenError, Form, GridShape};
use polyloom_ir::Arch;
use polyloom_ir::verify::least_arch;
use polyloom_ptx::{KernelInfo, Module};
use serde::Serialize;
use std::collections::BTreeMap;

/// Describes what there is to know of a kernel's GPU code. Serialised, it is what `--metadata` writes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct GpuMetadata {
    /// The compiler and its version.
    pub generator: String,
    /// True if the code was made where no GPU could run it.
    pub codegen_only: bool,
    /// True if NVIDIA's driver saw a GPU when the code was made.
    pub cuda_available_at_generation: bool,
    /// The kernel.
    pub kernel: String,
    /// Architectures that the code is for.
    pub target_archs: Vec<String>,
    /// The least architecture that has all that the kernel asks for.
    pub least_arch: String,
    /// Operations of the kernel that not every architecture has, and the least that does.
    pub required_features: BTreeMap<String, String>,
    /// The version of PTX; none of CUDA C++, as all that is optional here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ptx_version: Option<String>,
    /// Names of the kernels in the module.
    pub entry_points: Vec<String>,
    /// Names of the functions in the module.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device_functions: Option<Vec<String>>,
    /// Names of functions that the driver has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external_functions: Option<Vec<String>>,
    /// Bytes of each variable in constant memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub constant_memory: Option<BTreeMap<String, u32>>,
    /// Bytes of each variable in global memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub global_memory: Option<BTreeMap<String, u32>>,
    /// Address spaces that the code accesses, by name: `generic` 0, `global` 1, `shared` 3, `const` 4, `local` 5.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address_spaces: Option<BTreeMap<String, u8>>,
    /// Most threads of a block and fewest blocks of a multiprocessor, as the code demands them.
    pub launch_bounds: LaunchBounds,
    /// Most registers of a thread, as the code demands.
    pub max_registers: Option<u32>,
    /// Shared memory of a block, in bytes.
    pub shared_memory: SharedMemory,
    /// Holds what the entry takes, after the launch's extents and the report: names, types and bytes.
    pub parameters: Vec<EntryParameter>,
    /// `one_thread_each` or `grid_stride`.
    pub grid: &'static str,
    /// True if the code is for dense arrays alone, and for launches of at most 2^27 threads.
    pub dense: bool,
    /// Says how floating-point arithmetic is compiled.
    pub float_mode: &'static str,
    /// True if the kernel is checked while it runs.
    pub checked: bool,
}

/// Describes what the code demands of launches.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct LaunchBounds {
    /// Most threads of a block.
    pub max_threads: Option<u32>,
    /// The one block that there may be.
    pub required_block: Option<[u32; 3]>,
    /// Fewest blocks that a multiprocessor has room for.
    pub min_blocks_per_multiprocessor: Option<u32>,
}

/// Shared memory of a block.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct SharedMemory {
    /// Bytes of arrays whose extents are known.
    pub static_bytes: u32,
    /// True if the launch says how many bytes more there are.
    pub is_dynamic: bool,
    /// Bytes that a launch gives unless it says otherwise.
    pub dynamic_bytes: u32,
}

/// A parameter of an entry.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct EntryParameter {
    /// Its name in the kernel's source; of a field of a struct, with the path to it.
    pub name: String,
    /// Its type, as Python code spells it.
    pub r#type: String,
    /// Bytes that it takes.
    pub bytes: u32,
}

impl Kernel {
    /// Returns what there is to know of the kernel's PTX. Asking looks for NVIDIA's driver, to say whether there is
    /// one.
    ///
    /// # Errors
    ///
    /// As [`Kernel::emit`].
    pub fn gpu_metadata(&self, target: &GpuTarget) -> Result<GpuMetadata, EmitError> {
        let ptx = self.emit_text(Form::Ptx, &EmitOptions::for_gpu(*target))?;
        let unreadable = || CodegenError::new("internal error: PTX that cannot be read back");
        let module = Module::parse(&ptx).map_err(|_| unreadable())?;
        let entry = self.gpu_entry();
        let info: KernelInfo = module.kernels().into_iter().find(|k| k.name == entry).ok_or_else(unreadable)?;
        let contents = module.contents();
        let required_features = self.required_features()?;
        let least = required_features.values().copied().max().unwrap_or(Arch::OLDEST);
        let is_available = gpu_available();
        let metadata = &self.function().metadata;
        let (major, minor) = contents.version;
        // The first parameter is left out, because it is the launch's own.
        let sizes = info.parameters.iter().skip(1).map(|parameter| parameter.size);
        let names = self.params().names().iter().zip(self.params().types());
        Ok(GpuMetadata {
            generator: format!("polyloom {}", env!("CARGO_PKG_VERSION")),
            codegen_only: !is_available,
            cuda_available_at_generation: is_available,
            kernel: self.name().to_owned(),
            target_archs: contents.target.into_iter().take(1).collect(),
            least_arch: least.to_string(),
            required_features: required_features.into_iter().map(|(op, arch)| (op.into(), arch.to_string())).collect(),
            ptx_version: Some(format!("{major}.{minor}")),
            entry_points: contents.entries,
            device_functions: Some(contents.functions),
            external_functions: Some(contents.external_functions),
            constant_memory: Some(contents.constants.into_iter().collect()),
            global_memory: Some(contents.globals.into_iter().collect()),
            address_spaces: Some(contents.spaces.into_iter().map(|(number, name)| (name.to_owned(), number)).collect()),
            launch_bounds: LaunchBounds {
                max_threads: info.limits.max_threads,
                required_block: info.limits.required_block,
                min_blocks_per_multiprocessor: info.limits.min_blocks,
            },
            max_registers: info.limits.max_registers,
            shared_memory: SharedMemory {
                static_bytes: contents.shared_bytes,
                is_dynamic: contents.has_dynamic_shared,
                dynamic_bytes: metadata.shared_bytes.unwrap_or(0),
            },
            parameters: names
                .zip(sizes)
                .map(|((name, ty), bytes)| EntryParameter { name: name.to_string(), r#type: ty.python_name(), bytes })
                .collect(),
            grid: match target.shape {
                GridShape::OneThreadEach => "one_thread_each",
                GridShape::Stride => "grid_stride",
            },
            dense: target.dense,
            float_mode: metadata.float_mode.name(),
            checked: metadata.check,
        })
    }

    /// Returns what there is to know of the kernel's CUDA C++, compiled for an architecture. What depends on who
    /// compiles it is left out.
    ///
    /// # Errors
    ///
    /// As [`Kernel::emit`].
    pub fn cuda_metadata(&self, arch: Arch) -> Result<GpuMetadata, EmitError> {
        let (function, metadata) = (self.function(), &self.function().metadata);
        let shape = if function.needs_blocks() { GridShape::OneThreadEach } else { GridShape::Stride };
        let of_ptx = self.gpu_metadata(&GpuTarget { shape, ..GpuTarget::new(arch) })?;
        let of_block = metadata.workgroup_size.map(|size| size.iter().product());
        Ok(GpuMetadata {
            ptx_version: None,
            device_functions: None,
            external_functions: None,
            constant_memory: None,
            global_memory: None,
            address_spaces: None,
            launch_bounds: LaunchBounds {
                max_threads: metadata.launch_bounds.map(|(most_threads, _)| most_threads).or(of_block),
                required_block: None,
                ..of_ptx.launch_bounds
            },
            ..of_ptx
        })
    }

    /// Operations that not every architecture has, and the least that does.
    fn required_features(&self) -> Result<BTreeMap<&'static str, Arch>, EmitError> {
        let (module, kernel) = self.for_gpus()?;
        let mut found = BTreeMap::new();
        for id in module.reachable(kernel) {
            let function = &module.functions[id];
            function.walk(function.body, &mut |_, data| {
                let least = least_arch(function, data);
                if least > Arch::OLDEST {
                    found.insert(data.op.name(), least);
                }
            });
        }
        Ok(found)
    }
}

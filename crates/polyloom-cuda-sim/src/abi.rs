//! Structs of the driver's C interface, laid out as `cuda.h` has them, and the numbers that calls pass.

use crate::pointers::In;
use crate::status::Outcome;
use std::ffi::{c_char, c_int, c_uint, c_void};

/// An opaque handle: a context, module, function, stream, event, graph, node or pool.
pub(crate) type Handle = usize;

/// An address of device memory.
pub(crate) type DeviceAddress = u64;

/// `CUDA_MEMCPY2D`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Copy2D {
    pub(crate) from: Copy2DSide,
    pub(crate) to: Copy2DSide,
    pub(crate) width: usize,
    pub(crate) height: usize,
}

/// Says where a copy of rows begins, on one of its sides.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Copy2DSide {
    pub(crate) x: usize,
    pub(crate) y: usize,
    pub(crate) memory_type: c_uint,
    pub(crate) host: usize,
    pub(crate) device: DeviceAddress,
    pub(crate) array: Handle,
    pub(crate) pitch: usize,
}

/// `CUDA_MEMCPY3D`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Copy3D {
    pub(crate) from: Copy3DSide,
    pub(crate) to: Copy3DSide,
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) depth: usize,
}

/// Says where a copy of planes begins, on one of its sides.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Copy3DSide {
    pub(crate) x: usize,
    pub(crate) y: usize,
    pub(crate) z: usize,
    pub(crate) level: usize,
    pub(crate) memory_type: c_uint,
    pub(crate) host: usize,
    pub(crate) device: DeviceAddress,
    pub(crate) array: Handle,
    pub(crate) reserved: usize,
    pub(crate) pitch: usize,
    pub(crate) height: usize,
}

/// Memory types of copies.
pub(crate) mod memory_type {
    pub(crate) const HOST: u32 = 1;
    pub(crate) const DEVICE: u32 = 2;
    pub(crate) const ARRAY: u32 = 3;
    pub(crate) const UNIFIED: u32 = 4;
}

/// `CUDA_ARRAY_DESCRIPTOR`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct ArrayDescription {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) format: c_uint,
    pub(crate) n_channels: c_uint,
}

/// `CUDA_ARRAY3D_DESCRIPTOR`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Array3dDescription {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) depth: usize,
    pub(crate) format: c_uint,
    pub(crate) n_channels: c_uint,
    pub(crate) flags: c_uint,
}

/// `CUDA_RESOURCE_DESC`: the kind of memory of a texture or surface, and a union of 128 bytes.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct ResourceDescription {
    pub(crate) kind: c_uint,
    pub(crate) body: [u64; 16],
    pub(crate) flags: c_uint,
}

/// Kinds of memory of textures.
pub(crate) mod resource_kind {
    pub(crate) const ARRAY: u32 = 0;
    pub(crate) const MIPMAPPED_ARRAY: u32 = 1;
    pub(crate) const LINEAR: u32 = 2;
    pub(crate) const PITCH_2D: u32 = 3;
}

impl ResourceDescription {
    /// The array, of a resource that is one.
    pub(crate) fn array(&self) -> Handle {
        self.body[0] as Handle
    }

    /// The number of the format and of the channels, of a resource that is plain memory.
    pub(crate) fn format(&self) -> (c_uint, c_uint) {
        (self.body[1] as c_uint, (self.body[1] >> 32) as c_uint)
    }
}

/// `CUDA_TEXTURE_DESC`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct TextureDescription {
    pub(crate) addressing: [c_uint; 3],
    pub(crate) filter: c_uint,
    pub(crate) flags: c_uint,
    pub(crate) max_anisotropy: c_uint,
    pub(crate) level_filter: c_uint,
    pub(crate) level_bias: f32,
    pub(crate) level_clamp: [f32; 2],
    pub(crate) border: [f32; 4],
    pub(crate) reserved: [c_int; 12],
}

/// `CUlaunchConfig`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct LaunchConfiguration {
    pub(crate) grid: [c_uint; 3],
    pub(crate) block: [c_uint; 3],
    pub(crate) shared_bytes: c_uint,
    pub(crate) stream: Handle,
    pub(crate) attributes: In<LaunchAttribute>,
    pub(crate) n_attributes: c_uint,
}

impl LaunchConfiguration {
    /// Blocks of a cluster, if an attribute says how many.
    pub(crate) fn cluster(&self) -> Outcome<Option<[u32; 3]>> {
        let attributes = self.attributes.list(self.n_attributes as usize)?;
        let found = attributes.iter().find(|attribute| attribute.id == launch_attribute::CLUSTER_DIMENSION);
        Ok(found.map(LaunchAttribute::words))
    }
}

/// `CUlaunchAttribute`. The value is a union of 64 bytes.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct LaunchAttribute {
    pub(crate) id: c_uint,
    pub(crate) padding: [c_char; 4],
    value: [u64; 8],
}

impl LaunchAttribute {
    /// The first three words of the value.
    pub(crate) fn words(&self) -> [u32; 3] {
        [self.value[0] as u32, (self.value[0] >> 32) as u32, self.value[1] as u32]
    }
}

/// Launch attributes that change what a launch does.
pub(crate) mod launch_attribute {
    pub(crate) const COOPERATIVE: u32 = 2;
    pub(crate) const CLUSTER_DIMENSION: u32 = 4;
}

/// `CUDA_KERNEL_NODE_PARAMS_v2`, which begins as the first version does.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct KernelNodeParams {
    pub(crate) function: Handle,
    pub(crate) grid: [c_uint; 3],
    pub(crate) block: [c_uint; 3],
    pub(crate) shared_bytes: c_uint,
    pub(crate) params: usize,
    pub(crate) extra: usize,
    pub(crate) kernel: Handle,
    pub(crate) context: Handle,
}

/// `CUDA_KERNEL_NODE_PARAMS_v1`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct KernelNodeParamsV1 {
    pub(crate) function: Handle,
    pub(crate) grid: [c_uint; 3],
    pub(crate) block: [c_uint; 3],
    pub(crate) shared_bytes: c_uint,
    pub(crate) params: usize,
    pub(crate) extra: usize,
}

/// `CUDA_MEMSET_NODE_PARAMS`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct MemsetNodeParams {
    pub(crate) address: DeviceAddress,
    pub(crate) pitch: usize,
    pub(crate) value: c_uint,
    pub(crate) element_bytes: c_uint,
    pub(crate) width: usize,
    pub(crate) height: usize,
}

/// `CUDA_HOST_NODE_PARAMS`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct HostNodeParams {
    pub(crate) function: Option<extern "C" fn(*mut c_void)>,
    pub(crate) data: usize,
}

/// `CUgraphNodeParams`: the kind of a node, and a union of 232 bytes.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct NodeParams {
    pub(crate) kind: c_uint,
    pub(crate) reserved: [c_int; 3],
    pub(crate) body: [u64; 29],
    pub(crate) reserved2: i64,
}

/// Kinds of nodes.
pub(crate) mod node_kind {
    pub(crate) const KERNEL: u32 = 0;
    pub(crate) const MEMCPY: u32 = 1;
    pub(crate) const MEMSET: u32 = 2;
    pub(crate) const HOST: u32 = 3;
    pub(crate) const GRAPH: u32 = 4;
    pub(crate) const EMPTY: u32 = 5;
    pub(crate) const WAIT_EVENT: u32 = 6;
    pub(crate) const EVENT_RECORD: u32 = 7;
    pub(crate) const MEM_ALLOC: u32 = 10;
    pub(crate) const MEM_FREE: u32 = 11;
    pub(crate) const CONDITIONAL: u32 = 13;
}

/// `CUgraphEdgeData`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct EdgeData {
    pub(crate) from_port: u8,
    pub(crate) to_port: u8,
    pub(crate) kind: u8,
    pub(crate) reserved: [u8; 5],
}

/// `CUmemLocation`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct MemoryLocation {
    pub(crate) kind: c_uint,
    pub(crate) id: c_int,
}

/// `CUmemAllocationProp`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct AllocationProperties {
    pub(crate) kind: c_uint,
    pub(crate) handle_kinds: c_uint,
    pub(crate) location: MemoryLocation,
    pub(crate) security: usize,
    pub(crate) flags: [u8; 8],
}

/// `CUmemAccessDesc`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct AccessDescription {
    pub(crate) location: MemoryLocation,
    pub(crate) flags: c_uint,
}

/// `CUipcMemHandle` and `CUipcEventHandle`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct IpcHandle(pub(crate) [u8; 64]);

/// `CUmemPoolProps`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct PoolProperties {
    pub(crate) allocation_type: c_uint,
    pub(crate) handle_types: c_uint,
    pub(crate) location: MemoryLocation,
    pub(crate) security: usize,
    pub(crate) max_bytes: usize,
    pub(crate) usage: u16,
    pub(crate) reserved: [u8; 54],
}

/// `CUDA_MEM_ALLOC_NODE_PARAMS`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct AllocNodeParams {
    pub(crate) pool: PoolProperties,
    pub(crate) access: usize,
    pub(crate) n_access: usize,
    pub(crate) n_bytes: usize,
    pub(crate) address: DeviceAddress,
}

impl AllocNodeParams {
    /// An allocation of the device's own.
    pub(crate) fn of_device(address: DeviceAddress, n_bytes: usize) -> AllocNodeParams {
        let pool = PoolProperties {
            allocation_type: 1,
            handle_types: 0,
            location: MemoryLocation { kind: 1, id: 0 },
            security: 0,
            max_bytes: 0,
            usage: 0,
            reserved: [0; 54],
        };
        AllocNodeParams { pool, access: 0, n_access: 0, n_bytes, address }
    }
}

/// `CUgraphExecUpdateResultInfo`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct UpdateResult {
    pub(crate) result: c_uint,
    pub(crate) error_node: Handle,
    pub(crate) error_from_node: Handle,
}

/// `CUDA_GRAPH_INSTANTIATE_PARAMS`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct InstantiateParams {
    pub(crate) flags: u64,
    pub(crate) upload_stream: Handle,
    pub(crate) error_node: Handle,
    pub(crate) result: c_uint,
}

/// `CUdevprop`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct DeviceProperties {
    pub(crate) threads_per_block: c_int,
    pub(crate) block: [c_int; 3],
    pub(crate) grid: [c_int; 3],
    pub(crate) shared_bytes: c_int,
    pub(crate) constant_bytes: c_int,
    pub(crate) warp: c_int,
    pub(crate) pitch: c_int,
    pub(crate) registers: c_int,
    pub(crate) clock_khz: c_int,
    pub(crate) texture_align: c_int,
}

#[cfg(test)]
mod tests {
    use super::*;
    use cudarc::driver::sys;

    /// The declarations that are compared with are made of NVIDIA's own headers.
    #[test]
    fn structs_have_the_layout_of_the_headers() {
        macro_rules! same {
            ($($ours:ty = $theirs:ty),*) => {
                $(assert_eq!(
                    (size_of::<$ours>(), align_of::<$ours>()),
                    (size_of::<$theirs>(), align_of::<$theirs>()),
                    stringify!($ours)
                );)*
            };
        }
        same!(
            Copy2D = sys::CUDA_MEMCPY2D,
            Copy3D = sys::CUDA_MEMCPY3D,
            ArrayDescription = sys::CUDA_ARRAY_DESCRIPTOR,
            Array3dDescription = sys::CUDA_ARRAY3D_DESCRIPTOR,
            ResourceDescription = sys::CUDA_RESOURCE_DESC,
            TextureDescription = sys::CUDA_TEXTURE_DESC,
            LaunchConfiguration = sys::CUlaunchConfig,
            LaunchAttribute = sys::CUlaunchAttribute,
            KernelNodeParams = sys::CUDA_KERNEL_NODE_PARAMS_v2,
            KernelNodeParamsV1 = sys::CUDA_KERNEL_NODE_PARAMS_v1,
            MemsetNodeParams = sys::CUDA_MEMSET_NODE_PARAMS_v1,
            HostNodeParams = sys::CUDA_HOST_NODE_PARAMS_v1,
            NodeParams = sys::CUgraphNodeParams,
            EdgeData = sys::CUgraphEdgeData,
            MemoryLocation = sys::CUmemLocation,
            AllocationProperties = sys::CUmemAllocationProp,
            AccessDescription = sys::CUmemAccessDesc,
            IpcHandle = sys::CUipcMemHandle,
            IpcHandle = sys::CUipcEventHandle,
            PoolProperties = sys::CUmemPoolProps,
            AllocNodeParams = sys::CUDA_MEM_ALLOC_NODE_PARAMS_v1,
            UpdateResult = sys::CUgraphExecUpdateResultInfo,
            InstantiateParams = sys::CUDA_GRAPH_INSTANTIATE_PARAMS,
            DeviceProperties = sys::CUdevprop
        );
        assert_eq!(std::mem::offset_of!(Copy3D, height), std::mem::offset_of!(sys::CUDA_MEMCPY3D, Height));
        assert_eq!(std::mem::offset_of!(NodeParams, body), 16);
        let offsets =
            [std::mem::offset_of!(ResourceDescription, body), std::mem::offset_of!(ResourceDescription, flags)];
        let theirs =
            [std::mem::offset_of!(sys::CUDA_RESOURCE_DESC, res), std::mem::offset_of!(sys::CUDA_RESOURCE_DESC, flags)];
        assert_eq!(offsets, theirs);
        let border = std::mem::offset_of!(sys::CUDA_TEXTURE_DESC, borderColor);
        assert_eq!(std::mem::offset_of!(TextureDescription, border), border);
    }
}

//! Entry points that the driver API has and this driver lacks: they say so, and do nothing.
//!
//! The names are those of CUDA 11.4 to 13.4. A C function may be called with more arguments than it takes.

use super::{EntryAddress, EntryPoint};
use crate::driver::driver;
use crate::status::{CuResult, CudaError};

fn missing(name: &'static str) -> CuResult {
    match driver() {
        Ok(driver) => {
            driver.journal.missing(name);
            CudaError::NOT_SUPPORTED.0
        }
        Err(error) => error.0,
    }
}

macro_rules! unsupported {
    ($($name:ident)*) => {
        $(
            #[unsafe(no_mangle)]
            extern "C" fn $name() -> CuResult {
                missing(stringify!($name))
            }
        )*

        pub(super) const UNSUPPORTED: &[EntryPoint] = &[$(EntryPoint {
            name: stringify!($name),
            address: EntryAddress($name as *const ()),
            of_thread: None,
        },)*];
    };
}

unsupported! {
    cuArrayGetMemoryRequirements cuArrayGetPlane cuArrayGetSparseProperties cuCoredumpDeregisterCompleteCallback
    cuCoredumpDeregisterStartCallback cuCoredumpGetAttribute cuCoredumpGetAttributeGlobal
    cuCoredumpRegisterCompleteCallback cuCoredumpRegisterStartCallback cuCoredumpSetAttribute
    cuCoredumpSetAttributeGlobal cuCtxAttach cuCtxDetach cuCtxFromGreenCtx cuCtxGetDevResource cuCtxGetExecAffinity
    cuCtxRecordEvent cuCtxWaitEvent cuDestroyExternalMemory cuDestroyExternalSemaphore cuDevResourceGenerateDesc
    cuDevSmResourceSplit cuDevSmResourceSplitByCount cuDeviceGetCliqueCount cuDeviceGetCliqueInfo cuDeviceGetDevResource
    cuDeviceGetFabricClusterUuid cuDeviceGetGraphMemAttribute cuDeviceGetHostAtomicCapabilities
    cuDeviceGetP2PAtomicCapabilities cuDeviceRegisterAsyncNotification cuDeviceSetGraphMemAttribute
    cuDeviceUnregisterAsyncNotification cuExternalMemoryGetMappedBuffer cuExternalMemoryGetMappedMipmappedArray
    cuFlushGPUDirectRDMAWrites cuFuncSetBlockShape cuFuncSetSharedSize cuGraphAddBatchMemOpNode
    cuGraphAddExternalSemaphoresSignalNode cuGraphAddExternalSemaphoresWaitNode cuGraphAddNode_v3
    cuGraphBatchMemOpNodeGetParams cuGraphBatchMemOpNodeSetParams cuGraphChildGraphNodeGetGraph cuGraphDebugDotPrint
    cuGraphEventRecordNodeGetEvent cuGraphEventRecordNodeSetEvent cuGraphEventWaitNodeGetEvent
    cuGraphEventWaitNodeSetEvent cuGraphExecBatchMemOpNodeSetParams cuGraphExecExternalSemaphoresSignalNodeSetParams
    cuGraphExecExternalSemaphoresWaitNodeSetParams cuGraphExecGetId cuGraphExecNodeSetParams
    cuGraphExternalSemaphoresSignalNodeGetParams cuGraphExternalSemaphoresSignalNodeSetParams
    cuGraphExternalSemaphoresWaitNodeGetParams cuGraphExternalSemaphoresWaitNodeSetParams cuGraphGetId
    cuGraphHostNodeGetParams cuGraphMemcpyNodeGetParams cuGraphNodeGetLocalId cuGraphNodeGetParams cuGraphNodeGetToolsId
    cuGraphNodeSetParams cuGraphNodeSetParams_v2 cuGraphicsMapResources cuGraphicsResourceGetMappedMipmappedArray
    cuGraphicsResourceGetMappedPointer_v2 cuGraphicsResourceSetMapFlags_v2 cuGraphicsSubResourceGetMappedArray
    cuGraphicsUnmapResources cuGraphicsUnregisterResource cuGreenCtxCreate cuGreenCtxDestroy cuGreenCtxGetDevResource
    cuGreenCtxGetId cuGreenCtxRecordEvent cuGreenCtxStreamCreate cuGreenCtxWaitEvent cuImportExternalMemory
    cuImportExternalSemaphore cuLaunch cuLaunchCooperativeKernelMultiDevice cuLaunchGrid cuLaunchGridAsync
    cuLaunchHostFunc_v2 cuLibraryGetManaged cuLibraryGetUnifiedFunction cuLogicalEndpointAddDevice
    cuLogicalEndpointBindAddr cuLogicalEndpointBindMem cuLogicalEndpointCreate cuLogicalEndpointDestroy
    cuLogicalEndpointExport cuLogicalEndpointGetLimits cuLogicalEndpointIdRelease cuLogicalEndpointIdReserve
    cuLogicalEndpointImport cuLogicalEndpointQuery cuLogicalEndpointUnbind cuLogsCurrent cuLogsDumpToFile
    cuLogsDumpToMemory cuLogsRegisterCallback cuLogsUnregisterCallback cuMemBatchDecompressAsync
    cuMemDiscardAndPrefetchBatchAsync cuMemDiscardBatchAsync cuMemExportToShareableHandle cuMemGetDefaultMemPool
    cuMemGetHandleForAddressRange cuMemGetLocationInfo cuMemGetMemPool cuMemImportFromShareableHandle cuMemMapArrayAsync
    cuMemPoolExportPointer cuMemPoolExportToShareableHandle cuMemPoolImportFromShareableHandle cuMemPoolImportPointer
    cuMemPrefetchBatchAsync cuMemRangeGetAttribute cuMemRangeGetAttributes cuMemSetMemPool cuMemcpy3DBatchAsync
    cuMemcpy3DBatchAsync_v2 cuMemcpy3DPeer cuMemcpy3DPeerAsync cuMemcpy3DWithAttributesAsync cuMemcpyBatchAsync
    cuMemcpyBatchAsync_v2 cuMemcpyWithAttributesAsync cuMipmappedArrayCreate cuMipmappedArrayDestroy
    cuMipmappedArrayGetLevel cuMipmappedArrayGetMemoryRequirements cuMipmappedArrayGetSparseProperties
    cuModuleGetSurfRef cuModuleGetTexRef cuMulticastAddDevice cuMulticastBindAddr cuMulticastBindAddr_v2
    cuMulticastBindMem cuMulticastBindMem_v2 cuMulticastCreate cuMulticastGetGranularity cuMulticastUnbind
    cuParamSetSize cuParamSetTexRef cuParamSetf cuParamSeti cuParamSetv cuProfilerInitialize
    cuSignalExternalSemaphoresAsync cuStreamBatchMemOp cuStreamBatchMemOp_v2 cuStreamBeginCaptureToCig
    cuStreamBeginRecaptureToGraph cuStreamEndCaptureToCig cuStreamGetDevResource cuStreamGetGreenCtx cuStreamWaitValue32
    cuStreamWaitValue64 cuStreamWriteValue32 cuStreamWriteValue64 cuSurfRefGetArray cuSurfRefSetArray
    cuTensorMapEncodeIm2col cuTensorMapEncodeIm2colWide cuTexRefCreate cuTexRefDestroy cuTexRefGetAddressMode
    cuTexRefGetAddress_v2 cuTexRefGetArray cuTexRefGetBorderColor cuTexRefGetFilterMode cuTexRefGetFlags
    cuTexRefGetFormat cuTexRefGetMaxAnisotropy cuTexRefGetMipmapFilterMode cuTexRefGetMipmapLevelBias
    cuTexRefGetMipmapLevelClamp cuTexRefGetMipmappedArray cuTexRefSetAddress2D_v3 cuTexRefSetAddressMode
    cuTexRefSetAddress_v2 cuTexRefSetArray cuTexRefSetBorderColor cuTexRefSetFilterMode cuTexRefSetFlags
    cuTexRefSetFormat cuTexRefSetMaxAnisotropy cuTexRefSetMipmapFilterMode cuTexRefSetMipmapLevelBias
    cuTexRefSetMipmapLevelClamp cuTexRefSetMipmappedArray cuWaitExternalSemaphoresAsync
}

//! The driver itself: its start, its version, its errors, and where its functions are.

use super::{entry_point, entry_points};
use crate::driver::start;
use crate::pointers::{Out, Text};
use crate::status::{CuResult, CudaError};
use std::ffi::{c_char, c_int, c_uint, c_void};

/// The version that the driver says it is: CUDA 13.0.
const VERSION: c_int = 13000;

/// Functions whose versions came with a release: the release, and what the name then has behind it. Others have one
/// version, the newest that there is.
const VERSIONS: &[(&str, &[(c_int, &str)])] = &[
    ("cuCtxCreate", &[(3020, "_v2"), (11040, "_v3"), (12050, "_v4")]),
    ("cuCtxGetDevice", &[(2000, ""), (13000, "_v2")]),
    ("cuCtxSynchronize", &[(2000, ""), (13000, "_v2")]),
    ("cuDeviceGetUuid", &[(9020, ""), (11040, "_v2")]),
    ("cuEventElapsedTime", &[(2000, ""), (12080, "_v2")]),
    ("cuGetProcAddress", &[(11030, ""), (12000, "_v2")]),
    ("cuGraphAddDependencies", &[(10000, ""), (12030, "_v2")]),
    ("cuGraphAddKernelNode", &[(10000, ""), (12000, "_v2")]),
    ("cuGraphAddNode", &[(12020, ""), (12030, "_v2")]),
    ("cuGraphExecKernelNodeSetParams", &[(10010, ""), (12000, "_v2")]),
    ("cuGraphExecUpdate", &[(10020, ""), (12000, "_v2")]),
    ("cuGraphGetEdges", &[(10000, ""), (12030, "_v2")]),
    ("cuGraphInstantiate", &[(11000, "_v2"), (12000, "WithFlags")]),
    ("cuGraphKernelNodeGetParams", &[(10000, ""), (12000, "_v2")]),
    ("cuGraphKernelNodeSetParams", &[(10000, ""), (12000, "_v2")]),
    ("cuGraphNodeGetDependencies", &[(10000, ""), (12030, "_v2")]),
    ("cuGraphNodeGetDependentNodes", &[(10000, ""), (12030, "_v2")]),
    ("cuGraphRemoveDependencies", &[(10000, ""), (12030, "_v2")]),
    ("cuMemAdvise", &[(8000, ""), (12020, "_v2")]),
    ("cuMemPrefetchAsync", &[(8000, ""), (12020, "_v2")]),
    ("cuStreamGetCaptureInfo", &[(10010, ""), (11030, "_v2"), (12030, "_v3")]),
    ("cuStreamGetCtx", &[(9020, ""), (12050, "_v2")]),
    ("cuStreamUpdateCaptureDependencies", &[(11030, ""), (12030, "_v2")]),
];

/// Finds the entry point of a name for programs that were compiled for a version of CUDA. Names that end in a version, as
/// headers have them, are taken as they are.
fn find(name: &str, cuda_version: c_int, flags: u64) -> Option<super::EntryAddress> {
    const PER_THREAD_DEFAULT_STREAM: u64 = 2;
    let plain = name.strip_suffix("_ptsz").or_else(|| name.strip_suffix("_ptds")).unwrap_or(name);
    let entry = find_version(plain, cuda_version)?;
    let of_thread = entry.of_thread.filter(|_| flags & PER_THREAD_DEFAULT_STREAM != 0 || plain != name);
    Some(of_thread.map_or(entry.address, |(_, address)| address))
}

fn find_version(plain: &str, cuda_version: c_int) -> Option<super::EntryPoint> {
    if let Some((_, versions)) = VERSIONS.iter().find(|(known, _)| *known == plain) {
        let (_, suffix) = versions.iter().rev().find(|(since, _)| *since <= cuda_version)?;
        return entry_point(&format!("{plain}{suffix}"));
    }
    let newest = (2..=4).rev().find_map(|version| entry_point(&format!("{plain}_v{version}")));
    newest.or_else(|| entry_point(plain))
}

fn look_up(
    name: Text,
    function: Out<*const ()>,
    (cuda_version, flags): (c_int, u64),
    status: Out<c_int>,
) -> Result<(), CudaError> {
    const FOUND: c_int = 0;
    const NOT_FOUND: c_int = 1;
    let found = find(&name.get()?, cuda_version, flags);
    status.set_if_wanted(if found.is_some() { FOUND } else { NOT_FOUND });
    function.set(found.map_or(std::ptr::null(), |entry| entry.0))?;
    match found {
        None if status.is_null() => Err(CudaError::NOT_FOUND),
        _ => Ok(()),
    }
}

entry_points! { SYSTEM:
    fn cuInit(flags: c_uint) [] {
        if flags != 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        start();
        Ok(())
    }

    fn cuDriverGetVersion(version: Out<c_int>) [] {
        version.set(VERSION)
    }

    fn cuGetErrorName(error: CuResult, name: Out<*const c_char>) [] {
        let found = CudaError::name(error);
        name.set(found.map_or(std::ptr::null(), |name| name.as_ptr()))?;
        found.map(|_| ()).ok_or(CudaError::INVALID_VALUE)
    }

    fn cuGetErrorString(error: CuResult, text: Out<*const c_char>) [] {
        let found = CudaError::meaning(error);
        text.set(found.map_or(std::ptr::null(), |text| text.as_ptr()))?;
        found.map(|_| ()).ok_or(CudaError::INVALID_VALUE)
    }

    fn cuGetProcAddress(name: Text, function: Out<*const ()>, cuda_version: c_int, flags: u64) [] {
        look_up(name, function, (cuda_version, flags), NO_STATUS)
    }

    fn cuGetProcAddress_v2(
        name: Text,
        function: Out<*const ()>,
        cuda_version: c_int,
        flags: u64,
        status: Out<c_int>,
    ) [] {
        look_up(name, function, (cuda_version, flags), status)
    }

    fn cuProfilerStart() [_driver] {
        Ok(())
    }

    fn cuProfilerStop() [_driver] {
        Ok(())
    }

    fn cuGetExportTable(table: Out<*const c_void>, id: crate::pointers::In<[u8; 16]>) [driver] {
        let id = id.get()?;
        table.set_if_wanted(std::ptr::null());
        if id == OF_CUDA_RUNTIME {
            driver.journal.tell(
                "NVIDIA's CUDA run time (libcudart), which is part of this program or of a library that it loads, looks for \
                 tables inside of NVIDIA's driver. This driver has none, so that the run time's functions fail; those of the \
                 driver, cu..., work",
            );
        }
        // As NVIDIA's driver answers a table that it does not know.
        Err(CudaError::NOT_FOUND)
    }
}

/// The table by which NVIDIA's run time loads modules. It asks for it first.
const OF_CUDA_RUNTIME: [u8; 16] =
    [0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4, 0xe7, 0x4a, 0x89, 0x87, 0xd9, 0x39, 0x12, 0xfd, 0x9d, 0xf9];

const NO_STATUS: Out<c_int> = Out::NOWHERE;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_to_the_version_of_the_release() {
        let check = |name: &str, cuda: c_int, expect: Option<&str>| {
            let expect = expect.and_then(entry_point).map(|entry| entry.address.0);
            assert_eq!(find(name, cuda, 0).map(|address| address.0), expect, "{name} {cuda}");
        };
        check("cuMemAlloc", 12000, Some("cuMemAlloc_v2"));
        check("cuMemAlloc_v2", 12000, Some("cuMemAlloc_v2"));
        check("cuGetProcAddress", 11080, Some("cuGetProcAddress"));
        check("cuGetProcAddress", 12080, Some("cuGetProcAddress_v2"));
        check("cuCtxCreate", 12080, Some("cuCtxCreate_v4"));
        check("cuCtxCreate", 10000, Some("cuCtxCreate_v2"));
        check("cuGraphInstantiate", 12000, Some("cuGraphInstantiateWithFlags"));
        check("cuMemPrefetchAsync", 8000, Some("cuMemPrefetchAsync"));
        check("cuNothing", 13000, None);
    }

    #[test]
    fn default_streams_of_threads_have_entry_points_of_their_own() {
        let of_thread = |name: &str| entry_point(name).and_then(|entry| entry.of_thread).unwrap();
        assert_eq!(of_thread("cuLaunchKernel").0, "cuLaunchKernel_ptsz");
        assert_eq!(of_thread("cuMemcpyHtoD_v2").0, "cuMemcpyHtoD_v2_ptds");
        let by_flag = find("cuMemcpyHtoD", 12000, 2).map(|address| address.0);
        assert_eq!(by_flag, Some(of_thread("cuMemcpyHtoD_v2").1.0));
        assert_eq!(
            find("cuLaunchKernel_ptsz", 12000, 0).map(|address| address.0),
            Some(of_thread("cuLaunchKernel").1.0)
        );
        // Those that use no stream have one for all.
        assert!(entry_point("cuCtxGetDevice").unwrap().of_thread.is_none());
        assert_eq!(
            find("cuCtxGetDevice", 2000, 2).map(|address| address.0),
            find("cuCtxGetDevice", 2000, 0).map(|a| a.0)
        );
    }
}

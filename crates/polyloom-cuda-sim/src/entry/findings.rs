//! This module tells tools in the same process what the checks have found. NVIDIA's driver has no such functions.

use super::entry_points;
use crate::pointers::Out;
use crate::status::CudaError;
use std::ffi::{c_char, c_uint};

entry_points! { FINDINGS:
    fn polyloomGpuFindingCount(count: Out<c_uint>) [driver] {
        count.set(driver.journal.findings().len() as c_uint)
    }

    fn polyloomGpuFinding(text: Out<c_char>, room: c_uint, index: c_uint) [driver] {
        let findings = driver.journal.findings();
        text.set_text(findings.get(index as usize).ok_or(CudaError::INVALID_VALUE)?, room as usize)
    }
}

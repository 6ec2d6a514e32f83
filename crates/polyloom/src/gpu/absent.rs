//! What stands for LLVM and NVIDIA's tools in builds that make no PTX: nothing is ever found.

use crate::emit_options::GpuTarget;
use crate::kernel::Kernel;
use polyloom_codegen::{CodegenError, Emitter};
use polyloom_ir::{Arch, PtxVersion};
use std::path::{Path, PathBuf};

const NO_PTX: &str = "this build makes no PTX: it takes the cargo feature `compute`, or the Python package";

pub(super) enum PtxAssembler {}

impl PtxAssembler {
    pub(super) fn find() -> Result<PtxAssembler, &'static str> {
        Err(NO_PTX)
    }

    pub(super) fn path(&self) -> &Path {
        match *self {}
    }
}

pub(super) enum PtxasProgram {}

impl PtxasProgram {
    pub(super) fn find() -> Result<PtxasProgram, &'static str> {
        Err(NO_PTX)
    }

    pub(super) fn log(&self, _: &str, _: Arch) -> Result<String, &'static str> {
        match *self {}
    }

    pub(super) fn version(&self) -> Result<String, &'static str> {
        match *self {}
    }
}

pub(super) enum NvrtcLibrary {}

impl NvrtcLibrary {
    pub(super) fn find() -> Result<NvrtcLibrary, &'static str> {
        Err(NO_PTX)
    }

    pub(super) fn compile(&self, _: &str, _: Arch) -> Result<String, &'static str> {
        match *self {}
    }

    pub(super) fn version(&self) -> Result<String, &'static str> {
        match *self {}
    }
}

pub(super) fn set_package_folders(_: Vec<PathBuf>) {}

pub(super) fn assemble(_: &Kernel, _: &str, _: Arch) -> Result<Vec<u8>, &'static str> {
    Err(NO_PTX)
}

pub(super) fn emitter(_: &GpuTarget, _: PtxVersion) -> Result<Box<dyn Emitter>, CodegenError> {
    Err(CodegenError::new(NO_PTX))
}

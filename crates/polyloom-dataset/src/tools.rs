//! What others have made: NVIDIA's compiler and assembler, and Warp. Columns by them are asked for by name alone, since what
//! is in them depends on what the machine has; NVIDIA's compiler proves rows right besides, where it is installed.

mod syntax;

use crate::generate::DatasetProgram;
use crate::produce::ProduceSettings;
use crate::proof::{ProofLevel, RejectedProof};
use crate::row::Row;
use crate::text::{DeviceColumns, KernelTexts, backward, failed};
use polyloom::{Arch, CodegenError, EmitOptions, Form, Kernel, NvrtcCompiler, PtxasProgram, has_compute};
use std::collections::BTreeMap;
use syntax::SyntaxCheck;

/// Gives Warp's CUDA C++ and C++ of a kernel, by its name and its text; none of one that Warp does not take. It runs the
/// text.
pub type Emit<'a> = dyn Fn(&str, &str) -> Result<Option<[String; 2]>, String> + Sync + 'a;

/// Warp's code generator.
#[derive(Clone, Copy)]
pub struct WarpEmitter<'a> {
    /// Warp's version.
    pub version: &'a str,
    /// Its code of a kernel.
    pub emit: &'a Emit<'a>,
}

/// Describes what makes the columns that are asked for, and what proves rows right beside the compiler's own engines.
pub(crate) struct ColumnTools<'a> {
    nvrtc: Option<NvrtcCompiler>,
    proof: Option<CudaProof>,
    ptxas: Option<PtxasProgram>,
    emitter: Option<WarpEmitter<'a>>,
}

/// A compiler that shows that a row's CUDA C++ is valid.
enum CudaProof {
    /// NVRTC, of this version, compiles it.
    Nvrtc(NvrtcCompiler, String),
    /// A compiler without CUDA checks it.
    Syntax(SyntaxCheck),
}

/// The name of NVRTC in rows.
const NVRTC_NAME: &str = "nvrtc";

/// Columns by each tool.
const NVRTC: [&str; 2] = ["nvrtc_ptx_forward", "nvrtc_ptx_backward"];
const PTXAS: [&str; 2] = ["ptxas_forward", "ptxas_backward"];
pub(crate) const WARP: [&str; 2] = ["warp_cuda", "warp_cpp"];

/// PTX that every assembler takes.
const NOTHING: &str = ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry nothing() { ret; }\n";

/// Holds what the version of Warp is called among those of tools.
pub(crate) const WARP_VERSION: &str = "warp";

/// Returns true if columns are asked for that Warp makes.
pub fn wants_warp(columns: &[String]) -> bool {
    wants(columns, &WARP)
}

fn wants(columns: &[String], names: &[&str]) -> bool {
    columns.iter().any(|column| names.contains(&column.as_str()))
}

/// Columns that a build without PTX lacks.
const BY_LLVM: [&str; 3] = ["ptx_forward", "ptx_backward", "llvm_ir_forward"];

/// Refuses what a build that makes no PTX cannot do.
fn refuse_without_ptx(level: ProofLevel, texts: &KernelTexts, has_compute: bool) -> Result<(), String> {
    if has_compute {
        return Ok(());
    }
    let columns: Vec<&str> = BY_LLVM.into_iter().filter(|column| texts.wants(column)).collect();
    let less = match (level, columns.is_empty()) {
        (ProofLevel::Full, true) => "at most the level `grad`".to_owned(),
        (ProofLevel::Full, false) => format!("at most the level `grad`, and columns without {}", columns.join(", ")),
        (_, false) => format!("columns without {}", columns.join(", ")),
        (_, true) => return Ok(()),
    };
    Err(format!("this build makes no PTX: ask for {less}; or take the cargo feature `compute`, or the Python package"))
}

impl<'a> ColumnTools<'a> {
    /// The tools for these settings; `may_prove` says whether NVRTC may prove rows right if it is there.
    ///
    /// # Errors
    ///
    /// What columns need that the machine lacks, or that does not know the architecture.
    pub(crate) fn find(
        settings: &ProduceSettings,
        texts: &KernelTexts,
        may_prove: bool,
        emitter: Option<WarpEmitter<'a>>,
    ) -> Result<ColumnTools<'a>, String> {
        refuse_without_ptx(settings.verify, texts, has_compute())?;
        let columns = &settings.columns;
        let (nvrtc, ptxas) = (wants(columns, &NVRTC), wants(columns, &PTXAS));
        if (nvrtc || ptxas) && texts.device == DeviceColumns::Cpu {
            return Err("NVIDIA's tools are for the device `cuda`, or `both`".to_owned());
        }
        let nvrtc = if nvrtc { Some(NvrtcCompiler::find().map_err(|error| error.to_string())?) } else { None };
        if let Some(nvrtc) = &nvrtc {
            nvrtc.compile("", texts.arch).map_err(|error| error.to_string())?;
        }
        let ptxas = if ptxas { Some(PtxasProgram::find().map_err(|error| error.to_string())?) } else { None };
        if let Some(ptxas) = &ptxas {
            ptxas.log(NOTHING, texts.arch).map_err(|error| error.to_string())?;
        }
        let proves = may_prove && settings.verify >= ProofLevel::Full && texts.device != DeviceColumns::Cpu;
        let nvrtc_proof = || {
            let nvrtc = NvrtcCompiler::find().ok().filter(|nvrtc| nvrtc.compile("", texts.arch).is_ok())?;
            let version = nvrtc.version().ok()?;
            Some(CudaProof::Nvrtc(nvrtc, version))
        };
        let proof = || nvrtc_proof().or_else(|| SyntaxCheck::find().map(CudaProof::Syntax));
        Ok(ColumnTools { nvrtc, proof: proves.then(proof).flatten(), ptxas, emitter })
    }

    /// The version of NVRTC, if it proves rows right.
    pub(crate) fn nvrtc_version(&self) -> Option<&str> {
        match &self.proof {
            Some(CudaProof::Nvrtc(_, version)) => Some(version),
            _ => None,
        }
    }

    /// Returns the name of the compiler that checks the CUDA C++ of rows.
    pub(crate) fn cuda_compiler(&self) -> Option<&'static str> {
        match self.proof.as_ref()? {
            CudaProof::Nvrtc(..) => Some(NVRTC_NAME),
            CudaProof::Syntax(check) => Some(check.name()),
        }
    }

    /// Returns true if rows may name this compiler.
    pub(crate) fn is_cuda_compiler(name: &str) -> bool {
        [NVRTC_NAME, SyntaxCheck::Clang.name(), SyntaxCheck::Gcc.name()].contains(&name)
    }

    /// Has NVRTC, or what else there is, compile the kernel's CUDA C++, forward and backward, if it has not done so for the
    /// row's columns.
    ///
    /// # Errors
    ///
    /// If it does not take what the compiler has written.
    pub(crate) fn prove(&self, kernel: &Kernel, row: &Row, arch: Arch) -> Result<(), Box<RejectedProof>> {
        let Some(proof) = &self.proof else { return Ok(()) };
        let compile = |kernel: &Kernel, done: &Option<String>| -> Result<(), Box<RejectedProof>> {
            match proof {
                CudaProof::Nvrtc(..) if done.is_some() => Ok(()),
                CudaProof::Nvrtc(nvrtc, _) => {
                    let text = kernel.emit_text(Form::Cuda, &EmitOptions::default()).map_err(failed)?;
                    nvrtc.compile(&text, arch).map_err(failed).map(drop)
                }
                CudaProof::Syntax(check) => {
                    check.check(&kernel.emit_text(Form::Cuda, &EmitOptions::default()).map_err(failed)?).map_err(failed)
                }
            }
        };
        compile(kernel, &row.nvrtc_ptx_forward)?;
        match backward(kernel)? {
            Some(backward) => compile(&backward.kernel, &row.nvrtc_ptx_backward),
            None => Ok(()),
        }
    }

    /// Returns true if Warp is among them.
    pub(crate) fn has_warp(&self) -> bool {
        self.emitter.is_some()
    }

    /// Their versions, by name.
    ///
    /// # Errors
    ///
    /// If one does not say its version.
    pub(crate) fn versions(&self) -> Result<BTreeMap<String, String>, String> {
        let nvrtc = self.nvrtc.as_ref().map(|nvrtc| ("nvrtc", nvrtc.version()));
        let ptxas = self.ptxas.as_ref().map(|ptxas| ("ptxas", ptxas.version()));
        let named = |(name, version): (&str, Result<String, CodegenError>)| match version {
            Ok(version) => Ok((name.to_owned(), version)),
            Err(error) => Err(error.to_string()),
        };
        let warp = self.emitter.map(|emitter| (WARP_VERSION, Ok(emitter.version.to_owned())));
        nvrtc.into_iter().chain(ptxas).chain(warp).map(named).collect()
    }

    /// Fills the columns of a row that has all others.
    ///
    /// # Errors
    ///
    /// If a tool does not take what is in the row.
    pub(crate) fn fill(&self, row: &mut Row, program: &DatasetProgram, arch: Arch) -> Result<(), Box<RejectedProof>> {
        self.fill_nvidia(row, arch)?;
        self.fill_warp(row, program)
    }

    /// Fills those of NVIDIA's tools.
    ///
    /// # Errors
    ///
    /// As [`ColumnTools::fill`].
    pub(crate) fn fill_nvidia(&self, row: &mut Row, arch: Arch) -> Result<(), Box<RejectedProof>> {
        if let Some(nvrtc) = &self.nvrtc {
            let compile = |text: &Option<String>| text.as_ref().map(|text| nvrtc.compile(text, arch)).transpose();
            row.nvrtc_ptx_forward = compile(&row.cuda_forward).map_err(failed)?;
            row.nvrtc_ptx_backward = compile(&row.cuda_backward).map_err(failed)?;
        }
        if let Some(ptxas) = &self.ptxas {
            let assemble = |ptx: &Option<String>| ptx.as_ref().map(|ptx| ptxas.log(ptx, arch)).transpose();
            row.ptxas_forward = assemble(&row.ptx_forward).map_err(failed)?;
            row.ptxas_backward = assemble(&row.ptx_backward).map_err(failed)?;
        }
        Ok(())
    }

    /// Fills those of Warp, which runs the program's text.
    ///
    /// # Errors
    ///
    /// As [`ColumnTools::fill`].
    pub(crate) fn fill_warp(&self, row: &mut Row, program: &DatasetProgram) -> Result<(), Box<RejectedProof>> {
        if let Some(WarpEmitter { emit, .. }) = self.emitter
            && let Some([cuda, cpp]) = emit(&program.name, &program.source).map_err(failed)?
        {
            (row.warp_cuda, row.warp_cpp) = (Some(cuda), Some(cpp));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_without_ptx_says_what_it_lacks() {
        let texts = |columns: &[&str]| KernelTexts {
            device: DeviceColumns::Both,
            arch: Arch::DEFAULT,
            columns: columns.iter().map(|&column| column.to_owned()).collect(),
        };
        let said = |level, columns: &[&str]| refuse_without_ptx(level, &texts(columns), false);
        assert_eq!(said(ProofLevel::Grad, &["id", "cuda_forward"]), Ok(()));
        for (level, columns, wanted) in [
            (ProofLevel::Full, &["id"][..], "ask for at most the level `grad`;"),
            (ProofLevel::Grad, &["ptx_forward", "llvm_ir_forward"], "columns without ptx_forward, llvm_ir_forward;"),
            (ProofLevel::Full, &["ptxas_backward"], "the level `grad`, and columns without ptx_backward;"),
        ] {
            assert!(said(level, columns).is_err_and(|error| error.contains(wanted)), "{level} {columns:?}");
            assert_eq!(refuse_without_ptx(level, &texts(columns), true), Ok(()));
        }
    }
}

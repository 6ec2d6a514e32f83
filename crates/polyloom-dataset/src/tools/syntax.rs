//! CUDA C++ through a compiler that has no CUDA: clang or g++ parses it, instantiates its templates and resolves its
//! calls, with declarations of what NVRTC knows by itself.

use std::io::Write as _;
use std::process::{Command, Stdio};

/// Declarations that precede a text.
const DECLARATIONS: &str = include_str!("cuda_declarations.h");

/// A compiler that checks texts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SyntaxCheck {
    /// clang, which knows CUDA's attributes and the assembly of GPUs.
    Clang,
    /// g++, for which the attributes are nothing.
    Gcc,
}

impl SyntaxCheck {
    /// The first compiler on PATH that takes the declarations.
    pub(crate) fn find() -> Option<SyntaxCheck> {
        [SyntaxCheck::Clang, SyntaxCheck::Gcc].into_iter().find(|check| check.check("").is_ok())
    }

    /// The command, which is what rows call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            SyntaxCheck::Clang => "clang++",
            SyntaxCheck::Gcc => "g++",
        }
    }

    /// Checks a text.
    ///
    /// # Errors
    ///
    /// The first errors of the compiler, or that it cannot be run.
    pub(crate) fn check(self, text: &str) -> Result<(), String> {
        let language: &[&str] = match self {
            SyntaxCheck::Clang => {
                &["-x", "cuda", "--cuda-device-only", "--cuda-gpu-arch=sm_75", "-nocudainc", "-nocudalib"]
            }
            SyntaxCheck::Gcc => &["-x", "c++"],
        };
        let name = self.name();
        let mut command = Command::new(name);
        command.args(language).args(["-std=c++17", "-fsyntax-only", "-w", "-"]);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut running = command.spawn().map_err(|error| format!("{name} does not start: {error}"))?;
        let whole = format!("{DECLARATIONS}\n#line 1 \"kernel.cu\"\n{text}");
        if let Some(mut input) = running.stdin.take() {
            // An error is no failure, because a compiler that has seen enough does not read the rest.
            let _ = input.write_all(whole.as_bytes());
        }
        let done = running.wait_with_output().map_err(|error| format!("{name} does not end: {error}"))?;
        if done.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&done.stderr);
        let first: Vec<&str> = said.lines().filter(|line| line.contains("error")).take(3).collect();
        Err(format!("{name} does not take the CUDA C++: {}", first.join("; ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compiler_takes_what_is_right_and_no_more() {
        const KERNEL: &str = "extern \"C\" __global__ void k(float *x) {\n    __shared__ float t[32];\n    \
                              t[threadIdx.x] = __fmul_rn(x[threadIdx.x], 2.0f);\n    __syncthreads();\n    \
                              atomicAdd(&x[0], __shfl_sync(0xffffffffu, t[0], 3));\n}\n";
        for check in [SyntaxCheck::Clang, SyntaxCheck::Gcc] {
            if check.check("").is_err() {
                eprintln!("{} is not there", check.name());
                continue;
            }
            assert_eq!(check.check(KERNEL), Ok(()));
            for (wrong, word) in [("__syncthreads()", "__syncthread()"), ("2.0f", "noise_2"), ("t[32]", "x[32]")] {
                let error = check.check(&KERNEL.replace(wrong, word)).expect_err(word);
                assert!(error.contains("kernel.cu:") && error.contains("error"), "{error}");
            }
        }
    }
}

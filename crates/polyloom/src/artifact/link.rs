//! Shared libraries: linked by the system's C compiler, or one for the platform.

use super::ArtifactError;
use std::path::Path;
use std::process::Command;

/// Links a static library, all of it, into a shared one. `triple` is LLVM's name of the platform, if it is not this
/// machine's: the compiler is called as the platform's packages call it, `aarch64-linux-gnu-gcc`.
///
/// The variable `CC` names another compiler.
///
/// # Errors
///
/// When there is none, or it fails.
pub(super) fn link_shared(archive: &Path, shared: &Path, triple: Option<&str>) -> Result<(), ArtifactError> {
    let candidates = match (std::env::var("CC"), triple) {
        (Ok(named), _) if !named.is_empty() => vec![named],
        (_, Some(triple)) => {
            let platform = triple.replace("-unknown-", "-").replace("-pc-", "-");
            vec![format!("{platform}-gcc"), format!("{platform}-clang")]
        }
        (_, None) => vec!["cc".to_owned(), "gcc".to_owned(), "clang".to_owned()],
    };
    let soname = shared.file_name().unwrap_or_default().to_string_lossy().into_owned();
    for compiler in &candidates {
        let made = Command::new(compiler)
            .args(["-shared", "-o"])
            .arg(shared)
            .arg("-Wl,--whole-archive")
            .arg(archive)
            .arg("-Wl,--no-whole-archive")
            .arg(format!("-Wl,-soname,{soname}"))
            .args(["-Wl,--gc-sections", "-lm"])
            .output();
        match made {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(ArtifactError::Linker { compiler: compiler.clone(), message: error.to_string() }),
            Ok(output) if output.status.success() => return Ok(()),
            Ok(output) => {
                let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
                return Err(ArtifactError::Linker { compiler: compiler.clone(), message });
            }
        }
    }
    Err(ArtifactError::NoLinker { tried: candidates.join(", ") })
}

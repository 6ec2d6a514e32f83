//! NVIDIA's assembler, which the development environment has (PyPI: nvidia-cuda-nvcc).

use std::path::{Path, PathBuf};
use std::process::Command;

/// ptxas of the virtual environment in use or of the repository's, or on PATH. Without one a test is skipped, or fails
/// if `POLYLOOM_REQUIRE_PTXAS` is 1.
pub(crate) fn ptxas() -> Option<PathBuf> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.venv-test");
    let environments = std::env::var_os("VIRTUAL_ENV").map(PathBuf::from).into_iter().chain([own]);
    let folders = environments.flat_map(|path| std::fs::read_dir(path.join("lib")).into_iter().flatten().flatten());
    let packages = folders.map(|python| python.path().join("site-packages/nvidia/cu13/bin/ptxas"));
    let works = |path: &PathBuf| Command::new(path).arg("--version").output().is_ok_and(|done| done.status.success());
    let found = packages.chain([PathBuf::from("ptxas")]).find(works);
    if found.is_none() {
        let required = std::env::var("POLYLOOM_REQUIRE_PTXAS").is_ok_and(|value| value == "1");
        assert!(!required, "POLYLOOM_REQUIRE_PTXAS is 1, and there is no ptxas (PyPI: nvidia-cuda-nvcc)");
        eprintln!("skipped: there is no ptxas (PyPI: nvidia-cuda-nvcc)");
    }
    found
}

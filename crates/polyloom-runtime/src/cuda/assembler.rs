//! PTX assembled for one GPU: a cubin.
//!
//! NVIDIA's assembler comes as a program, `ptxas`, and in a library, `libnvJitLink`. Tool kits have both, and so have
//! packages of Python (`nvidia-cuda-nvcc`, `nvidia-nvjitlink`). No driver and no GPU is needed for either.

use super::nvjitlink;
use crate::cache::CodeCache;
use polyloom_ir::Arch;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{PoisonError, RwLock};

/// Why there is no cubin.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AssembleError {
    /// No assembler is on this machine.
    #[error(
        "no assembler for PTX was found: looked for {}. `pip install nvidia-cuda-nvcc` brings one, as does a CUDA tool \
         kit", .looked.join("; ")
    )]
    NotFound {
        /// Holds what was looked for, and where.
        looked: Vec<String>,
    },
    /// The assembler does not run.
    #[error("{} does not run: {reason}", .assembler.display())]
    Broken {
        /// The place where it is.
        assembler: PathBuf,
        /// Holds what happened.
        reason: String,
    },
    /// The assembler does not take the code.
    #[error("{} does not take the code for {arch}: {log}", .assembler.display())]
    Rejected {
        /// The place where it is.
        assembler: PathBuf,
        /// For which architecture.
        arch: Arch,
        /// Holds what it says.
        log: String,
    },
}

/// An assembler for PTX that this machine has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PtxAssembler {
    /// The program `ptxas`.
    Program(PathBuf),
    /// The library `libnvJitLink`.
    Library(PathBuf),
}

/// The place where Python keeps its packages, as far as somebody has said.
static PACKAGE_FOLDERS: RwLock<Vec<PathBuf>> = RwLock::new(Vec::new());

/// Says in which folders Python's packages are, NVIDIA's among them. Those of an active environment are known anyway.
pub fn set_package_folders(folders: Vec<PathBuf>) {
    *PACKAGE_FOLDERS.write().unwrap_or_else(PoisonError::into_inner) = folders;
}

/// Says where NVIDIA's programs and libraries may be.
#[derive(Default, Debug)]
pub(super) struct ToolkitPlaces {
    /// Folders of programs.
    programs: Vec<PathBuf>,
    /// CUDA tool kits.
    toolkits: Vec<PathBuf>,
    /// Folders of Python packages.
    packages: Vec<PathBuf>,
}

impl ToolkitPlaces {
    /// Those of this machine and this process's environment.
    pub(super) fn of_environment() -> ToolkitPlaces {
        let mut places = ToolkitPlaces::of_variables(|name| std::env::var_os(name));
        places.packages.splice(0..0, PACKAGE_FOLDERS.read().unwrap_or_else(PoisonError::into_inner).iter().cloned());
        places
    }

    fn of_variables(variable: impl Fn(&str) -> Option<OsString>) -> ToolkitPlaces {
        let folder = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        // Otherwise an empty part would be the folder the process happens to be in, whose files nobody has chosen to
        // run.
        let is_named = |folder: &PathBuf| !folder.as_os_str().is_empty();
        let programs =
            variable("PATH").map_or_else(Vec::new, |path| std::env::split_paths(&path).filter(is_named).collect());
        let toolkits = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(folder);
        let environments = ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(folder);
        ToolkitPlaces {
            programs,
            toolkits: toolkits.chain([PathBuf::from("/usr/local/cuda")]).collect(),
            packages: environments.flat_map(|environment| package_folders(&environment)).collect(),
        }
    }

    /// The first of the programs and, if there is none, of the libraries.
    fn find(&self) -> Result<PtxAssembler, AssembleError> {
        let packages = || self.packages.iter().flat_map(|folder| entries(&folder.join("nvidia")));
        let in_folders = self.programs.iter().map(|folder| folder.join(PROGRAM));
        let in_toolkits = self.toolkits.iter().map(|folder| folder.join("bin").join(PROGRAM));
        let in_packages = packages().map(|folder| folder.join("bin").join(PROGRAM));
        if let Some(found) = in_folders.chain(in_toolkits).chain(in_packages).find(|path| is_program(path)) {
            return Ok(PtxAssembler::Program(found));
        }
        if let Some(found) = self.libraries(&nvjitlink::NAMES).find(|path| nvjitlink::can_load(path)) {
            return Ok(PtxAssembler::Library(found));
        }
        Err(AssembleError::NotFound { looked: self.describe() })
    }

    /// Returns where a library with one of these names is or, where the system keeps libraries, may be.
    pub(super) fn libraries<'a>(&self, names: &'a [&str]) -> impl Iterator<Item = PathBuf> + use<'a> {
        let packages = self.packages.iter().flat_map(|folder| entries(&folder.join("nvidia")));
        let roots: Vec<PathBuf> = self.toolkits.iter().cloned().chain(packages).collect();
        let folders = roots.into_iter().flat_map(|root| ["lib64", "lib", "bin"].map(|folder| root.join(folder)));
        let candidates = folders.flat_map(move |folder| names.iter().map(move |name| folder.join(name)));
        candidates.filter(|path| path.is_file()).chain(names.iter().map(PathBuf::from))
    }

    fn describe(&self) -> Vec<String> {
        let mut looked = vec![format!("the program {PROGRAM} on PATH")];
        looked.extend(self.describe_libraries(&format!("{PROGRAM} and libnvJitLink")));
        looked
    }

    /// Returns where something is looked for beside `PATH`.
    pub(super) fn describe_libraries(&self, what: &str) -> [String; 2] {
        [
            format!("{what} in the CUDA tool kits {}", listed(&self.toolkits)),
            format!("the same in NVIDIA's packages for Python in {}", listed(&self.packages)),
        ]
    }
}

fn listed(folders: &[PathBuf]) -> String {
    let folders: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
    if folders.is_empty() { "none".to_owned() } else { folders.join(", ") }
}

#[cfg(windows)]
const PROGRAM: &str = "ptxas.exe";
#[cfg(not(windows))]
const PROGRAM: &str = "ptxas";

/// The folders of packages of a Python environment.
pub(super) fn package_folders(environment: &Path) -> Vec<PathBuf> {
    let in_versions = entries(&environment.join("lib")).into_iter().map(|version| version.join("site-packages"));
    in_versions.chain([environment.join("Lib").join("site-packages")]).filter(|folder| folder.is_dir()).collect()
}

/// Returns what a folder holds, in the order of names; nothing if there is no such folder.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> =
        std::fs::read_dir(folder).map_or_else(|_| Vec::new(), |all| all.flatten().map(|entry| entry.path()).collect());
    found.sort();
    found
}

#[cfg(unix)]
fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_program(path: &Path) -> bool {
    path.is_file()
}

impl PtxAssembler {
    /// The first that is found, since `ptxas` on `PATH`, in a CUDA tool kit (`CUDA_HOME`, `CUDA_PATH`,
    /// `/usr/local/cuda`) or in NVIDIA's packages for Python, then `libnvJitLink` in the same places.
    ///
    /// # Errors
    ///
    /// [`AssembleError::NotFound`].
    pub fn find() -> Result<PtxAssembler, AssembleError> {
        ToolkitPlaces::of_environment().find()
    }

    /// Returns where it is.
    pub fn path(&self) -> &Path {
        match self {
            PtxAssembler::Program(path) | PtxAssembler::Library(path) => path,
        }
    }

    /// Assembles PTX for one architecture.
    ///
    /// # Errors
    ///
    /// [`AssembleError`].
    pub fn assemble(&self, ptx: &str, arch: Arch) -> Result<Vec<u8>, AssembleError> {
        match self {
            PtxAssembler::Program(program) => run(program, ptx, arch),
            PtxAssembler::Library(library) => nvjitlink::assemble(library, ptx, arch),
        }
    }

    /// Returns what tells it from other versions of itself.
    fn fingerprint(&self) -> String {
        let metadata = self.path().metadata().ok();
        let modified = metadata.as_ref().and_then(|found| found.modified().ok());
        format!("{self:?} {:?} {modified:?}", metadata.as_ref().map(std::fs::Metadata::len))
    }
}

fn run(program: &Path, ptx: &str, arch: Arch) -> Result<Vec<u8>, AssembleError> {
    run_with(program, ptx, arch, "--generate-line-info").map(|(cubin, _)| cubin)
}

/// NVIDIA's assembler as a program, for what it says of PTX.
#[derive(Clone, Debug)]
pub struct PtxasProgram {
    program: PathBuf,
}

impl PtxasProgram {
    /// The first that is found, where [`PtxAssembler::find`] looks.
    ///
    /// # Errors
    ///
    /// [`AssembleError::NotFound`]; the library, which says nothing of PTX, does not do for this.
    pub fn find() -> Result<PtxasProgram, AssembleError> {
        let places = ToolkitPlaces::of_environment();
        match places.find()? {
            PtxAssembler::Program(program) => Ok(PtxasProgram { program }),
            PtxAssembler::Library(_) => Err(AssembleError::NotFound { looked: places.describe() }),
        }
    }

    /// Its version, such as `13.0.88`.
    ///
    /// # Errors
    ///
    /// [`AssembleError::Broken`].
    pub fn version(&self) -> Result<String, AssembleError> {
        let broken = |reason: String| AssembleError::Broken { assembler: self.program.clone(), reason };
        let done = Command::new(&self.program).arg("--version").output().map_err(|error| broken(error.to_string()))?;
        let said = String::from_utf8_lossy(&done.stdout);
        // `Cuda compilation tools, release 13.0, V13.0.88`
        let version = said
            .split_whitespace()
            .find_map(|word| word.strip_prefix('V').filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit())));
        version.map(str::to_owned).ok_or_else(|| broken("it does not say its version".to_owned()))
    }

    /// Returns what `ptxas --verbose` says of PTX: registers, memory and spills of each entry.
    ///
    /// # Errors
    ///
    /// [`AssembleError`].
    pub fn log(&self, ptx: &str, arch: Arch) -> Result<String, AssembleError> {
        let (_, log) = run_with(&self.program, ptx, arch, "--verbose")?;
        // The duration is left out, because it is another each time.
        let lines = log.lines().filter(|line| !line.contains("Compile time"));
        let lines = lines.map(|line| line.strip_prefix("ptxas info    : ").unwrap_or(line).trim());
        Ok(lines.collect::<Vec<_>>().join("\n"))
    }
}

/// The cubin, and what the program says.
fn run_with(program: &Path, ptx: &str, arch: Arch, option: &str) -> Result<(Vec<u8>, String), AssembleError> {
    let broken = |reason: String| AssembleError::Broken { assembler: program.to_owned(), reason };
    let folder = tempfile::tempdir().map_err(|error| broken(format!("no folder for its files: {error}")))?;
    let (source, target) = (folder.path().join("kernel.ptx"), folder.path().join("kernel.cubin"));
    std::fs::write(&source, ptx).map_err(|error| broken(format!("cannot write {}: {error}", source.display())))?;
    let mut command = Command::new(program);
    command.arg(format!("--gpu-name={arch}")).arg(option).arg(&source).arg("--output-file").arg(&target);
    let done = command.output().map_err(|error| broken(error.to_string()))?;
    let said = [done.stderr, done.stdout].concat();
    let log = String::from_utf8_lossy(&said).trim().replace(&source.display().to_string(), "the code");
    if !done.status.success() {
        return Err(AssembleError::Rejected { assembler: program.to_owned(), arch, log });
    }
    let cubin = std::fs::read(&target).map_err(|error| broken(format!("it wrote no cubin: {error}")))?;
    Ok((cubin, log))
}

/// PTX assembled by whatever assembler there is, kept in the code cache.
///
/// # Errors
///
/// [`AssembleError`].
pub fn cubin(cache: &CodeCache, ptx: &str, arch: Arch) -> Result<Vec<u8>, AssembleError> {
    let assembler = PtxAssembler::find()?;
    let key = ["cubin", &assembler.fingerprint(), &arch.to_string(), ptx];
    cache.artefact(&key, || assembler.assemble(ptx, arch))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: &str = ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry nothing() { ret; }\n";

    fn arch(name: &str) -> Arch {
        name.parse().unwrap()
    }

    /// A file that counts as a program.
    fn program(path: &Path, text: &str) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
    }

    #[test]
    fn programs_are_found_in_the_order_that_is_promised() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        let places = ToolkitPlaces {
            programs: vec![at("programs")],
            toolkits: vec![at("toolkit")],
            packages: vec![at("site-packages")],
        };
        let paths = ["site-packages/nvidia/cu13/bin", "toolkit/bin", "programs"];
        for path in paths.map(|path| at(path).join(PROGRAM)) {
            program(&path, "");
            assert_eq!(places.find(), Ok(PtxAssembler::Program(path)));
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_does_not_run_is_no_program() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(PROGRAM), "").unwrap();
        let places = ToolkitPlaces { programs: vec![folder.path().to_owned()], ..ToolkitPlaces::default() };
        assert!(!matches!(places.find(), Ok(PtxAssembler::Program(_))));
    }

    #[test]
    fn the_environment_names_the_places() {
        let folder = tempfile::tempdir().unwrap();
        let packages = folder.path().join("lib/python3.12/site-packages");
        std::fs::create_dir_all(&packages).unwrap();
        let places = ToolkitPlaces::of_variables(|name| match name {
            "PATH" => Some("/a::/b:".into()),
            "CUDA_PATH" => Some("/opt/cuda".into()),
            "VIRTUAL_ENV" => Some(folder.path().into()),
            _ => None,
        });
        assert_eq!(places.programs, [PathBuf::from("/a"), PathBuf::from("/b")]);
        assert_eq!(places.toolkits, [PathBuf::from("/opt/cuda"), PathBuf::from("/usr/local/cuda")]);
        assert_eq!(places.packages, [packages]);
    }

    #[test]
    fn what_was_looked_for_is_said() {
        let error = AssembleError::NotFound {
            looked: ToolkitPlaces { toolkits: vec!["/opt/cuda".into()], ..ToolkitPlaces::default() }.describe(),
        };
        let message = error.to_string();
        for part in ["ptxas on PATH", "/opt/cuda", "libnvJitLink", "Python in none", "pip install nvidia-cuda-nvcc"] {
            assert!(message.contains(part), "{message}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn what_the_program_says_is_passed_on() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(PROGRAM);
        program(&path, "#!/bin/sh\necho \"$1 fatal: no such thing\" >&2\nexit 3\n");
        let error = PtxAssembler::Program(path.clone()).assemble(NOTHING, arch("sm_80")).unwrap_err();
        let log = "--gpu-name=sm_80 fatal: no such thing".to_owned();
        assert_eq!(error, AssembleError::Rejected { assembler: path.clone(), arch: arch("sm_80"), log });
        program(&path, "#!/bin/sh\nexit 0\n");
        let error = PtxAssembler::Program(path).assemble(NOTHING, arch("sm_80")).unwrap_err();
        assert!(error.to_string().contains("it wrote no cubin"), "{error}");
    }

    /// Where the machine has NVIDIA's own.
    #[test]
    fn code_is_assembled_and_nonsense_refused() {
        let assembler = match PtxAssembler::find() {
            Ok(assembler) => assembler,
            Err(error) => return super::super::without_tool(&error.to_string()),
        };
        let made = assembler.assemble(NOTHING, arch("sm_80")).unwrap();
        assert_eq!(&made[..4], b"\x7fELF");
        if matches!(assembler, PtxAssembler::Program(_)) {
            let ptxas = PtxasProgram::find().unwrap();
            let version = ptxas.version().unwrap();
            assert!(version.split('.').count() == 3 && version.split('.').all(|part| part.parse::<u32>().is_ok()));
            let log = ptxas.log(NOTHING, arch("sm_80")).unwrap();
            assert!(log.contains("Compiling entry function 'nothing' for 'sm_80'"), "{log}");
            assert!(log.contains("registers") && !log.contains("Compile time"), "{log}");
        }
        let error = assembler.assemble(&NOTHING.replace("ret", "rte"), arch("sm_80")).unwrap_err();
        assert!(matches!(&error, AssembleError::Rejected { log, .. } if log.contains("rte")), "{error}");
        let cache = CodeCache::in_memory();
        assert_eq!(cubin(&cache, NOTHING, arch("sm_80")), Ok(made.clone()));
        assert_eq!(cubin(&cache, NOTHING, arch("sm_80")), Ok(made));
    }
}

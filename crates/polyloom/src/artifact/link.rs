//! Shared libraries: linked by the system's C compiler, or one for the platform.

use super::ArtifactError;
use std::path::Path;
use std::process::Command;

/// A C compiler as a command: a program and what comes before other arguments.
#[derive(Clone, PartialEq, Eq, Debug)]
struct CompilerCommand {
    /// The command as it was written.
    text: String,
    words: Vec<String>,
}

impl CompilerCommand {
    /// A command as `make` takes it from a variable: words between spaces, such as `ccache gcc`. None if there are none.
    fn of(text: &str) -> Option<CompilerCommand> {
        let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        (!words.is_empty()).then(|| CompilerCommand { text: text.trim().to_owned(), words })
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]);
        command
    }

    /// True if the compiler says that it compiles for a platform, by LLVM's name of it.
    fn is_for(&self, triple: &str) -> bool {
        let Ok(output) = self.command().arg("-dumpmachine").output() else { return false };
        let machine = String::from_utf8_lossy(&output.stdout);
        output.status.success() && platform(machine.trim()) == platform(triple)
    }
}

/// A platform without its vendor, which compilers leave out or fill in as they like: `aarch64-linux-gnu`.
fn platform(triple: &str) -> String {
    let parts: Vec<&str> = triple.split('-').collect();
    match parts[..] {
        [machine, _, ref system @ ..] if system.len() == 2 => format!("{machine}-{}", system.join("-")),
        _ => triple.to_owned(),
    }
}

/// The compilers to try, the one that suits best first, by what variables of the environment hold. For a platform that is
/// named, `CC_aarch64_unknown_linux_gnu` says which; `CC` counts if it compiles for that platform, because programs that
/// build for several have it name the host's.
fn candidates(triple: Option<&str>, variable: impl Fn(&str) -> Option<String>) -> Vec<CompilerCommand> {
    let named = |name: &str| variable(name).as_deref().and_then(CompilerCommand::of);
    let Some(triple) = triple else {
        let named = named("CC");
        return match named {
            Some(compiler) => vec![compiler],
            None => ["cc", "gcc", "clang"].into_iter().filter_map(CompilerCommand::of).collect(),
        };
    };
    if let Some(compiler) = named(&format!("CC_{}", triple.replace('-', "_"))) {
        return vec![compiler];
    }
    if let Some(compiler) = named("CC").filter(|compiler| compiler.is_for(triple)) {
        return vec![compiler];
    }
    let platform = platform(triple);
    let of_platform = [format!("{platform}-gcc"), format!("{platform}-clang")];
    let mut found: Vec<CompilerCommand> = of_platform.iter().filter_map(|name| CompilerCommand::of(name)).collect();
    found.extend(CompilerCommand::of("cc").filter(|compiler| compiler.is_for(triple)));
    found
}

/// Links a static library, all of it, into a shared one. `triple` is LLVM's name of the platform, if one is named: the
/// compiler is called as the platform's packages call it, `aarch64-linux-gnu-gcc`.
///
/// The variable `CC` names another compiler, with its first arguments if need be.
///
/// # Errors
///
/// When there is none, or it fails.
pub(super) fn link_shared(archive: &Path, shared: &Path, triple: Option<&str>) -> Result<(), ArtifactError> {
    let candidates = candidates(triple, |name| std::env::var(name).ok());
    let soname = shared.file_name().unwrap_or_default().to_string_lossy().into_owned();
    for compiler in &candidates {
        let made = compiler
            .command()
            .args(["-shared", "-o"])
            .arg(shared)
            .arg("-Wl,--whole-archive")
            .arg(archive)
            .arg("-Wl,--no-whole-archive")
            .arg(format!("-Wl,-soname,{soname}"))
            .args(["-Wl,--gc-sections", "-lm"])
            .output();
        let compiler = compiler.text.clone();
        match made {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(ArtifactError::Linker { compiler, message: error.to_string() }),
            Ok(output) if output.status.success() => return Ok(()),
            Ok(output) => {
                let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
                return Err(ArtifactError::Linker { compiler, message });
            }
        }
    }
    let tried: Vec<String> = candidates.into_iter().map(|compiler| compiler.text).collect();
    Err(ArtifactError::NoLinker { tried: tried.join(", ") })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tried(triple: Option<&str>, variables: &[(&str, &str)]) -> Vec<String> {
        let value = |name: &str| Some(variables.iter().find(|(known, _)| *known == name)?.1.to_owned());
        candidates(triple, value).into_iter().map(|compiler| compiler.text).collect()
    }

    #[test]
    fn platforms_are_known_without_their_vendors() {
        for name in ["aarch64-unknown-linux-gnu", "aarch64-linux-gnu", "aarch64-pc-linux-gnu"] {
            assert_eq!(platform(name), "aarch64-linux-gnu");
        }
        assert_eq!(platform("x86_64-alpine-linux-musl"), "x86_64-linux-musl");
    }

    #[test]
    fn a_variable_has_words_as_make_takes_them() {
        let command = CompilerCommand::of(" ccache  gcc -m64 ").expect("there are words");
        assert_eq!(command.words, ["ccache", "gcc", "-m64"]);
        assert_eq!(CompilerCommand::of("  "), None);
    }

    #[test]
    fn the_compiler_of_the_host_links_nothing_for_other_platforms() {
        assert_eq!(tried(None, &[]), ["cc", "gcc", "clang"]);
        assert_eq!(tried(None, &[("CC", "ccache gcc")]), ["ccache gcc"]);
        let other = if cfg!(target_arch = "aarch64") { "x86_64" } else { "aarch64" };
        let triple = format!("{other}-unknown-linux-gnu");
        let of_platform = [format!("{other}-linux-gnu-gcc"), format!("{other}-linux-gnu-clang")];
        // `cc` says that it is for this machine, or is not there and says nothing.
        assert_eq!(tried(Some(&triple), &[("CC", "cc")]), of_platform);
        let variable = format!("CC_{other}_unknown_linux_gnu");
        assert_eq!(tried(Some(&triple), &[("CC", "cc"), (&variable, "zig cc")]), ["zig cc"]);
    }
}

//! Warp's code generator, which is Python, in a process of its own.

use super::python;
use serde::{Deserialize, Serialize};
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, PoisonError};

/// `python -m polyloom._synth_warp`, which answers each line by one.
pub(super) struct WarpProcess {
    version: String,
    pipes: Mutex<(ChildStdin, BufReader<ChildStdout>)>,
    child: Child,
}

#[derive(Serialize)]
struct WarpRequest<'a> {
    name: &'a str,
    source: &'a str,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WarpAnswer {
    version: Option<String>,
    texts: Option<[String; 2]>,
    error: Option<String>,
}

impl WarpProcess {
    /// Starts it, or says why that cannot be.
    pub(super) fn start() -> Result<WarpProcess, String> {
        let python = python();
        let mut command = Command::new(&python);
        command.args(["-m", "polyloom._synth_warp"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let failed = |what: &str| format!("{}: {what}", python.display());
        let mut child = command.spawn().map_err(|error| failed(&error.to_string()))?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(failed("it has no pipes"));
        };
        let mut warp =
            WarpProcess { version: String::new(), pipes: Mutex::new((input, BufReader::new(output))), child };
        let first = warp.answer(None).map_err(|_| failed("the package `polyloom` cannot be imported there"))?;
        match (first.version, first.error) {
            (Some(version), _) => warp.version = version,
            (None, error) => return Err(error.unwrap_or_default()),
        }
        Ok(warp)
    }

    pub(super) fn version(&self) -> &str {
        &self.version
    }

    /// Warp's CUDA C++ and C++ of a kernel, if Warp takes it.
    pub(super) fn emit(&self, name: &str, source: &str) -> Result<Option<[String; 2]>, String> {
        let answer = self.answer(Some(&WarpRequest { name, source }))?;
        match answer.error {
            None => Ok(answer.texts),
            Some(error) => Err(error),
        }
    }

    fn answer(&self, request: Option<&WarpRequest<'_>>) -> Result<WarpAnswer, String> {
        let mut pipes = self.pipes.lock().unwrap_or_else(PoisonError::into_inner);
        let (input, output) = &mut *pipes;
        let mut line = String::new();
        if let Some(request) = request {
            let text = serde_json::to_string(request).map_err(|error| error.to_string())?;
            writeln!(input, "{text}").and_then(|()| input.flush()).map_err(|error| error.to_string())?;
        }
        output.read_line(&mut line).map_err(|error| error.to_string())?;
        serde_json::from_str(&line).map_err(|error| format!("Warp's process gives no answer: {error}"))
    }
}

impl Drop for WarpProcess {
    fn drop(&mut self) {
        // The process is not asked to end first, because nothing is lost with it.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

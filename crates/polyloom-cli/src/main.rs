//! The `polyloom` command.

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    ExitCode::from(u8::try_from(polyloom_cli::run(std::env::args_os().skip(1).collect())).unwrap_or(1))
}

//! The `polyloom` command.
fn main() {}

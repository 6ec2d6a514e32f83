//! Making a failing program small: statements are taken out as long as it still fails.

use super::program::RandomProgram;

/// A smaller program for which `fails` still holds, as far as taking out lines, and lines with the blocks under them,
/// goes. `fails` is not asked more than `attempts` times.
pub fn shrink(
    program: &RandomProgram,
    attempts: usize,
    mut fails: impl FnMut(&RandomProgram) -> bool,
) -> RandomProgram {
    let mut best = program.clone();
    let mut left = attempts;
    loop {
        let lines: Vec<String> = best.text.lines().map(str::to_owned).collect();
        let mut smaller = None;
        for start in (0..lines.len()).rev() {
            for end in [block_end(&lines, start), start + 1] {
                if end == start + 1 && is_loop_guard(&lines[start]) {
                    continue;
                }
                if left == 0 {
                    return best;
                }
                left -= 1;
                let mut text: Vec<&str> = lines[..start].iter().map(String::as_str).collect();
                text.extend(lines[end..].iter().map(String::as_str));
                let candidate = RandomProgram { text: text.join("\n") + "\n", ..best.clone() };
                if fails(&candidate) {
                    smaller = Some(candidate);
                    break;
                }
            }
            if smaller.is_some() {
                break;
            }
        }
        match smaller {
            Some(candidate) => best = candidate,
            None => return best,
        }
    }
}

/// Returns true if this line is what makes a `while` loop end: without it the program would run for ever.
fn is_loop_guard(line: &str) -> bool {
    line.trim_start().starts_with('w') && line.ends_with("+= 1")
}

/// One past the last line of the block that the line at `start` opens.
fn block_end(lines: &[String], start: usize) -> usize {
    let indent = |line: &String| line.len() - line.trim_start().len();
    let own = indent(&lines[start]);
    let inner = lines[start + 1..].iter().take_while(|line| !line.is_empty() && indent(line) > own);
    start + 1 + inner.count()
}

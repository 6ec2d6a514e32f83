//! How difficult a kernel is: what it is meant to be while it is written, and what it has become.

use super::generator::KernelGenerator;
use polyloom::Random;

/// The most lines of a kernel with its functions.
const LONGEST: usize = 80;

/// The lines from which on a kernel is of the highest difficulty.
const HIGHEST: usize = 40;

/// Lines to write for a difficulty.
pub(super) fn goal(random: &mut Random, difficulty: u8) -> usize {
    match difficulty {
        0 => 2 + random.below(2),
        1 => 4 + random.below(4),
        2 => 8 + random.below(6),
        3 => 15 + random.below(10),
        _ => 41 + random.below(14),
    }
}

/// The difficulty of lines of code, by their number and how deep they are nested; none if there are too many.
pub(super) fn of_lines<'a>(lines: impl Iterator<Item = &'a str>) -> Option<u8> {
    let (mut n_lines, mut deepest) = (0, 0);
    for line in lines {
        let code = line.trim_start();
        if code.is_empty() || code.starts_with('#') {
            continue;
        }
        n_lines += 1;
        deepest = deepest.max((line.len() - code.len()) / 4);
    }
    let effort = n_lines + 2 * deepest.saturating_sub(1);
    Some(match effort {
        _ if n_lines > LONGEST => return None,
        _ if n_lines >= HIGHEST => 4,
        0..=3 => 0,
        4..=9 => 1,
        10..=19 => 2,
        _ => 3,
    })
}

impl KernelGenerator {
    /// Lines of the kernel to be written for a difficulty.
    pub(super) fn goal(&mut self, difficulty: u8) -> usize {
        goal(&mut self.random, difficulty)
    }

    /// Statements until there are so many lines: in difficult kernels branches and loops among them.
    pub(super) fn fill(&mut self, goal: usize, difficulty: u8) {
        let depth = 1 + usize::from(difficulty > 1);
        for _ in 0..LONGEST {
            if self.n_lines() >= goal {
                break;
            }
            match self.random.below(if difficulty > 3 { 8 } else { 12 }) {
                0 if difficulty > 2 => {
                    self.gap();
                    self.branch(usize::from(difficulty > 3));
                }
                1 if difficulty > 2 => {
                    self.gap();
                    self.any_loop(usize::from(difficulty > 3));
                }
                2 if difficulty > 2 => {
                    self.gap();
                    self.statements(1, depth);
                }
                _ => self.statements(1, depth),
            }
        }
    }

    /// Statements that use these variables alone, until there are so many lines.
    pub(super) fn work_until(&mut self, seen: &mut Vec<usize>, goal: usize, depth: usize) {
        for _ in 0..LONGEST {
            if self.n_lines() >= goal {
                break;
            }
            if self.random.one_in(5) {
                self.gap();
            }
            self.work(seen, 1, depth);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn difficulty_is_length_and_nesting() {
        let check = |n_lines: usize, line: &str, expected: Option<u8>| {
            assert_eq!(of_lines(std::iter::repeat_n(line, n_lines)), expected, "{n_lines} of `{line}`");
        };
        check(2, "    a", Some(0));
        check(9, "    a", Some(1));
        check(9, "        a", Some(2));
        check(39, "            a", Some(3));
        check(40, "    a", Some(4));
        check(81, "    a", None);
        check(90, "    # a", Some(0));
    }
}

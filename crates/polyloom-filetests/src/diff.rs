//! A line diff for failure messages.

const CONTEXT: usize = 3;

/// The lines of `old` and `new` from a little before the first difference to a little after the last; lines only in
/// `old` are marked `-`, lines only in `new` are marked `+`.
pub(crate) fn diff(old: &str, new: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let n_same_start = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let rest = old.len().min(new.len()) - n_same_start;
    let n_same_end = old.iter().rev().zip(new.iter().rev()).take(rest).take_while(|(a, b)| a == b).count();
    let (old_middle, new_middle) =
        (&old[n_same_start..old.len() - n_same_end], &new[n_same_start..new.len() - n_same_end]);
    let mut lines: Vec<String> = Vec::new();
    lines.extend(old[n_same_start.saturating_sub(CONTEXT)..n_same_start].iter().map(|line| format!("  {line}")));
    middle(old_middle, new_middle, &mut lines);
    let tail = &old[old.len() - n_same_end..];
    lines.extend(tail.iter().take(CONTEXT).map(|line| format!("  {line}")));
    if lines.iter().all(|line| line.starts_with(' ')) {
        lines.push("  (only the end of the last line differs)".to_owned());
    }
    lines.join("\n") + "\n"
}

/// The parts that differ, aligned by their longest common subsequence unless they are huge.
fn middle(old: &[&str], new: &[&str], lines: &mut Vec<String>) {
    if old.len() * new.len() > 4_000_000 {
        lines.extend(old.iter().map(|line| format!("- {line}")));
        lines.extend(new.iter().map(|line| format!("+ {line}")));
        return;
    }
    // common[i][j]: length of the longest common subsequence of old[i..] and new[j..].
    let mut common = vec![vec![0u32; new.len() + 1]; old.len() + 1];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            common[i][j] =
                if old[i] == new[j] { common[i + 1][j + 1] + 1 } else { common[i + 1][j].max(common[i][j + 1]) };
        }
    }
    let (mut i, mut j) = (0, 0);
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            lines.push(format!("  {}", old[i]));
            (i, j) = (i + 1, j + 1);
        } else if i < old.len() && (j == new.len() || common[i + 1][j] >= common[i][j + 1]) {
            lines.push(format!("- {}", old[i]));
            i += 1;
        } else {
            lines.push(format!("+ {}", new[j]));
            j += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::diff;

    #[test]
    fn changed_lines_stand_in_their_context() {
        assert_eq!(
            diff("a\nb\nc\nd\ne\nf\ng\nh\n", "a\nb\nc\nd\nx\nf\ny\ng\nh\n"),
            "  b\n  c\n  d\n- e\n+ x\n  f\n+ y\n  g\n  h\n"
        );
        assert_eq!(diff("a\n", ""), "- a\n");
        assert_eq!(diff("", "a\n"), "+ a\n");
        assert_eq!(diff("a", "a\n"), "  a\n  (only the end of the last line differs)\n");
    }
}

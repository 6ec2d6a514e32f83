//! Which names a sentence mentions, introduces and changes.

use smallvec::SmallVec;

/// Describes what a sentence says of which names.
pub(in crate::generate) struct NameMentions<'a> {
    /// The names of the code in backticks, in order, each with whether it may be new there.
    names: SmallVec<[(&'a str, bool); 12]>,
    /// Those that stand alone and are said to be something.
    pub(super) introduced: SmallVec<[&'a str; 4]>,
    /// Those that the kernel changes.
    pub(super) changed: SmallVec<[&'a str; 4]>,
    /// Those that start as something.
    pub(super) started: SmallVec<[&'a str; 2]>,
    /// True if it is about a function, and not about the kernel.
    pub(super) is_of_function: bool,
    /// True if it says what a field of a struct becomes.
    pub(super) is_field_update: bool,
}

impl<'a> NameMentions<'a> {
    pub(in crate::generate) fn of(sentence: &'a str) -> NameMentions<'a> {
        let is_of_function = is_of_function(sentence);
        let mut mentions = NameMentions {
            names: SmallVec::new(),
            introduced: SmallVec::new(),
            changed: SmallVec::new(),
            started: SmallVec::new(),
            is_of_function,
            is_field_update: is_field_update(sentence),
        };
        if !is_of_function {
            mentions.changed.extend(changed(sentence));
        }
        let mut last_end = 0;
        let mut lists = false;
        for (at, span) in spans(sentence) {
            let lead = &sentence[last_end..at - 1];
            let end = at + span.len() + 1;
            let rest = &sentence[end..];
            last_end = end;
            lists = introduces(lead, rest) || lists && matches!(lead, ", " | " and ");
            for name in names_of(span) {
                mentions.names.push((name, lists && (name == span || span.ends_with(')'))));
            }
            let is_alone = names_of(span).next() == Some(span);
            if lists && is_alone {
                mentions.introduced.push(span);
            }
            if rest.starts_with(" starts as ") {
                mentions.started.push(span);
            } else if lists && is_alone {
                // What it is in the end is said, too.
                mentions.started.retain(|name| *name != span);
            }
        }
        mentions
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &'a str> {
        self.names.iter().map(|(name, _)| *name)
    }

    /// The names that it says something new of.
    pub(super) fn defined(&self) -> impl Iterator<Item = &'a str> {
        let names: &[&'a str] = if self.is_of_function { &[] } else { &self.introduced };
        self.changed.iter().chain(names).copied()
    }
}

/// The names that a docstring may use.
pub(in crate::generate) struct KnownNames<'a>(Vec<&'a str>);

impl<'a> KnownNames<'a> {
    pub(in crate::generate) fn new(names: impl Iterator<Item = &'a str>) -> KnownNames<'a> {
        KnownNames(names.collect())
    }

    /// Returns true if a sentence uses names alone that are known, or that it introduces, which are known from there
    /// on.
    pub(in crate::generate) fn take_in(&mut self, sentence: &NameMentions<'a>) -> bool {
        let before = self.0.len();
        for &(name, is_introduced) in &sentence.names {
            if self.0.contains(&name) {
                continue;
            }
            if !is_introduced {
                self.0.truncate(before);
                return false;
            }
            self.0.push(name);
        }
        // A kernel does not know the names inside a function.
        if sentence.is_of_function {
            self.0.truncate(before);
        }
        true
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        self.0.contains(&name)
    }

    pub(super) fn add(&mut self, name: &'a str) {
        if !self.contains(name) {
            self.0.push(name);
        }
    }
}

/// Returns true if a sentence is about a function, and not about the kernel.
fn is_of_function(sentence: &str) -> bool {
    let inner = sentence.strip_prefix("In `").or_else(|| sentence.strip_prefix('`'));
    let call = inner.and_then(|rest| rest.split_once('`'));
    call.is_some_and(|(call, rest)| call.ends_with(')') && (rest.starts_with(", ") || rest.starts_with(" gives ")))
}

/// Returns true if a sentence says what a field of a struct becomes, or is.
fn is_field_update(sentence: &str) -> bool {
    let field = sentence.strip_prefix('`').and_then(|rest| rest.split_once('`'));
    let says = |rest: &str| [" becomes ", " is "].iter().any(|verb| rest.starts_with(verb));
    field.is_some_and(|(field, rest)| field.contains('.') && !field.contains([' ', '(']) && says(rest))
}

/// The names that a sentence about the kernel changes.
fn changed(sentence: &str) -> impl Iterator<Item = &str> {
    const BEFORE: [&str; 8] = [" to ", "ake ", "ultiply ", "aise ", "ower ", "ount in ", "Divide ", " from "];
    const AFTER: [&str; 10] = [
        " becomes ",
        " becomes, ",
        " grows by ",
        " falls by ",
        " is multiplied ",
        " counts ",
        " approaches ",
        " changes at ",
        " its place",
        " the last of them",
    ];
    spans(sentence).filter_map(move |(at, span)| {
        let (lead, rest) = (&sentence[..at - 1], &sentence[at + span.len() + 1..]);
        // A value that is changed on its way to another place stays what it is.
        let is_copied = lead.ends_with("ach element of ") && rest.contains(", in `");
        let keeps = lead.ends_with(" as ") && sentence.contains("eep ");
        let clause = lead.rsplit([';', ':']).next().unwrap_or(lead);
        let adds =
            clause.ends_with(" to ") && clause.contains("dd ") || clause.ends_with(" from ") && clause.contains("ake ");
        let is_changed = AFTER.iter().any(|word| rest.starts_with(word))
            || BEFORE[1..7].iter().any(|word| lead.ends_with(word))
            || adds
            || keeps;
        (is_changed && !is_copied && names_of(span).next() == Some(span)).then_some(span)
    })
}

/// Returns true if a name between these is said to be something.
fn introduces(lead: &str, rest: &str) -> bool {
    const ANYWHERE: [&str; 2] = [" starts as ", " being "];
    const AFTER: [&str; 7] = [" is ", " are ", " starts ", " adds up ", " counts ", " gives ", " keeps "];
    const BEFORE: [&str; 7] =
        ["et ", "or each ", "ach element ", "In ", "the mean ", "the coordinates ", "Inside the grid "];
    if BEFORE.iter().any(|word| lead.ends_with(word)) || ANYWHERE.iter().any(|word| rest.starts_with(word)) {
        return true;
    }
    if lead.ends_with(", where ") && [" is a row ", " is their "].iter().any(|what| rest.starts_with(what)) {
        return true;
    }
    let begins = lead.is_empty() || [". ", "; ", ": ", ", ", "(", "lsewhere "].iter().any(|end| lead.ends_with(end));
    let lists = [", `", " and `"].iter().any(|next| rest.starts_with(next)) && rest.contains("` are ");
    begins && (lists || AFTER.iter().any(|word| rest.starts_with(word)))
}

/// Returns what stands in backticks, and where.
pub(super) fn spans(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    text.split('`').enumerate().filter_map(move |(number, part)| {
        let start = at;
        at += part.len() + 1;
        (number % 2 == 1).then_some((start, part))
    })
}

/// The names in code that are no functions, fields or keywords.
pub(super) fn names_of(code: &str) -> impl Iterator<Item = &str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    let mut rest = code;
    std::iter::from_fn(move || {
        loop {
            let start = rest.find(is_part)?;
            let word = &rest[start..];
            let end = word.find(|c| !is_part(c)).unwrap_or(word.len());
            let (word, after) = word.split_at(end);
            let closes = rest[..start].ends_with([')', ']']);
            rest = after;
            let is_keyword = matches!(word, "and" | "or" | "not" | "if" | "else" | "True" | "False");
            let is_keyword = is_keyword || word.starts_with("atomic_");
            let begins = word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
            if begins && !closes && !is_keyword && !after.starts_with('(') {
                return word.split('.').next();
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_to_be_introduced() {
        let check = |sentences: &[&str]| {
            let mut known = KnownNames::new(["x", "gain"].into_iter());
            sentences.iter().map(|sentence| known.take_in(&NameMentions::of(sentence))).collect::<Vec<bool>>()
        };
        assert_eq!(check(&["`out` is the sum of `x` and `gain`."]), [true]);
        assert_eq!(check(&["Let `a` be `x * gain`.", "`out` is the sine of `a + x.y`."]), [true, true]);
        assert_eq!(check(&["`out` is the sine of `a`.", "`b` is `x[i, j]`."]), [false, false]);
        assert_eq!(check(&["For each `k` below 3: let `s` be `sin(x)`; add `s` to `gain`."]), [true]);
        assert_eq!(check(&["In `ramp(y)`, `m` is `y * y`; the result is `m + y`."]), [true]);
        assert_eq!(check(&["Where `x > 1.0`, `q` becomes `x`."]), [false]);
        assert_eq!(check(&["For each `k` below 3: `q` grows by `x`."]), [false]);
        assert_eq!(check(&["Where `x > 1.0`, `x` becomes 2; elsewhere `r` is `x`, `x` becomes `r`."]), [true]);
    }
}

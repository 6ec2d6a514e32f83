//! Which sentences a docstring keeps: all if they are few, and otherwise what the outputs are and the last steps
//! towards them, with what these start from.

use super::dataflow::NameDataflow;
use super::names::NameMentions;
use super::origins::{computed_from, entering};
use super::{DocSentence, DocSubject, LONG_SENTENCE, LONGEST_ESSENCE, LONGEST_OUTLINE};

/// The most names that an outline leaves to what they are computed from, if there is a choice.
const MOST_OPEN: usize = 6;

/// The sentences that there are.
pub(super) struct SentenceChoice<'a> {
    subject: &'a DocSubject<'a>,
    sentences: &'a [DocSentence],
    mentions: Vec<NameMentions<'a>>,
}

/// A docstring: which sentences it keeps, and what stands before and behind them.
#[derive(Default)]
pub(super) struct ChosenDocstring {
    pub(super) leads: Vec<String>,
    pub(super) told: Vec<bool>,
    pub(super) tails: Vec<String>,
}

impl<'a> SentenceChoice<'a> {
    pub(super) fn new(subject: &'a DocSubject<'a>, sentences: &'a [DocSentence]) -> SentenceChoice<'a> {
        let mentions = sentences.iter().map(|sentence| NameMentions::of(&sentence.text)).collect();
        SentenceChoice { subject, sentences, mentions }
    }

    /// Returns what a kernel says that is one step after the other.
    pub(super) fn of_steps(&self, is_brief: bool) -> ChosenDocstring {
        let told = self.standing(self.without_details(is_brief), &[]);
        if self.describes_all(&told) && self.tells_results(&told) {
            return ChosenDocstring { told, ..ChosenDocstring::default() };
        }
        let essence = self.standing(self.essence(), &[]);
        if self.describes_all(&essence) && self.length(&essence) <= LONGEST_ESSENCE {
            return ChosenDocstring { told: essence, ..ChosenDocstring::default() };
        }
        self.outline()
    }

    /// Returns what a kernel says that is grown from a skeleton, whose first line sums it up: what its result becomes,
    /// and where each input comes in.
    pub(super) fn of_skeleton(&self, first: &'a str, is_brief: bool) -> ChosenDocstring {
        let mut told = self.standing(self.without_details(is_brief), &[]);
        for (told, is_needed) in told.iter_mut().zip(self.essence()) {
            *told |= is_needed;
        }
        let first = NameMentions::of(first);
        let is_said = |told: &[bool], name: &str| {
            first.names().any(|other| other == name)
                || self.those(told, true).any(|(_, mentions)| mentions.names().any(|other| other == name))
        };
        for given in self.subject.inputs {
            let is_about = |at: &usize| self.mentions[*at].names().any(|name| name == given.name);
            let Some(at) = (0..told.len()).find(is_about).filter(|_| !is_said(&told, given.name)) else { continue };
            let mut more = told.clone();
            self.take_with_changes(&mut more, at);
            if self.length(&more) <= LONGEST_ESSENCE {
                told = more;
            }
        }
        let mut known = self.subject.known();
        let mut open: Vec<&str> = Vec::new();
        let counters = self.subject.counters();
        let flow = self.subject.dataflow();
        for (at, is_told) in told.iter_mut().enumerate() {
            let mentions = &self.mentions[at];
            if !*is_told || known.take_in(mentions) {
                continue;
            }
            let is_unknown = |name: &&str| !known.contains(name) && !mentions.introduced.contains(name);
            let unknown: Vec<&str> = mentions.names().filter(is_unknown).collect();
            let DocSentence { text, is_detail, .. } = &self.sentences[at];
            let is_plain = text.starts_with('`') && !text.contains([':', ';']);
            if *is_detail && !(is_plain && unknown.iter().all(|name| !counters.contains(name))) {
                *is_told = false;
                continue;
            }
            if !unknown.iter().all(|name| flow.has_origin(name)) {
                *is_told = false;
                continue;
            }
            for name in unknown {
                if !known.contains(name) {
                    known.add(name);
                    open.push(name);
                }
            }
            known.take_in(mentions);
        }
        let leads = computed_from(self.subject, &flow, &open);
        let is_open = |name: &str| leads.iter().any(|lead| NameMentions::of(lead).names().any(|other| other == name));
        let names = self.subject.inputs.iter().map(|given| given.name);
        let left_out: Vec<&str> = names.filter(|name| !is_said(&told, name) && !is_open(name)).collect();
        let among = self.those(&told, true).flat_map(|(_, mentions)| mentions.introduced.iter().copied());
        let among: Vec<&str> = open.iter().copied().chain(among).chain(self.subject.outputs.iter().copied()).collect();
        let tails = entering(self.subject, &flow, &left_out, &among);
        ChosenDocstring { leads, told, tails }
    }

    /// All but how things are computed, if this is long or comments say it.
    fn without_details(&self, is_brief: bool) -> Vec<bool> {
        let is_kept = |(sentence, mentions): (&DocSentence, &NameMentions<'a>)| {
            let is_long = is_brief && sentence.text.len() > LONG_SENTENCE;
            // A function that is called has to be known.
            mentions.is_of_function || !(sentence.is_detail && (is_brief || sentence.is_comment) || is_long)
        };
        self.sentences.iter().zip(&self.mentions).map(is_kept).collect()
    }

    fn those<'s>(
        &'s self,
        told: &'s [bool],
        wanted: bool,
    ) -> impl Iterator<Item = (&'s DocSentence, &'s NameMentions<'a>)> {
        let all = self.sentences.iter().zip(&self.mentions).zip(told);
        all.filter(move |(_, told)| **told == wanted).map(|(sentence, _)| sentence)
    }

    fn length(&self, told: &[bool]) -> usize {
        self.those(told, true).map(|(sentence, _)| sentence.text.len() + 1).sum()
    }

    /// Returns true if these say what an output is.
    fn describes(&self, told: &[bool], output: &str) -> bool {
        let mut results = self.those(told, true).filter(|(sentence, _)| !sentence.is_detail);
        let is_meant = |text: &str| text.contains(&format!("`{output}`")) || text.contains(&format!("`{output}."));
        results.any(|(sentence, _)| is_meant(&sentence.text))
    }

    /// Returns true if all that the kernel leaves is among these.
    fn tells_results(&self, told: &[bool]) -> bool {
        self.sentences.iter().zip(told).all(|(sentence, told)| *told || sentence.is_detail)
    }

    /// Returns true if these say what each output is.
    pub(super) fn describes_all(&self, told: &[bool]) -> bool {
        match self.subject.outputs {
            [] => self.subject.inputs.iter().any(|given| self.describes(told, given.name)),
            outputs => outputs.iter().all(|output| self.describes(told, output)),
        }
    }

    /// The sentences of these that can stand without the others, if the open names are known.
    ///
    /// A sentence uses names that are introduced, and what it says of a variable holds only where every change of that
    /// variable is told.
    fn standing(&self, mut is_told: Vec<bool>, open: &[&'a str]) -> Vec<bool> {
        loop {
            let mut known = self.subject.known();
            open.iter().for_each(|name| known.add(name));
            let before = is_told.clone();
            for (mentions, is_told) in self.mentions.iter().zip(&mut is_told) {
                *is_told = *is_told && known.take_in(mentions);
            }
            let changed = |wanted: bool| -> Vec<&str> {
                self.those(&is_told, wanted).flat_map(|(_, mentions)| mentions.changed.iter().copied()).collect()
            };
            let (mut told, mut left_out) = (changed(true), changed(false));
            for (_, mentions) in self.those(&is_told, true) {
                told.extend(mentions.introduced.iter().filter(|name| !mentions.started.contains(name)));
            }
            left_out.retain(|name| !open.contains(name));
            let leaves =
                self.those(&is_told, false).any(|(sentence, _)| sentence.text.contains("nothing else is written"));
            let fields = self.those(&is_told, false).any(|(_, mentions)| mentions.is_field_update);
            let mut next = is_told.clone();
            for (mentions, is_told) in self.mentions.iter().zip(&mut next) {
                let is_false =
                    |name: &str| left_out.contains(&name) || mentions.started.contains(&name) && !told.contains(&name);
                let relies = !mentions.is_of_function && mentions.names().any(is_false);
                if relies || leaves || fields && mentions.is_field_update {
                    *is_told = false;
                }
            }
            is_told = next;
            if is_told == before {
                return is_told;
            }
        }
    }

    /// The sentences that say what the outputs are, and what these rely on.
    fn essence(&self) -> Vec<bool> {
        let params = self.subject.known();
        let is_seed =
            |(sentence, mentions): (&DocSentence, &NameMentions<'a>)| !sentence.is_detail || mentions.is_of_function;
        let mut is_told: Vec<bool> = self.sentences.iter().zip(&self.mentions).map(is_seed).collect();
        loop {
            let used: Vec<&str> = self
                .those(&is_told, true)
                .filter(|(_, mentions)| !mentions.is_of_function)
                .flat_map(|(_, mentions)| mentions.names())
                .collect();
            let is_needed = |name: &str| used.contains(&name) && !params.contains(name);
            let next: Vec<bool> = self
                .mentions
                .iter()
                .zip(&is_told)
                .map(|(mentions, told)| *told || !mentions.is_of_function && mentions.defined().any(is_needed))
                .collect();
            if next == is_told {
                return is_told;
            }
            is_told = next;
        }
    }

    /// Takes a sentence with all others that change what it changes.
    fn take_with_changes(&self, told: &mut [bool], at: usize) {
        let mut waiting = vec![at];
        while let Some(at) = waiting.pop() {
            if std::mem::replace(&mut told[at], true) || self.mentions[at].is_of_function {
                continue;
            }
            let params = self.subject.known();
            for name in self.mentions[at].defined().filter(|name| !params.contains(name)) {
                let defines = |other: &usize| !told[*other] && self.mentions[*other].defined().any(|it| it == name);
                waiting.extend((0..told.len()).filter(defines));
            }
        }
    }

    /// Returns what the outputs are and the last steps towards them, with what these start from.
    fn outline(&self) -> ChosenDocstring {
        let is_short = |(sentence, mentions): (&DocSentence, &NameMentions<'a>)| {
            mentions.is_of_function || !sentence.is_detail && sentence.text.len() <= LONGEST_OUTLINE
        };
        let mut told: Vec<bool> = self.sentences.iter().zip(&self.mentions).map(is_short).collect();
        let mut unknown = self.unknown(&told);
        let mut best = (told.clone(), unknown.clone());
        let mut without_room: Vec<&str> = Vec::new();
        loop {
            // The value computed last comes first.
            let open = unknown.iter().filter(|(name, last)| last.is_some() && !without_room.contains(name));
            let Some(&(name, Some(at))) = open.max_by_key(|(_, last)| *last) else { break };
            let mut more = told.clone();
            self.take_with_changes(&mut more, at);
            if self.length(&more) > LONGEST_OUTLINE {
                without_room.push(name);
                continue;
            }
            told = more;
            unknown = self.unknown(&told);
            if unknown.len() <= MOST_OPEN.max(best.1.len()) {
                best = (told.clone(), unknown.clone());
            }
        }
        let flow = self.subject.dataflow();
        let (told, open) = best;
        // Names that a sentence introduces itself need no sentence before it, unless nothing would be left then.
        let is_introduced =
            |name: &&str| self.those(&told, true).any(|(_, mentions)| mentions.introduced.contains(name));
        let open: Vec<&str> = open.into_iter().map(|(name, _)| name).filter(|name| flow.has_origin(name)).collect();
        let strict: Vec<&str> = open.iter().copied().filter(|name| !is_introduced(name)).collect();
        let standing = self.of_use(self.standing(told.clone(), &strict));
        let (told, open) = match self.describes_all(&standing) {
            true => (standing, strict),
            false => (self.of_use(self.standing(told, &open)), open),
        };
        let is_used = |name: &&str| self.those(&told, true).any(|(_, mentions)| mentions.names().any(|it| it == *name));
        // If no sentence is left, the origin says at least what the value depends on.
        let results = self.results(&flow).filter(|name| !self.describes(&told, name));
        let starts: Vec<&str> = open.iter().copied().filter(is_used).chain(results).collect();
        let leads = computed_from(self.subject, &flow, &starts);
        ChosenDocstring { leads, told, ..ChosenDocstring::default() }
    }

    /// Those of these sentences that are about an output, or about what another of them uses.
    fn of_use(&self, mut told: Vec<bool>) -> Vec<bool> {
        loop {
            let is_used = |at: usize| {
                let is_other = |other: &usize| told[*other] && *other != at && !self.mentions[*other].is_of_function;
                let mut used = (0..told.len()).filter(is_other).flat_map(|other| self.mentions[other].names());
                used.any(|name| self.mentions[at].defined().any(|it| it == name))
            };
            let is_step = |at: usize| self.sentences[at].is_detail && !self.mentions[at].is_of_function;
            let is_idle = |at: &usize| told[*at] && is_step(*at) && !is_used(*at);
            let Some(idle) = (0..told.len()).find(is_idle) else { return told };
            told[idle] = false;
        }
    }

    /// Returns what the kernel writes.
    fn results(&self, flow: &NameDataflow<'_>) -> impl Iterator<Item = &'a str> {
        let inputs = self.subject.inputs.iter().map(|given| given.name);
        let changed = inputs.filter(|name| self.subject.outputs.is_empty() && flow.has_origin(name));
        changed.chain(self.subject.outputs.iter().copied())
    }

    /// The names that these sentences use and none introduces, each with the place of its last change.
    fn unknown(&self, told: &[bool]) -> Vec<(&'a str, Option<usize>)> {
        let mut known = self.subject.known();
        let mut unknown: Vec<(&str, Option<usize>)> = Vec::new();
        for (_, mentions) in self.those(told, true).filter(|(_, mentions)| !mentions.is_of_function) {
            if known.take_in(mentions) {
                continue;
            }
            for name in mentions.names().filter(|name| !mentions.introduced.contains(name)) {
                if !known.contains(name) {
                    let defines = |at: &usize| !told[*at] && self.mentions[*at].defined().any(|it| it == name);
                    unknown.push((name, (0..told.len()).rev().find(defines)));
                    known.add(name);
                }
            }
            known.take_in(mentions);
        }
        unknown
    }
}

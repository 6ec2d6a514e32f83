//! The outline of a graph: what its text says of each value, without what the builder would infer and check.

use crate::error::GraphError;
use crate::text::{number_text, split_list};
use polyloom_ir::Scalar;
use rustc_hash::FxHashMap;

/// A graph as far as its text shows it.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct GraphOutline {
    /// The values, each after its operands.
    pub values: Vec<OutlineValue>,
    /// The results, as indices of values.
    pub outputs: Vec<usize>,
}

/// A value of an outline.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct OutlineValue {
    /// Its name in the text, with the percent sign.
    pub name: String,
    /// The op; of an input its name, or its place among the inputs.
    pub op: String,
    /// True of an input.
    pub is_input: bool,
    /// The digits, if it is a constant or a number that is given at each run.
    pub number: Option<String>,
    /// Its tensors, as indices of values.
    pub operands: Vec<usize>,
    /// Attributes and Python numbers, as they are written; bits of floats as digits.
    pub details: Vec<String>,
    /// The type, empty where the text leaves it out.
    pub ty: String,
}

impl GraphOutline {
    /// Reads the text form of a graph, or a canonical text.
    ///
    /// # Errors
    ///
    /// [`GraphError::Syntax`] for what is neither.
    pub fn read(text: &str) -> Result<GraphOutline, GraphError> {
        let mut outline = GraphOutline::default();
        let mut places: FxHashMap<&str, usize> = FxHashMap::default();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with("//") {
                continue;
            }
            let at_line = |reason: &str| GraphError::Syntax { line: index + 1, reason: reason.to_owned() };
            let not_defined = || at_line("a name is used before it is defined");
            if let Some(outputs) = line.strip_prefix("return") {
                let outputs = split_list(outputs).into_iter().map(|name| places.get(name).copied());
                outline.outputs = outputs.collect::<Option<_>>().ok_or_else(not_defined)?;
                return Ok(outline);
            }
            let split = line.split_once(" = ").filter(|(name, _)| name.starts_with('%'));
            let (name, definition) = split.ok_or_else(|| at_line("a line reads `%name = op … : type`"))?;
            let value = read_value(name, definition, &places).ok_or_else(not_defined)?;
            if places.insert(name, outline.values.len()).is_some() {
                return Err(at_line("a name is defined twice"));
            }
            outline.values.push(value);
        }
        Err(GraphError::Syntax { line: text.lines().count(), reason: "there is no `return`".to_owned() })
    }

    /// Returns the ops with how often each is there, in the order in which they come first.
    pub fn op_counts(&self) -> Vec<(&str, usize)> {
        let mut counts: Vec<(&str, usize)> = Vec::new();
        let mut places: FxHashMap<&str, usize> = FxHashMap::default();
        for value in self.values.iter().filter(|value| !value.is_input && value.number.is_none()) {
            let place = *places.entry(&value.op).or_insert_with(|| {
                counts.push((&value.op, 0));
                counts.len() - 1
            });
            counts[place].1 += 1;
        }
        counts
    }

    /// Says in a sentence what graph it is, for those who do not see the picture.
    pub fn summary(&self) -> String {
        let n_inputs = self.values.iter().filter(|value| value.is_input).count();
        let ops: Vec<String> = self.op_counts().into_iter().map(|(op, n)| format!("{n} {op}")).collect();
        let plural = |n: usize, word: &str| format!("{n} {word}{}", if n == 1 { "" } else { "s" });
        format!(
            "A graph of {}, {}, {}",
            plural(n_inputs, "input"),
            ops.join(", "),
            plural(self.outputs.len(), "result")
        )
    }

    /// Returns the line of a value as it is written, with digits for bits.
    pub fn line(&self, index: usize) -> String {
        let value = &self.values[index];
        let operands = value.operands.iter().map(|&operand| self.values[operand].name.clone());
        let arguments: Vec<String> = operands.chain(value.details.iter().cloned()).collect();
        let separator = if arguments.is_empty() { "" } else { " " };
        format!("{} = {}{separator}{} : {}", value.name, value.op, arguments.join(", "), value.ty)
    }
}

fn read_value(name: &str, definition: &str, places: &FxHashMap<&str, usize>) -> Option<OutlineValue> {
    let (definition, ty) = definition.rsplit_once(" : ").unwrap_or((definition, ""));
    let (word, arguments) = definition.split_once(' ').unwrap_or((definition, ""));
    let dtype = ty.split('[').next().and_then(Scalar::from_name);
    let mut value = OutlineValue { name: name.to_owned(), ty: ty.to_owned(), ..OutlineValue::default() };
    match word {
        "input" => {
            let quoted = arguments.trim().strip_prefix('"').and_then(|text| text.strip_suffix('"'));
            value.op = quoted.map_or_else(|| format!("input {}", arguments.trim()), str::to_owned);
            value.is_input = true;
        }
        "constant" | "real" => {
            let text = arguments.trim();
            value.number = Some(if word == "real" { real_digits(text, dtype) } else { digits(text, dtype) });
            value.op = word.to_owned();
        }
        "number" => {
            value.number = Some(format!("number {}", arguments.trim()));
            value.op = word.to_owned();
        }
        _ => {
            value.op = word.to_owned();
            for argument in split_list(arguments) {
                match argument.split_once('=') {
                    _ if argument.starts_with('%') => value.operands.push(*places.get(argument)?),
                    // Canonical texts have the bits of floats.
                    Some((attribute, bits)) if bits.starts_with("0x") => {
                        value.details.push(format!("{attribute}={}", digits(bits, Some(Scalar::F64))));
                    }
                    _ => value.details.push(argument.to_owned()),
                }
            }
        }
    }
    Some(value)
}

/// Returns the digits of a number that is written as bits; other texts stay.
fn digits(text: &str, dtype: Option<Scalar>) -> String {
    let bits = text.strip_prefix("0x").and_then(|hexadecimal| u64::from_str_radix(hexadecimal, 16).ok());
    match (bits, dtype) {
        // The shortest digits of the narrow type are what somebody has written.
        (Some(bits), Some(Scalar::F32)) => {
            u32::try_from(bits).map_or_else(|_| text.to_owned(), |bits| format!("{:?}", f32::from_bits(bits)))
        }
        (Some(bits), Some(dtype)) => number_text(dtype, bits),
        _ => text.to_owned(),
    }
}

/// Returns the digits of a number of `float64` that stands for one of another type.
fn real_digits(text: &str, dtype: Option<Scalar>) -> String {
    let bits = text.strip_prefix("0x").and_then(|hexadecimal| u64::from_str_radix(hexadecimal, 16).ok());
    match bits.map(|bits| f64::from_bits(bits) as f32) {
        Some(narrow) if dtype == Some(Scalar::F32) && bits == Some(f64::from(narrow).to_bits()) => {
            format!("{narrow:?}")
        }
        _ => digits(text, Some(Scalar::F64)),
    }
}

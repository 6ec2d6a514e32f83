//! Equations of `einsum`. Shape rules, decompositions and costs read them.

/// An equation of `einsum`: a label, which is a number, for each axis of the operands and of the result.
pub(crate) struct Equation {
    pub(crate) operands: Vec<Vec<i64>>,
    pub(crate) result: Vec<i64>,
}

impl Equation {
    /// Reads an equation. Without `->`, the result has the labels that occur once, in the order of the alphabet.
    pub(crate) fn parse(text: &str) -> Result<Equation, String> {
        let text: String = text.chars().filter(|letter| !letter.is_whitespace()).collect();
        let (operands, result) = text.split_once("->").map_or((&*text, None), |(left, right)| (left, Some(right)));
        let labels = |part: &str| -> Result<Vec<i64>, String> {
            let label = |letter: char| match letter {
                'a'..='z' | 'A'..='Z' => Ok(i64::from(letter as u32)),
                _ => Err(format!("has `{letter}`, which is no letter")),
            };
            part.chars().map(label).collect()
        };
        let operands: Vec<Vec<i64>> = operands.split(',').map(labels).collect::<Result<_, _>>()?;
        let letter = |label: i64| char::from_u32(label as u32).unwrap_or('?');
        for own in &operands {
            if let Some(twice) = own.iter().find(|label| own.iter().filter(|other| other == label).count() > 1) {
                return Err(format!("has `{}` twice in one operand, and diagonals are not taken", letter(*twice)));
            }
        }
        let count = |label: &i64| operands.iter().flatten().filter(|other| *other == label).count();
        let result = match result {
            Some(part) => labels(part)?,
            None => {
                let mut once: Vec<i64> = operands.iter().flatten().copied().filter(|label| count(label) == 1).collect();
                once.sort_unstable();
                once
            }
        };
        for label in &result {
            if count(label) == 0 {
                return Err(format!("has `{}` in the result, which no operand has", letter(*label)));
            }
            if result.iter().filter(|other| *other == label).count() > 1 {
                return Err(format!("has `{}` twice in the result", letter(*label)));
            }
        }
        Ok(Equation { operands, result })
    }
}

//! Samples of a measurement: their summary, and the compact form that the database keeps.
//!
//! Times are whole picoseconds, because batches are divided by their counts, and integers are the same in every
//! dialect and on every machine.

use serde::{Deserialize, Serialize};

/// The first byte of the compact form.
const FORM: u8 = 1;
/// Bytes of the checksum at the end of the compact form.
const CHECKSUM_BYTES: usize = 4;
/// A sample further than so many scaled median absolute deviations from the median is an outlier. It stays a sample.
const OUTLIER_DEVIATIONS: f64 = 5.0;
/// A median absolute deviation times this estimates the standard deviation of normal noise.
pub(crate) const DEVIATION_SCALE: f64 = 1.4826;

/// Summarises the samples of a measurement, in picoseconds.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct SampleSummary {
    /// Counts the samples.
    pub n_samples: u64,
    /// The shortest.
    pub min: u64,
    /// A twentieth of the samples is shorter.
    pub p05: u64,
    /// The median; of an even number of samples the lower middle one, so that it is a sample.
    pub median: u64,
    /// A twentieth of the samples is longer.
    pub p95: u64,
    /// The longest.
    pub max: u64,
    /// The mean, rounded down.
    pub mean: u64,
    /// The median distance from the median.
    pub mad: u64,
    /// Counts the samples that are far from the median for the spread.
    pub n_outliers: u64,
}

impl SampleSummary {
    /// Summarises samples; none if there are none.
    ///
    /// ```
    /// use polyloom_store::SampleSummary;
    ///
    /// let summary = SampleSummary::of(&[10, 12, 11, 90, 11]).unwrap();
    /// assert_eq!((summary.median, summary.mad, summary.n_outliers), (11, 1, 1));
    /// ```
    pub fn of(samples: &[u64]) -> Option<SampleSummary> {
        let mut sorted = samples.to_vec();
        sorted.sort_unstable();
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        let median = middle(&sorted);
        let mut distances: Vec<u64> = sorted.iter().map(|sample| sample.abs_diff(median)).collect();
        distances.sort_unstable();
        let mad = middle(&distances);
        let limit = OUTLIER_DEVIATIONS * DEVIATION_SCALE * mad as f64;
        let n_outliers = distances.iter().filter(|distance| **distance as f64 > limit && limit > 0.0).count() as u64;
        let sum: u128 = sorted.iter().map(|sample| u128::from(*sample)).sum();
        let n = sorted.len();
        Some(SampleSummary {
            n_samples: n as u64,
            min,
            p05: sorted[(n - 1) / 20],
            median,
            p95: sorted[n - 1 - (n - 1) / 20],
            max,
            // The mean of 64-bit integers is one.
            mean: (sum / n as u128) as u64,
            mad,
            n_outliers,
        })
    }
}

fn middle(sorted: &[u64]) -> u64 {
    sorted[(sorted.len() - 1) / 2]
}

/// Writes samples in order as differences of variable length, with a checksum.
pub(crate) fn encode(samples: &[u64]) -> Vec<u8> {
    let mut bytes = vec![FORM];
    push_varint(&mut bytes, samples.len() as u64);
    let mut last = 0u64;
    for &sample in samples {
        let difference = sample.wrapping_sub(last) as i64;
        // Small differences of both signs become small numbers.
        push_varint(&mut bytes, ((difference << 1) ^ (difference >> 63)) as u64);
        last = sample;
    }
    let checksum = blake3::hash(&bytes);
    bytes.extend(&checksum.as_bytes()[..CHECKSUM_BYTES]);
    bytes
}

/// Reads what `encode` wrote; none if it is damaged.
pub(crate) fn decode(bytes: &[u8]) -> Option<Vec<u64>> {
    let (body, checksum) = bytes.split_at(bytes.len().checked_sub(CHECKSUM_BYTES)?);
    if blake3::hash(body).as_bytes()[..CHECKSUM_BYTES] != *checksum {
        return None;
    }
    let (&form, mut rest) = body.split_first()?;
    if form != FORM {
        return None;
    }
    let n = usize::try_from(take_varint(&mut rest)?).ok().filter(|n| *n <= rest.len())?;
    let mut samples = Vec::with_capacity(n);
    let mut last = 0u64;
    for _ in 0..n {
        let coded = take_varint(&mut rest)?;
        let difference = (coded >> 1) as i64 ^ -((coded & 1) as i64);
        last = last.wrapping_add(difference as u64);
        samples.push(last);
    }
    rest.is_empty().then_some(samples)
}

fn push_varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{SampleSummary, decode, encode};

    #[test]
    fn samples_come_back_as_they_were() {
        let spread: Vec<u64> = (0..1000u64).map(|i| 52_000_000 + i.wrapping_mul(2654435761) % 9_000).collect();
        for samples in [&[][..], &[0], &[u64::MAX, 0, 1, u64::MAX], &spread] {
            assert_eq!(decode(&encode(samples)).as_deref(), Some(samples));
        }
        assert!(encode(&spread).len() < 3 * spread.len(), "{}", encode(&spread).len());
    }

    #[test]
    fn damaged_samples_are_none() {
        let good = encode(&[10, 20, 30]);
        assert_eq!(decode(&[]), None);
        assert_eq!(decode(&good[1..]), None);
        for index in 0..good.len() {
            let mut bad = good.clone();
            bad[index] ^= 4;
            assert_eq!(decode(&bad), None, "byte {index}");
            assert_eq!(decode(&good[..index]), None, "{index} bytes");
        }
    }

    #[test]
    fn summaries_are_those_of_a_hand_calculation() {
        assert_eq!(SampleSummary::of(&[]), None);
        let summary = SampleSummary::of(&[4, 1, 3, 2]).unwrap();
        assert_eq!((summary.min, summary.median, summary.max, summary.mean, summary.mad), (1, 2, 4, 2, 1));
        // All alike but one: no spread to tell outliers by.
        assert_eq!(SampleSummary::of(&[7, 7, 7, 9]).unwrap().n_outliers, 0);
        let hundred: Vec<u64> = (1..=101).collect();
        let summary = SampleSummary::of(&hundred).unwrap();
        assert_eq!((summary.p05, summary.median, summary.p95), (6, 51, 96));
    }
}

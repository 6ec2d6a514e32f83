//! Statistics of times that assume nothing of their distribution: medians, deviations and bootstraps.
//!
//! Noise of a machine has a floor and a long tail, and often several modes, so that means and standard deviations describe none of it.

use polyloom_ir::generate::Random;

/// A sample further than so many scaled median deviations from the median is an outlier.
const OUTLIER_DEVIATIONS: f64 = 5.0;
/// A median deviation times this estimates the standard deviation of normal noise.
const DEVIATION_SCALE: f64 = 1.4826;
/// The bootstrap looks at this many samples at most, evenly chosen, because a session must not spend its time on statistics.
const MAX_BOOTSTRAP_SAMPLES: usize = 512;

/// An interval that covers the median with the confidence that was asked for, in picoseconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MedianInterval {
    /// The lower end.
    pub low: u64,
    /// The upper end.
    pub high: u64,
}

impl MedianInterval {
    /// Returns half the width, relative to the middle.
    pub fn half_width(self) -> f64 {
        let (low, high) = (self.low as f64, self.high as f64);
        if high > 0.0 { (high - low) / (high + low) } else { 0.0 }
    }
}

/// Returns the median; of an even number of values the lower middle one.
///
/// ```
/// use polyloom_graph::measure::{median, median_deviation};
///
/// assert_eq!(median(&[10, 12, 11, 90, 11]), Some(11));
/// assert_eq!(median_deviation(&[10, 12, 11, 90, 11]), Some(1));
/// assert_eq!(median(&[]), None);
/// ```
pub fn median(values: &[u64]) -> Option<u64> {
    middle(&mut values.to_vec())
}

fn middle(values: &mut [u64]) -> Option<u64> {
    let index = values.len().checked_sub(1)? / 2;
    Some(*values.select_nth_unstable(index).1)
}

/// Returns the median distance from the median.
pub fn median_deviation(values: &[u64]) -> Option<u64> {
    let centre = median(values)?;
    middle(&mut values.iter().map(|value| value.abs_diff(centre)).collect::<Vec<_>>())
}

/// Returns, for each value, true if it is an outlier: far from the median for the spread. Where more than half are equal there is no
/// spread to tell outliers by, and a thousandth of the median takes its place.
pub fn flag_outliers(values: &[u64]) -> Vec<bool> {
    let (Some(centre), Some(deviation)) = (median(values), median_deviation(values)) else { return Vec::new() };
    let spread = (deviation as f64).max(centre as f64 / 1000.0);
    let limit = OUTLIER_DEVIATIONS * DEVIATION_SCALE * spread;
    values.iter().map(|value| value.abs_diff(centre) as f64 > limit).collect()
}

/// Returns the interval of the median by the percentile bootstrap (Efron, 1979); `None` if there are no values.
///
/// It is the same for the same values and seed.
pub fn bootstrap_median(values: &[u64], confidence: f64, n_resamples: u32, seed: u64) -> Option<MedianInterval> {
    let values = thin(values);
    let mut random = Random::new(seed);
    let mut resample = vec![0; values.len()];
    let mut medians = Vec::with_capacity(n_resamples as usize);
    for _ in 0..n_resamples.max(1) {
        resample.iter_mut().for_each(|value| *value = values[random.below(values.len())]);
        medians.push(middle(&mut resample)?);
    }
    medians.sort_unstable();
    let [low, high] = percentiles(medians.len(), confidence);
    Some(MedianInterval { low: medians[low], high: medians[high] })
}

/// Returns the interval of the ratio of the median of `a` to that of `b` by the bootstrap; `None` if either is empty.
///
/// Samples come in pairs that were taken together, by their index, and are resampled in pairs, so that what slows down both leaves the ratio
/// as it is. Those beyond the shorter list are left out. An interval that lies below 1 says that `a` is faster.
pub fn bootstrap_ratio(a: &[u64], b: &[u64], confidence: f64, n_resamples: u32, seed: u64) -> Option<[f64; 2]> {
    let n = a.len().min(b.len());
    let pairs: Vec<(u64, u64)> =
        thin(&(0..n).collect::<Vec<_>>()).into_iter().map(|index| (a[index], b[index])).collect();
    let mut random = Random::new(seed);
    let [mut resample_a, mut resample_b] = [vec![0; pairs.len()], vec![0; pairs.len()]];
    let mut ratios = Vec::with_capacity(n_resamples as usize);
    for _ in 0..n_resamples.max(1) {
        for (of_a, of_b) in resample_a.iter_mut().zip(&mut resample_b) {
            (*of_a, *of_b) = pairs[random.below(pairs.len())];
        }
        ratios.push(middle(&mut resample_a)? as f64 / middle(&mut resample_b)?.max(1) as f64);
    }
    ratios.sort_unstable_by(f64::total_cmp);
    let [low, high] = percentiles(ratios.len(), confidence);
    Some([ratios[low], ratios[high]])
}

/// Returns the places of the ends of an interval among sorted values.
fn percentiles(n: usize, confidence: f64) -> [usize; 2] {
    let tail = (1.0 - confidence.clamp(0.0, 1.0)) / 2.0;
    let low = (tail * n as f64).floor() as usize;
    let low = low.min((n - 1) / 2);
    [low, n - 1 - low]
}

fn thin<T: Copy>(values: &[T]) -> Vec<T> {
    let step = values.len().div_ceil(MAX_BOOTSTRAP_SAMPLES).max(1);
    values.iter().step_by(step).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::{bootstrap_median, bootstrap_ratio, flag_outliers, median, median_deviation};

    #[test]
    fn medians_are_those_of_a_hand_calculation() {
        assert_eq!((median(&[4, 1, 3, 2]), median_deviation(&[4, 1, 3, 2])), (Some(2), Some(1)));
        assert_eq!((median(&[]), median_deviation(&[])), (None, None));
        assert_eq!(flag_outliers(&[1000, 1001, 999, 1000, 1200]), [false, false, false, false, true]);
        assert_eq!(flag_outliers(&[7000, 7000, 7000, 7001]), [false; 4]);
    }

    #[test]
    fn intervals_cover_the_median_as_often_as_they_say() {
        // 400 lists of 40 numbers of 0..1000, whose median is 499.5: the interval of 95 % misses it in one case of 20, about.
        let mut random = polyloom_ir::generate::Random::new(7);
        let misses = (0..400).filter(|&seed| {
            let values: Vec<u64> = (0..40).map(|_| random.below(1000) as u64).collect();
            let interval = bootstrap_median(&values, 0.95, 300, seed).unwrap();
            !(interval.low..=interval.high).contains(&500)
        });
        let misses = misses.count();
        assert!((8..=40).contains(&misses), "{misses}");
    }

    #[test]
    fn what_slows_down_both_of_a_pair_leaves_the_ratio() {
        let slow = |round: u64| if round.is_multiple_of(3) { 5 } else { 1 };
        let a: Vec<u64> = (0..60).map(|round| 900 * slow(round)).collect();
        let b: Vec<u64> = (0..60).map(|round| 1000 * slow(round)).collect();
        let [low, high] = bootstrap_ratio(&a, &b, 0.95, 300, 1).unwrap();
        assert!((low - 0.9).abs() < 1e-9 && (high - 0.9).abs() < 1e-9, "{low} {high}");
        assert_eq!(bootstrap_ratio(&[], &b, 0.95, 300, 1), None);
    }
}

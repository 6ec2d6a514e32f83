//! Times, dates and counts as people read them.

/// Writes picoseconds with four digits and a unit.
pub(crate) fn duration(picoseconds: u64) -> String {
    let (scale, unit) = match picoseconds {
        0..1_000 => return format!("{picoseconds} ps"),
        1_000..1_000_000 => (1e3, "ns"),
        1_000_000..1_000_000_000 => (1e6, "µs"),
        1_000_000_000..1_000_000_000_000 => (1e9, "ms"),
        _ => (1e12, "s"),
    };
    let value = picoseconds as f64 / scale;
    let n_decimals = if value < 10.0 { 3 } else { 2 - usize::from(value >= 100.0) };
    format!("{value:.n_decimals$}\u{a0}{unit}")
}

/// Writes microseconds since 1970 as a date and a time of day in UTC.
pub(crate) fn moment(microseconds: i64) -> String {
    let seconds = microseconds.div_euclid(1_000_000);
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms": years begin in March, so that leap days end them.
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + 400 * era + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}", second / 3600, second / 60 % 60)
}

/// Writes a number with spaces between thousands.
pub(crate) fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (index, digit) in digits.char_indices() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

/// Writes a number with its word, which is plural where it has to be.
pub(crate) fn counted(n: u64, word: &str) -> String {
    format!("{}\u{a0}{word}{}", count(n), if n == 1 { "" } else { "s" })
}

/// Writes bytes in powers of 1024.
pub(crate) fn bytes(n: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let unit = (n.max(1).ilog2() / 10).min(4);
    let value = n as f64 / (1u64 << (10 * unit)) as f64;
    let n_decimals = usize::from(unit > 0 && value < 100.0 && value.fract() != 0.0);
    format!("{value:.n_decimals$}\u{a0}{}", units[unit as usize])
}

/// Writes an error relative to the scale of results.
pub(crate) fn error(error: f64) -> String {
    if error == 0.0 { "0".to_owned() } else { format!("{error:.1e}") }
}

#[cfg(test)]
mod tests {
    use super::{bytes, count, counted, duration, moment};

    #[test]
    fn numbers_are_written_for_people() {
        let durations = [0, 999, 1_234, 12_345_678, 123_456_789_000, 5_000_000_000_000].map(duration);
        assert_eq!(
            durations.map(|text| text.replace('\u{a0}', " ")),
            ["0 ps", "999 ps", "1.234 ns", "12.35 µs", "123.5 ms", "5.000 s"]
        );
        // GNU date gave these.
        assert_eq!(moment(0), "1970-01-01 00:00");
        assert_eq!(moment(951_782_399_000_000), "2000-02-28 23:59");
        assert_eq!(moment(951_782_400_000_000), "2000-02-29 00:00");
        assert_eq!(moment(1_796_000_000_000_000), "2026-11-30 00:53");
        assert_eq!(moment(-1), "1969-12-31 23:59");
        assert_eq!([0, 999, 1_000, 1_234_567].map(count), ["0", "999", "1\u{202f}000", "1\u{202f}234\u{202f}567"]);
        assert_eq!((counted(1, "path"), counted(2, "path")), ("1\u{a0}path".to_owned(), "2\u{a0}paths".to_owned()));
        assert_eq!(
            [0, 1023, 1536, 1 << 30, 151 << 30].map(|n| bytes(n).replace('\u{a0}', " ")),
            ["0 B", "1023 B", "1.5 KiB", "1 GiB", "151 GiB"]
        );
    }
}

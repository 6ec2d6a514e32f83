//! `cvt` of formats of eight bits and fewer, against tables of all their numbers, made from what the formats are
//! defined to be: the values in the order of their codes, of which rounding picks a neighbour.

use super::{check, evaluate, random};

/// The numbers of a format that are not negative, by their codes.
#[derive(Clone)]
struct Table {
    name: &'static str,
    numbers: Vec<f64>,
    sign: u64,
    /// Holds what a NaN becomes.
    nan: u64,
}

impl Table {
    /// Of which `codes` stand for numbers.
    fn new(name: &'static str, exponent_bits: u32, fraction_bits: u32, codes: u64, nan: u64) -> Table {
        let bias = (1 << (exponent_bits - 1)) - 1;
        let number = |code: u64| {
            let (exponent, fraction) = ((code >> fraction_bits) as i32, (code & ((1 << fraction_bits) - 1)) as f64);
            let leading = if exponent == 0 { 0.0 } else { f64::exp2(fraction_bits.into()) };
            (leading + fraction) * f64::exp2(f64::from(exponent.max(1) - bias - fraction_bits as i32))
        };
        let sign = 1 << (exponent_bits + fraction_bits);
        Table { name, numbers: (0..codes).map(number).collect(), sign, nan }
    }

    fn largest(&self) -> u64 {
        self.numbers.len() as u64 - 1
    }

    /// The code of `x`, `up` saying of a place between two codes whether the upper one is taken.
    fn code(&self, x: f64, relu: bool, up: impl Fn(u64, f64) -> bool) -> u64 {
        if x.is_nan() {
            return self.nan;
        }
        if relu && x <= 0.0 {
            return 0;
        }
        let sign = if x.is_sign_negative() { self.sign } else { 0 };
        let below = self.numbers.partition_point(|number| *number <= x.abs()) as u64 - 1;
        if below == self.largest() {
            return sign | below;
        }
        let (low, high) = (self.numbers[below as usize], self.numbers[below as usize + 1]);
        sign | (below + u64::from(up(below, (x.abs() - low) / (high - low))))
    }

    fn nearest(&self, x: f64, relu: bool) -> u64 {
        self.code(x, relu, |below, place| place > 0.5 || place == 0.5 && below & 1 == 1)
    }

    /// f32 on, between and beyond the numbers.
    fn samples(&self) -> Vec<u64> {
        let mut all = vec![f32::NAN, f32::INFINITY, -f32::INFINITY, f32::MAX, 1e-45, -1e-45, 0.0, -0.0];
        let numbers: Vec<f64> =
            self.numbers.iter().copied().chain([self.numbers[self.largest() as usize] * 1.5]).collect();
        for pair in numbers.windows(2) {
            let middle = ((pair[0] + pair[1]) / 2.0) as f32;
            for x in [pair[0] as f32, middle, middle.next_up(), middle.next_down(), (pair[0] as f32).next_up()] {
                all.extend([x, -x]);
            }
        }
        all.iter().map(|x| x.to_bits().into()).chain(random(200, 51).iter().map(|x| x & 0xffff_ffff)).collect()
    }
}

fn e2m1() -> Table {
    Table::new("e2m1", 2, 1, 8, 7)
}

fn small() -> [Table; 5] {
    [
        e2m1(),
        Table::new("e2m3", 2, 3, 32, 31),
        Table::new("e3m2", 3, 2, 32, 31),
        Table::new("e4m3", 4, 3, 127, 0x7f),
        Table::new("e5m2", 5, 2, 124, 0x7f),
    ]
}

fn f16() -> Table {
    Table::new("f16", 5, 10, 0x7c00, 0x7fff)
}

fn bf16() -> Table {
    Table::new("bf16", 8, 7, 0x7f80, 0x7fff)
}

fn single(bits: u64) -> f64 {
    f32::from_bits(bits as u32).into()
}

#[test]
fn tables_are_those_of_the_formats() {
    assert_eq!(e2m1().numbers, [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]);
    let largest = small().map(|table| table.numbers[table.largest() as usize]);
    assert_eq!(largest, [6.0, 7.5, 28.0, 448.0, 57344.0]);
    assert_eq!(f16().numbers[0x7bff], 65504.0);
}

#[test]
fn small_formats_round_to_the_nearest() {
    for table in small() {
        let (a, stride, width) =
            (table.samples(), if table.sign == 8 { 4 } else { 8 }, if table.sign == 8 { 8 } else { 16 });
        let b: Vec<u64> = a.iter().rev().copied().collect();
        for relu in [false, true] {
            let modifiers = if relu { "rn.relu.satfinite" } else { "rn.satfinite" };
            let ty = format!("{}x2", table.name);
            let result = format!("b{width}");
            check(&format!("cvt.{modifiers}.{ty}.f32 %d, %a, %b;"), &result, &[("f32", &a), ("f32", &b)], |row| {
                table.nearest(single(row[0]), relu) << stride | table.nearest(single(row[1]), relu)
            });
            for half in [f16(), bf16()] {
                let every: Vec<u64> = (0..0x1_0000).map(|x| x | (x ^ 0x5555) << 16).collect();
                let from = format!("cvt.{modifiers}.{ty}.{}x2 %d, %a;", half.name);
                let value = |bits: u64| match half.numbers.get(bits as usize & 0x7fff) {
                    Some(number) if bits & 0x8000 != 0 => -number,
                    Some(number) => *number,
                    None if bits & 0x7fff == half.largest() + 1 => f64::INFINITY.copysign(0.5 - (bits >> 15) as f64),
                    None => f64::NAN,
                };
                check(&from, &result, &[("b32", &every)], |row| {
                    table.nearest(value(row[0] >> 16), relu) << stride | table.nearest(value(row[0] & 0xffff), relu)
                });
            }
        }
    }
}

/// The code of a small format as bits of a half, which has all of its numbers.
fn widened(table: &Table, half: &Table, code: u64, relu: bool) -> u64 {
    let negative = code & table.sign != 0;
    let magnitude = code & (table.sign - 1);
    match table.numbers.get(magnitude as usize) {
        Some(number) => half.nearest(if negative { -number } else { *number }, relu),
        None if magnitude == table.largest() + 1 && table.name == "e5m2" => {
            if relu && negative {
                0
            } else {
                (half.largest() + 1) | u64::from(negative) << 15
            }
        }
        None => 0x7fff,
    }
}

#[test]
fn every_code_of_small_formats_widens() {
    for table in small() {
        let (stride, width) = if table.sign == 8 { (4, 8) } else { (8, 16) };
        let codes = table.sign * 2;
        let all: Vec<u64> = (0..codes).map(|code| code | (code ^ 1) << stride).collect();
        let source = format!("b{width}");
        for half in [f16(), bf16()] {
            for relu in [false, true] {
                let relu_name = if relu { ".relu" } else { "" };
                let instruction = format!("cvt.rn{relu_name}.{}x2.{}x2 %d, %a;", half.name, table.name);
                check(&instruction, "b32", &[(&source, &all)], |row| {
                    let part = |shift: u32| widened(&table, &half, row[0] >> shift & (codes - 1), relu);
                    part(stride) << 16 | part(0)
                });
            }
        }
    }
    // By powers of two, the upper value's in the upper byte: 1.5 times 2^3 and -6 times 2^-1.
    let scaled =
        evaluate("cvt.rn.scaled::n2::ue8m0.bf16x2.e2m1x2 %d, %a, %b;", "b32", &[("b8", &[0x3f]), ("b16", &[0x827e])]);
    assert_eq!(scaled, [u64::from(12f32.to_bits() | (-3f32).to_bits() >> 16)]);
}

#[test]
fn random_bits_decide_between_neighbours() {
    let bits: Vec<u64> = random(4000, 52).iter().map(|x| x & 0xffff_ffff).collect();
    // As many as an f32 has more bits than an f16 or bf16, each value's in its half.
    for (table, width) in [(f16(), 13u32), (bf16(), 16)] {
        let [a, b] = [53, 54].map(|seed| -> Vec<u64> {
            let exponents = if width == 13 { 100..142 } else { 1..254 };
            let count = exponents.end - exponents.start;
            random(bits.len(), seed)
                .iter()
                .map(|x| x & 0x807f_ffff | (exponents.start + (x >> 40) % count) << 23)
                .collect()
        });
        for (modifiers, relu) in [("rs.satfinite", false), ("rs.relu.satfinite", true)] {
            let instruction = format!("cvt.{modifiers}.{}x2.f32 %d, %a, %b, %c;", table.name);
            check(&instruction, "b32", &[("f32", &a), ("f32", &b), ("b32", &bits)], |row| {
                let part = |x: u64, shift: u32| {
                    let drawn = row[2] >> shift & ((1 << width) - 1);
                    let steps = f64::from(1 << width);
                    table.code(single(x), relu, |_, place| (place * steps).floor() as u64 + drawn >= 1 << width)
                };
                part(row[0], 16) << 16 | part(row[1], 0)
            });
        }
    }
    for table in small() {
        let stride = if table.sign == 8 { 4 } else { 8 };
        let values = table.samples();
        let count = bits.len();
        let column =
            |seed| -> Vec<u64> { random(count, seed).iter().map(|x| values[*x as usize % values.len()]).collect() };
        let columns = [55, 56, 57].map(column);
        let result = if stride == 4 { "b16" } else { "b32" };
        // The fourth value is the first's negative.
        let instruction = format!(
            "{{.reg .f32 %f;\nneg.f32 %f, %a;\ncvt.rs.satfinite.{}x4.f32 %d, {{%a, %b, %c, %f}}, %e;}}",
            table.name
        );
        let operands: [(&str, &[u64]); 4] =
            [("f32", &columns[0]), ("f32", &columns[1]), ("f32", &columns[2]), ("b32", &bits)];
        check(&instruction, result, &operands, |row| {
            let [a, b, c] = [row[0], row[1], row[2]].map(single);
            // The first two share 16 bits, and the last two; e2m1 has bytes of each half instead of a half.
            let (upper, lower) = if stride == 4 {
                (row[3] >> 16 & 0xff00 | row[3] >> 8 & 0xff, row[3] >> 8 & 0xff00 | row[3] & 0xff)
            } else {
                (row[3] >> 16, row[3] & 0xffff)
            };
            let part =
                |x: f64, drawn: u64| table.code(x, false, |_, place| (place * 65536.0).floor() as u64 + drawn >= 65536);
            let parts = [part(a, upper), part(b, upper), part(c, lower), part(-a, lower)];
            parts.iter().fold(0, |word, part| word << stride | part)
        });
    }
}

#[test]
fn scale_factors_are_powers_of_two() {
    let mut values: Vec<u64> =
        [0.0f32, -0.0, 1.0, -1.0, 1.5, 3.9, f32::MAX, f32::INFINITY, f32::NAN, -f32::INFINITY, 1e-45, 5.9e-39, 8.8e-39]
            .iter()
            .map(|x| x.to_bits().into())
            .collect();
    // Around every power of two, the subnormal one 2^-127 included.
    for exponent in -128..=127 {
        let x = f64::exp2(exponent.into()) as f32;
        values.extend([x, x.next_up(), x.next_down(), -x.next_up()].map(|x| u64::from(x.to_bits())));
    }
    let zeros = vec![0; values.len()];
    for (mode, up) in [("rz", false), ("rp", true)] {
        for (finite, largest) in [("", 0xff), (".satfinite", 0xfe)] {
            let code = |x: f64| {
                if x.is_nan() {
                    return 0xff;
                }
                // The last power that is not larger, or the first that is not smaller.
                let power = |code: u64| f64::exp2(code as f64 - 127.0);
                let found = if up {
                    (0..0xff).find(|code| power(*code) >= x.abs()).unwrap_or(0xff)
                } else if x.is_infinite() {
                    0xff
                } else {
                    (0..0xff).rev().find(|code| power(*code) <= x.abs()).unwrap_or(0)
                };
                found.min(largest)
            };
            let operands: [(&str, &[u64]); 2] = [("f32", &values), ("f32", &zeros)];
            check(&format!("cvt.{mode}{finite}.ue8m0x2.f32 %d, %a, %b;"), "b16", &operands, |row| {
                code(single(row[0])) << 8
            });
            let halves: Vec<u64> = (0..0x1_0000).map(|x| x | (x ^ 0x8001) << 16).collect();
            check(&format!("cvt.{mode}{finite}.ue8m0x2.bf16x2 %d, %a;"), "b16", &[("b32", &halves)], |row| {
                code(single(row[0] & 0xffff_0000)) << 8 | code(single(row[0] << 16 & 0xffff_0000))
            });
        }
    }
    let codes: Vec<u64> = (0..256).map(|code| code | (255 - code) << 8).collect();
    check("cvt.rn.bf16x2.ue8m0x2 %d, %a;", "b32", &[("b16", &codes)], |row| {
        let part = |code: u64| match code & 0xff {
            0xff => 0x7fff,
            code => u64::from((f64::exp2(code as f64 - 127.0) as f32).to_bits()) >> 16,
        };
        part(row[0] >> 8) << 16 | part(row[0])
    });
}

#[test]
fn fixed_point_bytes_are_64ths() {
    let mut a: Vec<u64> =
        [f32::NAN, f32::INFINITY, -f32::INFINITY, 1e9, -1e9, -0.0].map(|x| x.to_bits().into()).to_vec();
    a.extend((-600..600).map(|x| u64::from((x as f32 / 256.0).to_bits())));
    let b: Vec<u64> = a.iter().rev().copied().collect();
    // The nearest of the 256 values, an even code where two are as near.
    let code = |x: f64| {
        if x.is_nan() {
            return 0x7f;
        }
        let away = |code: &i64| (x.clamp(-4.0, 4.0) - *code as f64 / 64.0).abs();
        let least = (-128..128).min_by(|p, q| away(p).total_cmp(&away(q)).then((p & 1).cmp(&(q & 1))));
        least.expect("256 values") as u64 & 0xff
    };
    let operands: [(&str, &[u64]); 2] = [("f32", &a), ("f32", &b)];
    check("cvt.rn.satfinite.s2f6x2.f32 %d, %a, %b;", "b16", &operands, |row| {
        code(single(row[0])) << 8 | code(single(row[1]))
    });
    // Divided by 4 and by 1/2.
    let scales = vec![0x817e; a.len()];
    let operands: [(&str, &[u64]); 3] = [("f32", &a), ("f32", &b), ("b16", &scales)];
    check("cvt.rn.satfinite.relu.scaled::n2::ue8m0.s2f6x2.f32 %d, %a, %b, %c;", "b16", &operands, |row| {
        let clamped = |x: f64| code(if x < 0.0 { 0.0 } else { x });
        clamped(single(row[0]) / 4.0) << 8 | clamped(single(row[1]) * 2.0)
    });
    let halves: Vec<u64> = a.iter().map(|x| x >> 16 | 0x3f80_0000).collect();
    check("cvt.rn.satfinite.s2f6x2.bf16x2 %d, %a;", "b16", &[("b32", &halves)], |row| {
        64 << 8 | code(single(row[0] << 16 & 0xffff_0000))
    });
    let codes: Vec<u64> = (0..256).map(|code| code | 0x4000).collect();
    check("cvt.rn.bf16x2.s2f6x2 %d, %a;", "b32", &[("b16", &codes)], |row| {
        0x3f80_0000 | u64::from((f32::from(row[0] as i8) / 64.0).to_bits() >> 16)
    });
    let scales = vec![0x8081; codes.len()];
    let operands: [(&str, &[u64]); 2] = [("b16", &codes), ("b16", &scales)];
    check("cvt.rn.relu.scaled::n2::ue8m0.bf16x2.s2f6x2 %d, %a, %b;", "b32", &operands, |row| {
        0x4000_0000 | u64::from((f32::from((row[0] as i8).max(0)) / 16.0).to_bits() >> 16)
    });
}

//! Plain CUDA C++ through NVRTC: `ptx/nvrtc_kernels.cu`, compiled for compute_80 with `-lineinfo`.

use crate::device::{Arg, array, try_launch, value, values};
use polyloom_ptx::{LaunchRequest, Module, Sanitizers};
use std::sync::Mutex;

const TEXT: &str = include_str!("ptx/nvrtc_kernels.ptx");
/// `ptx/nvrtc_kernels_90.cu`, for compute_90.
const TEXT_90: &str = include_str!("ptx/nvrtc_kernels_90.ptx");
/// `ptx/nvrtc_int128.cu`, for compute_80 with `-device-int128`.
const TEXT_INT128: &str = include_str!("ptx/nvrtc_int128.ptx");

/// Runs a kernel three ways: plain, on several host threads, and with all checks, which find nothing.
fn run(kernel: &str, grid: [u32; 3], block: [u32; 3], shared: u32, args: impl Fn() -> Vec<Arg>) -> Vec<Vec<u8>> {
    run_in(TEXT, kernel, grid, block, shared, args)
}

fn run_in(
    text: &str,
    kernel: &str,
    grid: [u32; 3],
    block: [u32; 3],
    shared: u32,
    args: impl Fn() -> Vec<Arg>,
) -> Vec<Vec<u8>> {
    let plain = LaunchRequest { grid, block, dynamic_shared_bytes: shared, ..LaunchRequest::default() };
    let several = LaunchRequest { threads: 4, counters: true, ..plain };
    let checked = LaunchRequest { sanitize: Sanitizers::ALL, ..plain };
    let mut results = [plain, several, checked].map(|launch| match try_launch(text, kernel, args(), launch) {
        Ok((arrays, _)) => arrays,
        Err(fault) => panic!("{kernel}: {fault}"),
    });
    std::mem::take(&mut results[0])
}

fn numbers(count: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 37 + 11) % 101) as f32 * 0.25 - 12.0).collect()
}

fn integers(count: usize) -> Vec<i32> {
    (0..count).map(|i| (i as i32).wrapping_mul(1_103_515_245).wrapping_add(12345) >> 5).collect()
}

#[test]
fn every_kernel_decodes() {
    for text in [TEXT, TEXT_90, TEXT_INT128] {
        let simulator = polyloom_ptx::Simulator::default();
        let module = Module::parse(text).expect("it parses");
        let loaded = simulator.load(&module).expect("it loads");
        for kernel in module.kernels() {
            if let Err(errors) = loaded.kernel(&kernel.name) {
                panic!("{}: {errors:#?}", kernel.name);
            }
        }
    }
}

#[test]
fn reduce() {
    let x: Vec<f32> = (0..5000).map(|i| (i % 17) as f32).collect();
    let out = run("reduce", [3, 1, 1], [160, 1, 1], 0, || vec![array(&x), array(&[0.0f32]), value(5000i32)]);
    assert_eq!(values::<f32>(&out[1]), [x.iter().sum::<f32>()]);
}

#[test]
fn scan() {
    let x = integers(200);
    let out = run("scan", [1, 1, 1], [256, 1, 1], 1024, || vec![array(&x), array(&[0i32; 200]), value(200i32)]);
    let mut sum = 0i32;
    let expected: Vec<i32> = x
        .iter()
        .map(|x| {
            sum = sum.wrapping_add(*x);
            sum
        })
        .collect();
    assert_eq!(values::<i32>(&out[1]), expected);
}

#[test]
fn transpose() {
    let (rows, columns) = (37, 50);
    let x = numbers(rows * columns);
    let out = run("transpose", [4, 3, 1], [16, 16, 1], 0, || {
        vec![array(&x), array(&vec![0.0f32; rows * columns]), value(rows as i32), value(columns as i32)]
    });
    let found = values::<f32>(&out[1]);
    for row in 0..rows {
        for column in 0..columns {
            assert_eq!(found[column * rows + row], x[row * columns + column]);
        }
    }
}

#[test]
fn matmul() {
    let n = 48;
    let (a, b) = (numbers(n * n), numbers(n * n + 5)[5..].to_vec());
    let out = run("matmul", [3, 3, 1], [16, 16, 1], 0, || {
        vec![array(&a), array(&b), array(&vec![0.0f32; n * n]), value(n as i32)]
    });
    let found = values::<f32>(&out[2]);
    for row in 0..n {
        for column in 0..n {
            let expected = (0..n).fold(0.0f32, |sum, k| a[row * n + k].mul_add(b[k * n + column], sum));
            assert_eq!(found[row * n + column], expected);
        }
    }
}

#[test]
fn histogram() {
    let x: Vec<u8> = (0..4000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 22) as u8).collect();
    let out = run("histogram", [4, 1, 1], [128, 1, 1], 0, || vec![array(&x), array(&[0u32; 256]), value(4000i32)]);
    let mut expected = vec![0u32; 256];
    x.iter().for_each(|x| expected[usize::from(*x)] += 1);
    assert_eq!(values::<u32>(&out[1]), expected);
}

#[test]
fn bitonic_sort() {
    let x = integers(256);
    let out = run("bitonic", [1, 1, 1], [256, 1, 1], 1024, || vec![array(&x)]);
    let mut expected = x.clone();
    expected.sort_unstable();
    assert_eq!(values::<i32>(&out[0]), expected);
}

#[test]
fn softmax() {
    let (rows, columns) = (5, 100);
    let x = numbers(rows * columns);
    let out = run("softmax", [rows as u32, 1, 1], [32, 1, 1], 0, || {
        vec![array(&x), array(&vec![0.0f32; rows * columns]), value(columns as i32)]
    });
    for (row, found) in x.chunks(columns).zip(values::<f32>(&out[1]).chunks(columns)) {
        let most = row.iter().fold(f64::MIN, |most, x| most.max(f64::from(*x)));
        let powers: Vec<f64> = row.iter().map(|x| (f64::from(*x) - most).exp()).collect();
        let sum: f64 = powers.iter().sum();
        for (found, power) in found.iter().zip(&powers) {
            assert!((f64::from(*found) - power / sum).abs() <= 1e-6 * power / sum + 1e-30, "{found} {}", power / sum);
        }
    }
}

#[test]
fn stencil_with_halo() {
    let x = numbers(300);
    let out = run("stencil", [3, 1, 1], [128, 1, 1], 0, || vec![array(&x), array(&[0.0f32; 300]), value(300i32)]);
    let at = |i: i32| if (0..300).contains(&i) { x[i as usize] } else { 0.0 };
    let expected: Vec<f32> = (0..300).map(|i| (-3..=3).fold(0.0, |sum, d| sum + at(i + d))).collect();
    assert_eq!(values::<f32>(&out[1]), expected);
}

#[test]
fn locks_between_lanes_and_blocks() {
    let out = run("spin_lock", [3, 1, 1], [64, 1, 1], 0, || vec![array(&[0i32]), array(&[0i32]), value(3i32)]);
    assert_eq!(values::<i32>(&out[1]), [3 * 3 * 64]);
    let out = run("blocking_lock", [3, 1, 1], [64, 1, 1], 0, || vec![array(&[0i32]), array(&[0i32])]);
    assert_eq!(values::<i32>(&out[1]), [3 * 64]);
}

#[test]
fn barrier_of_the_whole_grid() {
    let x = integers(8 * 64);
    let out = run("grid_barrier", [8, 1, 1], [64, 1, 1], 0, || {
        vec![array(&[0u32]), array(&x), array(&vec![0i32; 2 * 8 * 64])]
    });
    let doubled: Vec<i32> = x.iter().map(|x| x.wrapping_mul(2)).collect();
    let reversed = doubled.iter().rev().map(|x| x.wrapping_add(1));
    assert_eq!(values::<i32>(&out[2]), doubled.iter().copied().chain(reversed).collect::<Vec<_>>());
}

#[test]
fn last_block_sums_up() {
    let x: Vec<f32> = (0..512).map(|i| (i % 9) as f32).collect();
    let out = run("last_block", [8, 1, 1], [64, 1, 1], 0, || {
        vec![array(&x), array(&[0.0f32; 8]), array(&[0u32]), array(&[0.0f32])]
    });
    assert_eq!(values::<f32>(&out[3]), [x.iter().sum::<f32>()]);
}

#[test]
fn printing() {
    let printed = Mutex::new(String::new());
    let print = |text: &str| printed.lock().expect("no panics").push_str(text);
    let launch = LaunchRequest { block: [4, 1, 1], print: &print, ..LaunchRequest::default() };
    try_launch(TEXT, "print", vec![value(2i32), value(1.25f64)], launch).expect("it runs");
    let text = printed.into_inner().expect("no panics");
    assert_eq!(text, "thread 0 of block:  0.00 7%\nthread 1 of block:  1.25 7%\n");
}

#[test]
fn recursion() {
    let out = run("recursion", [1, 1, 1], [12, 1, 1], 0, || vec![array(&[0i32; 12])]);
    assert_eq!(values::<i32>(&out[0]), [0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89]);
}

#[test]
fn calls_through_pointers() {
    let (a, b) = (numbers(40), numbers(47)[7..].to_vec());
    let out = run("pointers", [1, 1, 1], [40, 1, 1], 0, || vec![array(&a), array(&b), array(&[0.0f32; 40])]);
    let expected: Vec<f32> = (0..40).map(|i| [a[i] + b[i], a[i] * b[i], a[i] - b[i]][i % 3]).collect();
    assert_eq!(values::<f32>(&out[2]), expected);
}

#[test]
fn structs_constants_and_local_arrays() {
    let mut pair = 7i32.to_le_bytes().to_vec();
    pair.extend([0; 4]);
    pair.extend([1.0f64, 2.0, 4.0].iter().flat_map(|x| x.to_le_bytes()));
    let out = run("by_value", [1, 1, 1], [32, 1, 1], 0, || vec![Arg::Value(pair.clone()), array(&[0.0f64; 32])]);
    let expected: Vec<f64> = (0..32)
        .map(|t: usize| {
            let mut local = [0.0; 4];
            for i in 0..4 {
                local[(i + t) % 4] = [1.0, 2.0, 4.0][i % 3] * [0.5, 1.5, 2.5, 3.5][i];
            }
            local[t % 4] + 7.0 + [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]][t % 2][t % 3]
        })
        .collect();
    assert_eq!(values::<f64>(&out[0]), expected);
}

#[test]
fn functions_of_libdevice() {
    let n = 200;
    let x: Vec<f64> = (0..n).map(|i| (i as f64 - 100.0) * 1.37).chain([1e10]).collect();
    let n = x.len();
    let out =
        run("functions", [2, 1, 1], [128, 1, 1], 0, || vec![array(&x), array(&vec![0.0f64; 5 * n]), value(n as i32)]);
    let found = values::<f64>(&out[1]);
    let near = |found: f64, expected: f64, tolerance: f64| {
        let error = (found - expected).abs();
        error <= tolerance * expected.abs().max(1e-3) || found == expected || found.is_nan() && expected.is_nan()
    };
    for (i, x) in x.iter().enumerate() {
        assert!(near(found[i], x.sin(), 1e-13), "sin {x}: {}", found[i]);
        assert!(near(found[n + i], (x * 0.1).exp(), 1e-14), "exp {x}");
        assert!(near(found[2 * n + i], (x.abs() + 0.5).powf(1.7), 1e-14), "pow {x}");
        let single = *x as f32;
        let expected = f64::from(single).sin() + f64::from(single * 0.01).tan() + f64::from(single.abs()).ln_1p();
        assert!(x.abs() > 1e9 || (found[3 * n + i] - expected).abs() < 2e-5 * expected.abs().max(1.0), "{x}");
        assert_eq!(found[4 * n + i], x / 3.7 + x.abs().sqrt());
    }
}

#[test]
fn integer_operations() {
    let (a, mut b) = (integers(256), integers(300)[44..].to_vec());
    b.iter_mut().for_each(|b| *b |= 1);
    let out =
        run("integers", [2, 1, 1], [128, 1, 1], 0, || vec![array(&a), array(&b), array(&[0i64; 256]), value(256i32)]);
    for (i, found) in values::<i64>(&out[2]).into_iter().enumerate() {
        let (a, b) = (a[i], b[i]);
        let (long_a, long_b) = (i64::from(a), i64::from(b));
        let permuted = {
            let bytes = [a.to_le_bytes(), b.to_le_bytes()].concat();
            i32::from_le_bytes([5, 7, 1, 3].map(|at: usize| bytes[at]))
        };
        let expected = match a & 7 {
            0 => (a.wrapping_div(b)).into(),
            1 => (a.wrapping_rem(b)).into(),
            2 => long_a * long_b,
            3 => (a.count_ones() + b.leading_zeros()).into(),
            4 => (long_a * long_b) >> 32,
            5 => (long_a << 20) / long_b,
            6 => (a as u32 % 7).into(),
            // The bits of an unsigned and a signed word, as unsigned.
            _ => i64::from(a.reverse_bits() as u32 ^ permuted as u32),
        };
        assert_eq!(found, expected, "{a} {b}");
    }
}

#[test]
fn half_precision() {
    // Small integers, which halves hold exactly.
    let half = |x: i32| -> u16 {
        let table = [0xc000, 0xbc00, 0x0000, 0x3c00, 0x4000];
        table[(x + 2) as usize]
    };
    let small: Vec<i32> = (0..256).map(|i| (i * 7 % 5) - 2).collect();
    let pairs: Vec<u32> = small.iter().map(|x| u32::from(half(*x)) << 16 | u32::from(half(-x))).collect();
    let ones = vec![0x3c00_3c00u32; 256];
    let out = run("halves", [1, 1, 1], [32, 1, 1], 0, || {
        vec![array(&pairs), array(&ones), array(&[0u16; 32]), value(256i32)]
    });
    // Each pair sums to zero.
    assert_eq!(values::<u16>(&out[2]).iter().map(|x| x & 0x7fff).collect::<Vec<_>>(), [0; 32]);
}

#[test]
fn tensor_cores() {
    let n = 32;
    // Halves of integers -4 to 4.
    let half =
        |x: i32| -> u16 { [0xc400, 0xc200, 0xc000, 0xbc00, 0, 0x3c00, 0x4000, 0x4200, 0x4400][(x + 4) as usize] };
    let a: Vec<i32> = (0..n * n).map(|i| (i * 5 % 9) as i32 - 4).collect();
    let b: Vec<i32> = (0..n * n).map(|i| (i * i % 7) as i32 - 3).collect();
    let [ha, hb] = [&a, &b].map(|x| x.iter().map(|x| half(*x)).collect::<Vec<u16>>());
    let out = run("tensor", [2, 2, 1], [32, 1, 1], 0, || {
        vec![array(&ha), array(&hb), array(&vec![0.0f32; n * n]), value(n as i32)]
    });
    let found = values::<f32>(&out[2]);
    for row in 0..n {
        for column in 0..n {
            let expected: i32 = (0..n).map(|k| a[row * n + k] * b[column * n + k]).sum();
            assert_eq!(found[row * n + column], expected as f32);
        }
    }
}

#[test]
fn asynchronous_copies() {
    let x = numbers(512);
    let out = run("staged", [1, 1, 1], [64, 1, 1], 0, || vec![array(&x), array(&[0.0f32; 256])]);
    let found = values::<f32>(&out[1]);
    for t in 0..64 {
        for part in 0..4 {
            let from = (63 - t) * 4 + part;
            assert_eq!(found[t * 4 + part], x[from] + x[256 + from]);
        }
    }
}

#[test]
fn votes_and_matches() {
    let x: Vec<i32> = (0..64).map(|i| i * 7 % 5).collect();
    let out = run("votes", [1, 1, 1], [64, 1, 1], 0, || vec![array(&x), array(&[0u32; 64])]);
    for (t, found) in values::<u32>(&out[1]).into_iter().enumerate() {
        let warp = &x[t / 32 * 32..t / 32 * 32 + 32];
        let lane = t % 32;
        let rank = warp[..lane].iter().filter(|other| **other == x[t]).count() as u32;
        let odd = (0..32).fold(0u32, |mask, lane| mask | (warp[lane] as u32 & 1) << lane);
        let sum: i32 = warp.iter().filter(|other| **other == x[t]).sum();
        assert_eq!(found, rank | odd << 8 | (sum as u32) << 24, "{t}");
    }
}

#[test]
fn segmented_sums() {
    let x: Vec<f32> = (0..64).map(|i| i as f32).collect();
    let heads: Vec<i32> = (0..64).map(|i| i32::from(i % 7 == 0 || i % 32 == 0)).collect();
    let out = run("segmented", [1, 1, 1], [64, 1, 1], 0, || vec![array(&x), array(&heads), array(&[0.0f32; 64])]);
    let mut sum = 0.0;
    let expected: Vec<f32> = (0..64)
        .map(|i: usize| {
            sum = if heads[i] != 0 { x[i] } else { sum + x[i] };
            sum
        })
        .collect();
    assert_eq!(values::<f32>(&out[2]), expected);
}

#[test]
fn findings_name_lines_of_the_source() {
    let launch = LaunchRequest { block: [16, 1, 1], ..LaunchRequest::default() };
    let fault = try_launch(TEXT, "bitonic", vec![array(&[0i32; 8])], launch).expect_err("too little shared memory");
    let site = fault.findings[0].site.clone().and_then(|site| site.source).expect("a line of the source");
    assert_eq!((site.0.as_str(), site.1), ("kernels.cu", LINE_OF_BITONIC_LOAD));
}

/// The place where `bitonic` loads its keys.
const LINE_OF_BITONIC_LOAD: u32 = 70;

#[test]
fn layer_norm() {
    let (rows, columns) = (3, 150);
    let (x, gain) = (numbers(rows * columns), numbers(columns));
    let out = run_in(TEXT_90, "layer_norm", [3, 1, 1], [64, 1, 1], 0, || {
        vec![array(&x), array(&gain), array(&vec![0.0f32; rows * columns]), value(columns as i32)]
    });
    for (row, found) in x.chunks(columns).zip(values::<f32>(&out[2]).chunks(columns)) {
        let row: Vec<f64> = row.iter().map(|x| f64::from(*x)).collect();
        let mean = row.iter().sum::<f64>() / columns as f64;
        let variance = row.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / columns as f64;
        for (i, found) in found.iter().enumerate() {
            let expected = (row[i] - mean) / (variance + 1e-5).sqrt() * f64::from(gain[i]);
            assert!((f64::from(*found) - expected).abs() < 2e-5 * expected.abs().max(1.0), "{found} {expected}");
        }
    }
}

#[test]
fn flash_attention() {
    let n = 128;
    let part =
        |seed: usize| -> Vec<f32> { (0..n * 16).map(|i| ((i * 31 + seed * 17) % 23) as f32 * 0.1 - 1.1).collect() };
    let [q, k, v] = [1, 2, 3].map(part);
    let out = run_in(TEXT_90, "attention", [2, 1, 1], [64, 1, 1], 0, || {
        vec![array(&q), array(&k), array(&v), array(&vec![0.0f32; n * 16]), value(n as i32)]
    });
    let found = values::<f32>(&out[3]);
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
    for (t, query) in q.chunks(16).enumerate() {
        let weights: Vec<f64> = k.chunks(16).map(|key| (dot(query, key) * 0.25).exp()).collect();
        let total: f64 = weights.iter().sum();
        for i in 0..16 {
            let expected = (0..n).map(|j| weights[j] * f64::from(v[j * 16 + i])).sum::<f64>() / total;
            assert!((f64::from(found[t * 16 + i]) - expected).abs() < 1e-5, "{t} {i}");
        }
    }
}

#[test]
fn barriers_that_count() {
    let x: Vec<i32> = (0..96).map(|i| i % 5).collect();
    let out = run_in(TEXT_90, "counts", [1, 1, 1], [96, 1, 1], 0, || vec![array(&x), array(&[0i32; 96])]);
    let odd = x.iter().filter(|x| *x % 2 == 1).count() as i32;
    assert_eq!(values::<i32>(&out[1]), vec![odd + 1000; 96]);
}

#[test]
fn switches() {
    let code: Vec<i32> = (0..128).map(|i| i % 14).collect();
    let a: Vec<i32> = (0..128).map(|i| i * 3 % 40).collect();
    let out =
        run_in(TEXT_90, "dispatch", [2, 1, 1], [64, 1, 1], 0, || vec![array(&code), array(&a), array(&[0i32; 128])]);
    let expected: Vec<i32> = (0..128)
        .map(|t| {
            let x = a[t];
            match code[t] {
                0 => x + 1,
                1 => x * 3,
                2 => x ^ 0x55,
                3 => x << 2,
                4 => x >> 3,
                5 => -x,
                6 => x * x,
                7 => (0..x).map(|i| i * i).sum(),
                8 => x & 0xf0,
                9 => x % 5,
                10 => !x,
                11 => x / 7,
                _ => 12345,
            }
        })
        .collect();
    assert_eq!(values::<i32>(&out[2]), expected);
}

#[test]
fn atomics_of_halves_and_doubles() {
    let out = run_in(TEXT_90, "half_atomics", [2, 1, 1], [32, 1, 1], 0, || {
        vec![array(&[0u32]), array(&[0u16]), array(&[0.0f64, 0.0])]
    });
    assert_eq!(values::<u32>(&out[0]), [0x5000_5400]);
    assert_eq!(values::<u16>(&out[1]), [0x4280]);
    assert_eq!(values::<f64>(&out[2])[0], 16.0);
    assert_eq!(values::<i32>(&out[2])[2], 31);
}

#[test]
fn sleeping_locks_and_clocks() {
    let out = run_in(TEXT_90, "sleeping_lock", [2, 1, 1], [64, 1, 1], 0, || vec![array(&[0u32]), array(&[0i32])]);
    assert_eq!(values::<i32>(&out[1]), [128]);
    let out = run_in(TEXT_90, "time", [1, 1, 1], [32, 1, 1], 0, || vec![array(&[0i64; 32])]);
    assert!(values::<i64>(&out[0]).iter().all(|time| *time >= 100));
}

#[test]
fn failed_assertions() {
    let launch = LaunchRequest { block: [32, 1, 1], ..LaunchRequest::default() };
    let mut x = [1i32; 32];
    try_launch(TEXT_90, "asserts", vec![array(&x)], launch).expect("all are positive");
    x[9] = -1;
    let fault = try_launch(TEXT_90, "asserts", vec![array(&x)], launch).expect_err("one is not");
    assert_eq!(fault.findings[0].message, "assertion `in[t] >= 0` failed in asserts, kernels.cu:93");
    assert_eq!(fault.findings[0].threads.len(), 1);
}

#[test]
fn named_barriers_between_two_warps() {
    let x = numbers(128);
    let out = run_in(TEXT_90, "pipes", [1, 1, 1], [64, 1, 1], 0, || vec![array(&x), array(&[0.0f32; 32])]);
    let expected: Vec<f32> = (0..32).map(|lane| (0..4).fold(0.0, |sum, i| sum + x[i * 32 + 31 - lane])).collect();
    assert_eq!(values::<f32>(&out[1]), expected);
}

#[test]
fn tensor_cores_with_bytes() {
    let a: Vec<i8> = (0..16 * 32).map(|i| (i * 11 % 255) as u8 as i8).collect();
    let b: Vec<i8> = (0..8 * 32).map(|i| (i * 7 % 253) as u8 as i8).collect();
    let out =
        run_in(TEXT_90, "tensor_int8", [1, 1, 1], [32, 1, 1], 0, || vec![array(&a), array(&b), array(&[0i32; 128])]);
    let found = values::<i32>(&out[2]);
    for row in 0..16 {
        for column in 0..8 {
            let expected: i32 = (0..32).map(|k| i32::from(a[row * 32 + k]) * i32::from(b[column * 32 + k])).sum();
            assert_eq!(found[row * 8 + column], expected);
        }
    }
}

#[test]
fn division_of_128_bits() {
    let numbers = [1, 3, 7, 100, (1 << 33) + 1, 1 << 64, (1 << 64) + 1, 1 << 100, 1 << 127, (1 << 127) + 5, u128::MAX];
    let (a, b): (Vec<u128>, Vec<u128>) = numbers.iter().flat_map(|a| numbers.iter().map(move |b| (*a, *b))).unzip();
    let halves = |all: &[u128]| all.iter().flat_map(|x| [*x as u64, (*x >> 64) as u64]).collect::<Vec<u64>>();
    let count = a.len();
    let out = run_in(TEXT_INT128, "divide", [1, 1, 1], [count as u32, 1, 1], 0, || {
        vec![array(&halves(&a)), array(&halves(&b)), array(&vec![0u64; 4 * count])]
    });
    let expected: Vec<u128> = a.iter().zip(&b).flat_map(|(a, b)| [a / b, a % b]).collect();
    assert_eq!(values::<u64>(&out[2]), halves(&expected));
}

//! What main.c does, in Rust.

#[allow(dead_code, reason = "the module has all that the library has")]
mod pricing {
    include!(concat!(env!("AOT_LIBRARY"), "/pricing.rs"));
}

use pricing::Array;
use std::ffi::CStr;

fn print(name: &str, values: &[f32]) {
    let bits: Vec<String> = values.iter().map(|value| format!("{:08x}", value.to_bits())).collect();
    println!("{name} {}", bits.join(" "));
}

fn filled(n: usize, step: f32, factor: usize, period: usize, first: f32) -> Vec<f32> {
    (0..n).map(|i| step * (i * factor % period) as f32 + first).collect()
}

fn main() {
    let mut x: Vec<f32> = (0..37).map(|i| 0.25 * i as f32 - 3.0).collect();
    let mut y: Vec<f32> = (0..37).map(|i| 1.0 / (i + 1) as f32).collect();
    let mut image: Vec<f32> = (0..35).map(|i| (i * i % 11) as f32).collect();
    let mut out = vec![0.0f32; 35];
    let mut points: Vec<f32> = (0..12).map(|i| 0.5 * i as f32).collect();

    let x_array = Array::new(&mut x, [37]).expect("37 elements");
    let y_array = Array::new(&mut y, [37]).expect("37 elements");
    // SAFETY: here and below, the arrays are alive and as long as the launch.
    assert_eq!(unsafe { pricing::scale_add(37, 1.5, &x_array, &y_array) }, 0);
    print("scale_add", &y);

    let image_array = Array::new(&mut image, [5, 7]).expect("35 elements");
    let out_array = Array::new(&mut out, [5, 7]).expect("35 elements");
    assert_eq!(unsafe { pricing::smooth(5, 7, &image_array, &out_array) }, 0);
    print("smooth", &out);

    let turn = [0.0f32, 0.0, 0.70710678, 0.70710678];
    let points_array = Array::new(&mut points, [4, 3]).expect("12 elements");
    assert_eq!(unsafe { pricing::rotate(4, &turn, &points_array) }, 0);
    print("rotate", &points);

    let price = unsafe { pricing::call_price(100.0, 95.0, 0.03, 0.2, 0.75) };
    println!("call_price {:016x}", price.to_bits());

    let mut at = [36i32, 37, 0];
    let at_array = Array::new(&mut at, [3]).expect("3 elements");
    let first = Array::new(&mut y[..3], [3]).expect("3 elements");
    let status = unsafe { pricing::gather(3, &x_array, &at_array, &first) };
    let said = unsafe { CStr::from_ptr(pricing::gather_site(status)) }.to_string_lossy();
    println!("gather {}", if status != 0 && said.contains("out of bounds") { "refused" } else { "accepted" });

    // A function of tensors: the arrays have the shapes that the module says, and the workspace is the caller's.
    let (mut rows, mut weight) = (filled(8 * 24, 0.125, 7, 19, -1.0), filled(16 * 24, 0.0625, 5, 13, -0.375));
    let (mut scale, mut shift) = (filled(24, 0.0625, 1, 24, 0.5), filled(24, -0.03125, 1, 24, 0.25));
    let (mut bias, mut bent) = (filled(16, -0.0625, 1, 16, 0.5), vec![0.0f32; 8 * 16]);
    let mut workspace = vec![0u8; pricing::LAYER_WORKSPACE_SIZE];
    let rows_array = Array::new(&mut rows, [8, 24]).expect("192 elements");
    let scale_array = Array::new(&mut scale, [24]).expect("24 elements");
    let shift_array = Array::new(&mut shift, [24]).expect("24 elements");
    let weight_array = Array::new(&mut weight, [16, 24]).expect("384 elements");
    let bias_array = Array::new(&mut bias, [16]).expect("16 elements");
    let bent_array = Array::new(&mut bent, [8, 16]).expect("128 elements");
    let mut run = |rows: &Array<f32, 2>| {
        let memory = workspace.as_mut_ptr().cast();
        // SAFETY: the arrays are alive, and the function looks at their shapes; the workspace has the bytes that it asks for.
        unsafe { pricing::layer(rows, &scale_array, &shift_array, &weight_array, &bias_array, &bent_array, memory) }
    };
    assert_eq!(run(&rows_array), 0);
    print("layer", &bent);
    let status = run(&Array { shape: [7, 24], ..rows_array });
    let said = unsafe { CStr::from_ptr(pricing::layer_site(status)) }.to_string_lossy();
    println!("layer {}", if status != 0 && said.contains("(8, 24)") { "refused" } else { "accepted" });
}

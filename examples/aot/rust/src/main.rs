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
}

//! Source text to HIR text, whole.

use crate::support::hir;

#[test]
fn saxpy() {
    let text = "
@loom.kernel
def saxpy(a: float, x: loom.array(dtype=float), y: loom.array(dtype=float)):
    i = loom.tid()
    y[i] = a * x[i] + y[i]
";
    let expected = "\
kernel @saxpy(%0 a: f32, %1 x: array<f32, 1>, %2 y: array<f32, 1>) {
  %3: i32 = tid_linear
  %4: f32 = array_load %1, %3
  %5: f32 = mul %0, %4
  %6: f32 = array_load %2, %3
  %7: f32 = add %5, %6
  array_store %2, %3, %7
  return
}
";
    assert_eq!(hir(text), expected);
}

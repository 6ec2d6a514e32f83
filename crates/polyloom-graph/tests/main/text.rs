//! The text form: what is printed reads back as the same graph.

use crate::support::graph;
use polyloom_graph::parse_graph;

#[test]
fn graphs_are_printed_with_all_attributes_and_types() {
    let text = "
        // A comment.
        %x = input \"x\" : f32[n, 3]
        %y = multiply %x, 2
        %s = sum %y, axes=(-1)
        %p = pad %s, widths=(0, 0), value=0.1
        %b = broadcast_to 1.5, shape=[n, 2]
        %c = cross_entropy %x, 1
        return %p, %b";
    let text = text.replace("%c = cross_entropy %x, 1", "%c = softplus -inf");
    assert_eq!(
        graph(&text).to_string(),
        "%0 = input \"x\" : f32[n, 3]\n\
         %1 = constant 2.0 : f32[]\n\
         %2 = multiply %0, %1 : f32[n, 3]\n\
         %3 = sum %2, axes=(1), keepdims=false : f32[n]\n\
         %4 = pad %3, widths=(0, 0), value=0.1 : f32[n]\n\
         %5 = constant 1.5 : f64[]\n\
         %6 = broadcast_to %5, shape=[n, 2] : f64[n, 2]\n\
         %7 = constant -inf : f64[]\n\
         %8 = softplus %7 : f64[]\n\
         return %4, %6\n"
    );
}

#[test]
fn what_is_printed_reads_back() {
    let text = "%0 = input \"x\" : i8[2, 0, k_1]\n%1 = constant -128 : i8[]\n%2 = constant 18446744073709551615 : u64[]\n\
        %3 = constant true : bool[]\n%4 = constant 0.1 : f32[]\n%5 = constant NaN : f16[]\n%6 = constant 1e-300 : f64[]\n\
        %7 = gelu %4, approximate=\"tanh\"\n%8 = argmax %0, axis=-1\n%9 = cast %0, dtype=bf16\n%10 = iota shape=(3)\n\
        %11 = layer_norm %9, axis=1\n%12 = concat %0, %0\nreturn %7, %8, %11, %12";
    // The last axis may be empty at run time, and the first is reduced in vain; types alone are of interest here.
    let once = graph(text);
    assert_eq!(parse_graph(&once.to_string()).unwrap(), once);
    assert_eq!(parse_graph(&once.to_string()).unwrap().to_string(), once.to_string());
}

#[test]
fn what_cannot_be_read_is_told_with_its_line() {
    for (text, want) in [
        ("", "line 0: there is no `return`"),
        ("%0 = input x : f32[]\nreturn %0", "line 1: an input has a name in quotes"),
        ("%0 = input \"x\"\nreturn %0", "line 1: an input has a type"),
        ("%0 = input \"x\" : f31[]\nreturn %0", "line 1: `f31[]` is no type"),
        ("%0 = input \"x\" : f32[-1]\nreturn %0", "line 1: `[-1]` is no shape"),
        ("%0 = input \"x\" : f32[]\n%0 = sin %0\nreturn %0", "line 2: `%0` is no new name"),
        ("%0 = constant 1..2 : f32[]\nreturn %0", "line 1: a constant is a number"),
        ("sin\nreturn", "line 1: a line reads `%name = op … : type`"),
        ("%0 = sin zzz\nreturn %0", "line 1: `zzz` is no value"),
        ("%0 = sin f32\nreturn %0", "line 1: `f32` is no operand"),
        ("return %0", "line 1: `%0` is not defined before its use"),
    ] {
        assert_eq!(parse_graph(text).unwrap_err().to_string(), want, "{text}");
    }
}

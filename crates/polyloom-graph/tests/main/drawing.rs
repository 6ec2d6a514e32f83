//! Drawings of graphs: of both text forms, of any size, with whatever names.

use crate::support::graph;
use polyloom_graph::drawing::{GraphOutline, MAX_DRAWN_NODES, draw};
use std::fmt::Write as _;

/// Returns the boxes of a picture: the middle, the top and the bottom of each, in the order of the values.
fn boxes(svg: &str) -> Vec<(f64, f64, f64)> {
    let number = |tag: &str, name: &str| {
        let value = tag.split(&format!(" {name}=\"")).nth(1).and_then(|rest| rest.split('"').next());
        value.and_then(|value| value.parse::<f64>().ok()).unwrap_or_else(|| panic!("no {name} in {tag}"))
    };
    let tags = svg.split("<rect").skip(1).map(|rest| rest.split('>').next().unwrap_or_default());
    tags.map(|tag| {
        let (top, height) = (number(tag, "y"), number(tag, "height"));
        (number(tag, "x") + number(tag, "width") / 2.0, top, top + height)
    })
    .collect()
}

const SOFTMAX: &str = "%0 = input \"x\" : f32[n, m]\n%1 = softmax %0, axis=-1\n%2 = multiply %1, 0.1\nreturn %2";

#[test]
fn both_text_forms_are_read() {
    let outline = GraphOutline::read(&graph(SOFTMAX).to_string()).unwrap();
    assert_eq!(outline.op_counts(), [("softmax", 1), ("multiply", 1)]);
    assert_eq!(outline.summary(), "A graph of 1 input, 1 softmax, 1 multiply, 1 result");
    assert_eq!(outline.line(1), "%1 = softmax %0, axis=1 : f32[n, m]");
    let identity = graph(SOFTMAX).identity().unwrap();
    for form in [identity.bits, identity.mathematics] {
        let outline = GraphOutline::read(&form.text).unwrap();
        // Bits of numbers are digits again, those of the narrow type.
        let numbers: Vec<_> = outline.values.iter().filter_map(|value| value.number.as_deref()).collect();
        assert!(numbers.contains(&"0.1"), "{numbers:?}\n{}", form.text);
        assert!(outline.values[0].is_input && outline.values[0].op == "input 0", "{:?}", outline.values[0]);
        let svg = draw(&outline, &[]).unwrap();
        assert_eq!(boxes(&svg).len(), outline.values.len() - numbers.len());
    }
}

#[test]
fn each_op_stands_below_its_operands_and_no_box_on_another() {
    let text = "%0 = input \"a\" : f32[4]\n%1 = input \"b\" : f32[4]\n%2 = add %0, %1\n%3 = exp %2\n%4 = multiply %3, %0\n\
                %5 = sqrt %2\n%6 = add %4, %5\n%7 = add %6, %1\nreturn %7, %3";
    let outline = GraphOutline::read(text).unwrap();
    let svg = draw(&outline, &[]).unwrap();
    let boxes = boxes(&svg);
    for (index, value) in outline.values.iter().enumerate() {
        for &operand in &value.operands {
            assert!(boxes[operand].2 < boxes[index].1, "{operand} is not above {index}");
        }
    }
    for (index, a) in boxes.iter().enumerate() {
        let same_layer = boxes[..index].iter().filter(|b| a.1 < b.2 && b.1 < a.2);
        assert!(same_layer.into_iter().all(|b| (a.0 - b.0).abs() > 50.0), "{index} lies on another");
    }
    assert!(svg.contains("→ result 0") && svg.contains("→ result 1"));
}

#[test]
fn groups_have_colours_and_names_are_escaped() {
    let name = "<script>alert(1)</script> & 'x'";
    let text = format!("%0 = input \"{name}\" : f32[n]\n%1 = exp %0\n%2 = sin %1\nreturn %2");
    let outline = GraphOutline::read(&text).unwrap();
    let svg = draw(&outline, &[None, Some(0), Some(7)]).unwrap();
    assert!(svg.contains("class=\"node group-0\"") && svg.contains("class=\"node group-1\""), "{svg}");
    assert!(
        !svg.contains("<script") && svg.contains("&lt;script&gt;alert(1)&lt;/script&gt; &amp; &#39;x&#39;"),
        "{svg}"
    );
}

#[test]
fn large_graphs_are_not_drawn_and_other_texts_refused() {
    let mut text = "%0 = input \"x\" : f32[]\n".to_owned();
    for value in 1..MAX_DRAWN_NODES {
        // Each reads the first one too, so that edges pass all layers.
        let _ = writeln!(text, "%{value} = add %{}, %0", value - 1);
    }
    let full = GraphOutline::read(&format!("{text}return %{}", MAX_DRAWN_NODES - 1)).unwrap();
    assert_eq!(boxes(&draw(&full, &[]).unwrap()).len(), MAX_DRAWN_NODES);
    let _ = writeln!(text, "%{MAX_DRAWN_NODES} = exp %0");
    let larger = GraphOutline::read(&format!("{text}return %0")).unwrap();
    assert_eq!(draw(&larger, &[]), None);
    for (wrong, line) in [("", 0), ("add(x, y)", 1), ("%0 = exp %1\nreturn %0", 1), ("%0 = iota shape=(3)", 1)] {
        let error = GraphOutline::read(wrong).unwrap_err().to_string();
        assert!(error.contains(&line.to_string()), "{error}");
    }
    let twice = "%0 = input \"x\" : f32[]\n%0 = exp %0\nreturn %0";
    assert!(GraphOutline::read(twice).unwrap_err().to_string().contains("defined twice"));
    assert!(draw(&GraphOutline::default(), &[]).unwrap().contains("</svg>"));
}

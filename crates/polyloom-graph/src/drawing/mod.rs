//! Graphs drawn as SVG, from their text.
//!
//! A drawing is made of an [outline](GraphOutline), which is read from the text form of a graph or from a canonical text, and looks
//! nothing up in the table of ops: a text that another version has written can still be looked at. Values stand in layers, each below
//! its operands ([`layout`]); constants stand in the ops that they are operands of.
//!
//! ```
//! use polyloom_graph::drawing::{GraphOutline, draw};
//!
//! let outline = GraphOutline::read("%0 = input \"x\" : f32[n]\n%1 = exp %0 : f32[n]\nreturn %1").unwrap();
//! let svg = draw(&outline, &[]).unwrap();
//! assert!(svg.starts_with("<svg ") && svg.contains(">exp</text>"));
//! ```

mod layout;
mod outline;

pub use outline::{GraphOutline, OutlineValue};

use layout::{DrawnLayers, NodeBox};
use std::fmt::{self, Write as _};

/// Graphs of more ops and inputs are not drawn, because nobody could read them.
pub const MAX_DRAWN_NODES: usize = 300;
/// The width of a letter of the font's size 12, in which all monospaced fonts are nearly alike.
const LETTER_WIDTH: f64 = 7.3;
const LINE_HEIGHT: f64 = 15.0;
const PADDING: f64 = 10.0;
/// Longer lines are cut; the whole is in the node's title.
const MAX_LINE_LETTERS: usize = 30;
/// The colours of groups, which stand out from light and dark pages. A page may set others for the classes `group-0` to `group-5`.
const GROUP_COLOURS: [&str; 6] = ["#2f6fb2", "#3d8b40", "#c77700", "#7d4aa8", "#b83b52", "#218a8a"];

/// Draws an outline. `groups` has a group for each value that belongs to one; groups have colours, which repeat after the sixth. None
/// if there are more than [`MAX_DRAWN_NODES`] ops and inputs. Lines and letters have the colour of the text around the picture.
pub fn draw(outline: &GraphOutline, groups: &[Option<usize>]) -> Option<String> {
    let nodes: Vec<usize> = (0..outline.values.len()).filter(|&index| outline.values[index].number.is_none()).collect();
    if nodes.len() > MAX_DRAWN_NODES {
        return None;
    }
    let mut place_of = vec![usize::MAX; outline.values.len()];
    nodes.iter().enumerate().for_each(|(place, &index)| place_of[index] = place);
    let labels: Vec<Vec<String>> = nodes.iter().map(|&index| node_lines(outline, index)).collect();
    let boxes = nodes.iter().zip(&labels).map(|(&index, lines)| {
        let n_letters = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
        let operands = outline.values[index].operands.iter().map(|&operand| place_of[operand]);
        NodeBox {
            width: (n_letters as f64 * LETTER_WIDTH + 2.0 * PADDING).ceil(),
            height: lines.len() as f64 * LINE_HEIGHT + 2.0 * PADDING - 4.0,
            operands: operands.filter(|&place| place != usize::MAX).collect(),
            is_input: outline.values[index].is_input,
        }
    });
    let drawn = DrawnLayers::of(boxes.collect());
    let mut svg = String::new();
    // Writing to a string does not fail.
    let _ = write_svg(&mut svg, outline, groups, &nodes, &labels, &drawn);
    Some(svg)
}

/// Returns the lines in the box of a value: the op or the input's name, what it takes beside tensors, the type.
fn node_lines(outline: &GraphOutline, index: usize) -> Vec<String> {
    let value = &outline.values[index];
    let mut lines = vec![value.op.clone()];
    let mut details = value.details.clone();
    for &operand in &value.operands {
        details.extend(outline.values[operand].number.clone());
    }
    if !details.is_empty() {
        lines.push(details.join(", "));
    }
    lines.push(value.ty.clone());
    if let Some(output) = outline.outputs.iter().position(|&output| output == index) {
        let last = lines.len() - 1;
        lines[last] = match outline.outputs.len() {
            1 => format!("{} → result", lines[last]),
            _ => format!("{} → result {output}", lines[last]),
        };
    }
    lines.iter().map(|line| cut(line)).collect()
}

fn cut(line: &str) -> String {
    match line.char_indices().nth(MAX_LINE_LETTERS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

fn write_svg(
    svg: &mut String,
    outline: &GraphOutline,
    groups: &[Option<usize>],
    nodes: &[usize],
    labels: &[Vec<String>],
    drawn: &DrawnLayers,
) -> fmt::Result {
    let (width, height) = (drawn.width.ceil(), drawn.height.ceil());
    write!(
        svg,
        r#"<svg xmlns="http://www.w3.org/2000/svg" class="graph" role="img" width="{width}" height="{height}" viewBox="0 0 {width} {height}" font-family="ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace" font-size="12">"#
    )?;
    write!(svg, "<title>{}</title>", EscapedXml(&outline.summary()))?;
    for edge in &drawn.edges {
        write!(svg, r#"<path class="edge" fill="none" stroke="currentColor" stroke-opacity="0.55" d=""#)?;
        for (index, pair) in edge.windows(2).enumerate() {
            let [(x, y), (to_x, to_y)] = [pair[0], pair[1]];
            if index == 0 {
                write!(svg, "M{x:.1} {y:.1}")?;
            }
            let bend = (to_y - y) / 2.0;
            write!(svg, "C{x:.1} {:.1} {to_x:.1} {:.1} {to_x:.1} {to_y:.1}", y + bend, to_y - bend)?;
        }
        svg.push_str("\"/>");
        if let Some((x, y)) = edge.last() {
            write!(
                svg,
                r#"<path class="arrow" fill="currentColor" fill-opacity="0.7" d="M{:.1} {:.1}h6l-3 6z"/>"#,
                x - 3.0,
                y - 6.0
            )?;
        }
    }
    for ((&index, lines), (node, &(x, y))) in nodes.iter().zip(labels).zip(drawn.boxes.iter().zip(&drawn.corners)) {
        let value = &outline.values[index];
        let group = groups.get(index).copied().flatten();
        let (class, colour, opacity) = match group {
            Some(group) => (format!("node group-{}", group % 6), GROUP_COLOURS[group % 6], "0.16"),
            None if value.is_input => ("node input".to_owned(), "currentColor", "0"),
            None => ("node".to_owned(), "currentColor", "0.05"),
        };
        let radius = if value.is_input { node.height / 2.0 } else { 4.0 };
        let NodeBox { width, height, .. } = node;
        write!(svg, r#"<g class="{class}"><title>{}</title>"#, EscapedXml(&outline.line(index)))?;
        write!(
            svg,
            r#"<rect x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}" rx="{radius}" fill="{colour}" fill-opacity="{opacity}" stroke="{colour}"/>"#
        )?;
        for (row, line) in lines.iter().enumerate() {
            let style = if row == 0 { r#"font-weight="600""# } else { r#"fill-opacity="0.75""# };
            write!(
                svg,
                r#"<text x="{:.1}" y="{:.1}" text-anchor="middle" fill="currentColor" {style}>{}</text>"#,
                x + width / 2.0,
                y + PADDING + 9.0 + row as f64 * LINE_HEIGHT,
                EscapedXml(line)
            )?;
        }
        svg.push_str("</g>");
    }
    svg.push_str("</svg>");
    Ok(())
}

/// A text within an element of XML or HTML. Names in graphs are whatever a user has written.
struct EscapedXml<'a>(&'a str);

impl fmt::Display for EscapedXml<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|c| match c {
            '&' => f.write_str("&amp;"),
            '<' => f.write_str("&lt;"),
            '>' => f.write_str("&gt;"),
            '"' => f.write_str("&quot;"),
            '\'' => f.write_str("&#39;"),
            // XML has no other characters below the space.
            '\t' | '\n' | '\r' => f.write_char(c),
            c if c < ' ' => f.write_char('\u{fffd}'),
            c => f.write_char(c),
        })
    }
}

//! Writing HTML. Names of elements and attributes are literals of this program, and all else is escaped, so that what a database holds
//! is never more than text.

use std::fmt::{self, Display, Write as _};

/// An HTML text that grows.
#[derive(Default)]
pub(super) struct HtmlWriter {
    text: String,
}

/// Names and values of attributes.
pub(super) type HtmlAttributes<'a> = &'a [(&'static str, &'a str)];

/// The text of a cell for what is not known.
pub(super) const NOTHING: &str = "–";

/// Escapes what is written through it.
struct EscapingWriter<'a>(&'a mut String);

impl fmt::Write for EscapingWriter<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for c in text.chars() {
            match c {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                '\t' | '\n' => self.0.push(c),
                // Other control characters are none of HTML's, and those that turn the direction of text would turn the page's.
                c if c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}') => {
                    self.0.push('\u{fffd}');
                }
                c => self.0.push(c),
            }
        }
        Ok(())
    }
}

impl HtmlWriter {
    pub(super) fn finish(self) -> String {
        self.text
    }

    /// Writes a text.
    pub(super) fn text(&mut self, text: impl Display) {
        // Writing to a string does not fail.
        let _ = write!(EscapingWriter(&mut self.text), "{text}");
    }

    fn open(&mut self, tag: &'static str, attributes: HtmlAttributes<'_>, end: &'static str) {
        self.text.push('<');
        self.text.push_str(tag);
        for (name, value) in attributes {
            self.text.push(' ');
            self.text.push_str(name);
            self.text.push_str("=\"");
            self.text(value);
            self.text.push('"');
        }
        self.text.push_str(end);
    }

    /// Writes an element with what the callback writes in it.
    pub(super) fn element(
        &mut self,
        tag: &'static str,
        attributes: HtmlAttributes<'_>,
        inner: impl FnOnce(&mut HtmlWriter),
    ) {
        self.open(tag, attributes, ">");
        inner(self);
        self.text.push_str("</");
        self.text.push_str(tag);
        self.text.push('>');
    }

    /// Writes an element that has a text.
    pub(super) fn leaf(&mut self, tag: &'static str, attributes: HtmlAttributes<'_>, text: impl Display) {
        self.element(tag, attributes, |html| html.text(text));
    }

    /// Writes an element that has nothing in it and no end.
    pub(super) fn void(&mut self, tag: &'static str, attributes: HtmlAttributes<'_>) {
        self.open(tag, attributes, if is_of_svg(tag) { "/>" } else { ">" });
    }

    pub(super) fn doctype(&mut self) {
        self.text.push_str("<!doctype html>\n");
    }

    pub(super) fn link(&mut self, href: &str, text: impl Display) {
        self.leaf("a", &[("href", href)], text);
    }

    /// Writes what is HTML already, made by another writer or by `polyloom::graph::drawing`, and thus escaped.
    pub(super) fn finished(&mut self, html: &str) {
        self.text.push_str(html);
    }

    /// Writes a table. Columns have a heading and a class; a cell knows its heading, because on narrow screens a row becomes a card
    /// in which headings stand before values.
    pub(super) fn table(
        &mut self,
        class: &str,
        columns: &[(&'static str, &'static str)],
        n_rows: usize,
        row_class: &dyn Fn(usize) -> &'static str,
        mut cell: impl FnMut(&mut HtmlWriter, usize, &'static str),
    ) {
        self.element("div", &[("class", "scroll")], |html| {
            html.element("table", &[("class", class)], |html| {
                html.element("thead", &[], |html| {
                    html.element("tr", &[], |html| {
                        for (heading, class) in columns {
                            html.leaf("th", &[("scope", "col"), ("class", class)], heading);
                        }
                    });
                });
                html.element("tbody", &[], |html| {
                    for row in 0..n_rows {
                        html.element("tr", &[("class", row_class(row))], |html| {
                            for (heading, class) in columns {
                                let mut inner = HtmlWriter::default();
                                cell(&mut inner, row, heading);
                                let inner = inner.finish();
                                // A card leaves out what is not there.
                                let class = format!("{class}{}", if inner == NOTHING { " none" } else { "" });
                                html.element("td", &[("class", &class), ("data-label", heading)], |html| {
                                    html.finished(&inner);
                                });
                            }
                        });
                    }
                });
            });
        });
    }
}

fn is_of_svg(tag: &str) -> bool {
    matches!(tag, "rect" | "line" | "circle" | "path")
}

#[cfg(test)]
mod tests {
    use super::HtmlWriter;

    #[test]
    fn texts_and_values_are_escaped() {
        let mut html = HtmlWriter::default();
        html.element("a", &[("href", "/?x=\"><script>")], |html| html.text("</a><script>alert('1 & 2')\u{0}\u{202e}"));
        assert_eq!(
            html.finish(),
            "<a href=\"/?x=&quot;&gt;&lt;script&gt;\">&lt;/a&gt;&lt;script&gt;alert(&#39;1 &amp; 2&#39;)\u{fffd}\u{fffd}</a>"
        );
    }
}

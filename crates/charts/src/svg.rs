//! The pen: writes SVG elements into a string, escapes every text, estimates how wide text will be.
//!
//! Does not know about charts. Coordinates are CSS pixels, written with at most two decimals.

use super::{colour_map, theme};
use std::fmt::{self, Write};

/// A drawing in progress, `width` × `height` pixels.
#[derive(Debug)]
pub struct Canvas {
    /// Width in pixels.
    pub(super) width: f64,
    /// Height in pixels.
    pub(super) height: f64,
    title: String,
    body: String,
}

/// Anchor of a text on its point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// A rectangle in pixels; `top` is the smaller y.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Rect {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) width: f64,
    pub(super) height: f64,
}

impl Rect {
    pub(super) fn right(&self) -> f64 {
        self.left + self.width
    }

    pub(super) fn bottom(&self) -> f64 {
        self.top + self.height
    }
}

impl Canvas {
    pub(super) fn new(width: f64, height: f64, title: &str) -> Canvas {
        Canvas { width, height, title: title.to_string(), body: String::new() }
    }

    /// Raw markup. Only for markup made of our own constants and of numbers.
    pub(super) fn raw(&mut self, markup: fmt::Arguments<'_>) {
        self.body.write_fmt(markup).expect("writing to a string does not fail");
        self.body.push('\n');
    }

    /// Begins the series `name`, to which all belongs up to [`Canvas::end_series`].
    pub(super) fn begin_series(&mut self, name: &str) {
        self.raw(format_args!(r#"<g data-series="{}">"#, Escaped(name)));
    }

    pub(super) fn end_series(&mut self) {
        self.raw(format_args!("</g>"));
    }

    pub(super) fn text(&mut self, (x, y): (f64, f64), anchor: Anchor, class: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        self.raw(format_args!(
            r#"<text class="{class}" x="{}" y="{}" text-anchor="{anchor}">{}</text>"#,
            N(x),
            N(y),
            Escaped(text)
        ));
    }

    pub(super) fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        self.raw(format_args!(
            r#"<line class="{class}" x1="{}" y1="{}" x2="{}" y2="{}"/>"#,
            N(from.0),
            N(from.1),
            N(to.0),
            N(to.1)
        ));
    }

    /// A rectangle with a tooltip; an empty `tip` gives none.
    pub(super) fn rect(&mut self, class: &str, area: Rect, tip: &str) {
        let Rect { left, top, width, height } = area;
        let geometry = format_args!(
            r#"<rect class="{class}" x="{}" y="{}" width="{}" height="{}""#,
            N(left),
            N(top),
            N(width),
            N(height)
        )
        .to_string();
        self.closed(&geometry, "rect", tip);
    }

    /// An invisible disc that shows `tip` when the pointer is on it.
    pub(super) fn hot_spot(&mut self, (x, y): (f64, f64), radius: f64, tip: &str) {
        let geometry = format!(r#"<circle class="hot" cx="{}" cy="{}" r="{radius}""#, N(x), N(y));
        self.closed(&geometry, "circle", tip);
    }

    fn closed(&mut self, geometry: &str, name: &str, tip: &str) {
        if tip.is_empty() {
            self.raw(format_args!("{geometry}/>"));
        } else {
            self.raw(format_args!("{geometry}><title>{}</title></{name}>", Escaped(tip)));
        }
    }

    /// The drawing as an element of a page that carries the styles already.
    pub(super) fn into_element(self) -> String {
        self.wrap("")
    }

    /// The drawing as a document of its own.
    pub(super) fn into_document(self) -> String {
        self.wrap(&(theme::CHART_STYLE.to_string() + &colour_map::style()))
    }

    fn wrap(self, style: &str) -> String {
        let style =
            if style.is_empty() { String::new() } else { format!("<style>{style}</style>\n") };
        let (width, height) = (N(self.width), N(self.height));
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart\" role=\"img\" \
             viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
             aria-label=\"{title}\">\n{style}<rect class=\"paper\" width=\"{width}\" \
             height=\"{height}\"/>\n{body}</svg>\n",
            title = Escaped(&self.title),
            body = self.body,
        )
    }
}

/// A coordinate: two decimals at most, no trailing zeroes, never `-0`.
pub(super) struct N(pub(super) f64);

impl fmt::Display for N {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        debug_assert!(self.0.is_finite(), "a coordinate must be a number");
        let hundredths = (self.0 * 100.0).round() as i64;
        let sign = if hundredths < 0 { "-" } else { "" };
        let (whole, rest) = (hundredths.unsigned_abs() / 100, hundredths.unsigned_abs() % 100);
        match (rest, rest % 10) {
            (0, _) => write!(f, "{sign}{whole}"),
            (_, 0) => write!(f, "{sign}{whole}.{}", rest / 10),
            _ => write!(f, "{sign}{whole}.{rest:02}"),
        }
    }
}

/// Text as XML and HTML take it, in content and in quoted attributes. Characters that XML forbids
/// become U+FFFD, so that a hostile volume name cannot make a document unreadable either.
pub(super) struct Escaped<'a>(pub(super) &'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                '\t' | '\n' | '\r' => f.write_char(' ')?,
                c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => {
                    f.write_char('\u{fffd}')?;
                }
                c => f.write_char(c)?,
            }
        }
        Ok(())
    }
}

/// Width of `text` at `size` pixels in an ordinary sans-serif face; errs on the wide side, because
/// what follows from it is how much room a label gets.
pub(super) fn text_width(text: &str, size: f64) -> f64 {
    let ems: f64 = text
        .chars()
        .map(|c| match c {
            'i' | 'j' | 'l' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' => 0.28,
            ' ' | 'f' | 't' | 'r' | 'I' | '(' | ')' | '-' | '/' => 0.36,
            'm' | 'w' | 'M' | 'W' | '%' | '@' => 0.90,
            'A'..='Z' | '–' | '−' => 0.69,
            c if c.is_ascii() || c == 'µ' => 0.58,
            _ => 1.0,
        })
        .sum();
    ems * size
}

/// `text` shortened with an ellipsis until it fits into `width` pixels.
pub(super) fn fitted(text: &str, size: f64, width: f64) -> String {
    if text_width(text, size) <= width {
        return text.to_string();
    }
    let mut kept: Vec<char> = text.chars().collect();
    while !kept.is_empty() {
        kept.pop();
        let candidate: String = kept.iter().collect::<String>().trim_end().to_string() + "…";
        if text_width(&candidate, size) <= width {
            return candidate;
        }
    }
    "…".to_string()
}

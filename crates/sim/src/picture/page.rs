//! A report as one HTML file that needs nothing else: no network, no other file, no library.
//!
//! A content security policy inside the page forbids every load, so that a mistake here shows up as
//! a broken page and not as a request. The script only sorts tables; without it the page is
//! complete.

use super::svg::Escaped;
use super::{Chart, Table, colour_map, theme};
use std::fmt::Write;

const SORT_SCRIPT: &str = "\
document.addEventListener('click',function(event){\
const head=event.target.closest('th');\
if(!head||!event.target.closest('th button'))return;\
const body=head.closest('table').tBodies[0],column=head.cellIndex;\
const up=head.getAttribute('aria-sort')==='descending';\
for(const other of head.parentNode.cells)other.removeAttribute('aria-sort');\
head.setAttribute('aria-sort',up?'ascending':'descending');\
const key=row=>{const cell=row.cells[column];\
return cell.dataset.key===undefined?cell.textContent:Number(cell.dataset.key)};\
const order=(a,b)=>typeof a==='number'&&typeof b==='number'?a-b:\
String(a).localeCompare(String(b),undefined,{numeric:true});\
[...body.rows].sort((a,b)=>order(key(a),key(b))*(up?1:-1)).forEach(row=>body.append(row))});";

/// A report page under construction; each call adds below what is there.
#[derive(Debug, Clone)]
pub struct Page {
    title: String,
    lede: String,
    sections: Vec<String>,
    body: String,
    foot: Vec<String>,
}

impl Page {
    /// An empty page.
    pub fn new(title: impl Into<String>) -> Page {
        Page {
            title: title.into(),
            lede: String::new(),
            sections: Vec::new(),
            body: String::new(),
            foot: Vec::new(),
        }
    }

    /// The sentence below the title: what was measured, on what.
    #[must_use]
    pub fn lede(mut self, text: impl Into<String>) -> Page {
        self.lede = text.into();
        self
    }

    /// Starts a section; from the third on the page gets links to its sections.
    #[must_use]
    pub fn section(mut self, heading: &str) -> Page {
        self.sections.push(heading.to_string());
        let number = self.sections.len();
        self.put(format_args!("<h2 id=\"s{number}\">{}</h2>\n", Escaped(heading)));
        self
    }

    /// A paragraph of plain text.
    #[must_use]
    pub fn paragraph(mut self, text: &str) -> Page {
        self.put(format_args!("<p>{}</p>\n", Escaped(text)));
        self
    }

    /// A chart.
    #[must_use]
    pub fn chart(mut self, chart: &dyn Chart) -> Page {
        let drawing = chart.draw().into_element();
        self.put(format_args!("<figure>{drawing}</figure>\n"));
        self
    }

    /// A table.
    #[must_use]
    pub fn table(mut self, table: &Table) -> Page {
        table.write_html(&mut self.body);
        self
    }

    /// The page's foot: the program's version and the command line that made it.
    #[must_use]
    pub fn made_by(mut self, version: &str, command: &str) -> Page {
        self.foot.push(format!(
            "Made by thermocline {} with<br><code>{}</code>",
            Escaped(version),
            Escaped(command)
        ));
        self
    }

    /// The whole file.
    pub fn to_html(&self) -> String {
        let title = Escaped(&self.title);
        let mut html = format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
             style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n\
             <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n\
             <title>{title}</title>\n<style>{}{}{}</style></head>\n<body><main>\n<h1>{title}</h1>\n",
            theme::PAGE_STYLE,
            theme::CHART_STYLE,
            colour_map::style(),
        );
        if !self.lede.is_empty() {
            html.push_str(&format!("<p class=\"lede\">{}</p>\n", Escaped(&self.lede)));
        }
        if self.sections.len() > 2 {
            html.push_str("<nav>");
            for (i, heading) in self.sections.iter().enumerate() {
                html.push_str(&format!("<a href=\"#s{}\">{}</a>", i + 1, Escaped(heading)));
            }
            html.push_str("</nav>\n");
        }
        html.push_str(&self.body);
        html.push_str("</main>\n");
        if !self.foot.is_empty() {
            html.push_str(&format!("<footer>{}</footer>\n", self.foot.join("<br>")));
        }
        html.push_str(&format!("<script>{SORT_SCRIPT}</script>\n</body></html>\n"));
        html
    }

    fn put(&mut self, text: std::fmt::Arguments<'_>) {
        self.body.write_fmt(text).expect("writing to a string does not fail");
    }
}

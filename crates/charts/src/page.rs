//! A report as one HTML file that needs nothing else: no network, no other file, no library.
//!
//! A content security policy inside the page forbids every load, so that a mistake here shows up as
//! a broken page and not as a request. The script sorts tables and switches series off and on;
//! without it the page is complete, every series shown.

use super::svg::Escaped;
use super::{Chart, Switch, Table, colour_map, theme};
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

/// Switches: a button a series, buttons for whole groups. Series of one name are switched in all
/// charts of the page at once; the pointer on a button fades all others.
const SWITCH_SCRIPT: &str = "\
const parts=name=>[...document.querySelectorAll('[data-series]')]\
.filter(part=>name===undefined||part.dataset.series===name);\
const put=(name,on)=>parts(name).forEach(part=>{\
if(part.tagName==='BUTTON')part.setAttribute('aria-pressed',on);\
else part.classList.toggle('off',!on)});\
const pressed=button=>button.getAttribute('aria-pressed')==='true';\
const own=group=>[...group.parentNode.querySelectorAll('button[data-series]')];\
document.querySelectorAll('button[data-series][data-later]').forEach(button=>\
put(button.dataset.series,false));\
document.addEventListener('click',function(event){\
const button=event.target.closest('.switches button');if(!button)return;\
if(button.dataset.series!==undefined)return put(button.dataset.series,!pressed(button));\
const members=own(button),on=!members.every(pressed);\
members.forEach(member=>put(member.dataset.series,on))});\
const fade=event=>{const button=event.target.closest?.('button[data-series]');\
const name=event.type==='mouseover'&&button?button.dataset.series:undefined;\
parts().forEach(part=>{if(part.tagName!=='BUTTON')part.classList.toggle('faint',\
name!==undefined&&part.dataset.series!==name)})};\
document.addEventListener('mouseover',fade);document.addEventListener('mouseout',fade);";

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
        let switches = buttons(&chart.switches());
        self.put(format_args!("<figure>{switches}{drawing}</figure>\n"));
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
        let scripts = format!("<script>{SORT_SCRIPT}{SWITCH_SCRIPT}</script>");
        html.push_str(&format!("{scripts}\n</body></html>\n"));
        html
    }

    fn put(&mut self, text: std::fmt::Arguments<'_>) {
        self.body.write_fmt(text).expect("writing to a string does not fail");
    }
}

/// Buttons that switch series, a row a group.
fn buttons(switches: &[Switch<'_>]) -> String {
    let mut groups: Vec<&str> = Vec::new();
    for switch in switches {
        if !groups.contains(&switch.group) {
            groups.push(switch.group);
        }
    }
    let mut html = String::new();
    for group in groups {
        html.push_str("<div class=\"switches\">");
        if !group.is_empty() {
            html.push_str(&format!("<button type=\"button\">{}</button>", Escaped(group)));
        }
        for switch in switches.iter().filter(|switch| switch.group == group) {
            let later = if switch.shown { "" } else { " data-later" };
            let name = Escaped(switch.name);
            html.push_str(&format!(
                "<button type=\"button\" data-series=\"{name}\" aria-pressed=\"true\"{later}>\
                 {name}</button>"
            ));
        }
        html.push_str("</div>\n");
    }
    html
}

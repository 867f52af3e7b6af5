//! Advice as a page: the trials as bars, all figures, the sentences.

use super::{Report, text};
use thermocline_charts::format::Quantity;
use thermocline_charts::{Axis, BarChart, BarSeries, Cell, Page, Stacking, Table};
use thermocline_sim::advise::{Answer, Figures};

/// The advice as one self-contained HTML page; `command` made it.
pub(super) fn html(report: &Report, command: &str) -> String {
    let advice = &report.advice;
    let mut page = Page::new("Advice before you buy").lede(text::parts(&advice.answers[0]) + ".");
    page = page.section("Latency").chart(&bars(&advice.answers, "Mean", |f| f.mean_s.mean));
    page = page.chart(&bars(&advice.answers, "99th percentile", |f| f.p99_s.mean));
    page = page.section("Advice");
    for sentence in text::sentences(report) {
        page = page.paragraph(&sentence);
    }
    page = page.section("All figures").table(&table(&advice.answers));
    if let Some(found) = &report.cheapest {
        page = page.section("Devices by price").paragraph(&text::cheapest(found));
        page = page.chart(&bars(&found.sets, "99th percentile", |f| f.p99_s.mean));
        page = page.table(&table(&found.sets));
    }
    page.made_by(report.version, command).to_html()
}

fn bars(answers: &[Answer], title: &str, of: fn(&Figures) -> f64) -> BarChart {
    let run = || answers.iter().filter_map(|answer| Some((answer, answer.figures.as_ref()?)));
    BarChart {
        title: title.to_string(),
        note: "reads and writes; mean over seeds".to_string(),
        y: Axis::linear("time", Quantity::Seconds),
        group_label: String::new(),
        groups: run().map(|(answer, _)| answer.what.clone()).collect(),
        series: vec![BarSeries {
            name: title.to_string(),
            values: run().map(|(_, figures)| of(figures)).collect(),
        }],
        stacking: Stacking::Beside,
    }
}

/// A column of numbers: heading, kind, value.
type Column = (&'static str, Quantity, fn(&Figures) -> f64);

const COLUMNS: [Column; 9] = [
    ("mean", Quantity::Seconds, |f| f.mean_s.mean),
    ("of now", Quantity::Share, |f| f.mean_ratio.mean),
    ("at least", Quantity::Share, |f| f.mean_ratio.low),
    ("at most", Quantity::Share, |f| f.mean_ratio.high),
    ("99th percentile", Quantity::Seconds, |f| f.p99_s.mean),
    ("of now", Quantity::Share, |f| f.p99_ratio.mean),
    ("drive writes a day", Quantity::Plain, |f| f.writes_a_day.unwrap_or(f64::NAN)),
    ("moved", Quantity::Bytes, |f| f.moved_bytes),
    ("cost a month", Quantity::Plain, |f| f.month_cost.unwrap_or(f64::NAN)),
];

fn table(answers: &[Answer]) -> Table {
    let heads = COLUMNS.iter().map(|(heading, ..)| *heading);
    let mut table = Table::new("", ["trial", "verdict", "devices"].into_iter().chain(heads));
    for answer in answers {
        let words = [answer.what.clone(), text::word(answer.verdict).into(), text::parts(answer)];
        let cell = |&(_, quantity, of): &Column| {
            let value = answer.figures.as_ref().map_or(f64::NAN, of);
            Cell::number(quantity, value)
        };
        table.row(words.into_iter().map(Cell::text).chain(COLUMNS.iter().map(cell)));
    }
    table
}

//! Pictures are well formed, complete and self-contained, whatever is drawn.

use super::{
    Axis, Bar, BarChart, BarSeries, Cell, Chart, HeatMap, Histogram, LineChart, Page, Series,
    Stacking, Table,
};
use crate::format::Quantity;

fn curves(names: &[&str], points: &[(f64, f64)]) -> LineChart {
    LineChart {
        title: "Hits".to_string(),
        note: String::new(),
        x: Axis::log("flash", Quantity::Bytes),
        y: Axis::linear("share", Quantity::Share),
        series: names.iter().map(|name| Series::new(*name, points.to_vec())).collect(),
    }
}

#[test]
fn many_series_have_switches_by_group_and_few_have_none() {
    let points = vec![(4096.0, 0.1), (8192.0, 0.4)];
    let mut chart = curves(&["a<b", "c", "d"], &points);
    let page = |chart: &LineChart| Page::new("t").chart(chart).to_html();
    assert!(!page(&chart).contains("<div class=\"switches\">"));
    let late = Series::new("late", points).in_group("managers", false);
    chart.series.push(late);
    let html = page(&chart);
    assert_eq!(html.matches("<div class=\"switches\">").count(), 2, "one row a group");
    assert!(html.contains("data-series=\"a&lt;b\" aria-pressed=\"true\">a&lt;b</button>"));
    assert!(html.contains("data-series=\"late\" aria-pressed=\"true\" data-later>late</button>"));
    assert!(html.contains("<g data-series=\"late\">"), "what the switch acts on");
    assert_well_formed(&chart.to_svg());
}

fn map(cells: Vec<f64>, columns: usize) -> HeatMap {
    HeatMap {
        title: "Popularity".to_string(),
        note: String::new(),
        x: Axis::linear("time", Quantity::Seconds),
        y: Axis::linear("address", Quantity::Bytes),
        colour: Axis::log("accesses", Quantity::Count),
        cell_width: 60.0,
        cell_height: 1_048_576.0,
        columns,
        cells,
    }
}

fn bars(values: Vec<f64>) -> BarChart {
    BarChart {
        title: "Cost".to_string(),
        note: String::new(),
        y: Axis::linear("time", Quantity::Seconds),
        group_label: String::new(),
        groups: (0..values.len()).map(|i| format!("group {i}")).collect(),
        series: vec![BarSeries { name: "cost".to_string(), values }],
        stacking: Stacking::Beside,
    }
}

fn sizes(bars: Vec<Bar>) -> Histogram {
    Histogram {
        title: "Sizes".to_string(),
        note: String::new(),
        x: Axis::log("size", Quantity::Bytes),
        y: Axis::linear("requests", Quantity::Count),
        bars,
    }
}

/// Every element that is opened is closed, in order: enough of XML for what is drawn here.
fn assert_well_formed(svg: &str) {
    let mut open = Vec::new();
    for tag in svg.split('<').skip(1) {
        let (tag, _) = tag.split_once('>').expect("a tag ends");
        let name = tag.trim_start_matches('/').split([' ', '/', '\n']).next().unwrap_or_default();
        match (tag.starts_with('/'), tag.ends_with('/') || tag.starts_with(['?', '!'])) {
            (true, _) => assert_eq!(open.pop(), Some(name), "closed out of order"),
            (false, true) => (),
            (false, false) => open.push(name),
        }
    }
    assert_eq!(open, Vec::<&str>::new(), "left open");
}

#[test]
fn every_chart_is_well_formed_with_ordinary_and_with_absurd_values() {
    let absurd = [f64::NAN, f64::INFINITY, -1.0, 0.0, 1e300, 5.0];
    let mut charts: Vec<Box<dyn Chart>> = vec![
        Box::new(curves(&["lru", "arc"], &[(1e6, 0.1), (1e9, 0.9)])),
        Box::new(curves(&["lru"], &[])),
        Box::new(curves(&["one"], &[(0.0, 0.5)])),
        Box::new(map(vec![1.0, 0.0, 30.0, 4.0], 2)),
        Box::new(map(absurd.to_vec(), 3)),
        Box::new(bars(vec![1.0, 2.0, 0.5])),
        Box::new(bars(absurd.to_vec())),
        Box::new(sizes(vec![Bar { from: 512.0, to: 1024.0, height: 7.0 }])),
        Box::new(sizes(vec![])),
    ];
    let points: Vec<(f64, f64)> = absurd.iter().flat_map(|x| absurd.map(|y| (*x, y))).collect();
    charts.push(Box::new(curves(&["absurd"], &points)));
    for chart in &charts {
        let svg = chart.to_svg();
        assert_well_formed(&svg);
        assert!(!svg.contains("NaN") && !svg.contains("\"inf"), "a number nobody can draw");
    }
}

#[test]
fn every_curve_is_named_in_the_picture() {
    let names: Vec<String> = (0..20).map(|i| format!("policy-{i}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for some in [&names[..2], &names[..12], &names[..]] {
        let svg = curves(some, &[(1e6, 0.2), (1e8, 0.4)]).to_svg();
        for name in some {
            assert!(svg.contains(&format!("{name}<")), "{name} of {}", some.len());
        }
    }
}

#[test]
fn text_from_outside_stays_text() {
    let hostile = "</text><script>alert('x')</script>&\"";
    let mut table = Table::new(hostile, [hostile]);
    table.row([Cell::text(hostile)]);
    let chart = LineChart { title: hostile.to_string(), ..curves(&[hostile], &[(1.0, 1.0)]) };
    let page = Page::new(hostile).lede(hostile).section(hostile).paragraph(hostile);
    let html = page.chart(&chart).table(&table).made_by(hostile, hostile).to_html();
    assert!(!html.contains("<script>alert"), "escaped everywhere");
    assert_well_formed(&chart.to_svg());
}

#[test]
fn a_page_needs_nothing_else() {
    let page = Page::new("Report").chart(&curves(&["lru"], &[(1e6, 0.5), (1e7, 0.6)])).to_html();
    for load in ["src=", "href=\"http", "@import", "url(http"] {
        assert!(!page.contains(load), "{load}");
    }
    assert!(page.contains("Content-Security-Policy"), "and says so to the browser");
}

#[test]
fn a_number_in_a_table_is_sorted_by_its_value() {
    let mut table = Table::new("", ["size"]);
    table.row([Cell::number(Quantity::Bytes, 2048.0)]);
    let html = Page::new("t").table(&table).to_html();
    assert!(html.contains("data-key=\"2048\"") && html.contains("2 KiB"), "{html}");
}

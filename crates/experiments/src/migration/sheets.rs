//! The source's tables with our figures below the published ones; rows of words, for a page and for
//! a terminal alike.

use super::{Load, Measures, Outcome, Point, Runs, Spread};

/// A table: a head and rows, the first cell of each a name.
#[derive(Debug)]
pub(super) struct Sheet {
    pub(super) title: String,
    pub(super) head: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
}

impl Sheet {
    fn new(title: String, head: impl IntoIterator<Item = String>) -> Sheet {
        Sheet { title, head: head.into_iter().collect(), rows: Vec::new() }
    }

    fn row(&mut self, name: &str, cells: impl IntoIterator<Item = String>) {
        let mut row = vec![name.to_string()];
        row.extend(cells);
        assert_eq!(row.len(), self.head.len(), "a row has one cell a column");
        self.rows.push(row);
    }
}

/// Our mean and deviation.
fn ours(spread: Spread) -> String {
    format!("{:.2} ± {:.2}", spread.mean, spread.deviation)
}

fn printed(value: f64) -> String {
    format!("{value:.2}")
}

/// A figure with what it is lower than `without`, percent.
fn lowered(text: &str, value: f64, without: f64) -> String {
    format!("{text} ({:.1} %)", (1.0 - value / without) * 100.0)
}

/// One of the source's three measures.
type Measure = (&'static str, fn(&Measures) -> f64);
const MEASURES: [Measure; 3] = [
    ("M_Resp, ms", |run| run.all.response_ms),
    ("V_Ratio, %", |run| run.all.violations_percent),
    ("V_Time, ms", |run| run.all.excess_ms),
];

impl Outcome {
    /// Every table, in the order of the source.
    pub(super) fn sheets(&self) -> Vec<Sheet> {
        let mut sheets = vec![self.table_5(), self.busy_disks()];
        sheets.extend((0..self.config.sizes.len()).map(|size| self.table_7(size)));
        sheets.push(self.strict_applications());
        sheets.extend((0..self.config.sizes.len()).map(|size| self.table_8(size)));
        sheets.push(self.figure_16("Figure 16 (a): α of eq. 4", "α", &self.alpha));
        sheets.push(self.figure_16("Figure 16 (b): e of eq. 16", "e, %", &self.e));
        sheets
    }

    fn sensitive(&self) -> &Load {
        let (size, burst) = self.config.sensitive_load().expect("it was checked when it was read");
        &self.loads[size * self.config.bursts.len() + burst]
    }

    fn loads_of(&self, size: usize) -> &[Load] {
        let bursts = self.config.bursts.len();
        &self.loads[size * bursts..(size + 1) * bursts]
    }

    fn head(&self, first: &str) -> Vec<String> {
        let bursts = self.config.bursts.iter().map(|share| format!("{:.0} % burst", share * 100.0));
        std::iter::once(first.to_string()).chain(bursts).collect()
    }

    fn table_5(&self) -> Sheet {
        let (load, printed_5) = (self.sensitive(), &self.config.published.table_5);
        let count = load.nmst.0.first().map_or(0, |run| run.applications.len());
        let title =
            format!("Table 5: applications at {}, {:.0} % burst", load.size, load.burst * 100.0);
        let names = (1..=count).map(|number| format!("App{number}"));
        let mut sheet = Sheet::new(title, std::iter::once(String::new()).chain(names));
        let source = |values: &[f64]| {
            let padded = values.iter().map(|value| printed(*value));
            padded.chain(std::iter::repeat(String::new())).take(count).collect::<Vec<_>>()
        };
        let of = |runs: &Runs, figure: fn(&super::Served) -> f64| {
            let one = |at: usize| ours(runs.spread(|run| figure(&run.applications[at])));
            (0..count).map(one).collect::<Vec<_>>()
        };
        let response: fn(&super::Served) -> f64 = |served| served.response_ms;
        let violations: fn(&super::Served) -> f64 = |served| served.violations_percent;
        sheet.row("NMsT M_Resp, ms, source", source(&printed_5.nmst_response));
        sheet.row("NMsT M_Resp, ms, ours", of(&load.nmst, response));
        sheet.row("NMsT V_Ratio, %, source", source(&printed_5.nmst_violations));
        sheet.row("NMsT V_Ratio, %, ours", of(&load.nmst, violations));
        sheet.row("LMsT M_Resp, ms, source", source(&printed_5.lmst_response));
        sheet.row("LMsT M_Resp, ms, ours", of(&load.lmst, response));
        sheet.row("LMsT V_Ratio, %, source", source(&printed_5.lmst_violations));
        sheet.row("LMsT V_Ratio, %, ours", of(&load.lmst, violations));
        sheet
    }

    fn busy_disks(&self) -> Sheet {
        let load = self.sensitive();
        let count = load.nmst.0.first().map_or(0, |run| run.busy.len());
        let names = (1..=count).map(|number| format!("D{number}"));
        let title = "Busy share of the disks at the same load, % (the source prints none)";
        let mut sheet = Sheet::new(title.to_string(), std::iter::once(String::new()).chain(names));
        for (name, runs) in [("NMsT", &load.nmst), ("LMsT", &load.lmst)] {
            let one = |at: usize| ours(runs.spread(|run| run.busy[at] * 100.0));
            sheet.row(name, (0..count).map(one));
        }
        sheet
    }

    fn table_7(&self, size: usize) -> Sheet {
        let (loads, source) = (self.loads_of(size), &self.config.published);
        let title = format!("Table 7: {}; in brackets, lower than NMsT by", loads[0].size);
        let mut sheet = Sheet::new(title, self.head(""));
        let tables = [
            (&source.nmst.response, &source.lmst.response),
            (&source.nmst.violations, &source.lmst.violations),
            (&source.nmst.excess, &source.lmst.excess),
        ];
        for ((name, of), (nmst, lmst)) in MEASURES.into_iter().zip(tables) {
            let row = |what: &str| format!("{name}: {what}");
            sheet.row(&row("NMsT, source"), nmst[size].iter().map(|value| printed(*value)));
            sheet.row(&row("NMsT, ours"), loads.iter().map(|load| ours(load.nmst.spread(of))));
            let both = lmst[size].iter().zip(&nmst[size]);
            let gain = both.map(|(with, without)| lowered(&printed(*with), *with, *without));
            sheet.row(&row("LMsT, source"), gain);
            let gain = |load: &Load, runs: &Runs| {
                let spread = runs.spread(of);
                lowered(&ours(spread), spread.mean, load.nmst.mean(of))
            };
            sheet.row(&row("LMsT, ours"), loads.iter().map(|load| gain(load, &load.lmst)));
        }
        sheet
    }

    fn strict_applications(&self) -> Sheet {
        let title = "Strict applications: M_Resp of NMsT, ms, and what LMsT adds, ours";
        let mut sheet = Sheet::new(title.to_string(), self.head(""));
        let of: fn(&Measures) -> f64 = |run| run.strict.response_ms;
        for size in 0..self.config.sizes.len() {
            let loads = self.loads_of(size);
            let nmst = loads.iter().map(|load| ours(load.nmst.spread(of)));
            sheet.row(&format!("{}: NMsT", loads[0].size), nmst);
            let added = |load: &Load, runs: &Runs| {
                format!("{:+.1} %", (runs.mean(of) / load.nmst.mean(of) - 1.0) * 100.0)
            };
            let lmst = loads.iter().map(|load| added(load, &load.lmst));
            sheet.row(&format!("{}: LMsT", loads[0].size), lmst);
        }
        sheet
    }

    fn table_8(&self, size: usize) -> Sheet {
        let (loads, source) = (self.loads_of(size), &self.config.published);
        let mut sheet = Sheet::new(format!("Table 8: {}", loads[0].size), self.head(""));
        let mut rows = |name: &str, table: &[Vec<f64>], own: &dyn Fn(&Load) -> String| {
            let source = table[size].iter().map(|value| printed(*value));
            sheet.row(&format!("{name}, source"), source);
            sheet.row(&format!("{name}, ours"), loads.iter().map(own));
        };
        let moving: fn(&Measures) -> f64 = |run| run.moving_response_ms;
        let migrated: fn(&Measures) -> f64 = |run| run.migrated_percent;
        rows("Mgr_Resp, ms: LMsT", &source.lmst_migrating, &|load| ours(load.lmst.spread(moving)));
        rows("Mgr_Resp, ms: SMsT", &source.smst_migrating, &|load| ours(load.smst.spread(moving)));
        rows("Burst_TS", &source.bursty_slots, &|load| format!("{:.0}", load.bursty_slots));
        rows("Mgr_Ratio, %", &source.migrated, &|load| ours(load.lmst.spread(migrated)));
        sheet
    }

    fn figure_16(&self, title: &str, setting: &str, points: &[Point]) -> Sheet {
        let head = [setting, "Mgr_Ratio, %", "M_Resp over NMsT's"];
        let mut sheet = Sheet::new(title.to_string(), head.map(ToString::to_string));
        for point in points {
            let migrated = |runs: &Runs| ours(runs.spread(|run| run.migrated_percent));
            let ratio = |runs: &Runs| format!("{:.3}", self.over_nmst(runs));
            let Point { value, lmst } = point;
            sheet.row(&value.to_string(), [migrated(lmst), ratio(lmst)]);
        }
        sheet
    }

    /// Mean response over that of NMsT at the load of the sensitivities.
    pub(super) fn over_nmst(&self, runs: &Runs) -> f64 {
        let of: fn(&Measures) -> f64 = |run| run.all.response_ms;
        runs.mean(of) / self.sensitive().nmst.mean(of)
    }
}

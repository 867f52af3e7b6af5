//! Colours, type and line styles of every picture, for light and dark paper.
//!
//! Series colours are the palette of Okabe & Ito ("Color Universal Design", 2008), yellow left out
//! because it vanishes on white; on dark paper the two darkest are lightened. A ninth series starts
//! again with the next dash.

/// Distinct series colours.
pub(super) const COLOURS: usize = 7;
/// Distinct dashes and markers; coprime with [`COLOURS`] on purpose: 35 pairs before one repeats.
pub(super) const DASHES: usize = 5;

/// Size of a chart's title, in pixels.
pub(super) const TITLE_PX: f64 = 15.0;
/// Size of axis text, in pixels.
pub(super) const TEXT_PX: f64 = 12.0;

/// Styles of a chart; literal values only, because SVG editors do not read CSS variables.
pub(super) const CHART_STYLE: &str = "\
.chart{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif;\
font-variant-numeric:tabular-nums}\
.chart text{font-size:12px;fill:#2b323c}\
.chart .title{font-size:15px;font-weight:600;fill:#12161c}\
.chart .note,.chart .axis{fill:#5d6875}\
.chart .key{font-weight:500}\
.chart .paper{fill:#fff}\
.chart .grid{stroke:#e3e7ec;stroke-width:1}\
.chart .rule{stroke:#7c8794;stroke-width:1}\
.chart .hot{fill:transparent}\
.chart .hot:hover{fill:#7c8794;fill-opacity:.35}\
.chart .curve{fill:none;stroke-width:2;stroke-linejoin:round;stroke-linecap:round}\
.chart .thin{stroke-width:1.25}\
.chart .mark{stroke:#fff;stroke-width:1}\
.chart .bar:hover{opacity:.75}\
.chart .c0{stroke:#0072b2}.chart .f0{fill:#0072b2}\
.chart .c1{stroke:#d55e00}.chart .f1{fill:#d55e00}\
.chart .c2{stroke:#009e73}.chart .f2{fill:#009e73}\
.chart .c3{stroke:#b8558f}.chart .f3{fill:#b8558f}\
.chart .c4{stroke:#e69f00}.chart .f4{fill:#e69f00}\
.chart .c5{stroke:#56b4e9}.chart .f5{fill:#56b4e9}\
.chart .c6{stroke:#20262e}.chart .f6{fill:#20262e}\
.chart .cr{stroke:#7c8794;stroke-dasharray:3 3}.chart .fr{fill:#7c8794}\
.chart .d1{stroke-dasharray:7 4}.chart .d2{stroke-dasharray:2 4}\
.chart .d3{stroke-dasharray:9 3 2 3}.chart .d4{stroke-dasharray:14 4}\
@media(prefers-color-scheme:dark){\
.chart text{fill:#d3d9e0}.chart .title{fill:#f2f5f8}\
.chart .note,.chart .axis{fill:#9aa5b1}\
.chart .paper{fill:#14181e}\
.chart .grid{stroke:#2a313a}.chart .rule{stroke:#77828f}\
.chart .mark{stroke:#14181e}\
.chart .c0{stroke:#3d9fe0}.chart .f0{fill:#3d9fe0}\
.chart .c1{stroke:#f07f2e}.chart .f1{fill:#f07f2e}\
.chart .c2{stroke:#1fbf92}.chart .f2{fill:#1fbf92}\
.chart .c3{stroke:#d98cb8}.chart .f3{fill:#d98cb8}\
.chart .c5{stroke:#8accf2}.chart .f5{fill:#8accf2}\
.chart .c6{stroke:#f2f5f8}.chart .f6{fill:#f2f5f8}}\
@media print{.chart .hot{display:none}}";

/// Styles of a page around the charts.
pub(super) const PAGE_STYLE: &str = "\
:root{color-scheme:light dark;--ink:#20262e;--soft:#5d6875;--rule:#e3e7ec;--paper:#fff;\
--band:#f6f8fa;--link:#0072b2}\
@media(prefers-color-scheme:dark){:root{--ink:#d3d9e0;--soft:#9aa5b1;--rule:#2a313a;\
--paper:#14181e;--band:#1a2027;--link:#5bb3ee}}\
*{box-sizing:border-box}\
body{margin:0;background:var(--paper);color:var(--ink);font:15px/1.5 system-ui,-apple-system,\
'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif}\
main{max-width:920px;margin:0 auto;padding:36px 28px 20px}\
h1{font-size:26px;line-height:1.25;margin:0 0 4px;letter-spacing:-.01em;overflow-wrap:anywhere}\
h2{font-size:18px;margin:44px 0 10px;padding-top:16px;border-top:1px solid var(--rule)}\
.lede{color:var(--soft);margin:0 0 20px;overflow-wrap:anywhere}\
p{max-width:76ch;margin:8px 0 14px}\
nav{margin:14px 0 0;font-size:14px}nav a{color:var(--link);margin-right:18px;text-decoration:none}\
nav a:hover{text-decoration:underline}\
figure{margin:18px 0 26px;overflow-x:auto}\
figure svg{max-width:100%;height:auto;display:block}\
.switches{margin:2px 0;font-size:13px;line-height:1.9}\
.switches button{font:inherit;color:inherit;background:var(--band);border:1px solid var(--rule);\
border-radius:4px;padding:0 7px;margin-right:5px;cursor:pointer}\
.switches button:not([data-series]){border:0;background:none;color:var(--soft);padding-left:0}\
.switches button[aria-pressed=false]{opacity:.45}\
.off{display:none}.faint{opacity:.12}\
.scroll{overflow-x:auto;margin:14px 0 24px}\
table{border-collapse:collapse;font-size:14px;font-variant-numeric:tabular-nums}\
caption{text-align:left;font-weight:600;padding:0 0 8px}\
th,td{padding:5px 14px 5px 0;border-bottom:1px solid var(--rule);text-align:left;\
white-space:nowrap}\
th{color:var(--soft);font-weight:500;vertical-align:bottom}\
td.n,th.n{text-align:right}\
tbody tr:hover{background:var(--band)}\
th button{all:unset;cursor:pointer}th button:hover{color:var(--ink)}\
th button:focus-visible{outline:2px solid var(--link);outline-offset:2px}\
th[aria-sort=ascending] button::after{content:' ▲';font-size:9px}\
th[aria-sort=descending] button::after{content:' ▼';font-size:9px}\
footer{max-width:920px;margin:24px auto 0;padding:14px 28px 36px;color:var(--soft);\
font-size:13px;border-top:1px solid var(--rule)}\
footer code{font-size:12px;overflow-wrap:anywhere}\
@media print{main{padding:0}.switches{display:none}figure,tr{break-inside:avoid}nav{display:none}}";

/// The class names of the `index`-th series' stroke.
pub(super) fn stroke(index: usize) -> String {
    match index % DASHES {
        0 => format!("c{}", index % COLOURS),
        dash => format!("c{} d{dash}", index % COLOURS),
    }
}

/// The class name of the `index`-th series' fill.
pub(super) fn fill(index: usize) -> String {
    format!("f{}", index % COLOURS)
}

/// The outline of the `index`-th series' marker around (0, 0).
pub(super) fn marker(index: usize) -> &'static str {
    const MARKERS: [&str; DASHES] = [
        "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z",
        "M-3.5 -3.5h7v7h-7z",
        "M0 -4.6l4.4 7.8h-8.8z",
        "M0 -5l5 5l-5 5l-5 -5z",
        "M0 4.6l4.4 -7.8h-8.8z",
    ];
    MARKERS[index % DASHES]
}

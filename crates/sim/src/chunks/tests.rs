//! Reports of small traces, worked by hand.

use super::{ChunkError, ChunkOptions, ChunkReport, Seen};
use thermocline_charts::Chart;
use thermocline_policy::placement::chew::library::{Library, Thresholds};
use thermocline_trace::{ReadOptions, open};
use thermocline_units::{Bytes, Nanos};

fn options() -> ChunkOptions {
    ChunkOptions {
        chunk: Bytes::from_mib(1),
        window: Nanos::from_secs(10),
        library: Library::three_pools(Thresholds::default()),
    }
}

/// Lines of seconds, offset in KiB, KiB, R or W; as CSV in microseconds and bytes.
fn report(
    lines: &[(u64, u64, u64, char)],
    options: &ChunkOptions,
    each: &mut dyn FnMut(Seen<'_>),
) -> Result<ChunkReport, ChunkError> {
    let mut csv = String::from("time,offset,size,op\n");
    for (second, offset, size, op) in lines {
        csv += &format!("{},{},{},{op}\n", second * 1_000_000, offset << 10, size << 10);
    }
    let map = "time=time:us,offset=offset,size=size,op=op".parse().unwrap();
    let read = ReadOptions { columns: Some(map), ..ReadOptions::default() };
    let mut reader = open(Box::new(std::io::Cursor::new(csv)), "t.csv", &read).unwrap();
    ChunkReport::read(&mut *reader, options, each, &|_| ())
}

#[test]
fn chunks_are_counted_by_window_class_and_pattern() {
    let lines = [
        (5, 512, 1024, 'R'), // chunks 0 and 1, the second a continuation
        (6, 9000, 4, 'W'),   // chunk 8, random
        (7, 700, 4, 'R'),    // chunk 0, random
        (36, 2048, 4, 'W'),  // window 3: chunk 2, random
        (37, 2048, 4, 'W'),  // again: near, an overwrite
        (38, 2048, 4, 'W'),
    ];
    let mut each = Vec::new();
    let report =
        report(&lines, &options(), &mut |seen| each.push((seen.window, seen.chunk.chunk.index)))
            .unwrap();
    assert_eq!(each, [(0, 0), (0, 1), (0, 8), (3, 2)]);
    assert_eq!((report.chunks, report.windows.len()), (9, 4));
    let [first, empty, _, last] = &report.windows[..] else { panic!("four windows") };
    assert_eq!((first.accessed, first.active, first.reads, first.writes), (3, 1, 3, 1));
    assert_eq!((first.sequential, first.random_read, first.random_write), (1, 1, 1));
    assert_eq!((first.fully_random_write, first.overwritten), (1, 0));
    assert_eq!((empty.accessed, empty.at_s, empty.share(0)), (0, 10.0, 0.0));
    assert_eq!((last.overwritten, last.sequential, last.share(last.overwritten)), (1, 1, 1.0));
    // 1 MiB of reads in ten seconds: 102 units a second in chunk 0, as many in chunk 1.
    assert_eq!(first.patterns[0], [0, 2, 1], "top, second, low");
    assert_eq!(report.total.accessed, 4);
    let frequencies: Vec<_> =
        report.frequencies.iter().map(|f| (f.from, f.to, f.chunks, f.accesses)).collect();
    assert_eq!(frequencies, [(0, 0, 32, 0), (1, 1, 2, 2), (2, 3, 2, 5)]);
}

#[test]
fn pictures_show_a_line_a_class_and_pattern() {
    let lines = [(0, 0, 4, 'R'), (11, 5000, 4, 'W'), (22, 0, 4, 'W')];
    let report = report(&lines, &options(), &mut |_| ()).unwrap();
    let charts = report.charts();
    let lines: Vec<usize> = charts.iter().map(|chart| chart.series.len()).collect();
    assert_eq!(lines, [3, 3, 6]);
    assert!(charts.iter().all(|chart| chart.to_svg().starts_with("<svg")));
    assert!(report.to_html("a<b", "1", "x").contains("a&lt;b"));
}

#[test]
fn what_cannot_be_counted_says_what_could() {
    let with = |change: fn(&mut ChunkOptions)| {
        let mut options = options();
        change(&mut options);
        report(&[(0, 0, 4, 'R'), (9, 0, 4, 'R')], &options, &mut |_| ()).unwrap_err().to_string()
    };
    assert!(with(|options| options.chunk = Bytes(3000)).contains("power of two from 4KiB"));
    assert!(with(|options| options.window = Nanos(0)).contains("20m for example"));
    assert!(with(|options| options.window = Nanos(5)).contains("use longer ones"));
    assert!(with(|options| options.library.levels.clear()).contains("0 levels"));
}

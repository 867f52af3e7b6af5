//! Record of the steps that the gate ran, and the summary it ends with.

use super::Passed;
use std::time::Duration;

/// One step that ran.
pub(super) struct Row {
    pub(super) name: &'static str,
    pub(super) elapsed: Duration,
    /// Or why it failed.
    pub(super) result: Result<Passed, String>,
}

/// A test runner's output, read line by line.
#[derive(Debug, Default)]
pub(super) struct Tests {
    pub(super) passed: u64,
    /// `test result: …` lines of test binaries that had tests.
    pub(super) closing: Vec<String>,
    /// `SKIPPED: …` lines of tests that found no data.
    pub(super) skipped: Vec<String>,
    /// Names of tests that failed, and what they said.
    pub(super) failed: Vec<(String, Vec<String>)>,
    part: Part,
}

/// Parts of a runner's output, by the heading above a line.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Part {
    #[default]
    Progress,
    Successes,
    Failures,
}

/// Lines of a failed test's words that the summary repeats, of its beginning and of its end.
const REPEATED: (usize, usize) = (15, 25);

impl Tests {
    /// Takes note of one line of the runner's output; whether it is worth showing. Of passed tests
    /// only that they were skipped is: those that provoke panics would hide those that failed.
    pub(super) fn line(&mut self, line: &str) -> bool {
        let trimmed = line.trim();
        if trimmed.starts_with("SKIPPED") {
            self.skipped.push(trimmed.to_string());
            return true;
        }
        match trimmed {
            "successes:" => self.part = Part::Successes,
            // The second list of them is of names only.
            "failures:" if self.part == Part::Failures => self.part = Part::Progress,
            "failures:" => self.part = Part::Failures,
            _ if trimmed.starts_with("test result:") => self.close(trimmed),
            _ if self.part == Part::Failures => self.failure(line),
            _ => {}
        }
        !trimmed.is_empty() && self.part != Part::Successes
    }

    fn close(&mut self, line: &str) {
        self.part = Part::Progress;
        let passed = count_before(line, " passed");
        if passed + count_before(line, " failed") > 0 {
            self.closing.push(line.to_string());
        }
        self.passed += passed;
    }

    fn failure(&mut self, line: &str) {
        let name = line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----"));
        match (name, self.failed.last_mut()) {
            (Some(name), _) => self.failed.push((name.to_string(), Vec::new())),
            (None, Some((_, said))) if !line.trim().is_empty() => said.push(line.to_string()),
            _ => {}
        }
    }

    /// A line with the names of the tests that failed, then the beginning and the end of what each
    /// said: the summary's words.
    pub(super) fn failures(&self) -> String {
        let names: Vec<&str> = self.failed.iter().map(|(name, _)| name.as_str()).collect();
        let mut text = names.join(", ");
        for (name, said) in &self.failed {
            text.push_str(&format!("\n---- {name}\n"));
            let (first, last) = REPEATED;
            let left_out = said.len().saturating_sub(first + last);
            let cut = if left_out == 0 { said.len() } else { first };
            text.push_str(&said[..cut].join("\n"));
            if left_out > 0 {
                text.push_str(&format!("\n[{left_out} lines are left out]\n"));
            }
            text.push_str(&said[cut + left_out..].join("\n"));
        }
        text
    }

    pub(super) fn detail(&self) -> String {
        let Tests { passed, closing, skipped, .. } = self;
        format!("{passed} passed in {} binaries, {} skipped", closing.len(), skipped.len())
    }
}

/// The number that stands before `word` in `line`; 0 when there is none.
fn count_before(line: &str, word: &str) -> u64 {
    let before = line.split(word).next().filter(|before| before.len() < line.len());
    before.and_then(|b| b.rsplit(' ').next()).and_then(|n| n.parse().ok()).unwrap_or(0)
}

/// The table of steps, then everything that could not be checked, then the test runner's last
/// words, then what failed steps said.
pub(super) fn summary(rows: &[Row], total: Duration) -> String {
    let mut text = String::from("==== summary\n");
    for Row { name, elapsed, result } in rows {
        let (state, detail) = match result {
            Ok(passed) => ("ok", passed.detail.as_str()),
            Err(message) => ("FAILED", message.lines().next().unwrap_or_default()),
        };
        let seconds = elapsed.as_secs_f64();
        text.push_str(&format!("{name:<8} {state:<6} {seconds:>7.1} s  {detail}\n"));
    }
    text.push_str(&format!("{:<15} {:>7.1} s\n", "total", total.as_secs_f64()));
    let passed = || rows.iter().filter_map(|r| r.result.as_ref().ok());
    for warning in passed().flat_map(|p| &p.warnings) {
        text.push_str(&format!("warning: {warning}\n"));
    }
    for line in passed().flat_map(|p| &p.closing) {
        text.push_str(&format!("{line}\n"));
    }
    for message in rows.iter().filter_map(|row| row.result.as_ref().err()) {
        message.lines().skip(1).for_each(|line| text.push_str(&format!("{line}\n")));
    }
    text
}

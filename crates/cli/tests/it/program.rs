//! Running the program in a folder of its own, and what came of it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A folder for one test, empty at its start.
pub(crate) fn folder(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// Compiles a source below crates/plugins into the folder; false, and SKIPPED, without a compiler.
#[allow(clippy::print_stdout)] // The gate repeats such lines at its end.
pub(crate) fn compiled(folder: &Path, source: &str, library: &str) -> bool {
    let plugins = Path::new(env!("CARGO_MANIFEST_DIR")).join("../plugins");
    let mut cc = Command::new("cc");
    cc.args(["-O1", "-shared", "-fPIC", "-I"]).arg(plugins.join("include"));
    let Ok(done) = cc.arg("-o").arg(folder.join(library)).arg(plugins.join(source)).output() else {
        println!("SKIPPED: needs a C compiler, cc");
        return false;
    };
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    true
}

/// Runs `thermocline` with `words`, which are separated by blanks.
pub(crate) fn run(folder: &Path, words: &str) -> Ran {
    run_with_input(folder, words, b"")
}

/// Runs `thermocline` with `input` on its standard input.
pub(crate) fn run_with_input(folder: &Path, words: &str, input: &[u8]) -> Ran {
    use std::io::Write;
    let mut child = Command::new(env!("CARGO_BIN_EXE_thermocline"))
        .args(words.split_whitespace())
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A program that refuses its arguments does not read its input.
    let _ = child.stdin.take().unwrap().write_all(input);
    Ran { words: words.to_string(), output: child.wait_with_output().unwrap() }
}

/// A run that has ended.
pub(crate) struct Ran {
    words: String,
    output: Output,
}

impl Ran {
    pub(crate) fn stdout(&self) -> String {
        String::from_utf8(self.output.stdout.clone()).unwrap()
    }

    pub(crate) fn stderr(&self) -> String {
        String::from_utf8(self.output.stderr.clone()).unwrap()
    }

    /// Asserts exit status 0.
    pub(crate) fn succeeded(self) -> Ran {
        self.ended_with(0)
    }

    /// Asserts the exit status, and that a failure says something.
    pub(crate) fn ended_with(self, status: i32) -> Ran {
        let code = self.output.status.code();
        assert_eq!(code, Some(status), "{}\n{}", self.words, self.stderr());
        assert!(status == 0 || self.stderr().contains("error:"), "{}", self.stderr());
        self
    }

    /// Asserts the exit status of a command that was run by the program, and says what it likes.
    pub(crate) fn command_ended_with(self, status: i32) -> Ran {
        assert_eq!(self.output.status.code(), Some(status), "{}\n{}", self.words, self.stderr());
        self
    }

    /// Asserts that stdout holds `part`.
    pub(crate) fn says_on_stdout(self, part: &str) -> Ran {
        assert!(self.stdout().contains(part), "{}: {part:?} not in\n{}", self.words, self.stdout());
        self
    }

    /// Asserts that stderr holds `part`.
    pub(crate) fn says(self, part: &str) -> Ran {
        assert!(self.stderr().contains(part), "{}: {part:?} not in\n{}", self.words, self.stderr());
        self
    }
}

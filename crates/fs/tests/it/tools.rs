//! Programs of the system, a folder for each test, and an image file as something to survey.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use thermocline_fs::{Blocks, Catalog, Limits, ReadError, Summary, Survey};
use thermocline_units::Bytes;

/// True if all programs are here; says so when not.
#[allow(clippy::print_stderr, clippy::disallowed_macros)] // The gate repeats such lines at its end.
pub(crate) fn are_here(programs: &[&str]) -> bool {
    let found = |program: &&&str| shell(Path::new("/"), &format!("command -v {program}")).is_err();
    let missing: Vec<_> = programs.iter().filter(found).collect();
    if !missing.is_empty() {
        eprintln!("SKIPPED: needs {missing:?}");
    }
    missing.is_empty()
}

/// Runs a shell command to its end: its output, or what it complained about.
pub(crate) fn shell(folder: &Path, words: &str) -> Result<String, String> {
    let done = Command::new("timeout")
        .args(["60", "sh", "-ec", words])
        .current_dir(folder)
        .env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin:/usr/local/sbin:/usr/local/bin")
        .output()
        .map_err(|error| error.to_string())?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if done.status.success() { Ok(text(&done.stdout)) } else { Err(text(&done.stderr)) }
}

/// A command that must succeed.
pub(crate) fn sh(folder: &Path, words: &str) -> String {
    shell(folder, words).unwrap_or_else(|error| panic!("{words}: {error}"))
}

/// An empty folder of this test.
pub(crate) fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// An image file.
pub(crate) struct ImageFile(File, u64);

impl ImageFile {
    pub(crate) fn open(path: impl Into<PathBuf>) -> ImageFile {
        let file = File::open(path.into()).unwrap();
        let size = file.metadata().unwrap().len();
        ImageFile(file, size)
    }
}

impl Blocks for ImageFile {
    fn size(&self) -> Bytes {
        Bytes(self.1)
    }

    fn read_at(&mut self, offset: Bytes, into: &mut [u8]) -> Result<(), ReadError> {
        self.0.read_exact_at(into, offset.0).map_err(|error| ReadError(error.to_string()))
    }
}

/// Runs a survey once more and keeps what it says.
pub(crate) fn again(survey: &mut Survey, image: &Path, catalog: &mut Catalog) -> Summary {
    let mut blocks = ImageFile::open(image);
    survey.run(&mut blocks, &mut |found| catalog.apply(&found)).unwrap()
}

/// A first survey of an image.
pub(crate) fn survey(image: &Path) -> (Catalog, Summary) {
    let mut catalog = Catalog::default();
    let summary = again(&mut Survey::new(Bytes(0), Limits::default()), image, &mut catalog);
    (catalog, summary)
}

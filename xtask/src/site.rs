//! `cargo xtask site [FOLDER]`: the documentation as pages to read in a browser, by mdBook.
//!
//! 1. The book's parts are those of docs/README.md, and a page is a chapter of the first part that
//!    links to it. Where an index of a folder is a chapter, the folder's other pages are below it.
//! 2. All other pages follow in a part of their own, so that every link between pages leads
//!    somewhere; files that pages link to (pictures, examples, sources) are copied beside them.
//! 3. Before them stands the reference of each program's API, which the program itself prints.
//!
//! The pages are copied to `FOLDER/src` (target/site by itself), the book is `FOLDER/book`.

use crate::tidy::links;
use crate::workspace::{self, TextFile};
use crate::{Failure, no_arguments};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

const INDEX: &str = "docs/README.md";
/// The programs that have an API.
const PROGRAMS: [&str; 6] = ["engine", "balance", "tunnel", "store", "host", "accel"];
/// Folder of the pages about them, in the book only.
const APIS: &str = "docs/api/";
const BOOK: &str = "[book]\ntitle = \"thermocline\"\nlanguage = \"en\"\n\n\
                    [output.html]\nno-section-label = true\n";

/// The subcommand.
pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    let (folder, rest) = match arguments.split_first() {
        Some((folder, rest)) if !folder.starts_with('-') => (PathBuf::from(folder), rest),
        _ => (workspace::root().join("target/site"), arguments),
    };
    no_arguments(rest)?;
    let mut pages = workspace::files(&[".md"])?;
    pages.extend(apis()?);
    let source = folder.join("src");
    if let Err(error) = std::fs::remove_dir_all(&source)
        && error.kind() != ErrorKind::NotFound
    {
        return Err(Failure::Failed(format!("{}: {error}", source.display())));
    }
    for page in &pages {
        write(&source.join(placed(&page.path)), linking(&page.text).as_bytes())?;
    }
    for path in linked(&pages) {
        let from = workspace::root().join(&path);
        let bytes = std::fs::read(&from).map_err(|e| format!("{}: {e}", from.display()))?;
        write(&source.join(&path), &bytes)?;
    }
    write(&source.join("SUMMARY.md"), summary(&pages).as_bytes())?;
    write(&folder.join("book.toml"), BOOK.as_bytes())?;
    build(&folder)?;
    println!("{} pages: {}", pages.len(), folder.join("book/index.html").display());
    Ok(())
}

/// Pages about the APIs of the programs, from their OpenAPI documents.
fn apis() -> Result<Vec<TextFile>, Failure> {
    let page = |program: &&str| {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let run = ["run", "--quiet", "--locked", "--package", "thermocline-cli", "--"];
        let mut command = Command::new(cargo);
        command.args(run).args(["openapi", *program, "--markdown"]);
        let output = command.current_dir(workspace::root()).output();
        let output = output.map_err(|error| format!("cargo run: {error}"))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(Failure::Failed(format!("thermocline openapi {program}: {said}")));
        }
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        Ok(TextFile { path: format!("{APIS}{program}.md"), text })
    };
    PROGRAMS.iter().map(page).collect()
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let folder = path.parent().expect("a file is in a folder");
    let written = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(path, bytes));
    written.map_err(|error| Failure::Failed(format!("{}: {error}", path.display())))
}

fn build(folder: &Path) -> Result<(), Failure> {
    let status = Command::new("mdbook").arg("build").arg(folder).status().map_err(|error| {
        format!(
            "mdbook does not start: {error}; install it by `cargo install mdbook`, or put a built \
             one of version 0.5 into the PATH"
        )
    })?;
    match status.success() {
        true => Ok(()),
        false => Err(Failure::Failed(format!("mdbook ended with {status}"))),
    }
}

/// Path of a page in the book, where a folder's page is its index.
fn placed(path: &str) -> String {
    match path.strip_suffix("README.md") {
        Some(folder) => format!("{folder}index.md"),
        None => path.to_string(),
    }
}

/// A page's text with links to pages where they are placed.
fn linking(text: &str) -> String {
    text.replace("README.md)", "index.md)").replace("README.md#", "index.md#")
}

/// Files, not pages, that pages link to.
fn linked(pages: &[TextFile]) -> BTreeSet<String> {
    let of_page = |page: &TextFile| {
        let targets: Vec<String> = page.text.lines().flat_map(links::targets).collect();
        let paths = targets.iter().filter_map(|target| links::resolve(&page.path, target));
        paths.collect::<Vec<_>>()
    };
    let is_file = |path: &String| workspace::root().join(path).is_file();
    pages.iter().flat_map(of_page).filter(|p| !p.ends_with(".md") && is_file(p)).collect()
}

/// The list of chapters, as mdBook reads it.
fn summary(pages: &[TextFile]) -> String {
    let mut out = String::from("# Summary\n\n[thermocline](index.md)\n\n");
    let mut listed = BTreeSet::from(["README.md".to_string()]);
    let index = pages.iter().find(|page| page.path == INDEX).map_or("", |page| &page.text);
    for line in index.lines() {
        if let Some(part) = line.strip_prefix("## ") {
            let _ = writeln!(out, "\n# {part}\n");
        }
        for target in links::targets(line) {
            let path = links::resolve(INDEX, &target).unwrap_or_default();
            chapter(&mut out, pages, &path, &mut listed);
        }
    }
    let mut apis = pages.iter().filter(|page| page.path.starts_with(APIS)).peekable();
    if apis.peek().is_some() {
        let _ = writeln!(out, "\n# Reference\n");
    }
    for page in apis {
        chapter(&mut out, pages, &page.path, &mut listed);
    }
    let _ = writeln!(out, "\n# More\n");
    for page in pages {
        chapter(&mut out, pages, &page.path, &mut listed);
    }
    out
}

/// Lists a page that is not listed yet; below the index of a folder, the folder's other pages.
fn chapter(out: &mut String, pages: &[TextFile], path: &str, listed: &mut BTreeSet<String>) {
    let Some(page) = pages.iter().find(|page| page.path == path) else { return };
    if !listed.insert(path.to_string()) {
        return;
    }
    let _ = writeln!(out, "- [{}]({})", title(page), placed(path));
    let Some(folder) = path.strip_suffix("README.md").filter(|folder| !folder.is_empty()) else {
        return;
    };
    for below in pages {
        let name = below.path.strip_prefix(folder);
        let is_here = path != INDEX && name.is_some_and(|name| !name.contains('/'));
        if is_here && listed.insert(below.path.clone()) {
            let _ = writeln!(out, "  - [{}]({})", title(below), below.path);
        }
    }
}

/// The page's first heading; its path where there is none.
fn title(page: &TextFile) -> String {
    let heading = page.text.lines().find_map(|line| line.strip_prefix("# "));
    heading.unwrap_or(&page.path).replace(['[', ']', '`'], "")
}

#[cfg(test)]
mod tests;

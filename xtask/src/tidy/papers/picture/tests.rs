//! A command or a machine that the picture lacks is found, and a name that the code lacks.

use super::{PROGRAM, check};
use crate::tidy::Source;

const MAIN: &str = "\
#[derive(Subcommand)]
enum Command {
    /// Replays.
    Lab(commands::lab::Command),
    /// A volume.
    #[command(subcommand)]
    BringUp {
        Nested: u8,
    },
    /// Words for a shell.
    Completions(Args),
}

enum Other {
    Gone,
}
";

const SVG: &str = "\
<text x=\"1\"><tspan class=\"command\">lab cache</tspan> · <tspan class=\"command\">bring-up</tspan></text>
<text class=\"crate\" x=\"10\">volume</text>
<text>lab and tunnel in words, <tspan class=\"command below\">tunnel</tspan> below lab</text>
";

fn findings(svg: &str, main: &str, machines: &[&str]) -> Vec<String> {
    let program = Source::read(PROGRAM, main);
    check(svg, &program, machines).iter().map(ToString::to_string).collect()
}

#[test]
fn a_whole_picture_is_tidy() {
    assert_eq!(findings(SVG, MAIN, &["volume"]), [""; 0]);
}

#[test]
fn a_new_command_must_be_shown() {
    let main = MAIN.replace("    /// A volume.", "    Tunnel(Args),\n    /// A volume.");
    let found = findings(SVG, &main, &["volume"]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("the command `tunnel` is missing"), "words do not count: {found:?}");
}

#[test]
fn a_new_machine_must_be_shown() {
    let found = findings(SVG, MAIN, &["tunnel", "volume"]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("the machine `tunnel` is missing"), "{found:?}");
}

#[test]
fn names_that_are_gone_are_found_with_their_line() {
    let found = findings(SVG, &MAIN.replace("Lab", "Laboratory"), &[]);
    assert_eq!(found.len(), 3, "{found:?}");
    assert!(found[0].contains("the command `laboratory` is missing"), "{found:?}");
    assert!(found[1].contains(".svg:1: there is no command `lab`"), "{found:?}");
    assert!(found[2].contains(".svg:2: `volume` is no crate of machines"), "{found:?}");
}

#[test]
fn a_program_without_a_list_is_found() {
    assert!(findings(SVG, "fn main() {}", &["volume"])[0].contains("no `enum Command`"));
}

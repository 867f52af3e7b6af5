//! Blanking keeps code and takes everything else away; functions are measured by their braces.

use super::Source;

fn code(text: &str) -> String {
    let source = Source::read("crates/policy/src/x.rs", text);
    assert_eq!(source.code.len(), text.len());
    assert_eq!(source.begins_in_string.len(), text.matches('\n').count() + 1);
    source.code.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn comments_and_literals_are_blanked_and_code_is_kept() {
    for (text, expected) in [
        ("a // unsafe\nb", "a b"),
        ("a /* x /* { */ y */ b", "a b"),
        (r#"f("}\"", 'x', '\'', '{')"#, "f( , , , )"),
        ("f(r#\"a \" }\"#, br\"\\\", b'{')", "f( , , b )"),
        ("fn f<'a>(x: &'a str)", "fn f<'a>(x: &'a str)"),
        ("let bar = \"µ{\"; 'µ'", "let bar = ;"),
        ("for r in x {}", "for r in x {}"),
    ] {
        assert_eq!(code(text), expected, "{text}");
    }
}

#[test]
fn a_literal_that_never_ends_reaches_the_end_of_the_file() {
    for text in ["\"abc\\", "r#\"abc\"", "/* abc", "'\\", "// abc", "'"] {
        assert_eq!(code(text).trim_matches('\''), "", "{text}");
    }
}

#[test]
fn lines_inside_a_string_are_told_from_lines_of_code() {
    let source = Source::read("x.rs", "a(\"one\ntwo\",\n3)\n/* c\nd */");
    assert_eq!(source.begins_in_string, [false, true, false, false, false]);
}

#[test]
fn functions_are_counted_from_their_name_to_their_closing_brace() {
    let text = "\
trait T {
    fn declared(x: [u8; 4]);
}
fn one(f: fn(u32) -> u32) -> [u8; 2]
where
    u8: Copy,
{
    if x { \"}\" }
    fn inner() {}
}
";
    let source = Source::read("x.rs", text);
    let functions: Vec<_> =
        source.functions().iter().map(|f| (f.name.to_string(), f.line, f.lines)).collect();
    assert_eq!(functions, [("one".to_string(), 4, 7), ("inner".to_string(), 9, 1)]);
}

#[test]
fn a_file_knows_its_room_and_whether_it_is_a_test() {
    let of = |path| {
        let source = Source::read(path, "");
        (source.room().to_string(), source.is_test())
    };
    assert_eq!(of("crates/policy/src/cache/tests.rs"), ("policy".to_string(), true));
    assert_eq!(of("crates/cli/tests/lab.rs"), ("cli".to_string(), true));
    assert_eq!(of("xtask/src/main.rs"), ("xtask".to_string(), false));
    assert_eq!(of("crates/trace/src/contests.rs"), ("trace".to_string(), false));
}

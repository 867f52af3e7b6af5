//! Classes of files, by their names.

use super::*;

#[test]
fn connections_of_a_capture_are_told_apart_by_the_servers_port() {
    let files = [
        "flows/127.000.000.001.09911-127.000.000.001.43686",
        "1795790757-010.000.000.007.51000-192.168.001.010.00443",
        "1795790758-192.168.001.010.00443-010.000.000.007.51000",
        "a-b.tar",
        "v1.00443-x.tar",
        "notes",
    ];
    let files = files.map(|name| (PathBuf::from(name), 1));
    let (numbers, names) = classes(&files);
    assert_eq!(numbers, [0, 1, 1, 2, 2, 3]);
    assert_eq!(names, ["port 9911", "port 443", "tar", ""]);
}

//! Sentences of accounts: growth, losses, recommendations.

use super::Account;
use thermocline_units::Bytes;

const CHUNK: Bytes = Bytes::from_mib(1);

#[test]
fn an_account_tells_what_came_since_another() {
    let before =
        Account { acts: true, waited: 10.0, saved: 1.0, moved_chunks: 2, ..Account::default() };
    let now = Account {
        waited: 40.0,
        saved: 0.5,
        spent: 0.25,
        promised: 3.0,
        came: 2.5,
        moved_chunks: 12,
        ..before
    };
    assert_eq!(
        now.told_since(&before, CHUNK),
        "users waited 30 s; moving saved −500 ms, and 10 MiB of copies cost 250 ms; 3 s were \
         promised, and 2.5 s came"
    );
}

#[test]
fn who_only_recommends_tells_what_moves_would_save() {
    let now = Account { waited: 30.0, proposed: 7, would_save: 0.004, ..Account::default() };
    assert_eq!(
        now.told_since(&Account::default(), CHUNK),
        "users waited 30 s; 7 exchanges recommended would save 4 ms in each second, and nothing \
         moves"
    );
}

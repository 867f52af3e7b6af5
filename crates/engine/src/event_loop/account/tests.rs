//! Hours of accounts: each is told once, and another policy begins its own.

use super::{AccountTold, HOUR};
use thermocline_policy::placement::Account;
use thermocline_units::Nanos;

fn account(waited: f64) -> Option<Account> {
    Some(Account { waited, moved_chunks: waited as u64, ..Account::default() })
}

#[test]
fn an_hour_is_told_once_and_only_if_users_waited_in_it() {
    let mut told = AccountTold::default();
    assert_eq!(told.hour_over(Nanos(0), account(1.0)), None);
    assert_eq!(told.hour_over(Nanos(HOUR.0 - 1), account(2.0)), None);
    let over = told.hour_over(HOUR, account(3.0)).unwrap();
    assert_eq!((over.0.waited, over.1.waited), (1.0, 3.0));
    assert_eq!(told.hour_over(HOUR, account(3.0)), None);
    assert_eq!(told.hour_over(Nanos(2 * HOUR.0), account(3.0)), None, "nobody waited");
    assert!(told.hour_over(Nanos(3 * HOUR.0), account(4.0)).is_some());
}

#[test]
fn another_policy_begins_its_own_account() {
    let mut told = AccountTold::default();
    told.hour_over(Nanos(0), account(50.0));
    assert_eq!(told.hour_over(HOUR, account(1.0)), None);
    assert_eq!(told.hour_over(Nanos(HOUR.0 + 1), None), None);
    assert_eq!(told.hour_over(Nanos(2 * HOUR.0), account(2.0)), None);
    assert!(told.hour_over(Nanos(3 * HOUR.0), account(3.0)).is_some());
}

//! The account of the policy that decides: an event tells every hour what its moves have come to.

use super::Engine;
use thermocline_admin::api::Severity;
use thermocline_policy::placement::Account;
use thermocline_units::Nanos;

const HOUR: Nanos = Nanos::from_secs(3600);

/// The account as it was told last.
#[derive(Debug, Default)]
pub(super) struct AccountTold {
    before: Option<(Nanos, Account)>,
}

impl AccountTold {
    /// The account of an hour ago, when that is over and users waited in it; `now` then begins
    /// another one. An account that did not grow out of the last one, of another policy, begins
    /// one too.
    fn hour_over(&mut self, now: Nanos, account: Option<Account>) -> Option<(Account, Account)> {
        let Some(account) = account else {
            self.before = None;
            return None;
        };
        let goes_on = |before: &Account| {
            before.waited <= account.waited && before.moved_chunks <= account.moved_chunks
        };
        let Some((since, before)) = self.before.filter(|(_, before)| goes_on(before)) else {
            self.before = Some((now, account));
            return None;
        };
        if now.saturating_sub(since) < HOUR {
            return None;
        }
        self.before = Some((now, account));
        (account.waited > before.waited).then_some((before, account))
    }
}

impl Engine {
    /// Tells what the policy's moves came to, when an hour is over.
    pub(super) fn tell_account(&mut self) {
        let account = self.group.placement_account();
        let Some((before, now)) = self.account_told.hour_over(self.now(), account) else { return };
        let told = now.told_since(&before, self.group.chunk_size());
        self.event(Severity::Info, "policy", format!("in the last hour {told}"));
    }
}

#[cfg(test)]
mod tests;

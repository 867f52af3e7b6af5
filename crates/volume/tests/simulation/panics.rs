//! Panics as findings: what the machine asserted, and where, kept instead of printed.

use std::cell::{Cell, RefCell};
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

thread_local! {
    static KEEPING: Cell<bool> = const { Cell::new(false) };
    static LAST: RefCell<String> = const { RefCell::new(String::new()) };
}

static HOOK: Once = Once::new();

/// Runs `body`; of a panic in it, the message and the place.
///
/// # Errors
/// When `body` panics.
pub(crate) fn kept<T>(body: impl FnOnce() -> T) -> Result<T, String> {
    HOOK.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |info| match KEEPING.get() {
            false => usual(info),
            true => {
                let place = info.location().map(ToString::to_string).unwrap_or_default();
                let message = info.payload_as_str().unwrap_or("(no message)");
                LAST.set(format!("panic at {place}: {message}"));
            }
        }));
    });
    KEEPING.set(true);
    let outcome = panic::catch_unwind(AssertUnwindSafe(body));
    KEEPING.set(false);
    outcome.map_err(|_| LAST.take())
}

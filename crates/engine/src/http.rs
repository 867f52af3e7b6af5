//! The engine's API, metrics and dashboard over HTTP.

mod routes;

pub use routes::openapi;

use crate::mailbox::Mailbox;
use thermocline_admin::http::{Http, HttpError, HttpListeners};

/// Serves the API, the metrics and the dashboard of an engine.
///
/// # Errors
/// As for [`thermocline_admin::http::serve`].
pub fn serve_admin(listeners: HttpListeners, mailbox: &Mailbox) -> Result<Http, HttpError> {
    thermocline_admin::http::serve(listeners, routes::router(mailbox.clone()))
}

//! The API, the metrics and the dashboard of a tunnel's end.
//!
//! The end itself is `thermocline_gateway`, which knows nothing of this: here it is looked at.
//! Start at [`AdminApi`].

mod admin;
pub mod api;
mod figures;
mod routes;

pub use admin::AdminApi;

use crate::http::{Http, HttpError, HttpListeners, serve_router};
use std::sync::Arc;

/// Serves the API, the metrics and the dashboard of a tunnel's end.
///
/// # Errors
/// As for the engine's [`crate::http::serve`].
pub fn serve_admin(listeners: HttpListeners, admin: Arc<AdminApi>) -> Result<Http, HttpError> {
    serve_router(listeners, routes::router(admin))
}

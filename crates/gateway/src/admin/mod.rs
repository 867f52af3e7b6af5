//! The API, the metrics and the dashboard of a tunnel's end.
//!
//! Nothing outside this folder knows it: here an end is only looked at. Start at [`AdminApi`].

pub mod api;
mod figures;
mod routes;
mod view;

pub use routes::openapi;
pub use view::AdminApi;

use std::sync::Arc;
use thermocline_admin::http::{Http, HttpError, HttpListeners, serve};

/// Serves the API, the metrics and the dashboard of a tunnel's end.
///
/// # Errors
/// As for [`thermocline_admin::http::serve`].
pub fn serve_admin(listeners: HttpListeners, admin: Arc<AdminApi>) -> Result<Http, HttpError> {
    serve(listeners, routes::router(admin))
}

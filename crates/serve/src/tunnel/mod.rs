//! The API, the metrics and the dashboard of a tunnel's end.
//!
//! The end itself is `thermocline_gateway`, which knows nothing of this: here it is looked at.
//! Start at [`Desk`].

pub mod api;
mod desk;
mod figures;
mod routes;

pub use desk::Desk;

use crate::http::{Http, HttpDoors, HttpError, serve_router};
use std::sync::Arc;

/// Serves the API, the metrics and the dashboard of a tunnel's end.
///
/// # Errors
/// As for the engine's [`crate::http::serve`].
pub fn serve_desk(doors: HttpDoors, desk: Arc<Desk>) -> Result<Http, HttpError> {
    serve_router(doors, routes::router(desk))
}

//! The API of a tunnel's end: which request does what. The OpenAPI document is made from the same
//! declarations.

use super::api::TunnelSecond;
use super::figures::{self, Figures};
use super::view::AdminApi;
use crate::Status;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use axum::{Json, Router};
use std::sync::Arc;
use thermocline_admin::api::{Event, Refused};
use thermocline_admin::http::Dashboard;
use thermocline_admin::http::{Answer, Onward, Query};
use thermocline_admin::metrics;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

#[derive(OpenApi)]
#[openapi(info(
    title = "thermocline tunnel",
    description = "A running end of a tunnel: its links, the classes of flows and the busiest flows, with what was saved and why they are cut as they are; and what happened. Sizes are bytes, moments milliseconds since 1970."
))]
struct Document;

type Host = State<Arc<AdminApi>>;

pub(super) fn router(admin: Arc<AdminApi>) -> Router {
    let dashboard = Dashboard {
        title: "thermocline tunnel",
        token: "This end asks for a token. The address that <code>thermocline tunnel</code> prints \
                at its start carries it.",
        sections: include_str!("../../web/sections.html"),
        script: include_str!("../../web/app.js"),
    };
    dashboard.beside(api(), get(prometheus)).with_state(admin)
}

/// The API's OpenAPI document.
pub fn openapi() -> utoipa::openapi::OpenApi {
    api().split_for_parts().1
}

fn api() -> OpenApiRouter<Arc<AdminApi>> {
    OpenApiRouter::with_openapi(Document::openapi())
        .routes(routes!(status))
        .routes(routes!(history))
        .routes(routes!(events))
}

fn now(admin: &AdminApi) -> Result<Status, Refused> {
    admin.status().ok_or_else(|| Refused::unavailable("the end is starting; ask again in a moment"))
}

/// The end at a glance.
#[utoipa::path(get, path = "/v1/status",
    responses((status = 200, body = Status), (status = 503, body = Refused)))]
async fn status(State(admin): Host) -> Answer<Status> {
    now(&admin).map(Json)
}

/// The last five minutes, second by second.
#[utoipa::path(get, path = "/v1/history", params(Onward),
    responses((status = 200, body = [TunnelSecond])))]
async fn history(State(admin): Host, Query(second): Query<Onward>) -> Json<Vec<TunnelSecond>> {
    Json(admin.history(second.from))
}

/// The last thousand events.
#[utoipa::path(get, path = "/v1/events", params(Onward),
    responses((status = 200, body = [Event])))]
async fn events(State(admin): Host, Query(id): Query<Onward>) -> Json<Vec<Event>> {
    Json(admin.events(id.from))
}

/// The same figures for Prometheus.
async fn prometheus(State(admin): Host) -> Result<Response, Refused> {
    Ok(metrics::answer(figures::PREFIX, Figures(now(&admin)?)))
}

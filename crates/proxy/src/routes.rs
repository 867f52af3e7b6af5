//! The API of a balancer: which request does what. The OpenAPI document is made from the same
//! declarations.

use super::admin::AdminApi;
use super::api::{BackendStatus, BalanceSecond, BalanceStatus};
use super::figures::{self, Figures};
use super::report::LoadReportJson;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use axum::{Json, Router};
use std::sync::Arc;
use thermocline_admin::api::{Event, Refused};
use thermocline_admin::http::Dashboard;
use thermocline_admin::http::{Answer, Body, Onward, Query};
use thermocline_admin::metrics;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

#[derive(OpenApi)]
#[openapi(info(
    title = "thermocline balance",
    description = "A running balancer: its backends, their load, and what happened. Latencies are microseconds, moments milliseconds since 1970."
))]
struct Document;

type Host = State<Arc<AdminApi>>;

pub(super) fn router(admin: Arc<AdminApi>) -> Router {
    let dashboard = Dashboard {
        title: "thermocline balance",
        token: "This balancer asks for a token. The address that <code>thermocline balance</code> \
                prints carries it; with a configuration it stands in the file that \
                <code>token-file</code> names.",
        sections: include_str!("../web/sections.html"),
        script: include_str!("../web/app.js"),
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
        .routes(routes!(drain))
        .routes(routes!(undrain))
        .routes(routes!(report))
        .routes(routes!(history))
        .routes(routes!(events))
}

/// The balancer at a glance.
#[utoipa::path(get, path = "/v1/status", responses((status = 200, body = BalanceStatus)))]
async fn status(State(admin): Host) -> Json<BalanceStatus> {
    Json(admin.status())
}

/// Sends a backend nothing new.
#[utoipa::path(post, path = "/v1/backends/{name}/drain",
    params(("name" = String, Path, description = "The backend's name")),
    responses((status = 200, body = BackendStatus), (status = 404, body = Refused)))]
async fn drain(State(admin): Host, Path(name): Path<String>) -> Answer<BackendStatus> {
    admin.drain(&name).map(Json)
}

/// Lets a backend have requests again.
#[utoipa::path(post, path = "/v1/backends/{name}/undrain",
    params(("name" = String, Path, description = "The backend's name")),
    responses((status = 200, body = BackendStatus), (status = 404, body = Refused)))]
async fn undrain(State(admin): Host, Path(name): Path<String>) -> Answer<BackendStatus> {
    admin.undrain(&name).map(Json)
}

/// Tells the load of a backend.
#[utoipa::path(post, path = "/v1/backends/{name}/report", request_body = LoadReportJson,
    params(("name" = String, Path, description = "The backend's name")),
    responses(
        (status = 204),
        (status = 404, body = Refused),
        (status = 422, body = Refused)
    ))]
async fn report(
    State(admin): Host,
    Path(name): Path<String>,
    Body(report): Body<LoadReportJson>,
) -> Result<StatusCode, Refused> {
    admin.report(&name, &report).map(|()| StatusCode::NO_CONTENT)
}

/// The last five minutes, second by second.
#[utoipa::path(get, path = "/v1/history", params(Onward),
    responses((status = 200, body = [BalanceSecond])))]
async fn history(State(admin): Host, Query(second): Query<Onward>) -> Json<Vec<BalanceSecond>> {
    Json(admin.history(second.from))
}

/// The last thousand events.
#[utoipa::path(get, path = "/v1/events", params(Onward),
    responses((status = 200, body = [Event])))]
async fn events(State(admin): Host, Query(id): Query<Onward>) -> Json<Vec<Event>> {
    Json(admin.events(id.from))
}

/// The same figures for Prometheus.
async fn prometheus(State(admin): Host) -> Response {
    let (status, latencies) = admin.figures();
    metrics::answer(figures::PREFIX, Figures { status, latencies })
}

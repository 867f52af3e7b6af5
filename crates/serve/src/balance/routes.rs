//! The API of a balancer: which request does what. The OpenAPI document is made from the same
//! declarations.

use super::api::{BackendStatus, BalanceSecond, BalanceStatus};
use super::desk::Desk;
use super::figures;
use super::report::LoadReportJson;
use crate::api::{Event, Refused};
use crate::http::routes::{Answer, Body, Onward, with_page};
use crate::metrics;
use axum::extract::{Path, Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use std::sync::Arc;
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

#[derive(OpenApi)]
#[openapi(info(
    title = "thermocline balance",
    description = "A running balancer: its backends, their load, and what happened. Latencies are microseconds, moments milliseconds since 1970."
))]
struct Document;

type Host = State<Arc<Desk>>;

pub(super) fn router(desk: Arc<Desk>) -> Router {
    let (router, document) = api().split_for_parts();
    let html = include_str!("../../web/balance/index.html");
    let script = include_str!("../../web/balance/app.js");
    with_page(router, html, script)
        .route("/v1/openapi.json", get(async move || Json(document)))
        .route("/metrics", get(prometheus))
        .with_state(desk)
}

fn api() -> OpenApiRouter<Arc<Desk>> {
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
async fn status(State(desk): Host) -> Json<BalanceStatus> {
    Json(desk.status())
}

/// Sends a backend nothing new.
#[utoipa::path(post, path = "/v1/backends/{name}/drain",
    params(("name" = String, Path, description = "The backend's name")),
    responses((status = 200, body = BackendStatus), (status = 404, body = Refused)))]
async fn drain(State(desk): Host, Path(name): Path<String>) -> Answer<BackendStatus> {
    desk.drain(&name).map(Json)
}

/// Lets a backend have requests again.
#[utoipa::path(post, path = "/v1/backends/{name}/undrain",
    params(("name" = String, Path, description = "The backend's name")),
    responses((status = 200, body = BackendStatus), (status = 404, body = Refused)))]
async fn undrain(State(desk): Host, Path(name): Path<String>) -> Answer<BackendStatus> {
    desk.undrain(&name).map(Json)
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
    State(desk): Host,
    Path(name): Path<String>,
    Body(report): Body<LoadReportJson>,
) -> Result<StatusCode, Refused> {
    desk.report(&name, &report).map(|()| StatusCode::NO_CONTENT)
}

/// The last five minutes, second by second.
#[utoipa::path(get, path = "/v1/history", params(Onward),
    responses((status = 200, body = [BalanceSecond])))]
async fn history(State(desk): Host, Query(second): Query<Onward>) -> Json<Vec<BalanceSecond>> {
    Json(desk.history(second.from))
}

/// What happened, the last thousand events.
#[utoipa::path(get, path = "/v1/events", params(Onward),
    responses((status = 200, body = [Event])))]
async fn events(State(desk): Host, Query(id): Query<Onward>) -> Json<Vec<Event>> {
    Json(desk.events(id.from))
}

/// The same figures for Prometheus.
async fn prometheus(State(desk): Host) -> Response {
    let (status, latencies) = desk.figures();
    let text = figures::encode(status, latencies);
    ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response()
}

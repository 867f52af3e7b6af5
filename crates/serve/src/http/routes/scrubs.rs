//! Requests about scrubs: begun, told, stopped.

use super::{Answer, Body, ask};
use crate::api::{NewScrub, Refused, Scrub};
use crate::orders::Orders;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) fn api() -> OpenApiRouter<Orders> {
    OpenApiRouter::new().routes(routes!(scrub, begin_scrub, stop_scrub))
}

/// The scrub under way or the last one, and what has been found.
#[utoipa::path(get, path = "/v1/scrub", responses((status = 200, body = Scrub)))]
async fn scrub(State(orders): State<Orders>) -> Answer<Scrub> {
    ask(&orders, |desk| Ok(desk.scrub())).await
}

/// Begins to read and verify what pools hold, and to repair it from right copies.
#[utoipa::path(post, path = "/v1/scrub", request_body = NewScrub,
    responses(
        (status = 201, body = Scrub),
        (status = 404, body = Refused),
        (status = 409, body = Refused)
    ))]
async fn begin_scrub(
    State(orders): State<Orders>,
    Body(wish): Body<NewScrub>,
) -> Result<(StatusCode, Json<Scrub>), Refused> {
    let begun = ask(&orders, move |desk| desk.begin_scrub(&wish)).await?;
    Ok((StatusCode::CREATED, begun))
}

/// Stops the scrub that is under way.
#[utoipa::path(delete, path = "/v1/scrub",
    responses((status = 200, body = Scrub), (status = 404, body = Refused)))]
async fn stop_scrub(State(orders): State<Orders>) -> Answer<Scrub> {
    ask(&orders, |desk| desk.stop_scrub()).await
}

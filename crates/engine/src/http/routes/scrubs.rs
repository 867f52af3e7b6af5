//! Requests about scrubs: begun, told, stopped.

use super::ask;
use crate::api::{NewScrub, Scrub};
use crate::mailbox::Mailbox;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use thermocline_admin::api::Refused;
use thermocline_admin::http::{Answer, Body};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) fn api() -> OpenApiRouter<Mailbox> {
    OpenApiRouter::new().routes(routes!(scrub, begin_scrub, stop_scrub))
}

/// The scrub under way or the last one, and what has been found.
#[utoipa::path(get, path = "/v1/scrub", responses((status = 200, body = Scrub)))]
async fn scrub(State(mailbox): State<Mailbox>) -> Answer<Scrub> {
    ask(&mailbox, |admin| Ok(admin.scrub())).await
}

/// Begins to read and verify what pools hold, and to repair it from right copies.
#[utoipa::path(post, path = "/v1/scrub", request_body = NewScrub,
    responses(
        (status = 201, body = Scrub),
        (status = 404, body = Refused),
        (status = 409, body = Refused)
    ))]
async fn begin_scrub(
    State(mailbox): State<Mailbox>,
    Body(wish): Body<NewScrub>,
) -> Result<(StatusCode, Json<Scrub>), Refused> {
    let begun = ask(&mailbox, move |admin| admin.begin_scrub(&wish)).await?;
    Ok((StatusCode::CREATED, begun))
}

/// Stops the scrub that is under way.
#[utoipa::path(delete, path = "/v1/scrub",
    responses((status = 200, body = Scrub), (status = 404, body = Refused)))]
async fn stop_scrub(State(mailbox): State<Mailbox>) -> Answer<Scrub> {
    ask(&mailbox, |admin| admin.stop_scrub()).await
}

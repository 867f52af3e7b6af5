//! A sample of what clients ask for, as a recording.

use crate::mailbox::Mailbox;
use crate::sample;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use std::time::Duration;
use thermocline_admin::api::Refused;
use thermocline_admin::http::Query;
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// Seconds that a sample may last.
const SECONDS: std::ops::RangeInclusive<u64> = 1..=600;

pub(super) fn api() -> OpenApiRouter<Mailbox> {
    OpenApiRouter::new().routes(routes!(sample))
}

/// Length of a sample.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct Length {
    /// Seconds, 1 to 600.
    seconds: u64,
}

/// Records what clients do for so long, and answers with the recording: a trace for every command.
/// At most some millions of requests; refused while the engine is recorded or sampled.
#[utoipa::path(get, path = "/v1/sample", params(Length),
    responses(
        (status = 200, content_type = "application/octet-stream", body = Vec<u8>),
        (status = 409, body = Refused),
        (status = 422, body = Refused)
    ))]
async fn sample(
    State(mailbox): State<Mailbox>,
    Query(length): Query<Length>,
) -> Result<Response, Refused> {
    if !SECONDS.contains(&length.seconds) {
        return Err(Refused::invalid("a sample lasts 1 to 600 seconds"));
    }
    let (sampling, blocks) = sample::begin(&mailbox).await?;
    tokio::time::sleep(Duration::from_secs(length.seconds)).await;
    sampling.end().await.map_err(Refused::unavailable)?;
    Ok(([(header::CONTENT_TYPE, "application/octet-stream")], blocks.file()).into_response())
}

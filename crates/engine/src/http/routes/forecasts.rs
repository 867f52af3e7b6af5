//! Forecasts that were published.

use super::ask;
use crate::api::{Forecast, NewForecast};
use crate::mailbox::Mailbox;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Deserialize;
use thermocline_admin::api::Refused;
use thermocline_admin::http::{Answer, Body, Query};
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) fn api() -> OpenApiRouter<Mailbox> {
    OpenApiRouter::new().routes(routes!(forecasts, publish))
}

/// Forecasts that are known already.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct Known {
    /// Only forecasts of higher numbers are told.
    #[serde(default)]
    after: u64,
}

/// Forecasts that were published since the start, the latest first; the last 32 are kept.
#[utoipa::path(get, path = "/v1/forecasts", params(Known),
    responses((status = 200, body = [Forecast])))]
async fn forecasts(
    State(mailbox): State<Mailbox>,
    Query(known): Query<Known>,
) -> Answer<Vec<Forecast>> {
    ask(&mailbox, move |admin| Ok(admin.forecasts(known.after))).await
}

/// Publishes a forecast, which the dashboard then shows. `thermocline advise --live --publish`
/// makes one.
#[utoipa::path(post, path = "/v1/forecasts", request_body = NewForecast,
    responses((status = 201, body = Forecast), (status = 422, body = Refused)))]
async fn publish(
    State(mailbox): State<Mailbox>,
    Body(wish): Body<NewForecast>,
) -> Result<(StatusCode, Json<Forecast>), Refused> {
    let published = ask(&mailbox, move |admin| admin.publish_forecast(wish)).await?;
    Ok((StatusCode::CREATED, published))
}

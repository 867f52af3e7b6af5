//! Requests about shadows, and about reasons.

use super::ask;
use crate::api::{Adopted, Adoption, Explanation, NewShadow, Shadow};
use crate::mailbox::Mailbox;
use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use serde::Deserialize;
use thermocline_admin::api::Refused;
use thermocline_admin::http::{Answer, Body, Query};
use utoipa::IntoParams;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) fn api() -> OpenApiRouter<Mailbox> {
    OpenApiRouter::new()
        .routes(routes!(list_shadows, add_shadow))
        .routes(routes!(remove_shadow))
        .routes(routes!(adopt))
        .routes(routes!(explain))
}

/// Shadows, with what they would have done.
#[utoipa::path(get, path = "/v1/shadows", responses((status = 200, body = [Shadow])))]
async fn list_shadows(State(mailbox): State<Mailbox>) -> Answer<Vec<Shadow>> {
    ask(&mailbox, |admin| Ok(admin.shadows())).await
}

/// Lets a policy begin as a shadow; at most 8 at once.
#[utoipa::path(post, path = "/v1/shadows", request_body = NewShadow,
    responses(
        (status = 201, body = Shadow),
        (status = 409, body = Refused),
        (status = 422, body = Refused)
    ))]
async fn add_shadow(
    State(mailbox): State<Mailbox>,
    Body(wish): Body<NewShadow>,
) -> Result<(StatusCode, Json<Shadow>), Refused> {
    let added = ask(&mailbox, move |admin| admin.add_shadow(&wish)).await?;
    Ok((StatusCode::CREATED, added))
}

/// Ends a shadow.
#[utoipa::path(delete, path = "/v1/shadows/{name}",
    params(("name" = String, Path, description = "The shadow's name")),
    responses((status = 204), (status = 404, body = Refused)))]
async fn remove_shadow(
    State(mailbox): State<Mailbox>,
    Path(name): Path<String>,
) -> Result<StatusCode, Refused> {
    let Json(()) = ask(&mailbox, move |admin| admin.remove_shadow(&name)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Gives the decision to a shadow, which is none any more.
#[utoipa::path(post, path = "/v1/policy/adopt", request_body = Adoption,
    responses((status = 200, body = Adopted), (status = 404, body = Refused)))]
async fn adopt(State(mailbox): State<Mailbox>, Body(wish): Body<Adoption>) -> Answer<Adopted> {
    ask(&mailbox, move |admin| admin.adopt(&wish.shadow)).await
}

/// A place in a volume.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct Place {
    /// The volume's name.
    volume: String,
    /// Bytes from its start.
    #[serde(default)]
    offset_bytes: u64,
}

/// Place of a chunk, its heat, and the reasons of the policy for it.
#[utoipa::path(get, path = "/v1/policy/explain", params(Place),
    responses(
        (status = 200, body = Explanation),
        (status = 404, body = Refused),
        (status = 422, body = Refused)
    ))]
async fn explain(
    State(mailbox): State<Mailbox>,
    Query(place): Query<Place>,
) -> Answer<Explanation> {
    ask(&mailbox, move |admin| admin.explain(&place.volume, place.offset_bytes)).await
}

//! Requests about hints: given, told, withdrawn; the table of classes.

use super::{Answer, Body, ask};
use crate::api::{HintsStatus, HintsTaken, NewClasses, NewHints, Refused};
use crate::orders::Orders;
use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use std::sync::Arc;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// Hints that the loop takes between two rounds: requests of clients do not wait for a document.
const AT_ONCE: usize = 256;

pub(super) fn api() -> OpenApiRouter<Orders> {
    OpenApiRouter::new()
        .routes(routes!(hints, give_hints))
        .routes(routes!(forget_hints))
        .routes(routes!(set_classes))
}

/// What hints are held, who gave them, how far they were right, and what they led to.
#[utoipa::path(get, path = "/v1/hints", responses((status = 200, body = HintsStatus)))]
async fn hints(State(orders): State<Orders>) -> Answer<HintsStatus> {
    ask(&orders, |desk| Ok(desk.hints())).await
}

/// Gives hints. Those that make no sense are told in the answer; the others are taken.
#[utoipa::path(post, path = "/v1/hints", request_body = NewHints,
    responses((status = 200, body = HintsTaken), (status = 422, body = Refused)))]
async fn give_hints(
    State(orders): State<Orders>,
    Body(document): Body<NewHints>,
) -> Answer<HintsTaken> {
    document.check().map_err(Refused::invalid)?;
    let NewHints { source, hints, .. } = document;
    let (source, hints) = (Arc::new(source), Arc::new(hints));
    let mut taken = HintsTaken::default();
    for first in (0..hints.len()).step_by(AT_ONCE) {
        let (source, hints) = (source.clone(), hints.clone());
        let part = ask(&orders, move |desk| {
            let last = hints.len().min(first + AT_ONCE);
            Ok(desk.hint(&source, first, &hints[first..last]))
        });
        taken.add(part.await?.0);
    }
    Ok(Json(taken))
}

/// Withdraws everything that a source said.
#[utoipa::path(delete, path = "/v1/hints/{source}",
    params(("source" = String, Path, description = "Who said it")),
    responses((status = 204), (status = 404, body = Refused)))]
async fn forget_hints(
    State(orders): State<Orders>,
    Path(source): Path<String>,
) -> Result<StatusCode, Refused> {
    let Json(()) = ask(&orders, move |desk| desk.forget_hints(&source)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Takes another table of classes, in the form of Open CAS's; hints given before are forgotten.
#[utoipa::path(put, path = "/v1/hints/classes", request_body = NewClasses,
    responses((status = 200, body = HintsStatus), (status = 422, body = Refused)))]
async fn set_classes(
    State(orders): State<Orders>,
    Body(wish): Body<NewClasses>,
) -> Answer<HintsStatus> {
    ask(&orders, move |desk| {
        desk.set_hint_classes(&wish.table)?;
        Ok(desk.hints())
    })
    .await
}

//! Requests about hints: given, told, withdrawn; the table of classes.

use super::ask;
use crate::api::{HINTS_BYTES_MAX, HINTS_MAX, HintsStatus, HintsTaken, NewClasses, NewHints};
use crate::mailbox::Mailbox;
use axum::Json;
use axum::body::Body as RequestBody;
use axum::extract::{DefaultBodyLimit, FromRequest, Path, Request, State};
use axum::http::StatusCode;
use http_body_util::BodyExt;
use std::sync::Arc;
use thermocline_admin::api::Refused;
use thermocline_admin::http::{Answer, Body, refused};
use thermocline_units::Bytes;
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouterExt};
use utoipa_axum::routes;

/// Hints that the loop takes between two rounds: requests of clients do not wait for a document.
const AT_ONCE: usize = 256;

/// Bytes of a document that is too long that are read before it is answered.
const DROPPED_BYTES_MAX: usize = 8 * HINTS_BYTES_MAX;

pub(super) fn api() -> OpenApiRouter<Mailbox> {
    OpenApiRouter::new()
        .routes(routes!(hints, give_hints).layer(DefaultBodyLimit::max(HINTS_BYTES_MAX)))
        .routes(routes!(forget_hints))
        .routes(routes!(set_classes))
}

/// Hints that are held, their sources, how far these were right, and what they led to.
#[utoipa::path(get, path = "/v1/hints", responses((status = 200, body = HintsStatus)))]
async fn hints(State(mailbox): State<Mailbox>) -> Answer<HintsStatus> {
    ask(&mailbox, |admin| Ok(admin.hints())).await
}

/// Gives hints. Those that make no sense are told in the answer; the others are taken.
#[utoipa::path(post, path = "/v1/hints", request_body = NewHints,
    responses((status = 200, body = HintsTaken), (status = 413, body = Refused),
        (status = 422, body = Refused)))]
async fn give_hints(
    State(mailbox): State<Mailbox>,
    Document(document): Document,
) -> Answer<HintsTaken> {
    document.check().map_err(Refused::invalid)?;
    let NewHints { source, hints, .. } = document;
    let (source, hints) = (Arc::new(source), Arc::new(hints));
    let mut taken = HintsTaken::default();
    for first in (0..hints.len()).step_by(AT_ONCE) {
        let (source, hints) = (source.clone(), hints.clone());
        let part = ask(&mailbox, move |admin| {
            let last = hints.len().min(first + AT_ONCE);
            Ok(admin.hint(&source, first, &hints[first..last]))
        });
        taken.add(part.await?.0);
    }
    Ok(Json(taken))
}

/// A document of hints; one that is too long is answered with how much goes together.
struct Document(NewHints);

impl<S: Send + Sync> FromRequest<S> for Document {
    type Rejection = Refused;

    async fn from_request(request: Request, state: &S) -> Result<Document, Refused> {
        let (head, body) = request.into_parts();
        let body = whole(body).await?;
        match Json::from_request(Request::from_parts(head, body), state).await {
            Ok(Json(document)) => Ok(Document(document)),
            Err(rejection) => Err(refused(&rejection)),
        }
    }
}

/// All of a body. Of one that is too long the rest is read, too, and dropped: a client that is
/// still sending when it is answered does not see the answer.
async fn whole(mut body: RequestBody) -> Result<RequestBody, Refused> {
    let broken = |error: axum::Error| Refused { message: error.to_string(), status: 400 };
    let (mut kept, mut length) = (Vec::new(), 0);
    while let Some(frame) = body.frame().await {
        let Ok(part) = frame.map_err(broken)?.into_data() else { continue };
        length += part.len();
        if length <= HINTS_BYTES_MAX {
            kept.extend_from_slice(&part);
        } else if length > DROPPED_BYTES_MAX {
            break;
        }
    }
    if length <= HINTS_BYTES_MAX {
        return Ok(RequestBody::from(kept));
    }
    let message = format!(
        "the document has more than {}; give at most {HINTS_MAX} hints at once, and fewer where \
         directories and names are long",
        Bytes(HINTS_BYTES_MAX as u64)
    );
    Err(Refused { message, status: StatusCode::PAYLOAD_TOO_LARGE.as_u16() })
}

/// Withdraws everything that a source said.
#[utoipa::path(delete, path = "/v1/hints/{source}",
    params(("source" = String, Path, description = "Who said it")),
    responses((status = 204), (status = 404, body = Refused)))]
async fn forget_hints(
    State(mailbox): State<Mailbox>,
    Path(source): Path<String>,
) -> Result<StatusCode, Refused> {
    let Json(()) = ask(&mailbox, move |admin| admin.forget_hints(&source)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Takes another table of classes, in the form of Open CAS's; hints given before are forgotten.
#[utoipa::path(put, path = "/v1/hints/classes", request_body = NewClasses,
    responses((status = 200, body = HintsStatus), (status = 422, body = Refused)))]
async fn set_classes(
    State(mailbox): State<Mailbox>,
    Body(wish): Body<NewClasses>,
) -> Answer<HintsStatus> {
    ask(&mailbox, move |admin| {
        admin.set_hint_classes(&wish.table)?;
        Ok(admin.hints())
    })
    .await
}

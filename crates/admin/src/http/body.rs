//! Bodies of requests, in JSON. A key that is not known is refused, and the nearest one that is
//! known is named: `sise_bytes` must not make a pool of some other size.

use crate::api::Refused;
use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{FromRequest, Request};
use axum::http::StatusCode;
use thermocline_units::nearest;

/// A body in JSON; one that is not what was expected is answered like every other mistake.
pub struct Body<T>(pub T);

impl<T: serde::de::DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = Refused;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refused> {
        match Json::from_request(request, state).await {
            Ok(Json(body)) => Ok(Body(body)),
            Err(rejection) => Err(refused(&rejection)),
        }
    }
}

/// The refusal that says what is wrong with a body.
pub fn refused(rejection: &JsonRejection) -> Refused {
    let text = rejection.body_text();
    match unknown_key(&text) {
        Some(message) => Refused { message, status: StatusCode::BAD_REQUEST.as_u16() },
        None => Refused { message: text, status: rejection.status().as_u16() },
    }
}

/// Advice about a key that serde does not know; `None`: something else is wrong.
///
/// serde names the keys in its message only: "unknown field `a`, expected one of `b`, `c` at …".
pub fn unknown_key(text: &str) -> Option<String> {
    let (_, after) = text.split_once("unknown field `")?;
    // Between two names stands a comma or "or"; what follows the last is the place.
    let mut names = after.split('`').step_by(2);
    let (key, known) = (names.next()?, names.collect::<Vec<_>>());
    // Units stand at the end of our keys, and are what people leave out.
    let longer = known.iter().copied().find(|longer| longer.starts_with(key));
    let hint = match longer.or_else(|| nearest(key, known.iter().copied())) {
        _ if known.is_empty() => "none is known here".to_string(),
        Some(like) => format!("did you mean `{like}`?"),
        None => format!("known are {}", known.join(", ")),
    };
    Some(format!("unknown key `{key}`; {hint}"))
}

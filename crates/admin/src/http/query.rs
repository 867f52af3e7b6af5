//! Query strings of requests. A key that is not known is refused, and the nearest one that is known
//! is named: `extents?offset=…` must not answer for the whole volume.

use super::body::unknown_key;
use crate::api::Refused;
use axum::extract::rejection::QueryRejection;
use axum::extract::{FromRequestParts, Query as Parsed};
use axum::http::request::Parts;

/// A query string; one that is not what was expected is answered like every other mistake. Types
/// that are read so deny unknown fields.
pub struct Query<T>(pub T);

impl<T: serde::de::DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Refused;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refused> {
        let parsed: Result<Parsed<T>, QueryRejection> =
            Parsed::from_request_parts(parts, state).await;
        parsed.map(|Parsed(query)| Query(query)).map_err(|rejection| {
            let text = rejection.body_text();
            let message = unknown_key(&text).unwrap_or(text);
            Refused { message, status: rejection.status().as_u16() }
        })
    }
}

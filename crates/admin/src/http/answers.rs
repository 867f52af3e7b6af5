//! Shapes that the handlers of all APIs share.

use crate::api::Refused;
use axum::Json;
use serde::Deserialize;
use utoipa::IntoParams;

/// Answer of a handler: a value in JSON, or a refusal with its status.
pub type Answer<T> = Result<Json<T>, Refused>;

/// From where on something is told.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct Onward {
    /// The first number that is of interest.
    #[serde(default)]
    pub from: u64,
}

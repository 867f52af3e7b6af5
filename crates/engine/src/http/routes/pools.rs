//! Pools: listed, added, grown, drained, undrained, removed.

use super::ask;
use crate::api::{GrownPool, NewPool, Pool, PoolGrowth};
use crate::event_loop::Reach;
use crate::growing;
use crate::joining;
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
        .routes(routes!(list_pools, add_pool))
        .routes(routes!(remove_pool))
        .routes(routes!(grow_pool))
        .routes(routes!(drain_pool))
        .routes(routes!(undrain_pool))
}

/// Pools, fastest first.
#[utoipa::path(get, path = "/v1/pools", responses((status = 200, body = [Pool])))]
async fn list_pools(State(mailbox): State<Mailbox>) -> Answer<Vec<Pool>> {
    ask(&mailbox, |admin| Ok(admin.pools())).await
}

/// Adds a pool at the rank that `before` says; it takes chunks once it is active. A device that is
/// in use is refused, and so is one that holds something, unless `erase` says that it may be
/// destroyed.
#[utoipa::path(post, path = "/v1/pools", request_body = NewPool,
    responses(
        (status = 201, body = Pool),
        (status = 400, body = Refused),
        (status = 409, body = Refused),
        (status = 422, body = Refused)
    ))]
async fn add_pool(
    State(mailbox): State<Mailbox>,
    Body(pool): Body<NewPool>,
) -> Result<(StatusCode, Json<Pool>), Refused> {
    // To its end, also when whoever asked hangs up: half of it would be left behind.
    let added =
        tokio::spawn(joining::join(mailbox, pool)).await.map_err(Refused::unavailable)??;
    Ok((StatusCode::CREATED, Json(added)))
}

/// Removes a pool that is drained or dead.
#[utoipa::path(delete, path = "/v1/pools/{name}",
    params(("name" = String, Path, description = "The pool's name or number")),
    responses((status = 204), (status = 404, body = Refused), (status = 409, body = Refused)))]
async fn remove_pool(
    State(mailbox): State<Mailbox>,
    Path(name): Path<String>,
) -> Result<StatusCode, Refused> {
    let Json(()) = ask(&mailbox, move |admin| admin.remove_pool(&name)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Lets a pool grow: its file is made larger, or its device has become so. It goes on meanwhile.
#[utoipa::path(post, path = "/v1/pools/{name}/grow", request_body = PoolGrowth,
    params(("name" = String, Path, description = "The pool's name or number")),
    responses(
        (status = 200, body = GrownPool),
        (status = 400, body = Refused),
        (status = 404, body = Refused),
        (status = 409, body = Refused),
        (status = 422, body = Refused)
    ))]
async fn grow_pool(
    State(mailbox): State<Mailbox>,
    Path(name): Path<String>,
    Body(wish): Body<PoolGrowth>,
) -> Answer<GrownPool> {
    // To its end, also when whoever asked hangs up: the file would be larger for nothing.
    let grown = tokio::spawn(growing::grow(mailbox, name, wish));
    Ok(Json(grown.await.map_err(Refused::unavailable)??))
}

/// Options of a drain.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct Drain {
    /// Lets chunks go to pools across a network, too.
    #[serde(default)]
    to_far: bool,
}

/// Moves everything off a pool, and lets nothing new onto it.
#[utoipa::path(post, path = "/v1/pools/{name}/drain",
    params(("name" = String, Path, description = "The pool's name or number"), Drain),
    responses(
        (status = 200, body = Pool),
        (status = 404, body = Refused),
        (status = 409, body = Refused)
    ))]
async fn drain_pool(
    State(mailbox): State<Mailbox>,
    Path(name): Path<String>,
    Query(how): Query<Drain>,
) -> Answer<Pool> {
    let reach = if how.to_far { Reach::Anywhere } else { Reach::Near };
    ask(&mailbox, move |admin| admin.drain_pool(&name, reach)).await
}

/// Lets a pool that is being drained, or is drained, take chunks again; what has left it does not
/// come back by itself.
#[utoipa::path(post, path = "/v1/pools/{name}/undrain",
    params(("name" = String, Path, description = "The pool's name or number")),
    responses(
        (status = 200, body = Pool),
        (status = 404, body = Refused),
        (status = 409, body = Refused)
    ))]
async fn undrain_pool(State(mailbox): State<Mailbox>, Path(name): Path<String>) -> Answer<Pool> {
    ask(&mailbox, move |admin| admin.undrain_pool(&name)).await
}

//! The API of a pool: which request does what, and who may ask. The OpenAPI document is made from
//! the same declarations; what `cyborg` answers is Cyborg's.

use crate::api::{NewCardState, NewChain, NewCount, NewLoad, PoolSecond, PoolStatus};
use crate::pool::{Caller, PoolApi};
use crate::{cyborg, figures};
use axum::extract::{DefaultBodyLimit, Path, Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Extension, Json, Router};
use std::sync::Arc;
use thermocline_admin::api::{Event, Refused};
use thermocline_admin::http::{
    Answer, Body, Dashboard, Onward, Query, is_equal, is_page, note_known,
};
use utoipa::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// Bytes of a body at most.
const BODY_BYTES_MAX: usize = 64 * 1024;

#[derive(OpenApi)]
#[openapi(info(
    title = "thermocline accel",
    description = "A running pool of accelerators: its slots, functions, chains and tenants. Below /accelerator/v2 it speaks OpenStack Cyborg's API. Moments are milliseconds since 1970."
))]
struct Document;

type Asked = State<PoolApi>;
type Who = Extension<Caller>;

/// The OpenAPI document of a pool.
pub fn openapi() -> utoipa::openapi::OpenApi {
    api().split_for_parts().1
}

fn api() -> OpenApiRouter<PoolApi> {
    OpenApiRouter::with_openapi(Document::openapi())
        .routes(routes!(status))
        .routes(routes!(chain))
        .routes(routes!(scale))
        .routes(routes!(load))
        .routes(routes!(drain))
        .routes(routes!(history))
        .routes(routes!(events))
}

/// The routes for whoever may open the socket, and those for whoever has a token.
pub(crate) fn of_pool(admin: PoolApi, token: String) -> (Router, Router) {
    let dashboard = Dashboard {
        title: "thermocline accel",
        token: "This pool asks for the administrator's token. The address that \
                <code>thermocline accel up</code> prints at its start carries it.",
        sections: include_str!("../web/sections.html"),
        script: include_str!("../web/app.js"),
    };
    let router = dashboard
        .beside(api(), get(metrics))
        .merge(cyborg::router())
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .with_state(admin.clone());
    let local = router.clone().layer(Extension(Caller::Admin));
    let tokens = Tokens { admin: token.into(), tenants: admin.tokens };
    let guard = middleware::from_fn_with_state(tokens, check_token);
    (local.merge(cyborg::public()), router.layer(guard).merge(cyborg::public()))
}

/// Tokens, and whose they are.
#[derive(Clone)]
struct Tokens {
    admin: Arc<str>,
    tenants: Arc<Vec<(String, String)>>,
}

/// Finds out who asks: `Authorization: Bearer …`, or `X-Auth-Token` as OpenStack's clients send it.
/// The page itself is for everybody, and tells nothing.
async fn check_token(State(tokens): State<Tokens>, mut request: Request, next: Next) -> Response {
    if is_page(request.uri().path()) {
        return next.run(request).await;
    }
    let headers = request.headers();
    let bearer = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let bearer = bearer.and_then(|value| value.strip_prefix("Bearer "));
    let openstack = headers.get("x-auth-token").and_then(|value| value.to_str().ok());
    let given = bearer.or(openstack).unwrap_or_default().as_bytes();
    let mut caller = None;
    if !tokens.admin.is_empty() && is_equal(given, tokens.admin.as_bytes()) {
        caller = Some(Caller::Admin);
    }
    // Every token is compared, so that the time does not tell which one was near.
    for (token, tenant) in tokens.tenants.iter() {
        if is_equal(given, token.as_bytes()) {
            caller = Some(Caller::Tenant(tenant.clone()));
        }
    }
    let Some(caller) = caller else {
        let message = "a token is needed: `Authorization: Bearer …` or `X-Auth-Token: …`";
        let refused = Refused { message: message.to_string(), status: 401 };
        return ([(header::WWW_AUTHENTICATE, "Bearer")], refused).into_response();
    };
    note_known(&request);
    request.extensions_mut().insert(caller);
    next.run(request).await
}

/// Refuses whoever is not the administrator.
fn only_admin(caller: &Caller) -> Result<(), Refused> {
    let message = "the administrator alone may do this; tenants have /accelerator/v2";
    match caller {
        Caller::Admin => Ok(()),
        Caller::Tenant(_) => Err(Refused { message: message.to_string(), status: 403 }),
    }
}

/// The pool at a glance.
#[utoipa::path(get, path = "/v1/status",
    responses((status = 200, body = PoolStatus), (status = 403, body = Refused),
        (status = 503, body = Refused)))]
async fn status(State(api): Asked, Extension(who): Who) -> Answer<PoolStatus> {
    only_admin(&who)?;
    api.mailbox.ask(|core| core.status()).await.map(Json)
}

/// Changes a tenant's chain while its packets flow.
#[utoipa::path(put, path = "/v1/tenants/{name}/chain", request_body = NewChain,
    params(("name" = String, Path, description = "The tenant's name")),
    responses((status = 204), (status = 403, body = Refused), (status = 404, body = Refused),
        (status = 409, body = Refused), (status = 422, body = Refused)))]
async fn chain(
    State(api): Asked,
    Extension(who): Who,
    Path(name): Path<String>,
    Body(wish): Body<NewChain>,
) -> Result<StatusCode, Refused> {
    // Not its tenant: it would take the inspection out.
    only_admin(&who)?;
    api.mailbox.ask(move |core| core.set_chain(&name, wish.functions)).await??;
    Ok(StatusCode::NO_CONTENT)
}

/// Asks for a number of slots for a function, or leaves it to the scheduler.
#[utoipa::path(put, path = "/v1/functions/{name}", request_body = NewCount,
    params(("name" = String, Path, description = "The function's name")),
    responses((status = 204), (status = 403, body = Refused), (status = 404, body = Refused),
        (status = 409, body = Refused)))]
async fn scale(
    State(api): Asked,
    Extension(who): Who,
    Path(name): Path<String>,
    Body(wish): Body<NewCount>,
) -> Result<StatusCode, Refused> {
    only_admin(&who)?;
    api.mailbox.ask(move |core| core.scale(&name, wish.slots)).await??;
    Ok(StatusCode::NO_CONTENT)
}

/// Loads a function into a slot, or leaves the slot to the scheduler.
#[utoipa::path(put, path = "/v1/slots/{slot}", request_body = NewLoad,
    params(("slot" = usize, Path, description = "The slot's number")),
    responses((status = 204), (status = 403, body = Refused), (status = 404, body = Refused),
        (status = 409, body = Refused)))]
async fn load(
    State(api): Asked,
    Extension(who): Who,
    Path(slot): Path<usize>,
    Body(wish): Body<NewLoad>,
) -> Result<StatusCode, Refused> {
    only_admin(&who)?;
    api.mailbox.ask(move |core| core.load(slot, wish.function.as_deref())).await??;
    Ok(StatusCode::NO_CONTENT)
}

/// Empties a card, or lets it be used again.
#[utoipa::path(put, path = "/v1/cards/{name}", request_body = NewCardState,
    params(("name" = String, Path, description = "The card's name")),
    responses((status = 204), (status = 403, body = Refused), (status = 404, body = Refused),
        (status = 409, body = Refused)))]
async fn drain(
    State(api): Asked,
    Extension(who): Who,
    Path(name): Path<String>,
    Body(wish): Body<NewCardState>,
) -> Result<StatusCode, Refused> {
    only_admin(&who)?;
    api.mailbox.ask(move |core| core.set_drained(&name, wish.drained)).await??;
    Ok(StatusCode::NO_CONTENT)
}

/// The last five minutes, second by second.
#[utoipa::path(get, path = "/v1/history", params(Onward),
    responses((status = 200, body = [PoolSecond]), (status = 403, body = Refused)))]
async fn history(
    State(api): Asked,
    Extension(who): Who,
    Query(second): Query<Onward>,
) -> Answer<Vec<PoolSecond>> {
    only_admin(&who)?;
    api.mailbox.ask(move |core| core.history(second.from)).await.map(Json)
}

/// The last thousand events.
#[utoipa::path(get, path = "/v1/events", params(Onward),
    responses((status = 200, body = [Event]), (status = 403, body = Refused)))]
async fn events(
    State(api): Asked,
    Extension(who): Who,
    Query(id): Query<Onward>,
) -> Answer<Vec<Event>> {
    only_admin(&who)?;
    Ok(Json(api.notes.events(id.from)))
}

async fn metrics(State(api): Asked, Extension(who): Who) -> Result<Response, Refused> {
    only_admin(&who)?;
    Ok(figures::answer_of(api.mailbox.ask(|core| core.status()).await?))
}

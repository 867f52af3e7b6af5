//! The API of a storage server and of a host's agent: which request does what. The OpenAPI
//! documents are made from the same declarations.

use super::HostApi;
use super::api::{
    Checked, HostSecond, HostStatus, NewClone, NewStoreVolume, QuotaChange, StoreSecond,
    StoreStatus, StoreVolume, Swept,
};
use super::backing::DOMAINS;
use super::figures;
use super::store::{Core, StoreApi};
use axum::body::Bytes as Uploaded;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use axum::{Json, Router};
use serde::Deserialize;
use thermocline_admin::api::{Event, Refused};
use thermocline_admin::http::{Answer, Body, Dashboard, Onward, Query};
use thermocline_content::{Action, Completed, Domain, Quotas};
use thermocline_hostcache::{BLOCK_BYTES, HostId};
use thermocline_ports::Payload;
use thermocline_units::Bytes;
use tokio::sync::oneshot;
use utoipa::{IntoParams, OpenApi};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// Bytes of a body at most: one part of an image, and some room.
const BODY_BYTES_MAX: usize = (1 << 20) + 4096;

#[derive(OpenApi)]
#[openapi(info(
    title = "thermocline store",
    description = "A running storage server: its volumes, hosts and what de-duplication saves. Sizes are bytes, moments milliseconds since 1970."
))]
struct StoreDocument;

#[derive(OpenApi)]
#[openapi(info(
    title = "thermocline host",
    description = "A running agent of a host: its volumes, its cache and what came from where. Sizes are bytes, moments milliseconds since 1970."
))]
struct HostDocument;

type Store = State<StoreApi>;
type Host = State<HostApi>;

/// The OpenAPI document of a store.
pub fn store_openapi() -> utoipa::openapi::OpenApi {
    store_api().split_for_parts().1
}

/// The OpenAPI document of a host.
pub fn host_openapi() -> utoipa::openapi::OpenApi {
    host_api().split_for_parts().1
}

fn store_api() -> OpenApiRouter<StoreApi> {
    OpenApiRouter::with_openapi(StoreDocument::openapi())
        .routes(routes!(store_status))
        .routes(routes!(volumes, create))
        .routes(routes!(delete, change))
        .routes(routes!(clone))
        .routes(routes!(fill))
        .routes(routes!(gc))
        .routes(routes!(check))
        .routes(routes!(store_history))
        .routes(routes!(store_events))
}

fn host_api() -> OpenApiRouter<HostApi> {
    OpenApiRouter::with_openapi(HostDocument::openapi())
        .routes(routes!(host_status))
        .routes(routes!(attach, detach))
        .routes(routes!(host_history))
        .routes(routes!(host_events))
}

pub(super) fn of_store(admin: StoreApi) -> Router {
    let dashboard = Dashboard {
        title: "thermocline store",
        token: "This store asks for a token. The address that <code>thermocline store serve</code> \
                prints at its start carries it.",
        sections: include_str!("../web/store/sections.html"),
        script: concat!(include_str!("../web/both.js"), include_str!("../web/store/app.js")),
    };
    let routes = dashboard.beside(store_api(), get(store_metrics));
    routes.layer(DefaultBodyLimit::max(BODY_BYTES_MAX)).with_state(admin)
}

pub(super) fn of_host(admin: HostApi) -> Router {
    let dashboard = Dashboard {
        title: "thermocline host",
        token: "This agent asks for a token. The address that <code>thermocline host serve</code> \
                prints at its start carries it.",
        sections: include_str!("../web/host/sections.html"),
        script: concat!(include_str!("../web/both.js"), include_str!("../web/host/app.js")),
    };
    let routes = dashboard.beside(host_api(), get(host_metrics));
    routes.layer(DefaultBodyLimit::max(BODY_BYTES_MAX)).with_state(admin)
}

/// Has the store do something to a volume, once that was looked at.
async fn order<T: Send + 'static>(
    admin: &StoreApi,
    look: impl FnOnce(&mut Core) -> Result<(Action, T), Refused> + Send + 'static,
) -> Result<(Completed, T), Refused> {
    type Waiting<T> = Result<(oneshot::Receiver<Result<Completed, Refused>>, T), Refused>;
    let begun: Waiting<T> = admin
        .mailbox
        .look(move |core| {
            let (action, kept) = look(core)?;
            let (told, answer) = oneshot::channel();
            core.order(action, told);
            Ok((answer, kept))
        })
        .await?;
    let (answer, kept) = begun?;
    let completed = answer.await.map_err(|_| Refused::unavailable("the store is stopping"))?;
    Ok((completed?, kept))
}

async fn told(admin: &StoreApi, name: String) -> Answer<StoreVolume> {
    let found = admin.mailbox.look(move |core| {
        let volumes = core.volumes();
        volumes.into_iter().find(|volume| volume.name == name)
    });
    let gone = || Refused::missing("it has been deleted meanwhile");
    found.await?.ok_or_else(gone).map(Json)
}

/// The storage server at a glance.
#[utoipa::path(get, path = "/v1/status",
    responses((status = 200, body = StoreStatus), (status = 503, body = Refused)))]
async fn store_status(State(admin): Store) -> Answer<StoreStatus> {
    admin.mailbox.look(|core| core.status()).await.map(Json)
}

/// Volumes, clones, snapshots and images.
#[utoipa::path(get, path = "/v1/volumes",
    responses((status = 200, body = [StoreVolume]), (status = 503, body = Refused)))]
async fn volumes(State(admin): Store) -> Answer<Vec<StoreVolume>> {
    admin.mailbox.look(|core| core.volumes()).await.map(Json)
}

/// A quota as the store has it.
fn bound(bytes: Option<u64>) -> Result<Bytes, Refused> {
    match bytes {
        None => Ok(Bytes(u64::MAX)),
        Some(0) => Err(Refused::invalid(
            "with a quota of 0 nothing could be written; give 4 KiB or more, or make a snapshot",
        )),
        Some(bytes) if !bytes.is_multiple_of(BLOCK_BYTES as u64) => {
            Err(Refused::invalid(format!("quota {bytes}: give a multiple of 4 KiB")))
        }
        Some(bytes) => Ok(Bytes(bytes)),
    }
}

/// Makes a volume that reads as zeroes.
#[utoipa::path(post, path = "/v1/volumes", request_body = NewStoreVolume,
    responses((status = 200, body = StoreVolume), (status = 409, body = Refused),
        (status = 422, body = Refused)))]
async fn create(State(admin): Store, Body(wish): Body<NewStoreVolume>) -> Answer<StoreVolume> {
    let NewStoreVolume { name, size_bytes, domain, logical_quota_bytes, physical_quota_bytes } =
        wish;
    if size_bytes == 0 || !size_bytes.is_multiple_of(BLOCK_BYTES as u64) {
        return Err(Refused::invalid(format!("size {size_bytes}: give a multiple of 4 KiB")));
    }
    if domain >= DOMAINS {
        return Err(Refused::invalid(format!("domain {domain}: give 0 to {}", DOMAINS - 1)));
    }
    let quotas =
        Quotas { logical: bound(logical_quota_bytes)?, physical: bound(physical_quota_bytes)? };
    let (size, domain, called) = (Bytes(size_bytes), Domain(domain), name.clone());
    order(&admin, move |_| Ok((Action::Create { name, size, domain, quotas }, ()))).await?;
    told(&admin, called).await
}

/// Deletes a volume with all it holds; a host that has it keeps it from being deleted.
#[utoipa::path(delete, path = "/v1/volumes/{name}",
    params(("name" = String, Path, description = "The volume's name")),
    responses((status = 204), (status = 404, body = Refused), (status = 409, body = Refused)))]
async fn delete(State(admin): Store, Path(name): Path<String>) -> Result<StatusCode, Refused> {
    let (_, volume) = order(&admin, move |core| {
        let volume = core.free_volume(&name)?.id;
        core.forget(volume.0);
        Ok((Action::Delete { volume }, volume.0))
    })
    .await?;
    // A host that came back while this waited its turn was given it again.
    admin.mailbox.look(move |core| core.forget(volume)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Changes the quotas of a volume, also while a host has it. One below what is used refuses growth
/// from now on; nothing is taken away.
#[utoipa::path(patch, path = "/v1/volumes/{name}", request_body = QuotaChange,
    params(("name" = String, Path, description = "The volume's name")),
    responses((status = 200, body = StoreVolume), (status = 404, body = Refused),
        (status = 409, body = Refused), (status = 422, body = Refused)))]
async fn change(
    State(admin): Store,
    Path(name): Path<String>,
    Body(wish): Body<QuotaChange>,
) -> Answer<StoreVolume> {
    let QuotaChange { logical_quota_bytes, physical_quota_bytes } = wish;
    if logical_quota_bytes.or(physical_quota_bytes).is_none() {
        return Err(Refused::invalid(
            "name `logical_quota_bytes`, `physical_quota_bytes`, or both",
        ));
    }
    let logical = logical_quota_bytes.map(bound).transpose()?;
    let physical = physical_quota_bytes.map(bound).transpose()?;
    let called = name.clone();
    order(&admin, move |core| {
        let it = core.volume(&name)?;
        if it.read_only {
            let text = format!(
                "`{name}` is a snapshot, to which nothing is written; quotas are of volumes"
            );
            return Err(Refused::conflict(text));
        }
        let quotas = Quotas {
            logical: logical.unwrap_or(it.quotas.logical),
            physical: physical.unwrap_or(it.quotas.physical),
        };
        Ok((Action::SetQuotas { volume: it.id, quotas }, ()))
    })
    .await?;
    told(&admin, called).await
}

/// Makes a clone or a snapshot of a volume, as it is at the server now.
#[utoipa::path(post, path = "/v1/volumes/{name}/clones", request_body = NewClone,
    params(("name" = String, Path, description = "Of which volume")),
    responses((status = 200, body = StoreVolume), (status = 404, body = Refused),
        (status = 422, body = Refused)))]
async fn clone(
    State(admin): Store,
    Path(of): Path<String>,
    Body(wish): Body<NewClone>,
) -> Answer<StoreVolume> {
    let NewClone { name, read_only } = wish;
    let called = name.clone();
    order(&admin, move |core| {
        let from = core.volume(&of)?.id;
        Ok((Action::Clone { from, name, read_only }, ()))
    })
    .await?;
    told(&admin, called).await
}

/// Place where bytes go.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
struct At {
    /// Bytes from the volume's start, a multiple of 4 KiB.
    offset_bytes: u64,
}

/// Writes part of an image to a volume that no host has ever had: whole blocks, at most 1 MiB.
/// Durable with the next clone, snapshot or volume that is made.
#[utoipa::path(put, path = "/v1/volumes/{name}/data", request_body = Vec<u8>,
    params(("name" = String, Path, description = "The volume's name"), At),
    responses((status = 204), (status = 404, body = Refused), (status = 409, body = Refused),
        (status = 422, body = Refused)))]
async fn fill(
    State(admin): Store,
    Path(name): Path<String>,
    Query(at): Query<At>,
    body: Uploaded,
) -> Result<StatusCode, Refused> {
    let is_whole = !body.is_empty() && body.len().is_multiple_of(BLOCK_BYTES);
    if !is_whole || !at.offset_bytes.is_multiple_of(BLOCK_BYTES as u64) {
        return Err(Refused::invalid("send whole blocks of 4 KiB, to a multiple of 4 KiB"));
    }
    order(&admin, move |core| {
        let volume = core.new_volume(&name)?.id;
        let (offset, data) = (Bytes(at.offset_bytes), Payload::Bytes(body));
        Ok((Action::Write { volume, offset, data, fua: false }, ()))
    })
    .await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Frees blocks that no volume has any more.
#[utoipa::path(post, path = "/v1/gc",
    responses((status = 200, body = Swept), (status = 503, body = Refused)))]
async fn gc(State(admin): Store) -> Answer<Swept> {
    let freed_bytes = admin.mailbox.ask(|core, told| core.sweep(told)).await?;
    Ok(Json(Swept { freed_bytes }))
}

/// Counts everything anew from the volumes' maps and says what does not hold. Hosts wait meanwhile.
#[utoipa::path(post, path = "/v1/check",
    responses((status = 200, body = Checked), (status = 503, body = Refused)))]
async fn check(State(admin): Store) -> Answer<Checked> {
    let flaws = admin.mailbox.look(|core| core.check()).await?;
    Ok(Json(Checked { flaws }))
}

/// The last five minutes, second by second.
#[utoipa::path(get, path = "/v1/history", params(Onward),
    responses((status = 200, body = [StoreSecond]), (status = 503, body = Refused)))]
async fn store_history(
    State(admin): Store,
    Query(second): Query<Onward>,
) -> Answer<Vec<StoreSecond>> {
    admin.mailbox.look(move |core| core.history(second.from)).await.map(Json)
}

/// The last thousand events.
#[utoipa::path(get, path = "/v1/events", params(Onward),
    responses((status = 200, body = [Event])))]
async fn store_events(State(admin): Store, Query(id): Query<Onward>) -> Json<Vec<Event>> {
    Json(admin.notes.events(id.from))
}

async fn store_metrics(State(admin): Store) -> Result<Response, Refused> {
    let status = admin.mailbox.look(|core| core.status()).await?;
    Ok(figures::of_store(status))
}

/// The agent at a glance.
#[utoipa::path(get, path = "/v1/status",
    responses((status = 200, body = HostStatus), (status = 503, body = Refused)))]
async fn host_status(State(admin): Host) -> Answer<HostStatus> {
    admin.mailbox.look(|core| core.status()).await.map(Json)
}

/// Attaches a volume and exports it; the answer does not wait for the lease.
#[utoipa::path(put, path = "/v1/volumes/{name}",
    params(("name" = String, Path, description = "The volume's name")),
    responses((status = 204), (status = 409, body = Refused), (status = 422, body = Refused)))]
async fn attach(State(admin): Host, Path(name): Path<String>) -> Result<StatusCode, Refused> {
    if !thermocline_content::settings::is_volume_name(&name) {
        return Err(Refused::invalid(thermocline_content::RequestError::Name));
    }
    admin.mailbox.look(move |core| core.attach(&name)).await??;
    Ok(StatusCode::NO_CONTENT)
}

/// Next host of a volume that is given back.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct HandOver {
    /// Number of the host that is to have it; no other gets it for the time of a lease.
    #[serde(default)]
    to: Option<u16>,
}

/// Flushes a volume that no NBD client uses, and gives it back, so that another host can have it.
#[utoipa::path(delete, path = "/v1/volumes/{name}",
    params(("name" = String, Path, description = "The volume's name"), HandOver),
    responses((status = 204), (status = 404, body = Refused), (status = 409, body = Refused)))]
async fn detach(
    State(admin): Host,
    Path(name): Path<String>,
    Query(HandOver { to }): Query<HandOver>,
) -> Result<StatusCode, Refused> {
    let to = to.map(HostId);
    let looked = admin.mailbox.ask(move |core, told| {
        if let Err(refused) = core.may_detach(&name, to) {
            return drop(told.send(Err(refused)));
        }
        let (done, answer) = oneshot::channel();
        core.detach(&name, to, done);
        drop(told.send(Ok(answer)));
    });
    let answer = looked.await??;
    let lost = || Refused::unavailable("it could not be flushed; the agent's events say why");
    answer.await.map_err(|_| lost())?;
    Ok(StatusCode::NO_CONTENT)
}

/// The last five minutes, second by second.
#[utoipa::path(get, path = "/v1/history", params(Onward),
    responses((status = 200, body = [HostSecond]), (status = 503, body = Refused)))]
async fn host_history(State(admin): Host, Query(second): Query<Onward>) -> Answer<Vec<HostSecond>> {
    admin.mailbox.look(move |core| core.history(second.from)).await.map(Json)
}

/// The last thousand events.
#[utoipa::path(get, path = "/v1/events", params(Onward),
    responses((status = 200, body = [Event])))]
async fn host_events(State(admin): Host, Query(id): Query<Onward>) -> Json<Vec<Event>> {
    Json(admin.notes.events(id.from))
}

async fn host_metrics(State(admin): Host) -> Result<Response, Refused> {
    let status = admin.mailbox.look(|core| core.status()).await?;
    Ok(figures::of_host(status))
}

//! Routes of the HTTP API. The OpenAPI document is made from the same declarations.

mod forecasts;
mod hints;
mod pools;
mod sample;
mod scrubs;
mod shadows;

use crate::api::{
    Extent, Heat, Job, NewJob, NewPolicy, NewVolume, Operations, Policy, PolicyDescription,
    PolicySetting, Second, Status, Volume, VolumeSize,
};
use crate::event_loop::AdminApi;
use crate::mailbox::{Mailbox, Stopped};
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::get;
use axum::{Json, Router};
use serde::Deserialize;
use thermocline_admin::api::{Event, Refused};
use thermocline_admin::http::{Answer, Body, Dashboard, Onward, Query};
use thermocline_policy::registry::placements;
use thermocline_units::Bytes;
use utoipa::{IntoParams, OpenApi};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// Bytes of a request's body at most, but for documents of hints ([`crate::api::HINTS_BYTES_MAX`]):
/// a table of classes and a policy's settings are far smaller.
const BODY_BYTES_MAX: usize = 1 << 20;

#[derive(OpenApi)]
#[openapi(info(
    title = "thermocline",
    description = "A running engine: volumes, pools, what moves, and why. Sizes are bytes, latencies microseconds, moments milliseconds since 1970."
))]
struct Document;

/// The API's OpenAPI document.
pub fn openapi() -> utoipa::openapi::OpenApi {
    api().split_for_parts().1
}

pub(super) fn router(mailbox: Mailbox) -> Router {
    let dashboard = Dashboard {
        title: "thermocline",
        token: "This engine asks for a token. It stands in the file <code>token</code> of the data \
                folder; the address that <code>thermocline up</code> prints carries it.",
        sections: include_str!("../../web/sections.html"),
        script: include_str!("../../web/app.js"),
    };
    let limit = DefaultBodyLimit::max(BODY_BYTES_MAX);
    dashboard.beside(api(), get(prometheus)).layer(limit).with_state(mailbox)
}

fn api() -> OpenApiRouter<Mailbox> {
    OpenApiRouter::with_openapi(Document::openapi())
        .routes(routes!(status))
        .routes(routes!(list_volumes, create_volume))
        .routes(routes!(grow_volume, delete_volume))
        .routes(routes!(extents))
        .routes(routes!(heat))
        .routes(routes!(operations, begin_job))
        .routes(routes!(job, cancel_job))
        .routes(routes!(policies))
        .routes(routes!(policy, set_policy))
        .merge(pools::api())
        .merge(hints::api())
        .merge(shadows::api())
        .merge(scrubs::api())
        .merge(sample::api())
        .merge(forecasts::api())
        .routes(routes!(history))
        .routes(routes!(events))
}

/// Asks the loop, and makes the answer a response.
async fn ask<T: Send + 'static>(
    mailbox: &Mailbox,
    order: impl FnOnce(&mut AdminApi<'_>) -> Result<T, Refused> + Send + 'static,
) -> Answer<T> {
    mailbox.ask(order).await.map_err(Refused::unavailable)?.map(Json)
}

/// The same, and answers only when it is durable.
async fn ask_durably<T: Send + 'static>(
    mailbox: &Mailbox,
    order: impl FnOnce(&mut AdminApi<'_>) -> Result<T, Refused> + Send + 'static,
) -> Answer<T> {
    let answer = ask(mailbox, order).await?;
    let (tell, told) = tokio::sync::oneshot::channel();
    mailbox.send(move |admin| {
        admin.flush(Box::new(move |fine| {
            let _ = tell.send(fine); // Whoever asked may have gone away.
        }));
    });
    match told.await {
        Ok(true) => Ok(answer),
        Ok(false) => Err(Refused::unavailable("it is done, but does not survive a crash")),
        Err(_) => Err(Refused::unavailable(Stopped)),
    }
}

/// The engine at a glance.
#[utoipa::path(get, path = "/v1/status", responses((status = 200, body = Status)))]
async fn status(State(mailbox): State<Mailbox>) -> Answer<Status> {
    ask(&mailbox, |admin| Ok(admin.status())).await
}

/// Volumes that exist.
#[utoipa::path(get, path = "/v1/volumes", responses((status = 200, body = [Volume])))]
async fn list_volumes(State(mailbox): State<Mailbox>) -> Answer<Vec<Volume>> {
    ask(&mailbox, |admin| Ok(admin.volumes())).await
}

/// Makes a volume that reads as zeroes.
#[utoipa::path(post, path = "/v1/volumes", request_body = NewVolume,
    responses(
        (status = 201, body = Volume),
        (status = 409, body = Refused),
        (status = 422, body = Refused)
    ))]
async fn create_volume(
    State(mailbox): State<Mailbox>,
    Body(wish): Body<NewVolume>,
) -> Result<(StatusCode, Json<Volume>), Refused> {
    let create = move |admin: &mut AdminApi<'_>| {
        admin.create_volume(wish.name.as_deref(), Bytes(wish.size_bytes))
    };
    Ok((StatusCode::CREATED, ask_durably(&mailbox, create).await?))
}

/// Makes a volume larger; clients see it when they attach the volume again.
#[utoipa::path(patch, path = "/v1/volumes/{name}", request_body = VolumeSize,
    params(("name" = String, Path, description = "The volume's name")),
    responses(
        (status = 200, body = Volume),
        (status = 404, body = Refused),
        (status = 422, body = Refused)
    ))]
async fn grow_volume(
    State(mailbox): State<Mailbox>,
    Path(name): Path<String>,
    Body(wish): Body<VolumeSize>,
) -> Answer<Volume> {
    ask_durably(&mailbox, move |admin| admin.grow_volume(&name, Bytes(wish.size_bytes))).await
}

/// Deletes a volume with all it holds; refused while clients are attached to it.
#[utoipa::path(delete, path = "/v1/volumes/{name}",
    params(("name" = String, Path, description = "The volume's name")),
    responses((status = 204), (status = 404, body = Refused), (status = 409, body = Refused)))]
async fn delete_volume(
    State(mailbox): State<Mailbox>,
    Path(name): Path<String>,
) -> Result<StatusCode, Refused> {
    let Json(()) = ask_durably(&mailbox, move |admin| admin.delete_volume(&name)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// A range of a volume.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct Range {
    /// Bytes from the volume's start.
    #[serde(default)]
    offset_bytes: u64,
    /// Bytes; to the end when not given.
    length_bytes: Option<u64>,
}

/// The map of a range: runs of equal chunks together, at most 10,000 of them.
#[utoipa::path(get, path = "/v1/volumes/{name}/extents",
    params(("name" = String, Path, description = "The volume's name"), Range),
    responses(
        (status = 200, body = [Extent]),
        (status = 404, body = Refused),
        (status = 422, body = Refused)
    ))]
async fn extents(
    State(mailbox): State<Mailbox>,
    Path(name): Path<String>,
    Query(range): Query<Range>,
) -> Answer<Vec<Extent>> {
    ask(&mailbox, move |admin| admin.extents(&name, range.offset_bytes, range.length_bytes)).await
}

/// Accesses to a volume in the last five minutes, by place and time, and where it lives.
#[utoipa::path(get, path = "/v1/volumes/{name}/heat",
    params(("name" = String, Path, description = "The volume's name"), Onward),
    responses((status = 200, body = Heat), (status = 404, body = Refused)))]
async fn heat(
    State(mailbox): State<Mailbox>,
    Path(name): Path<String>,
    Query(row): Query<Onward>,
) -> Answer<Heat> {
    ask(&mailbox, move |admin| admin.heat(&name, row.from)).await
}

/// Everything that moves, and the jobs that were given.
#[utoipa::path(get, path = "/v1/operations", responses((status = 200, body = Operations)))]
async fn operations(State(mailbox): State<Mailbox>) -> Answer<Operations> {
    ask(&mailbox, |admin| Ok(admin.operations())).await
}

/// Migrates, replicates, prefetches, redirects, pins or unpins the chunks of a range.
#[utoipa::path(post, path = "/v1/operations", request_body = NewJob,
    responses(
        (status = 201, body = Job),
        (status = 404, body = Refused),
        (status = 422, body = Refused)
    ))]
async fn begin_job(
    State(mailbox): State<Mailbox>,
    Body(wish): Body<NewJob>,
) -> Result<(StatusCode, Json<Job>), Refused> {
    let begun = ask(&mailbox, move |admin| admin.begin(&wish)).await?;
    Ok((StatusCode::CREATED, begun))
}

/// State of a job.
#[utoipa::path(get, path = "/v1/operations/{id}",
    params(("id" = u64, Path, description = "The job's number")),
    responses((status = 200, body = Job), (status = 404, body = Refused)))]
async fn job(State(mailbox): State<Mailbox>, Path(id): Path<u64>) -> Answer<Job> {
    ask(&mailbox, move |admin| admin.job(id)).await
}

/// Cancels what a job has not done yet.
#[utoipa::path(delete, path = "/v1/operations/{id}",
    params(("id" = u64, Path, description = "The job's number")),
    responses((status = 200, body = Job), (status = 404, body = Refused)))]
async fn cancel_job(State(mailbox): State<Mailbox>, Path(id): Path<u64>) -> Answer<Job> {
    ask(&mailbox, move |admin| admin.cancel(id)).await
}

/// Placements that can be chosen.
#[utoipa::path(get, path = "/v1/policies", responses((status = 200, body = [PolicyDescription])))]
async fn policies() -> Json<Vec<PolicyDescription>> {
    let told = placements().map(|entry| PolicyDescription {
        name: entry.name.to_string(),
        summary: entry.summary.to_string(),
        source: entry.source.to_string(),
        settings: entry
            .settings
            .iter()
            .map(|setting| PolicySetting {
                name: setting.name.to_string(),
                default: setting.default.to_string(),
                summary: format!("{} ({})", setting.help, setting.unit),
            })
            .collect(),
    });
    Json(told.collect())
}

/// Policy that decides about moves.
#[utoipa::path(get, path = "/v1/policy", responses((status = 200, body = Policy)))]
async fn policy(State(mailbox): State<Mailbox>) -> Answer<Policy> {
    ask(&mailbox, |admin| Ok(admin.policy())).await
}

/// Gives the decision to another policy, from now on.
#[utoipa::path(put, path = "/v1/policy", request_body = NewPolicy,
    responses((status = 200, body = Policy), (status = 422, body = Refused)))]
async fn set_policy(State(mailbox): State<Mailbox>, Body(wish): Body<NewPolicy>) -> Answer<Policy> {
    ask(&mailbox, move |admin| admin.set_policy(&wish)).await
}

/// The last five minutes, second by second.
#[utoipa::path(get, path = "/v1/history", params(Onward),
    responses((status = 200, body = [Second])))]
async fn history(
    State(mailbox): State<Mailbox>,
    Query(second): Query<Onward>,
) -> Answer<Vec<Second>> {
    ask(&mailbox, move |admin| Ok(admin.history(second.from))).await
}

/// The last thousand events.
#[utoipa::path(get, path = "/v1/events", params(Onward),
    responses((status = 200, body = [Event])))]
async fn events(State(mailbox): State<Mailbox>, Query(id): Query<Onward>) -> Answer<Vec<Event>> {
    ask(&mailbox, move |admin| Ok(admin.events(id.from))).await
}

/// The same figures for Prometheus.
async fn prometheus(State(mailbox): State<Mailbox>) -> Result<Response, Refused> {
    let figures = mailbox.ask(|admin| admin.figures()).await.map_err(Refused::unavailable)?;
    Ok(thermocline_admin::metrics::answer("thermocline", figures))
}

#[cfg(test)]
mod tests;

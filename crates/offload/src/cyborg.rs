//! The API of OpenStack Cyborg, version 2: devices, deployables, attributes, device profiles and
//! accelerator requests, so that OpenStack's clients work with a pool.
//!
//! Source: the OpenStack project, "Accelerator API", 2024. A card is a device, a slot a deployable;
//! the function and the state of a slot are its attributes. What is ours begins with
//! `thermocline:`. Binding is a JSON patch (RFC 6902) of `add`, unbinding one of `remove`, to the
//! collection as Cyborg's documents say, and to the single request as its clients do. Not here:
//! programming of deployables, and microversions.

use crate::api::{DeviceProfile, Request, Slot};
use crate::pool::{Binding, Caller, PoolApi};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Extension, Json, Router};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use thermocline_admin::api::Refused;
use thermocline_admin::http::{Answer, Body};

/// Path of this API.
const BASE: &str = "/accelerator/v2";
/// Requests that one patch may name.
const PATCHED_MAX: usize = 64;
/// Fields that a binding may set. The last belongs to Keystone's projects, which are tenants here.
const FIELDS: [&str; 4] = ["/hostname", "/device_rp_uuid", "/instance_uuid", "/project_id"];

type Asked = State<PoolApi>;
type Who = Extension<Caller>;

/// The routes.
pub(crate) fn router() -> Router<PoolApi> {
    let own = Router::new()
        .route("/devices", get(devices))
        .route("/devices/{id}", get(device))
        .route("/deployables", get(deployables))
        .route("/deployables/{id}", get(deployable))
        .route("/attributes", get(attributes))
        .route("/attributes/{id}", get(attribute))
        .route("/device_profiles", get(profiles).post(make_profile).delete(delete_profiles))
        .route("/device_profiles/{name}", get(profile).delete(delete_profile))
        .route(
            "/accelerator_requests",
            get(requests).post(make_requests).patch(patch).delete(delete_requests),
        )
        .route("/accelerator_requests/{id}", get(request).patch(patch_one).delete(delete_request));
    Router::new().nest(BASE, own)
}

/// The versions that there are, which clients ask for before they show a token.
pub(crate) fn public() -> Router {
    let paths = ["/accelerator", "/accelerator/", BASE, "/accelerator/v2/"];
    paths.into_iter().fold(Router::new(), |router, path| router.route(path, get(versions)))
}

async fn versions() -> Json<Value> {
    let links = json!([{ "rel": "self", "href": BASE }]);
    let version = json!({ "id": "v2.0", "status": "CURRENT", "min_version": "2.0",
        "max_version": "2.0", "version": "2.0", "links": links });
    Json(json!({ "name": "thermocline accel", "versions": [version] }))
}

/// The slots that the caller may see, with their names and those of their cards.
async fn seen(api: &PoolApi, who: Caller) -> Result<Vec<(Slot, String, String)>, Refused> {
    api.mailbox.ask(move |core| core.devices(&who)).await
}

fn one(mut all: Vec<Value>, key: &str, id: &str) -> Answer<Value> {
    let at = all.iter().position(|value| value["uuid"] == id || value["id"] == id);
    let missing = || Refused::missing(format!("there is no {key} `{id}`"));
    at.map(|at| Json(all.swap_remove(at))).ok_or_else(missing)
}

fn as_devices(slots: &[(Slot, String, String)]) -> Vec<Value> {
    let mut cards: BTreeMap<&str, (&str, usize)> = BTreeMap::new();
    for (slot, _, card) in slots {
        cards.entry(card).or_insert((&slot.card, 0)).1 += 1;
    }
    let device = |(at, (uuid, (name, slots))): (usize, (&str, (&str, usize)))| {
        json!({ "id": at + 1, "uuid": uuid, "type": "CPU", "vendor": "thermocline",
            "model": "software slots", "hostname": name, "status": "enabled",
            "std_board_info": json!({ "slots": slots }).to_string(), "vendor_board_info": "",
            "created_at": null, "updated_at": null })
    };
    cards.into_iter().enumerate().map(device).collect()
}

fn as_deployable((slot, uuid, card): &(Slot, String, String)) -> Value {
    json!({ "uuid": uuid, "id": slot.slot, "name": format!("{}/{}", slot.card, slot.slot),
        "num_accelerators": 1, "device_id": card, "parent_id": null, "root_id": uuid,
        "driver_name": "thermocline", "bitstream_id": null, "created_at": null,
        "updated_at": null })
}

fn as_attributes(slots: &[(Slot, String, String)]) -> Vec<Value> {
    let of_slot = |(slot, uuid, _): &(Slot, String, String)| {
        let function = slot.function.clone().unwrap_or_default();
        [("thermocline:function", function), ("thermocline:state", slot.state.clone())].map(
            |(key, value)| {
                json!({ "uuid": format!("{uuid}:{key}"), "id": format!("{uuid}:{key}"),
                    "deployable_id": uuid, "key": key, "value": value, "created_at": null,
                    "updated_at": null })
            },
        )
    };
    slots.iter().flat_map(of_slot).collect()
}

async fn devices(State(api): Asked, Extension(who): Who) -> Answer<Value> {
    Ok(Json(json!({ "devices": as_devices(&seen(&api, who).await?) })))
}

async fn device(State(api): Asked, Extension(who): Who, Path(id): Path<String>) -> Answer<Value> {
    one(as_devices(&seen(&api, who).await?), "device", &id)
}

async fn deployables(State(api): Asked, Extension(who): Who) -> Answer<Value> {
    let slots = seen(&api, who).await?;
    let all: Vec<Value> = slots.iter().map(as_deployable).collect();
    Ok(Json(json!({ "deployables": all })))
}

async fn deployable(
    State(api): Asked,
    Extension(who): Who,
    Path(id): Path<String>,
) -> Answer<Value> {
    let slots = seen(&api, who).await?;
    one(slots.iter().map(as_deployable).collect(), "deployable", &id)
}

async fn attributes(State(api): Asked, Extension(who): Who) -> Answer<Value> {
    Ok(Json(json!({ "attributes": as_attributes(&seen(&api, who).await?) })))
}

async fn attribute(
    State(api): Asked,
    Extension(who): Who,
    Path(id): Path<String>,
) -> Answer<Value> {
    one(as_attributes(&seen(&api, who).await?), "attribute", &id)
}

fn as_profile(profile: &DeviceProfile) -> Value {
    json!({ "uuid": profile.uuid, "name": profile.name, "description": profile.description,
        "groups": profile.groups, "created_at": null, "updated_at": null })
}

async fn profiles(State(api): Asked, Extension(who): Who) -> Answer<Value> {
    let all = api.mailbox.ask(move |core| core.profiles(&who)).await?;
    let all: Vec<Value> = all.iter().map(as_profile).collect();
    Ok(Json(json!({ "device_profiles": all })))
}

async fn profile(
    State(api): Asked,
    Extension(who): Who,
    Path(name): Path<String>,
) -> Answer<Value> {
    let found = api.mailbox.ask(move |core| core.profile(&who, &name)).await??;
    Ok(Json(json!({ "device_profile": as_profile(&found) })))
}

/// A profile that is wanted. Cyborg takes a list with one of them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NewProfile {
    name: String,
    #[serde(default)]
    description: Option<String>,
    groups: Vec<BTreeMap<String, String>>,
}

async fn make_profile(
    State(api): Asked,
    Extension(who): Who,
    Body(wish): Body<Vec<NewProfile>>,
) -> Result<(StatusCode, Json<Value>), Refused> {
    let Ok([NewProfile { name, description, groups }]) = <[NewProfile; 1]>::try_from(wish) else {
        return Err(Refused::invalid("give a list with one device profile"));
    };
    let make = api.mailbox.ask(move |core| core.make_profile(&who, name, description, groups));
    Ok((StatusCode::CREATED, Json(as_profile(&make.await??))))
}

async fn delete_profile(
    State(api): Asked,
    Extension(who): Who,
    Path(name): Path<String>,
) -> Result<StatusCode, Refused> {
    api.mailbox.ask(move |core| core.delete_profile(&who, &name)).await??;
    Ok(StatusCode::NO_CONTENT)
}

/// Names of what is deleted, with commas between them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Deleted {
    #[serde(default)]
    value: Option<String>,
    #[serde(default)]
    arqs: Option<String>,
    #[serde(default)]
    instance: Option<String>,
}

async fn delete_profiles(
    State(api): Asked,
    Extension(who): Who,
    Query(names): Query<Deleted>,
) -> Result<StatusCode, Refused> {
    let names = names.value.ok_or_else(|| Refused::invalid("name profiles: ?value=a,b"))?;
    for name in names.split(',').map(ToString::to_string) {
        let who = who.clone();
        api.mailbox.ask(move |core| core.delete_profile(&who, &name)).await??;
    }
    Ok(StatusCode::NO_CONTENT)
}

fn as_request(request: &Request) -> Value {
    let info = request.slot.map_or(json!({}), |slot| {
        json!({ "thermocline:slot": slot, "thermocline:function": request.function,
            "thermocline:tenant": request.tenant })
    });
    json!({ "uuid": request.uuid, "state": request.state, "hostname": request.hostname,
        "device_profile_name": request.profile, "device_profile_group_id": request.group,
        "device_rp_uuid": request.device_rp_uuid, "instance_uuid": request.instance_uuid,
        "attach_handle_type": request.slot.map_or("", |_| "thermocline:slot"),
        "attach_handle_info": info })
}

fn as_requests(requests: &[Request]) -> Json<Value> {
    let all: Vec<Value> = requests.iter().map(as_request).collect();
    Json(json!({ "arqs": all }))
}

/// Filters of a list of requests.
#[derive(Debug, Deserialize)]
struct Filter {
    #[serde(default)]
    instance: Option<String>,
    #[serde(default)]
    bind_state: Option<String>,
}

async fn requests(
    State(api): Asked,
    Extension(who): Who,
    Query(filter): Query<Filter>,
) -> Answer<Value> {
    let mut all = api.mailbox.ask(move |core| core.requests(&who)).await?;
    all.retain(|request| {
        let is_of = filter.instance.is_none() || filter.instance == request.instance_uuid;
        let is_settled = filter.bind_state.is_none() || request.state != "BindStarted";
        is_of && is_settled
    });
    Ok(as_requests(&all))
}

async fn request(State(api): Asked, Extension(who): Who, Path(id): Path<String>) -> Answer<Value> {
    let all = api.mailbox.ask(move |core| core.requests(&who)).await?;
    one(all.iter().map(as_request).collect(), "accelerator request", &id)
}

/// Requests that are wanted.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NewRequests {
    device_profile_name: String,
    /// Images are not asked for here; clients send it empty.
    #[serde(default)]
    image_uuid: Option<String>,
}

async fn make_requests(
    State(api): Asked,
    Extension(who): Who,
    Body(wish): Body<NewRequests>,
) -> Result<(StatusCode, Json<Value>), Refused> {
    if wish.image_uuid.is_some_and(|image| !image.is_empty()) {
        return Err(Refused::invalid("`image_uuid`: images of users are not taken"));
    }
    let profile = wish.device_profile_name;
    let made = api.mailbox.ask(move |core| core.make_requests(&who, &profile)).await??;
    Ok((StatusCode::CREATED, as_requests(&made)))
}

/// A step of a JSON patch.
#[derive(Debug, Deserialize)]
struct Step {
    path: String,
    op: String,
    #[serde(default)]
    value: Option<String>,
}

/// Binds if all steps add, unbinds if all remove.
fn binding(steps: &[Step]) -> Result<Option<Binding>, Refused> {
    if let Some(step) = steps.iter().find(|step| !FIELDS.contains(&step.path.as_str())) {
        let known = FIELDS.join(", ");
        return Err(Refused::invalid(format!("`{}`: a binding has {known}", step.path)));
    }
    let is_all = |op: &str| !steps.is_empty() && steps.iter().all(|step| step.op == op);
    if is_all("remove") {
        return Ok(None);
    }
    if !is_all("add") {
        return Err(Refused::invalid("give steps of `add` to bind, or of `remove` to unbind"));
    }
    let value = |path: &str| {
        let step = steps.iter().find(|step| step.path == path);
        step.and_then(|step| step.value.clone().filter(|value| value.len() <= 255))
    };
    Ok(Some(Binding {
        hostname: value("/hostname"),
        device_rp_uuid: value("/device_rp_uuid"),
        instance_uuid: value("/instance_uuid"),
    }))
}

type Patches = BTreeMap<String, Vec<Step>>;

async fn patched(
    api: &PoolApi,
    who: Caller,
    patches: Patches,
) -> Result<(StatusCode, Json<Value>), Refused> {
    if patches.is_empty() || patches.len() > PATCHED_MAX {
        return Err(Refused::invalid(format!("name 1 to {PATCHED_MAX} accelerator requests")));
    }
    let mut changed = Vec::new();
    for (uuid, steps) in patches {
        let binding = binding(&steps)?;
        let (name, asks) = (uuid.clone(), who.clone());
        api.mailbox
            .ask(move |core| match binding {
                Some(binding) => core.bind(&asks, &name, binding),
                None => core.unbind(&asks, &name),
            })
            .await??;
        changed.push(uuid);
    }
    let mut all = api.mailbox.ask(move |core| core.requests(&who)).await?;
    all.retain(|request| changed.contains(&request.uuid));
    Ok((StatusCode::ACCEPTED, as_requests(&all)))
}

async fn patch(
    State(api): Asked,
    Extension(who): Who,
    Body(patches): Body<Patches>,
) -> Result<(StatusCode, Json<Value>), Refused> {
    patched(&api, who, patches).await
}

async fn patch_one(
    State(api): Asked,
    Extension(who): Who,
    Path(id): Path<String>,
    Body(patches): Body<Patches>,
) -> Result<(StatusCode, Json<Value>), Refused> {
    if patches.len() != 1 || !patches.contains_key(&id) {
        return Err(Refused::invalid(format!("patch the request `{id}`, which the path names")));
    }
    patched(&api, who, patches).await
}

async fn delete_request(
    State(api): Asked,
    Extension(who): Who,
    Path(id): Path<String>,
) -> Result<StatusCode, Refused> {
    api.mailbox.ask(move |core| core.delete_request(&who, &id)).await??;
    Ok(StatusCode::NO_CONTENT)
}

async fn delete_requests(
    State(api): Asked,
    Extension(who): Who,
    Query(names): Query<Deleted>,
) -> Result<StatusCode, Refused> {
    let ids: Vec<String> = match (names.arqs, names.instance) {
        (Some(ids), None) => ids.split(',').map(ToString::to_string).collect(),
        (None, Some(instance)) => {
            let asks = who.clone();
            let all = api.mailbox.ask(move |core| core.requests(&asks)).await?;
            let of = |request: &Request| request.instance_uuid.as_ref() == Some(&instance);
            all.into_iter().filter(of).map(|request| request.uuid).collect()
        }
        _ => return Err(Refused::invalid("name requests: ?arqs=a,b, or ?instance=c")),
    };
    for id in ids {
        let who = who.clone();
        api.mailbox.ask(move |core| core.delete_request(&who, &id)).await??;
    }
    Ok(StatusCode::NO_CONTENT)
}

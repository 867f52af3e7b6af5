//! Device profiles and accelerator requests: how a tenant gets a slot for its own flows.
//!
//! 1. A request is made from a profile, and names a function. It is `Initial`.
//! 2. Binding chooses a slot that nobody has: one that runs the function, or an empty one, or one
//!    that the scheduler can do without. The request is `BindStarted`.
//! 3. When the slot runs the function it is kept for the tenant, whose flows move there. The
//!    request is `Bound`.
//! 4. Unbinding gives the slot back to all.

use super::Core;
use super::asking::function;
use crate::api::{DeviceProfile, Request};
use crate::kept::uuid;
use crate::workers::locked;
use std::collections::BTreeMap;
use thermocline_accel::{SlotId, SlotState, SlotStatus};
use thermocline_admin::api::{Refused, Severity};
use thermocline_policy::accel::FunctionId;

/// Profiles of the administrator and all tenants; of one tenant.
const PROFILES_MAX: usize = 256;
const TENANT_PROFILES_MAX: usize = 16;
/// Requests of all tenants; of one.
const REQUESTS_MAX: usize = 1024;
const TENANT_REQUESTS_MAX: usize = 64;
/// Keys of a profile's group.
const KEYS_MAX: usize = 16;
/// Groups of a profile, and accelerators of a group.
const GROUPS_MAX: usize = 8;
/// Bytes of a name, a key and a value.
const NAME_BYTES_MAX: usize = 255;
/// Key of a profile's group that names the function.
const FUNCTION: &str = "thermocline:function";

/// Sender of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Caller {
    /// The administrator.
    Admin,
    /// A tenant, by its name.
    Tenant(String),
}

impl Caller {
    /// True if what belongs to `tenant` may be seen.
    pub(crate) fn sees(&self, tenant: &str) -> bool {
        match self {
            Caller::Admin => true,
            Caller::Tenant(name) => name == tenant,
        }
    }
}

/// Fields that a binding sets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Binding {
    pub(crate) hostname: Option<String>,
    pub(crate) device_rp_uuid: Option<String>,
    pub(crate) instance_uuid: Option<String>,
}

fn system(error: std::io::Error) -> Refused {
    Refused::unavailable(error)
}

/// Function and number of accelerators of a profile's group.
fn wanted(group: &BTreeMap<String, String>) -> Result<(String, usize), Refused> {
    let is_long = |(key, value): (&String, &String)| key.len().max(value.len()) > NAME_BYTES_MAX;
    if group.len() > KEYS_MAX || group.iter().any(is_long) {
        return Err(Refused::invalid(format!(
            "a group has at most {KEYS_MAX} keys, and each key and value {NAME_BYTES_MAX} bytes"
        )));
    }
    let known = ["resources:", "trait:", "accel:", "thermocline:"];
    if let Some(key) = group.keys().find(|key| !known.iter().any(|start| key.starts_with(start))) {
        let known = known.join(", ");
        return Err(Refused::invalid(format!("`{key}`: a group's keys begin with {known}")));
    }
    let name = group.get(FUNCTION).ok_or_else(|| {
        Refused::invalid(format!("a group names its function: \"{FUNCTION}\": \"nat\""))
    })?;
    function(name).map_err(|refused| Refused::invalid(refused.message))?;
    let mut count = 0;
    for (key, value) in group.iter().filter(|(key, _)| key.starts_with("resources:")) {
        let some = value.parse::<usize>().ok().filter(|some| (1..=GROUPS_MAX).contains(some));
        let wrong = || Refused::invalid(format!("`{key}` is a number from 1 to {GROUPS_MAX}"));
        count += some.ok_or_else(wrong)?;
    }
    if !(1..=GROUPS_MAX).contains(&count) {
        let text =
            format!("a group asks for 1 to {GROUPS_MAX} accelerators: \"resources:FPGA\": \"1\"");
        return Err(Refused::invalid(text));
    }
    Ok((name.clone(), count))
}

/// Slots that a tenant's requests have, or wait for.
fn taken(requests: &[Request], tenant: &str) -> usize {
    requests.iter().filter(|one| one.tenant == tenant && one.slot.is_some()).count()
}

/// # Errors
/// The tenant's requests have as many slots as they may.
fn may_bind(requests: &[Request], tenant: &str, most: usize) -> Result<(), Refused> {
    let taken = taken(requests, tenant);
    match taken < most {
        true => Ok(()),
        false => Err(Refused::conflict(format!(
            "requests of `{tenant}` have {taken} slots, and may have {most} (its `slots-max`); \
             unbind one first"
        ))),
    }
}

impl Core {
    fn slots_max(&self, tenant: &str) -> usize {
        let group = self.tenant(tenant).ok();
        let tenant = group.and_then(|group| self.maker.tenants.get(group));
        tenant.map_or(0, |tenant| tenant.slots_max)
    }

    /// Profiles that the caller may see: its own, and the administrator's.
    pub(crate) fn profiles(&self, caller: &Caller) -> Vec<DeviceProfile> {
        let is_seen = |profile: &&DeviceProfile| {
            profile.tenant.as_ref().is_none_or(|tenant| caller.sees(tenant))
        };
        self.kept.profiles.iter().filter(is_seen).cloned().collect()
    }

    /// A profile by its name or UUID.
    pub(crate) fn profile(&self, caller: &Caller, name: &str) -> Result<DeviceProfile, Refused> {
        let mut profiles = self.profiles(caller).into_iter();
        let found = profiles.find(|profile| profile.name == name || profile.uuid == name);
        found.ok_or_else(|| Refused::missing(format!("there is no device profile `{name}`")))
    }

    pub(crate) fn make_profile(
        &mut self,
        caller: &Caller,
        name: String,
        description: Option<String>,
        groups: Vec<BTreeMap<String, String>>,
    ) -> Result<DeviceProfile, Refused> {
        let is_long = |text: &String| text.len() > NAME_BYTES_MAX;
        if name.is_empty() || is_long(&name) || description.as_ref().is_some_and(is_long) {
            return Err(Refused::invalid("a name has 1 to 255 bytes, a description at most 255"));
        }
        if !(1..=GROUPS_MAX).contains(&groups.len()) {
            return Err(Refused::invalid(format!("a profile has 1 to {GROUPS_MAX} groups")));
        }
        groups.iter().try_for_each(|group| wanted(group).map(|_| ()))?;
        if self.profile(caller, &name).is_ok() {
            return Err(Refused::conflict(format!("there is a device profile `{name}`")));
        }
        let tenant = match caller {
            Caller::Admin => None,
            Caller::Tenant(name) => Some(name.clone()),
        };
        let own = self.kept.profiles.iter().filter(|profile| profile.tenant == tenant).count();
        let is_full = tenant.is_some() && own >= TENANT_PROFILES_MAX;
        if is_full || self.kept.profiles.len() >= PROFILES_MAX {
            return Err(Refused::conflict("there are too many device profiles; delete some"));
        }
        let uuid = uuid().map_err(system)?;
        let profile = DeviceProfile { uuid, name, tenant, description, groups };
        self.kept.profiles.push(profile.clone());
        self.keep()?;
        Ok(profile)
    }

    pub(crate) fn delete_profile(&mut self, caller: &Caller, name: &str) -> Result<(), Refused> {
        let profile = self.profile(caller, name)?;
        if profile.tenant.is_none() && *caller != Caller::Admin {
            return Err(Refused { message: "it is the administrator's".into(), status: 403 });
        }
        let of = |request: &&Request| {
            request.profile == profile.name
                && profile.tenant.as_ref().is_none_or(|tenant| *tenant == request.tenant)
        };
        if let Some(request) = self.kept.requests.iter().find(of) {
            return Err(Refused::conflict(format!(
                "the request {} was made from it; delete that first",
                request.uuid
            )));
        }
        self.kept.profiles.retain(|other| other.uuid != profile.uuid);
        self.keep()
    }

    /// Requests that the caller may see.
    pub(crate) fn requests(&self, caller: &Caller) -> Vec<Request> {
        let is_seen = |request: &&Request| caller.sees(&request.tenant);
        self.kept.requests.iter().filter(is_seen).cloned().collect()
    }

    fn request(&mut self, caller: &Caller, uuid: &str) -> Result<&mut Request, Refused> {
        let mut requests = self.kept.requests.iter_mut();
        let found = requests.find(|one| one.uuid == uuid && caller.sees(&one.tenant));
        found.ok_or_else(|| Refused::missing(format!("there is no accelerator request `{uuid}`")))
    }

    /// Makes the requests of a profile, for the tenant that asks.
    pub(crate) fn make_requests(
        &mut self,
        caller: &Caller,
        profile: &str,
    ) -> Result<Vec<Request>, Refused> {
        let Caller::Tenant(tenant) = caller else {
            return Err(Refused::invalid("a tenant asks for slots, by its token"));
        };
        let profile = self.profile(caller, profile)?;
        let mut made = Vec::new();
        for (at, group) in profile.groups.iter().enumerate() {
            let (function, count) = wanted(group)?;
            for _ in 0..count {
                made.push(Request {
                    uuid: uuid().map_err(system)?,
                    tenant: tenant.clone(),
                    profile: profile.name.clone(),
                    group: at,
                    function: function.clone(),
                    state: "Initial".to_string(),
                    slot: None,
                    hostname: None,
                    device_rp_uuid: None,
                    instance_uuid: None,
                });
            }
        }
        let own = self.kept.requests.iter().filter(|request| request.tenant == *tenant).count();
        let is_full = own + made.len() > TENANT_REQUESTS_MAX;
        if is_full || self.kept.requests.len() + made.len() > REQUESTS_MAX {
            return Err(Refused::conflict("there are too many accelerator requests; delete some"));
        }
        self.kept.requests.extend(made.iter().cloned());
        self.keep()?;
        Ok(made)
    }

    /// Begins to bind a request.
    pub(crate) fn bind(
        &mut self,
        caller: &Caller,
        uuid: &str,
        binding: Binding,
    ) -> Result<(), Refused> {
        let request = self.request(caller, uuid)?.clone();
        if request.slot.is_some() {
            return Err(Refused::conflict(format!("the request {uuid} is bound already")));
        }
        may_bind(&self.kept.requests, &request.tenant, self.slots_max(&request.tenant))?;
        let id = function(&request.function)?;
        let slot = self.free_slot(id).ok_or_else(|| {
            Refused::conflict(format!(
                "no slot is free for `{}`; ask again when others have unbound theirs",
                request.function
            ))
        })?;
        locked(&self.wishes).pins.insert(slot, id);
        let request = self.request(caller, uuid)?;
        request.slot = Some(slot);
        request.state = "BindStarted".to_string();
        request.hostname = binding.hostname;
        request.device_rp_uuid = binding.device_rp_uuid;
        request.instance_uuid = binding.instance_uuid;
        self.finish_bindings();
        self.keep()
    }

    /// The slot that is best given to a tenant.
    fn free_slot(&self, id: FunctionId) -> Option<usize> {
        let status = self.platform.status();
        let wishes = locked(&self.wishes).clone();
        let is_free = |(at, slot): &(usize, &SlotStatus)| {
            let is_open = !status.cards[usize::from(slot.card)].closed;
            let works = slot.state != SlotState::Failed;
            is_open && works && slot.reserved.is_none() && !wishes.pins.contains_key(at)
        };
        let rank = |(_, slot): &(usize, &SlotStatus)| match (slot.state, slot.function) {
            (SlotState::Running, Some(function)) if function == id => 0,
            (SlotState::Empty, _) => 1,
            (_, Some(function)) if wishes.counts.contains_key(&function) => 3,
            _ => 2,
        };
        let slots = status.slots.iter().enumerate();
        slots.filter(is_free).min_by_key(rank).map(|(at, _)| at)
    }

    /// Keeps slots for tenants whose function runs there now.
    pub(super) fn finish_bindings(&mut self) {
        let is_begun = |request: &Request| request.state == "BindStarted";
        if !self.kept.requests.iter().any(is_begun) {
            return;
        }
        let status = self.platform.status();
        for at in 0..self.kept.requests.len() {
            let request = self.kept.requests[at].clone();
            let Some(slot) = request.slot.filter(|_| is_begun(&request)) else { continue };
            let known = &status.slots[slot];
            let runs = known.state == SlotState::Running && known.reserved.is_none();
            let is_it = function(&request.function).is_ok_and(|id| known.function == Some(id));
            let (Ok(group), true) = (self.tenant(&request.tenant), runs && is_it) else { continue };
            let now = self.now();
            if self.platform.reserve(now, SlotId(slot as u16), Some(group)).is_ok() {
                self.kept.requests[at].state = "Bound".to_string();
                let text = format!("slot {slot} is kept for it");
                self.notes.note(Severity::Info, format!("tenant {}", request.tenant), text);
                // What cannot be kept is said with the next change.
                let _ = self.keep();
            }
        }
    }

    /// Gives a request's slot back.
    pub(crate) fn unbind(&mut self, caller: &Caller, uuid: &str) -> Result<(), Refused> {
        let request = self.request(caller, uuid)?;
        let slot = request.slot.take();
        request.state = "Unbound".to_string();
        (request.hostname, request.device_rp_uuid, request.instance_uuid) = (None, None, None);
        if let Some(slot) = slot {
            self.give_back(slot);
        }
        self.keep()
    }

    fn give_back(&mut self, slot: usize) {
        locked(&self.wishes).pins.remove(&slot);
        let now = self.now();
        let given = self.platform.reserve(now, SlotId(slot as u16), None);
        assert!(given.is_ok(), "the slot is there");
    }

    /// Deletes a request, and gives its slot back.
    pub(crate) fn delete_request(&mut self, caller: &Caller, uuid: &str) -> Result<(), Refused> {
        if let Some(slot) = self.request(caller, uuid)?.slot.take() {
            self.give_back(slot);
        }
        self.kept.requests.retain(|request| request.uuid != uuid);
        self.keep()
    }

    /// Begins anew with the bindings that were kept.
    pub(super) fn take_up_bindings(&mut self) {
        for at in 0..self.kept.requests.len() {
            let request = self.kept.requests[at].clone();
            let Some(slot) = request.slot else { continue };
            // This one has its slot among those that are counted.
            let is_there = taken(&self.kept.requests, &request.tenant)
                <= self.slots_max(&request.tenant)
                && !locked(&self.wishes).pins.contains_key(&slot)
                && self.pin(slot, &request.function).is_ok();
            let known = &mut self.kept.requests[at];
            known.state = if is_there { "BindStarted" } else { "Unbound" }.to_string();
            if !is_there {
                known.slot = None;
                let text = format!(
                    "the binding of slot {slot} is lost: it is not there, or not allowed any more"
                );
                self.notes.note(Severity::Warning, format!("tenant {}", request.tenant), text);
            }
        }
    }

    /// Slots that the caller may see, with the names that they have for the rest of the world:
    /// number, name, the card's name, and what is in it.
    pub(crate) fn devices(&mut self, caller: &Caller) -> Vec<(crate::api::Slot, String, String)> {
        let status = self.status();
        let is_seen =
            |slot: &crate::api::Slot| slot.tenant.as_ref().is_none_or(|tenant| caller.sees(tenant));
        let before = self.kept.ids.len();
        let slots = status.slots.into_iter().filter(is_seen);
        let named: Vec<_> = slots
            .map(|slot| {
                let own = self.kept.id(&format!("{}/{}", slot.card, slot.slot));
                let card = self.kept.id(&slot.card);
                (slot, own, card)
            })
            .collect();
        if self.kept.ids.len() > before {
            let _ = self.keep();
        }
        named
    }
}

#[cfg(test)]
mod tests;

//! Requests of administrators, and their answers.

use super::Core;
use crate::api::{Card, FunctionStatus, InterfaceStatus, Packets, PoolStatus, Slot, TenantStatus};
use crate::config::FUNCTIONS;
use crate::saved;
use crate::workers::locked;
use thermocline_accel::{GroupId, SlotId, SlotState, SlotStatus};
use thermocline_admin::api::{Refused, Severity};
use thermocline_policy::accel::FunctionId;
use thermocline_units::nearest;

/// A function by its name.
pub(super) fn function(name: &str) -> Result<FunctionId, Refused> {
    let at = FUNCTIONS.iter().position(|known| *known == name);
    let missing = || {
        let hint = match nearest(name, FUNCTIONS.iter().copied()) {
            Some(like) => format!("did you mean `{like}`?"),
            None => format!("there are {}", FUNCTIONS.join(" and ")),
        };
        Refused::missing(format!("there is no function `{name}`; {hint}"))
    };
    at.map(|at| FunctionId(at as u16)).ok_or_else(missing)
}

impl Core {
    /// Takes up what was asked for before a restart. What cannot be any more is told, and left out.
    pub(super) fn take_up(&mut self) {
        let mut lost = Vec::new();
        for at in 0..self.maker.tenants.tenants.len() {
            let tenant = &self.maker.tenants.tenants[at];
            let (name, configured) = (tenant.name.clone(), tenant.chain.clone());
            let group = GroupId(at as u32);
            if let Some(chain) = self.kept.chains.get(&name).cloned() {
                let Err(refused) = self.chain(group, &chain) else { continue };
                self.kept.chains.remove(&name);
                lost.push(format!("the chain of {name}, which is the configured one: {refused}"));
            }
            if let Err(refused) = self.chain(group, &configured) {
                lost.push(format!("the chain of {name}: {refused}"));
            }
        }
        for (name, count) in self.kept.counts.clone() {
            if let Err(refused) = self.count(&name, Some(count)) {
                self.kept.counts.remove(&name);
                lost.push(refused.to_string());
            }
        }
        for (slot, name) in self.kept.loads.clone() {
            if let Err(refused) = self.pin(slot, &name) {
                self.kept.loads.remove(&slot);
                lost.push(refused.to_string());
            }
        }
        for card in self.kept.drained.clone() {
            if let Err(refused) = self.drain(&card, true) {
                self.kept.drained.remove(&card);
                lost.push(refused.to_string());
            }
        }
        self.take_up_bindings();
        for text in lost {
            self.notes.note(Severity::Warning, "pool", format!("not taken up again: {text}"));
        }
    }

    /// Keeps what was asked for.
    pub(super) fn keep(&self) -> Result<(), Refused> {
        let bytes = serde_json::to_vec_pretty(&self.kept).expect("it is plain");
        let path = self.folder.join("pool.json");
        saved::replace(&path, &bytes).map_err(|error| {
            let path = path.display();
            Refused::unavailable(format!("done, and lost with a restart: {path}: {error}"))
        })
    }

    fn chain(&mut self, group: GroupId, names: &[String]) -> Result<(), Refused> {
        let ids: Vec<FunctionId> =
            names.iter().map(|name| function(name)).collect::<Result<_, _>>()?;
        let tenant = self.maker.tenants.get(group);
        let has_external = tenant.is_some_and(|tenant| !tenant.external.is_empty());
        if names.iter().any(|name| name == "nat") && !has_external {
            let text = "a chain with `nat` needs `external` addresses in the configuration";
            return Err(Refused::conflict(text));
        }
        let now = self.now();
        self.platform.set_chain(now, group, &ids).map_err(Refused::invalid)?;
        self.maker.begin_anew(group);
        Ok(())
    }

    /// Changes a tenant's chain.
    pub(crate) fn set_chain(&mut self, tenant: &str, names: Vec<String>) -> Result<(), Refused> {
        let group = self.tenant(tenant)?;
        self.chain(group, &names)?;
        let text = if names.is_empty() { "none".to_string() } else { names.join(", ") };
        self.notes.note(Severity::Info, format!("tenant {tenant}"), format!("chain: {text}"));
        self.kept.chains.insert(tenant.to_string(), names);
        self.keep()
    }

    pub(super) fn tenant(&self, name: &str) -> Result<GroupId, Refused> {
        let missing = || Refused::missing(format!("there is no tenant `{name}`"));
        self.maker.tenants.find(name).ok_or_else(missing)
    }

    fn count(&mut self, name: &str, count: Option<usize>) -> Result<(), Refused> {
        let id = function(name)?;
        let mut wishes = locked(&self.wishes);
        if let Some(count) = count {
            let of_others = wishes.counts.iter().filter(|(other, _)| **other != id);
            let taken: usize = of_others.map(|(_, count)| *count).sum();
            let free = self.threads.len().saturating_sub(taken + wishes.pins.len());
            if count > free {
                return Err(Refused::conflict(format!(
                    "{count} slots for `{name}`: there are {}, and {free} are not asked for",
                    self.threads.len()
                )));
            }
            wishes.counts.insert(id, count);
        } else {
            wishes.counts.remove(&id);
        }
        Ok(())
    }

    /// Asks for so many slots for a function, or leaves that to the scheduler.
    pub(crate) fn scale(&mut self, name: &str, count: Option<usize>) -> Result<(), Refused> {
        self.count(name, count)?;
        match count {
            Some(count) => self.kept.counts.insert(name.to_string(), count),
            None => self.kept.counts.remove(name),
        };
        self.keep()
    }

    pub(super) fn pin(&mut self, slot: usize, name: &str) -> Result<(), Refused> {
        let id = function(name)?;
        if slot >= self.threads.len() {
            let most = self.threads.len() - 1;
            return Err(Refused::missing(format!("there is no slot {slot}; give 0 to {most}")));
        }
        locked(&self.wishes).pins.insert(slot, id);
        Ok(())
    }

    /// Loads a function into a slot, or leaves the slot to the scheduler.
    pub(crate) fn load(&mut self, slot: usize, name: Option<&str>) -> Result<(), Refused> {
        if let Some(request) = self.kept.requests.iter().find(|request| request.slot == Some(slot))
        {
            return Err(Refused::conflict(format!(
                "slot {slot} is bound by the request {}; unbind that first",
                request.uuid
            )));
        }
        match name {
            Some(name) => {
                self.pin(slot, name)?;
                self.kept.loads.insert(slot, name.to_string());
            }
            None => {
                locked(&self.wishes).pins.remove(&slot);
                self.kept.loads.remove(&slot);
            }
        }
        self.keep()
    }

    fn drain(&mut self, name: &str, drained: bool) -> Result<(), Refused> {
        let at = self.cards.iter().position(|card| card == name);
        let missing = || {
            Refused::missing(format!(
                "there is no card `{name}`; there are {}",
                self.cards.join(", ")
            ))
        };
        let at = at.ok_or_else(missing)?;
        let slots = self.platform.status().slots;
        let is_bound = |(_, slot): &(usize, &SlotStatus)| {
            usize::from(slot.card) == at && slot.reserved.is_some()
        };
        if let Some((slot, _)) = slots.iter().enumerate().find(is_bound).filter(|_| drained) {
            return Err(Refused::conflict(format!(
                "slot {slot} of `{name}` is bound to a tenant; unbind it first"
            )));
        }
        self.platform.set_closed(at as u16, drained).map_err(Refused::missing)
    }

    /// Empties a card, or lets it be used again.
    pub(crate) fn set_drained(&mut self, name: &str, drained: bool) -> Result<(), Refused> {
        self.drain(name, drained)?;
        match drained {
            true => self.kept.drained.insert(name.to_string()),
            false => self.kept.drained.remove(name),
        };
        self.keep()
    }

    pub(super) fn tenant_name(&self, group: GroupId) -> String {
        self.maker.tenants.get(group).map_or(String::new(), |tenant| tenant.name.clone())
    }
}

/// The whole at a glance.
pub(super) fn status(core: &Core) -> PoolStatus {
    let status = core.platform.status();
    let wishes = locked(&core.wishes).clone();
    let counters = status.counters;
    let card = |card: &thermocline_accel::CardStatus| Card {
        name: card.name.clone(),
        running: card.running,
        slots: card.slots,
        drained: card.closed,
    };
    let function = |(at, known): (usize, &thermocline_accel::FunctionStatus)| {
        let id = FunctionId(at as u16);
        FunctionStatus {
            name: known.name.clone(),
            running: known.running,
            wanted: wishes.counts.get(&id).copied(),
            offered_per_s: known.offered,
            on_processor: known.on_processor,
            processor_processed: known.processor_processed,
            processor_cost_ns: known.processor_cost,
            flows: core.benches.iter().map(|bench| bench.flows(id)).sum(),
        }
    };
    let slots = status.slots.iter().enumerate();
    PoolStatus {
        uptime_seconds: core.now().as_secs_f64(),
        scheduler: core.scheduler.clone(),
        tenants: tenants(core, &status.slots),
        cards: status.cards.iter().map(card).collect(),
        slots: slots
            .map(|(at, known)| slot(core, SlotId(at as u16), known, wishes.pins.contains_key(&at)))
            .collect(),
        functions: status.functions.iter().enumerate().map(function).collect(),
        interfaces: core.sides.iter().map(interface).collect(),
        packets: Packets {
            offered: counters.offered,
            passed: counters.passed,
            dropped_strangers: core.counts.strangers,
            dropped_hops: core.counts.hops,
            dropped_by_functions: counters.dropped_by_functions,
            dropped_by_rules: core.counts.by_rules,
            lost: counters.lost(),
            alerts: counters.alerts,
            mappings_made: core.counts.made,
            mappings_ended: core.counts.ended,
            ports_exhausted: core.counts.exhausted,
            loads: counters.loads,
            failures: counters.failures,
            moved: counters.moved,
            states_lost: counters.states_lost,
        },
    }
}

fn tenants(core: &Core, slots: &[SlotStatus]) -> Vec<TenantStatus> {
    let network = |(address, length): &(std::net::Ipv4Addr, u8)| format!("{address}/{length}");
    let one = |(at, tenant): (usize, &crate::config::TenantConfig)| {
        let group = GroupId(at as u32);
        let is_its = |(_, slot): &(usize, &SlotStatus)| slot.reserved == Some(group);
        TenantStatus {
            name: tenant.name.clone(),
            networks: tenant.networks.iter().map(network).collect(),
            external: tenant.external.iter().map(ToString::to_string).collect(),
            chain: core.kept.chains.get(&tenant.name).unwrap_or(&tenant.chain).clone(),
            slots: slots.iter().enumerate().filter(is_its).map(|(slot, _)| slot).collect(),
        }
    };
    core.maker.tenants.tenants.iter().enumerate().map(one).collect()
}

fn slot(core: &Core, id: SlotId, known: &SlotStatus, chosen: bool) -> Slot {
    let state = match known.state {
        SlotState::Empty => "empty",
        SlotState::Loading => "loading",
        SlotState::Running => "running",
        SlotState::Draining => "draining",
        SlotState::Failed => "failed",
    };
    let function = known.function;
    Slot {
        slot: id.index(),
        card: core.cards[usize::from(known.card)].clone(),
        state: state.to_string(),
        function: function.map(|function| FUNCTIONS[function.index()].to_string()),
        tenant: known.reserved.map(|group| core.tenant_name(group)),
        chosen,
        shares: known.flows,
        flows: function.map_or(0, |function| core.benches[id.index()].flows(function)),
        waiting: known.waiting,
        cost_ns: known.cost,
        processed: known.processed,
    }
}

fn interface(side: &crate::side::Side) -> InterfaceStatus {
    let counts = side.counts();
    InterfaceStatus {
        interface: side.name().to_string(),
        received: counts.received,
        received_bytes: counts.received_bytes,
        sent: counts.sent,
        sent_bytes: counts.sent_bytes,
        refused: counts.refused,
        unanswered: side.unanswered(),
        unrouted: side.unrouted,
    }
}

//! One writer a volume: leases with fencing numbers.
//!
//! 1. A host that attaches a volume gets a lease under a fencing number that is higher than any
//!    before. The number is durable at the store before the host is told.
//! 2. For the server, the lease begins when it grants or renews it; for the host, when it asked. So
//!    the host's lease ends first, as long as their clocks run alike within the host's margin.
//! 3. Another host gets the volume when the lease was given back or is over; after a start also
//!    those leases must be over that an earlier run may have granted. Their duration is kept with
//!    the number, because a run may have another one. The same counts for whoever deletes a volume.
//! 4. A host that comes with the volume's current number goes on with it, at any time. Its leases
//!    are never longer than what is kept with the number.
//! 5. A lease that is given back *to* a host is kept for that host for as long as a lease lasts.
//! 6. A time in which the server did nothing counts for no lease: nobody could renew one.

use super::operations::{Asker, Op};
use super::state::ServerState;
use crate::messages::{HostId, ToAgent, Why};
use crate::store::{StoreRequest, VolumeInfo};
use std::collections::BTreeMap;
use std::ops::Range;
use thermocline_units::Nanos;
use thermocline_units::mutants::mutant;
use thermocline_units::situations::{met, met_if};

/// A lease, for reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseStatus {
    /// The volume.
    pub volume: u32,
    /// Its holder.
    pub holder: HostId,
    /// Its fencing number.
    pub fence: u64,
    /// Time until another host may have it.
    pub left: Nanos,
}

#[derive(Debug)]
struct Lease {
    info: VolumeInfo,
    /// Time before which no other host gets the volume.
    until: Nanos,
    /// A number is on its way to the store.
    is_granting: bool,
    /// The host that it was handed over to.
    kept_for: Option<HostId>,
}

/// Leases by volume.
#[derive(Debug)]
pub(super) struct Leases {
    by_volume: BTreeMap<u32, Lease>,
    /// Time at which the server began to run.
    began: Nanos,
}

impl Leases {
    /// No leases of a server that begins to run.
    pub(super) fn new(began: Nanos) -> Leases {
        Leases { by_volume: BTreeMap::new(), began }
    }

    /// Volumes that have or had a lease.
    pub(super) fn volumes(&self) -> impl Iterator<Item = u32> + '_ {
        self.by_volume.keys().copied()
    }

    /// Checks that a host may do what it asks; with `fence` for a write or a flush.
    ///
    /// # Errors
    /// The reason why it may not.
    pub(super) fn may(
        &self,
        state: &ServerState,
        host: HostId,
        volume: u32,
        fence: Option<u64>,
        blocks: Range<u64>,
    ) -> Result<(), Why> {
        let attached = state.hosts[&host].attached.get(&volume);
        let lease = self.by_volume.get(&volume).filter(|_| attached.is_some());
        let VolumeInfo { fence: current, blocks: size, .. } = lease.ok_or(Why::Fenced)?.info;
        if fence.is_some_and(|fence| fence != current) || attached != Some(&current) {
            met("a host without the lease was refused");
            return Err(Why::Fenced);
        }
        if blocks.end > u64::from(size) { Err(Why::Outside) } else { Ok(()) }
    }

    /// The number of a lease could not be made durable.
    pub(super) fn grant_failed(&mut self, volume: u32) {
        // It may have been deleted meanwhile.
        if let Some(lease) = self.by_volume.get_mut(&volume) {
            lease.is_granting = false;
        }
    }

    /// Leases that hold, or that their hosts may still believe to hold.
    pub(super) fn status(&self, now: Nanos) -> Vec<LeaseStatus> {
        let held =
            self.by_volume.iter().filter(|(_, lease)| lease.is_granting || now < lease.until);
        let told = held.map(|(&volume, lease)| LeaseStatus {
            volume,
            holder: lease.kept_for.unwrap_or(HostId(lease.info.holder)),
            fence: lease.info.fence,
            left: lease.until.saturating_sub(now),
        });
        told.collect()
    }

    /// The lease under which a host may use the volume now, or may believe that it may; `None`:
    /// nobody does.
    pub(super) fn of(
        &self,
        state: &ServerState,
        now: Nanos,
        info: &VolumeInfo,
    ) -> Option<LeaseStatus> {
        if self.by_volume.contains_key(&info.volume) {
            return self.status(now).into_iter().find(|lease| lease.volume == info.volume);
        }
        let (until, holder) = (self.earlier(state, now, info), HostId(info.holder));
        met_if(now < until, "a lease of an earlier run kept a volume from being deleted");
        let left = until.saturating_sub(now);
        let (volume, fence) = (info.volume, info.fence);
        (now < until).then_some(LeaseStatus { volume, holder, fence, left })
    }

    /// Time before which a lease of an earlier run may hold; `now` if there is none.
    fn earlier(&self, state: &ServerState, now: Nanos, info: &VolumeInfo) -> Nanos {
        if info.fence == 0 || mutant("earlier_leases_are_forgotten") {
            return now;
        }
        let is_longer = info.lease > state.settings.lease;
        met_if(is_longer, "an earlier run had granted a longer lease");
        let longer = if mutant("a_longer_lease_is_forgotten") { Nanos(0) } else { info.lease };
        Nanos(self.began.0.saturating_add(state.settings.lease.max(longer).0))
    }

    /// Moves the ends of all leases on by a time in which the server did nothing.
    pub(super) fn stood_still(&mut self, length: Nanos) {
        let later = |at: Nanos| Nanos(at.0.saturating_add(length.0));
        self.began = later(self.began);
        self.by_volume.values_mut().for_each(|lease| lease.until = later(lease.until));
    }

    /// Forgets a volume that is gone; its number never comes again. Hosts that have it are told.
    pub(super) fn forget(&mut self, state: &mut ServerState, now: Nanos, volume: u32) {
        self.by_volume.remove(&volume);
        state.deletions += 1;
        let mut told = Vec::new();
        for (id, host) in &mut state.hosts {
            if host.attached.remove(&volume).is_some() && !mutant("a_deletion_is_not_told") {
                told.push(*id);
            }
        }
        for host in told {
            met("a host was told that its volume was deleted");
            state.say(now, host, ToAgent::Lost { volume });
        }
    }

    /// The store has opened a volume that a host wants to attach, or has none of this name.
    pub(super) fn opened(
        &mut self,
        state: &mut ServerState,
        now: Nanos,
        asker: Asker,
        fence: u64,
        info: Option<VolumeInfo>,
    ) {
        let Some(info) = info else { return state.refuse(now, asker, Why::NoVolume) };
        let (volume, base) = (info.volume, info.base);
        if state.hosts[&asker.host].domains >> info.domain & 1 == 0 {
            met("a host that is not entitled was refused");
            return state.refuse(now, asker, Why::NotEntitled);
        }
        if info.read_only {
            return state.refuse(now, asker, Why::ReadOnly);
        }
        // What an earlier run granted may still hold.
        let earlier = self.earlier(state, now, &info);
        let lease = self.by_volume.entry(volume).or_insert(Lease {
            info,
            until: earlier,
            is_granting: false,
            kept_for: None,
        });
        // Its image may have gone since the lease was granted first.
        lease.info.base = base;
        let holds = lease.info.holder == asker.host.0 && fence != 0;
        if holds && fence == lease.info.fence && !lease.is_granting && lease.kept_for.is_none() {
            met("a host came back with its lease");
            return self.granted(state, now, asker, volume);
        }
        let is_kept = lease.kept_for.is_some_and(|kept| kept != asker.host);
        let is_over = now >= lease.until;
        let is_free = is_over || lease.kept_for == Some(asker.host);
        if lease.is_granting || !is_free || (is_kept && !is_over) {
            met("a volume was in use");
            return state.refuse(now, asker, Why::InUse);
        }
        met_if(is_over && lease.info.fence > 0, "a lease that was over went to another");
        // From now on it must not be renewed, although the next number is not durable yet.
        lease.is_granting = true;
        let before = HostId(lease.info.holder);
        let (fence, holder) = (lease.info.fence + 1, asker.host.0);
        if mutant("a_fence_is_told_before_it_is_durable") {
            (lease.info.fence, lease.info.holder, lease.is_granting) = (fence, holder, false);
            lease.info.lease = state.settings.lease;
            return self.granted(state, now, asker, volume);
        }
        if let Some(host) = state.hosts.get_mut(&before)
            && host.attached.remove(&volume).is_some()
        {
            met("a host was told that its lease is another's");
            state.say(now, before, ToAgent::Lost { volume });
        }
        state.begin(
            Op::Fence { asker, volume, fence },
            StoreRequest::Fence { volume, fence, holder, lease: state.settings.lease },
        );
    }

    /// The number is durable, so it is the volume's, whether the host is still there or not.
    pub(super) fn fenced(
        &mut self,
        state: &mut ServerState,
        now: Nanos,
        asker: Asker,
        volume: u32,
        fence: u64,
    ) {
        let Some(lease) = self.by_volume.get_mut(&volume) else {
            met("a volume was deleted while it was granted");
            if state.ended(asker) {
                state.refuse(now, asker, Why::NoVolume);
            }
            return;
        };
        (lease.info.fence, lease.info.holder) = (fence, asker.host.0);
        lease.info.lease = state.settings.lease;
        (lease.is_granting, lease.kept_for) = (false, None);
        lease.until = now;
        if state.ended(asker) {
            self.granted(state, now, asker, volume);
        }
    }

    fn granted(&mut self, state: &mut ServerState, now: Nanos, asker: Asker, volume: u32) {
        let until = lease_from(state, now);
        let lease = self.by_volume.get_mut(&volume).expect("it was opened");
        lease.until = lease.until.max(until);
        let VolumeInfo { blocks, base, fence, lease: kept, .. } = lease.info;
        let host = state.hosts.get_mut(&asker.host).expect("it asked");
        host.attached.insert(volume, fence);
        // What is kept with the number bounds what hosts are told; 0: it is not known.
        let lease =
            if kept == Nanos(0) { state.settings.lease } else { state.settings.lease.min(kept) };
        let (lease, request) = (lease.0, asker.request);
        let message = ToAgent::Attached { request, volume, fence, blocks, base, lease };
        state.say(now, asker.host, message);
    }

    /// Renews all leases of a host.
    ///
    /// # Errors
    /// The host has none.
    pub(super) fn renew(
        &mut self,
        state: &ServerState,
        now: Nanos,
        host: HostId,
    ) -> Result<(), Why> {
        let until = lease_from(state, now);
        for (volume, fence) in &state.hosts[&host].attached {
            let lease = self.by_volume.get_mut(volume).expect("attached volumes have leases");
            if lease.info.fence == *fence {
                lease.until = lease.until.max(until);
            }
        }
        if state.hosts[&host].attached.is_empty() { Err(Why::Fenced) } else { Ok(()) }
    }

    /// A host gives a lease back, to another host if one is named.
    pub(super) fn release(
        &mut self,
        state: &mut ServerState,
        now: Nanos,
        host: HostId,
        volume: u32,
        fence: u64,
        to: Option<HostId>,
    ) {
        let until = lease_from(state, now);
        let attached = &mut state.hosts.get_mut(&host).expect("it was checked").attached;
        let Some(lease) = self.by_volume.get_mut(&volume) else { return };
        if attached.get(&volume) != Some(&fence) || lease.info.fence != fence {
            return;
        }
        attached.remove(&volume);
        lease.until = if to.is_some() { until } else { now };
        lease.kept_for = to;
        met_if(to.is_some(), "a volume was handed over");
    }
}

/// End of a lease that begins now.
fn lease_from(state: &ServerState, now: Nanos) -> Nanos {
    Nanos(now.0.saturating_add(state.settings.lease.0))
}

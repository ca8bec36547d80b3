//! Many keys, each with a reference that is brought up to date when it is asked for.

use std::collections::BTreeMap;

use tollgate::Quota;

use crate::reference::Reference;

/// What happened to all keys at once.
#[derive(Clone, Copy, Debug)]
enum Event {
    Renewed(u64),
    Changed(Quota, u64),
}

/// A reference for every key.
#[derive(Clone, Debug)]
pub struct Crowd {
    /// The reference of a key that was never seen, always up to date.
    unseen: Reference,
    events: Vec<Event>,
    /// Those that were seen, each with how many events it knows of.
    keys: BTreeMap<u8, (Reference, usize)>,
}

impl Crowd {
    pub fn new(unseen: Reference) -> Crowd {
        Crowd { unseen, events: Vec::new(), keys: BTreeMap::new() }
    }

    /// A call at `now` renews the range of all keys, if it runs low.
    pub fn renew(&mut self, now: u64) {
        if self.unseen.is_late(now) {
            self.unseen.renew(now);
            self.events.push(Event::Renewed(now));
        }
    }

    pub fn set_quota(&mut self, quota: Quota, now: u64) {
        self.unseen.set_quota(quota, now);
        self.events.push(Event::Changed(quota, now));
    }

    /// A key that was never seen.
    pub fn unseen(&self) -> Reference {
        self.unseen.clone()
    }

    /// The key's reference.
    pub fn key(&mut self, key: u8) -> &mut Reference {
        let Crowd { unseen, events, keys } = self;
        let fresh = || (unseen.clone(), events.len());
        let (reference, known) = keys.entry(key).or_insert_with(fresh);
        for event in &events[*known..] {
            match *event {
                Event::Renewed(now) => reference.renew(now),
                Event::Changed(quota, now) => reference.set_quota(quota, now),
            }
        }
        *known = events.len();
        reference
    }

    /// Makes a key as one that was never seen.
    pub fn forget(&mut self, key: u8) {
        self.keys.remove(&key);
    }

    /// How many keys were seen.
    pub fn seen(&self) -> usize {
        self.keys.len()
    }

    /// The keys that were seen, but for one.
    pub fn others(&self, but: u8) -> Vec<u8> {
        self.keys.keys().copied().filter(|&key| key != but).collect()
    }

    /// How long until each key that owes something owes nothing, but for one: `None` for never.
    pub fn live(&mut self, but: u8, now: u64) -> Vec<(u8, Option<u64>)> {
        let all = self.others(but).into_iter();
        let waits = all.map(|key| (key, self.key(key).peek(0, now).reset_after));
        waits.filter(|&(_, wait)| wait != Some(0)).collect()
    }
}

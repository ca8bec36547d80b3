//! A watched key: every account of its past that explains its answers.
//!
//! There is one account most of the time. A call during which the quota changed may have been
//! decided before or after the change, so it may leave two, until a later answer tells. The key's
//! answers are wrong when no account is left.

use std::ops::RangeInclusive;

use crate::known::{Change, Fault, Heard, Known, Told};

#[derive(Clone, Debug)]
pub struct Watched {
    pub key: u64,
    accounts: Vec<Known>,
}

/// What all threads together were told of one key in a round, a token each time.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    pub admitted: u64,
    /// The latest time at which a token was admitted; any would do.
    pub admitted_at: u64,
    /// The latest time at which one was refused.
    pub refused_at: Option<u64>,
}

impl Watched {
    pub fn new(key: u64, known: Known) -> Watched {
        Watched { key, accounts: vec![known] }
    }

    /// Lives through the changes up to a generation; none of them is under way.
    pub fn catch_up(&mut self, changes: &[Change], generation: usize) {
        self.accounts.iter_mut().for_each(|known| known.catch_up(changes, generation));
    }

    /// Whether all threads may ask for it by their own clocks, and the sum of their answers still
    /// tells whether each was right.
    pub fn may_be_asked_by_any_clock(&mut self, earliest: u64, latest: u64) -> bool {
        let mut accounts = self.accounts.iter_mut();
        accounts.all(|known| known.is_live(latest) && known.has_no_order(earliest, latest))
    }

    /// Holds the answer to one call against every account, under each of the quotas that may have
    /// been in force.
    pub fn hear(
        &mut self,
        heard: &Heard,
        latest: u64,
        changes: &[Change],
        generations: RangeInclusive<usize>,
    ) -> Result<(), Fault> {
        let mut next = Explained::default();
        for known in &self.accounts {
            let first = known.generation().max(*generations.start());
            for generation in first..=*generations.end() {
                let mut known = known.clone();
                known.catch_up(changes, generation);
                let explained = known.hear(heard, latest);
                next.add(explained.map(|()| known));
            }
        }
        self.accounts = next.accounts()?;
        Ok(())
    }

    /// Holds what all threads were told in a round against every account. If a change came within
    /// the round, all of it was at one instant, and any number of the admissions came before the
    /// change.
    pub fn hear_round(
        &mut self,
        round: &Round,
        latest: u64,
        change: Option<(&[Change], usize)>,
    ) -> Result<(), Fault> {
        let mut next = Explained::default();
        for known in &self.accounts {
            let Some((changes, generation)) = change else {
                next.add(through(known.clone(), round, latest, None));
                continue;
            };
            for before in 0..=round.admitted {
                let split = Some((before, changes, generation));
                next.add(through(known.clone(), round, latest, split));
            }
        }
        self.accounts = next.accounts()?;
        Ok(())
    }
}

/// An account after a round, with `before` admissions before a change if there was one.
fn through(
    mut known: Known,
    round: &Round,
    latest: u64,
    change: Option<(u64, &[Change], usize)>,
) -> Result<Known, Fault> {
    let call =
        |is_allowed, now| Heard { cost: 1, now, charges: true, told: Told::Allowed(is_allowed) };
    let refusal = round.refused_at.map(|now| call(false, now));
    let mut left = round.admitted;
    let mut is_refusal_explained = refusal.is_none();
    if let Some((before, changes, generation)) = change {
        for _ in 0..before {
            known.hear(&call(true, round.admitted_at), latest)?;
        }
        left -= before;
        is_refusal_explained |=
            refusal.is_some_and(|refusal| known.clone().hear(&refusal, latest).is_ok());
        known.catch_up(changes, generation);
    }
    for _ in 0..left {
        known.hear(&call(true, round.admitted_at), latest)?;
    }
    match refusal {
        Some(refusal) if !is_refusal_explained => known.hear(&refusal, latest).map(|()| known),
        _ => Ok(known),
    }
}

/// The accounts that explain an answer, and how it is wrong by one that does not.
#[derive(Default)]
struct Explained {
    accounts: Vec<Known>,
    fault: Option<Fault>,
}

impl Explained {
    fn add(&mut self, known: Result<Known, Fault>) {
        match known {
            Ok(known) if !self.accounts.contains(&known) => self.accounts.push(known),
            Ok(_) => {}
            Err(fault) => self.fault = self.fault.or(Some(fault)),
        }
    }

    fn accounts(self) -> Result<Vec<Known>, Fault> {
        match self.fault {
            Some(fault) if self.accounts.is_empty() => Err(fault),
            _ => Ok(self.accounts),
        }
    }
}

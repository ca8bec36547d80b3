//! What all clones of a gate share: its rules, and how a request is decided by them.

use core::time::Duration;
use std::sync::Arc;

use bytes::Bytes;
use http::request::Parts;
use http::response::Parts as ResponseParts;
use http::{Method, Response, header};

use crate::algorithm::Algorithm;
use crate::decision::Decision;
use crate::joint::{Ask, check_all};
use crate::settle::DetachedPermit;
use crate::tower::answer::{Told, longest_wait};
use crate::tower::hold::{Hold, Slot};
use crate::tower::key::Key;
use crate::tower::reply::Replies;
use crate::tower::rule::{Pick, Rule};

/// What a gate does with a request for which a rule cannot tell whom to count it for, such as one without a
/// peer's address.
///
/// ```
/// use tollgate::tower::WithoutKey;
///
/// assert_eq!(WithoutKey::default(), WithoutKey::Fail);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum WithoutKey {
    /// It is answered 500, with a text that says what is missing: it is a mistake in how the service is
    /// put together, and one limit for all such requests would shut everybody out.
    #[default]
    Fail,
    /// The rule is not for it.
    Admit,
    /// All such requests are counted as one client.
    CountTogether,
}

type Skips = dyn Fn(&Parts) -> bool + Send + Sync;

/// What all clones of a gate share.
pub(super) struct Shared {
    pub(super) rules: Vec<Rule>,
    pub(super) skips: Vec<Arc<Skips>>,
    pub(super) without_key: WithoutKey,
    pub(super) replies: Replies,
    pub(super) hold: Option<Hold>,
}

/// A request as one rule counts it.
#[derive(Clone, Copy)]
pub(super) struct Counted {
    pub(super) rule: usize,
    pub(super) key: Key,
    pub(super) cost: u64,
}

/// What becomes of a request.
pub(super) enum Verdict {
    /// It goes on.
    Pass(Admission),
    /// It is answered here.
    Answer(Response<Bytes>),
    /// It waits, for what it is counted as.
    Hold(Vec<Counted>, Slot),
}

/// What the rules in force have said.
pub(super) struct Asked {
    pub(super) is_allowed: bool,
    pub(super) told: Vec<Told>,
    unsettled: Vec<Unsettled>,
}

/// What an admitted request leaves to be done when its answer is there.
#[derive(Default)]
pub(super) struct Admission {
    told: Vec<Told>,
    unsettled: Vec<Unsettled>,
}

/// A charge that is settled by the answer; or, dropped, as that of a request that came to none.
struct Unsettled {
    shared: Arc<Shared>,
    rule: usize,
    permit: Option<DetachedPermit>,
}

impl Shared {
    pub(super) fn decide(self: &Arc<Shared>, parts: &Parts) -> Verdict {
        if is_preflight(parts) || self.skips.iter().any(|skips| skips(parts)) {
            return Verdict::Pass(Admission::default());
        }
        let mut counted = Vec::with_capacity(self.rules.len());
        for (rule, one) in self.rules.iter().enumerate() {
            let key = match (one.pick(parts), self.without_key) {
                (Pick::Count(key), _) => key,
                (Pick::Unknown, WithoutKey::Fail) if !one.is_shadow => {
                    return Verdict::Answer(self.replies.no_key(parts));
                }
                (Pick::Unknown, WithoutKey::CountTogether) => Key::value("tollgate: no key"),
                (Pick::Unknown | Pick::Pass, _) => continue,
            };
            counted.push(Counted { rule, key, cost: one.cost_of(parts) });
        }
        if self.hold.is_some() && self.is_queue(&counted) {
            return self.hold(parts, counted, None);
        }
        let asked = self.ask(&counted);
        if asked.is_allowed {
            return Verdict::Pass(self.admit(&counted, asked));
        }
        self.hold(parts, counted, Some(asked))
    }

    /// Has a request wait, if it may: there is room, and a wait helps and is not too long.
    fn hold(&self, parts: &Parts, counted: Vec<Counted>, asked: Option<Asked>) -> Verdict {
        let wait = asked.as_ref().map_or(Some(Duration::ZERO), |asked| longest_wait(&asked.told));
        let hold = self.hold.as_ref().filter(|hold| wait.is_some_and(|wait| wait <= hold.max()));
        if let Some(slot) = hold.and_then(Hold::slot) {
            return Verdict::Hold(counted, slot);
        }
        let told = asked.map_or_else(|| self.foreseen(&counted), |asked| asked.told);
        Verdict::Answer(self.replies.refuse(parts, &told))
    }

    /// What the rules in force would say, as a refusal.
    pub(super) fn foreseen(&self, counted: &[Counted]) -> Vec<Told> {
        let in_force = counted.iter().filter(|one| !self.rules[one.rule].is_shadow);
        let foreseen = in_force.map(|one| {
            let rule = &self.rules[one.rule];
            let limiter = &rule.limiter;
            let now = u64::try_from(limiter.now().as_nanos()).unwrap_or(u64::MAX);
            Told::new(rule, limiter.peek_at(&one.key, one.cost, now), true)
        });
        foreseen.collect()
    }

    /// Asks the rules in force: all of them admit, or none is charged.
    pub(super) fn ask(self: &Arc<Shared>, counted: &[Counted]) -> Asked {
        let in_force = counted.iter().filter(|one| !self.rules[one.rule].is_shadow);
        let in_force: Vec<&Counted> = in_force.collect();
        match in_force[..] {
            [] => Asked { is_allowed: true, told: Vec::new(), unsettled: Vec::new() },
            [one] if !self.rules[one.rule].settles() => {
                let rule = &self.rules[one.rule];
                let decision = rule.limiter.check_n(&one.key, one.cost);
                let is_allowed = decision.is_allowed();
                let told = self.told(is_allowed, [(rule, decision)].into_iter());
                Asked { is_allowed, told, unsettled: Vec::new() }
            }
            _ => self.ask_several(&in_force),
        }
    }

    fn ask_several(self: &Arc<Shared>, in_force: &[&Counted]) -> Asked {
        let rules = || in_force.iter().map(|one| &self.rules[one.rule]);
        let mut asks: Vec<Ask<'_>> =
            rules().zip(in_force).map(|(rule, one)| rule.limiter.ask(&one.key, one.cost)).collect();
        let is_allowed = check_all(&mut asks).is_allowed();
        let decisions = asks.iter().map(Ask::decision);
        let told = self.told(is_allowed, rules().zip(decisions));
        let mut unsettled = Vec::new();
        for (ask, one) in asks.iter_mut().zip(in_force) {
            if is_allowed && self.rules[one.rule].settles() {
                let permit = ask.take_permit().map(crate::settle::Permit::detach);
                unsettled.push(Unsettled { shared: Arc::clone(self), rule: one.rule, permit });
            }
        }
        Asked { is_allowed, told, unsettled }
    }

    /// What is told of it, if anything is.
    fn told<'a>(
        &self,
        is_allowed: bool,
        all: impl Iterator<Item = (&'a Rule, Decision)>,
    ) -> Vec<Told> {
        if is_allowed && !self.replies.tells_admitted() {
            return Vec::new();
        }
        all.map(|(rule, decision)| Told::new(rule, decision, !decision.is_allowed())).collect()
    }

    /// An admitted request; rules that are not in force count it now.
    pub(super) fn admit(&self, counted: &[Counted], asked: Asked) -> Admission {
        for one in counted.iter().filter(|one| self.rules[one.rule].is_shadow) {
            let _ = self.rules[one.rule].limiter.check_n(&one.key, one.cost);
        }
        Admission { told: asked.told, unsettled: asked.unsettled }
    }

    /// A request that has waited in the line of this rule.
    pub(super) fn admit_after_wait(&self, counted: &[Counted], one: Counted) -> Admission {
        let rule = &self.rules[one.rule];
        let told = match self.replies.tells_admitted() {
            true => vec![Told::new(rule, rule.limiter.peek(&one.key), false)],
            false => Vec::new(),
        };
        self.admit(counted, Asked { is_allowed: true, told, unsettled: Vec::new() })
    }

    /// Whether one rule decides, in whose line a request can wait.
    pub(super) fn line(&self, counted: &[Counted]) -> Option<Counted> {
        let mut in_force = counted.iter().filter(|one| !self.rules[one.rule].is_shadow);
        let one = in_force.next().filter(|_| in_force.next().is_none())?;
        let rule = &self.rules[one.rule];
        (rule.algorithm().is_bucket() && !rule.settles()).then_some(*one)
    }

    /// Whether every request waits its turn: the rule is a queue.
    fn is_queue(&self, counted: &[Counted]) -> bool {
        self.line(counted)
            .is_some_and(|one| self.rules[one.rule].algorithm() == Algorithm::LeakyBucket)
    }
}

impl Admission {
    /// Settles what is to be settled by the answer, and tells of the limits in its headers.
    pub(super) fn end(self, shared: &Shared, answer: &mut ResponseParts) {
        for mut unsettled in self.unsettled {
            unsettled.settle(Some(answer));
        }
        shared.replies.tell(&self.told, answer);
    }
}

impl Unsettled {
    fn settle(&mut self, answer: Option<&ResponseParts>) {
        let Some(permit) = self.permit.take() else { return };
        let rule = &self.shared.rules[self.rule];
        let cost = rule.settle.cost(permit.estimate(), answer);
        // It is this limiter's, and settled here alone; what cannot be charged it has counted itself.
        let _ = rule.limiter.commit(&permit, cost);
    }
}

impl Drop for Unsettled {
    fn drop(&mut self) {
        self.settle(None);
    }
}

/// Whether a browser asks whether it may ask.
fn is_preflight(parts: &Parts) -> bool {
    parts.method == Method::OPTIONS
        && parts.headers.contains_key(header::ORIGIN)
        && parts.headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

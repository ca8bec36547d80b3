//! What all clones of a gate share: its rules, and how a request is decided by them.

use core::time::Duration;
use std::sync::Arc;

use bytes::Bytes;
use http::response::Parts as ResponseParts;
use http::{Method, Response, header};
use smallvec::{SmallVec, smallvec};

use crate::algorithm::Algorithm;
use crate::decision::Decision;
use crate::joint::{Ask, check_all};
use crate::settle::{DetachedPermit, Permit};
use crate::tower::answer::{Told, ToldAll, longest_wait};
use crate::tower::head::Head;
use crate::tower::hold::{Hold, Slot};
use crate::tower::key::Key;
use crate::tower::reply::{Replies, no_key};
use crate::tower::rule::{Pick, Rule, Tests};

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

/// What all clones of a gate share.
pub(super) struct Shared {
    pub(super) rules: Vec<Rule>,
    pub(super) skips: Vec<Arc<Tests>>,
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

/// A request as the rules count it: those in force, and those that only look on. Most often it is one.
#[derive(Default)]
pub(super) struct Counts {
    in_force: SmallVec<[Counted; 1]>,
    shadows: Vec<Counted>,
}

/// What becomes of a request.
pub(super) enum Verdict {
    /// It goes on; with what is left to be done when its answer is there.
    Pass(Option<Box<Ending>>),
    /// It is answered here.
    Answer(Response<Bytes>),
    /// It waits, for what it is counted as.
    Hold(Box<(Counts, Slot)>),
}

/// What the rules in force have said: they admit, or refuse.
pub(super) type Asked = Result<Option<Box<Ending>>, ToldAll>;

/// It cannot be told whom a request is to be counted for.
struct NoKey;

/// What an admitted request leaves to be done when its answer is there.
pub(super) struct Ending {
    shared: Arc<Shared>,
    told: ToldAll,
    unsettled: Vec<Unsettled>,
}

/// A charge that is settled by the answer; or, dropped, as that of a request that came to none.
struct Unsettled {
    shared: Arc<Shared>,
    rule: usize,
    permit: Option<DetachedPermit>,
}

impl Shared {
    pub(super) fn decide(self: &Arc<Shared>, head: &Head<'_>) -> Verdict {
        if is_preflight(head) || self.skips.iter().any(|skips| skips(head)) {
            return Verdict::Pass(None);
        }
        if let [rule] = &self.rules[..]
            && self.decides_at_once(rule)
        {
            return self.decide_at_once(rule, head);
        }
        self.decide_by_all(head)
    }

    /// Apart, so that the code of the most common way lies close together.
    #[inline(never)]
    fn decide_by_all(self: &Arc<Shared>, head: &Head<'_>) -> Verdict {
        let Ok(counts) = self.count(head) else {
            return Verdict::Answer(no_key(head));
        };
        if self.hold.is_some() && self.is_queue(&counts) {
            return self.hold_or_refuse(head, counts, None);
        }
        match self.ask(&counts) {
            Ok(ending) => Verdict::Pass(ending),
            Err(told) => self.hold_or_refuse(head, counts, Some(told)),
        }
    }

    /// Whether nothing is left of a request by this only rule once it has decided, as by most.
    fn decides_at_once(&self, rule: &Rule) -> bool {
        self.hold.is_none() && !rule.is_shadow && !rule.settles()
    }

    /// What the general way comes to for such a rule, without a list of one.
    #[inline]
    fn decide_at_once(self: &Arc<Shared>, rule: &Rule, head: &Head<'_>) -> Verdict {
        let key = match self.whom(rule, head) {
            Ok(Some(key)) => key,
            Ok(None) => return Verdict::Pass(None),
            Err(NoKey) => return Verdict::Answer(no_key(head)),
        };
        match self.ask_one(rule, &key, rule.cost_of(head)) {
            Ok(ending) => Verdict::Pass(ending),
            Err(told) => Verdict::Answer(self.replies.refuse(head, &told)),
        }
    }

    /// Whom a rule counts a request for, if it does.
    #[inline]
    fn whom(&self, rule: &Rule, head: &Head<'_>) -> Result<Option<Key>, NoKey> {
        match (rule.pick(head), self.without_key) {
            (Pick::Count(key), _) => Ok(Some(key)),
            (Pick::Unknown, WithoutKey::Fail) if !rule.is_shadow => Err(NoKey),
            (Pick::Unknown, WithoutKey::CountTogether) => Ok(Some(Key::value("tollgate: no key"))),
            (Pick::Unknown | Pick::Pass, _) => Ok(None),
        }
    }

    /// As what the rules count a request.
    fn count(&self, head: &Head<'_>) -> Result<Counts, NoKey> {
        let mut counts = Counts::default();
        for (rule, one) in self.rules.iter().enumerate() {
            let Some(key) = self.whom(one, head)? else { continue };
            let counted = Counted { rule, key, cost: one.cost_of(head) };
            match one.is_shadow {
                true => counts.shadows.push(counted),
                false => counts.in_force.push(counted),
            }
        }
        Ok(counts)
    }

    /// Has a request wait, if it may: there is room, and a wait helps and is not too long.
    #[inline(never)]
    fn hold_or_refuse(&self, head: &Head<'_>, counts: Counts, told: Option<ToldAll>) -> Verdict {
        if let Some(hold) = &self.hold {
            let wait = told.as_ref().map_or(Some(Duration::ZERO), |told| longest_wait(told));
            let slot = wait.filter(|&wait| wait <= hold.max()).and_then(|_| hold.slot());
            if let Some(slot) = slot {
                return Verdict::Hold(Box::new((counts, slot)));
            }
        }
        let told = told.unwrap_or_else(|| self.foreseen(&counts));
        Verdict::Answer(self.replies.refuse(head, &told))
    }

    /// Asks the rules in force: all of them admit, or none is charged. Those that only look on count what is
    /// admitted.
    pub(super) fn ask(self: &Arc<Shared>, counts: &Counts) -> Asked {
        let ending = match counts.in_force[..] {
            [] => None,
            [one] if !self.rules[one.rule].settles() => {
                self.ask_one(&self.rules[one.rule], &one.key, one.cost)?
            }
            _ => self.ask_several(&counts.in_force)?,
        };
        self.look_on(counts);
        Ok(ending)
    }

    #[inline]
    fn ask_one(self: &Arc<Shared>, rule: &Rule, key: &Key, cost: u64) -> Asked {
        let decision = rule.limiter.check_n(key, cost);
        if decision.is_allowed() && !self.replies.tells_admitted() {
            return Ok(None);
        }
        self.tell(rule, decision)
    }

    /// Apart, so that of a decision that nothing is told of no more is written than whether it admits.
    #[inline(never)]
    fn tell(self: &Arc<Shared>, rule: &Rule, decision: Decision) -> Asked {
        let is_allowed = decision.is_allowed();
        let told = smallvec![self.told(rule, &decision, !is_allowed)];
        if is_allowed { Ok(self.ending(told, Vec::new())) } else { Err(told) }
    }

    #[inline(never)]
    fn ask_several(self: &Arc<Shared>, in_force: &[Counted]) -> Asked {
        let rules = || in_force.iter().map(|one| &self.rules[one.rule]);
        let mut asks: Vec<Ask<'_>> =
            rules().zip(in_force).map(|(rule, one)| rule.limiter.ask(&one.key, one.cost)).collect();
        let is_allowed = check_all(&mut asks).is_allowed();
        let told = rules().zip(&asks).map(|(rule, ask)| {
            let decision = ask.decision();
            self.told(rule, &decision, !decision.is_allowed())
        });
        if !is_allowed {
            return Err(told.collect());
        }
        let told = if self.replies.tells_admitted() { told.collect() } else { ToldAll::new() };
        let mut unsettled = Vec::new();
        for (ask, one) in asks.iter_mut().zip(in_force) {
            if self.rules[one.rule].settles() {
                let (shared, rule) = (Arc::clone(self), one.rule);
                let permit = ask.take_permit().map(Permit::detach);
                unsettled.push(Unsettled { shared, rule, permit });
            }
        }
        Ok(self.ending(told, unsettled))
    }

    fn told(&self, rule: &Rule, decision: &Decision, is_violated: bool) -> Told {
        Told::new(rule, decision, is_violated, self.replies.style)
    }

    fn ending(self: &Arc<Shared>, told: ToldAll, unsettled: Vec<Unsettled>) -> Option<Box<Ending>> {
        let is_something = !told.is_empty() || !unsettled.is_empty();
        is_something.then(|| Box::new(Ending { shared: Arc::clone(self), told, unsettled }))
    }

    /// Has the rules that are not in force count a request.
    fn look_on(&self, counts: &Counts) {
        for one in &counts.shadows {
            let _ = self.rules[one.rule].limiter.check_n(&one.key, one.cost);
        }
    }

    /// What the rules in force would say, as a refusal.
    pub(super) fn foreseen(&self, counts: &Counts) -> ToldAll {
        let foreseen = counts.in_force.iter().map(|one| {
            let rule = &self.rules[one.rule];
            let now = u64::try_from(rule.limiter.now().as_nanos()).unwrap_or(u64::MAX);
            self.told(rule, &rule.limiter.peek_at(&one.key, one.cost, now), true)
        });
        foreseen.collect()
    }

    /// A request that has waited in the line of this rule.
    pub(super) fn admit_after_wait(
        self: &Arc<Shared>,
        counts: &Counts,
        one: Counted,
    ) -> Option<Box<Ending>> {
        self.look_on(counts);
        let rule = &self.rules[one.rule];
        let told = match self.replies.tells_admitted() {
            true => smallvec![self.told(rule, &rule.limiter.peek(&one.key), false)],
            false => ToldAll::new(),
        };
        self.ending(told, Vec::new())
    }

    /// The time of the first rule in force.
    pub(super) fn now(&self, counts: &Counts) -> Duration {
        let first = counts.in_force.first();
        first.map_or(Duration::ZERO, |one| self.rules[one.rule].limiter.now())
    }

    /// The one rule that decides, if a request can wait in its line.
    pub(super) fn line(&self, counts: &Counts) -> Option<Counted> {
        let [one] = counts.in_force[..] else { return None };
        let rule = &self.rules[one.rule];
        (rule.algorithm().is_bucket() && !rule.settles()).then_some(one)
    }

    /// Whether every request waits its turn: the rule is a queue.
    fn is_queue(&self, counts: &Counts) -> bool {
        let line = self.line(counts);
        line.is_some_and(|one| self.rules[one.rule].algorithm() == Algorithm::LeakyBucket)
    }
}

impl Ending {
    /// Settles what is to be settled by the answer, and tells of the limits in its headers.
    pub(super) fn end(self, answer: &mut ResponseParts) {
        for mut unsettled in self.unsettled {
            unsettled.settle(Some(answer));
        }
        self.shared.replies.tell(&self.told, answer);
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
fn is_preflight(head: &Head<'_>) -> bool {
    head.method == Method::OPTIONS
        && head.headers.contains_key(header::ORIGIN)
        && head.headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

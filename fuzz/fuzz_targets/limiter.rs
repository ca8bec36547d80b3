//! One state under any quotas, operations and times: the engine says what the reference says, in
//! every field, under every algorithm.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tollgate::{Algorithm, Limiter};
use tollgate_fuzz::course::Course;
use tollgate_fuzz::reference::{Answer, Reference};
use tollgate_fuzz::script::{Script, Verb};
use tollgate_fuzz::{builder, most, reference};

/// Both limiters, asked alike.
struct Pair {
    algorithm: Algorithm,
    limiter: Limiter,
    reference: Reference,
    course: Course,
}

impl Pair {
    fn check(&mut self, cost: u64) {
        let now = self.course.now;
        let made = self.limiter.check_at(cost, now);
        let ours = self.course.note(&made);
        let theirs = self.reference.check(cost, now);
        assert_eq!(ours, self.course.told(ours, theirs), "check {cost} at {now}");
        assert_eq!(made.limit(), most(self.algorithm, self.course.quota));
        assert!(!made.is_full());
    }

    fn peek(&mut self, cost: u64) {
        let now = self.course.now;
        let ours = Answer::from(&self.limiter.peek_at(cost, now));
        let theirs = self.reference.peek(cost, now);
        assert_eq!(ours, self.course.told(ours, theirs), "peek {cost} at {now}");
    }

    fn step(&mut self, verb: Verb, cost: u64, quotas: &[tollgate::Quota]) {
        let now = self.course.now;
        match verb {
            Verb::Check | Verb::CheckWith(_) => self.check(cost),
            Verb::CheckMany => (0..cost % 8).for_each(|_| self.check(1)),
            Verb::Peek => self.peek(cost),
            Verb::Refund => {
                self.limiter.refund_at(cost, now);
                self.reference.refund(cost, now);
            }
            Verb::Reset => {
                self.limiter.reset_at(now);
                self.reference.renew(now);
                self.reference.reset();
            }
            Verb::SetQuota(index) => {
                if !self.course.follows(quotas[index]) {
                    return;
                }
                if self.limiter.set_quota_at(quotas[index], now).is_ok() {
                    self.reference.set_quota(quotas[index], now);
                    self.course.change(quotas[index]);
                }
                assert_eq!(self.limiter.quota(), self.course.quota);
            }
        }
        self.peek(1);
    }
}

fuzz_target!(|script: Script| {
    let Ok(limiter) = builder(&script).build() else { return };
    let course = Course::new(script.algorithm, script.quotas[0]);
    let mut pair =
        Pair { algorithm: script.algorithm, limiter, reference: reference(&script), course };
    for step in &script.steps {
        let cost = pair.course.take(step);
        pair.step(step.verb, cost, &script.quotas);
    }
});

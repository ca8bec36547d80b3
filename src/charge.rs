//! A charge that may be taken back: what it left behind, and when it was made.

use crate::word::Word;

/// What a call has charged.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Charge {
    /// Which cell of its bucket; 0 where there is only one.
    pub(crate) index: usize,
    /// The word that the charge left.
    pub(crate) word: Word,
    /// The clock at the charge, in units of the word's epoch.
    pub(crate) position: u64,
    /// Tokens.
    pub(crate) cost: u64,
    /// Which publication of the quota it was made under.
    pub(crate) sequence: u64,
}

impl Charge {
    /// Whether `word` is of the life that was charged. An eviction, a reset and a translation to other
    /// units each begin another.
    pub(crate) fn is_in(&self, word: Word) -> bool {
        word.is_live()
            && word.generation() == self.word.generation()
            && word.epoch() == self.word.epoch()
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;
    use std::collections::HashSet;

    use super::*;
    use crate::algorithm::{Algorithm, token_bucket};
    use crate::quota::Quota;
    use crate::terms::{Reading, Terms};
    use crate::word::LIVE_FROM;

    /// A rule by which a charge is taken back.
    type Rule = fn(&Terms, u64, &Reading, &Charge) -> Option<u64>;

    /// What there is to know of a bucket of a token a nanosecond, now.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
    struct State {
        owed: u64,
        /// Charges that will be taken back: tokens, nanoseconds since, and what was owed after them, as
        /// of now.
        outstanding: Vec<(u64, u64, u64)>,
        /// The most tokens by which what was kept since some moment is above what has come back since. As
        /// long as it is within the burst, what was kept is within the quota in every interval.
        kept: u64,
    }

    /// The most that is kept beyond the time of an interval, over all schedules of charges of up to two
    /// tokens, of which up to three are outstanding at a time, of take-backs in any order, and of time.
    fn most_kept(burst: u64, rule: Rule) -> u64 {
        let quota = Quota::new(1, Duration::from_nanos(1)).burst(burst);
        let layout = token_bucket::lay_out(&quota).unwrap();
        let terms = Terms::starting(Algorithm::TokenBucket, layout, 0, 0);
        let mut seen = HashSet::from([State::default()]);
        let mut open: Vec<State> = seen.iter().cloned().collect();
        let mut most = 0;
        while let Some(state) = open.pop() {
            most = most.max(state.kept);
            // A rule that is not exact would go on for ever.
            if most > burst {
                return most;
            }
            for next in successors(&terms, &state, rule) {
                if seen.insert(next.clone()) {
                    open.push(next);
                }
            }
        }
        most
    }

    fn successors(terms: &Terms, state: &State, rule: Rule) -> Vec<State> {
        // Each state is looked at as of the same moment, late enough for a charge to lie before it.
        let position = LIVE_FROM + 100;
        let reading = Reading { now: 100, position, is_past_end: false };
        let time = position + state.owed;
        let mut found = Vec::new();
        for tokens in [1, 2] {
            let Some(after) = token_bucket::charge(terms, time, &reading, tokens) else { continue };
            let owed = after - position;
            found.push(State { owed, kept: state.kept + tokens, ..state.clone() });
            if state.outstanding.len() < 3 {
                let mut next = State { owed, ..state.clone() };
                next.outstanding.push((tokens, 0, owed));
                found.push(next);
            }
        }
        for at in 0..state.outstanding.len() {
            let mut next = state.clone();
            let (cost, since, left) = next.outstanding.remove(at);
            let word = Word::live(position + left, 0, 0);
            let charge = Charge { index: 0, word, position: position - since, cost, sequence: 0 };
            if let Some(after) = rule(terms, time, &reading, &charge) {
                next.owed = after - position;
            }
            found.push(next);
        }
        let mut later = state.clone();
        later.owed = later.owed.saturating_sub(1);
        later.kept = later.kept.saturating_sub(1);
        for (_, since, left) in &mut later.outstanding {
            // All is back by then, however long ago.
            (*since, *left) = ((*since + 1).min(9), left.saturating_sub(1));
        }
        found.push(later);
        for state in &mut found {
            state.outstanding.sort_unstable();
        }
        found
    }

    /// Exact: never more than the burst beyond the time, and that much is reached.
    #[test]
    #[cfg_attr(miri, ignore = "thousands of states of functions without unsafe code or atomics")]
    fn what_is_taken_back_is_spent_once_in_every_interval() {
        for burst in 1..5 {
            assert_eq!(most_kept(burst, token_bucket::take_back), burst, "burst {burst}");
        }
    }

    /// The search finds what the rules that come to mind first would let be kept.
    #[test]
    #[cfg_attr(miri, ignore = "thousands of states of functions without unsafe code or atomics")]
    fn other_rules_are_found_out() {
        let all: Rule = |terms, time, reading, charge| {
            let owed = time.saturating_sub(reading.position);
            Some(time - (charge.cost * terms.layout.unit).min(owed))
        };
        let what_is_left: Rule = |terms, time, reading, charge| {
            let left = charge.word.time().saturating_sub(reading.position);
            let owed = time.saturating_sub(reading.position);
            Some(time - (charge.cost * terms.layout.unit).min(left).min(owed))
        };
        for rule in [all, what_is_left] {
            assert!(most_kept(2, rule) > 2);
        }
    }
}

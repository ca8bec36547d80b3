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
    /// What had been given back on the cell before, as far as its [`Book`](crate::cell::Book) tells; 0
    /// for a charge of no permit.
    pub(crate) given_back: u64,
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

    /// A rule by which a charge is given back.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Rule {
        /// As what is taken back in the call.
        TimeSince,
        /// As a permit, with a book.
        WhereItLies,
        /// Either, as each charge is made for.
        Both,
        /// As a permit without a book.
        WhatIsLeft,
        All,
    }

    /// A charge that is out: some of its tokens will be given back, and the others are kept.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    struct Out {
        tokens: u64,
        /// Nanoseconds since it was made.
        since: u64,
        /// What was owed after it, as of now, without what has been given back since if it has a book.
        left: u64,
        is_permit: bool,
    }

    /// What there is to know of a bucket of a token a nanosecond, now.
    #[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
    struct State {
        owed: u64,
        out: Vec<Out>,
        /// The most tokens by which what was kept since some moment is above what has come back since. As
        /// long as it is within the burst, what was kept is within the quota in every interval.
        kept: u64,
    }

    /// The most that is kept beyond the time of an interval, over all schedules of charges of up to two
    /// tokens, of which up to `most_out` are out at a time, of giving them back in part or whole and in any
    /// order, and of time.
    fn most_kept(burst: u64, rule: Rule, most_out: usize) -> u64 {
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
            for next in successors(&terms, &state, rule, most_out) {
                if seen.insert(next.clone()) {
                    open.push(next);
                }
            }
        }
        most
    }

    fn successors(terms: &Terms, state: &State, rule: Rule, most_out: usize) -> Vec<State> {
        // Each state is looked at as of the same moment, late enough for a charge to lie before it.
        let position = LIVE_FROM + 100;
        let reading = Reading { now: 100, position, is_past_end: false };
        let time = position + state.owed;
        let mut found = Vec::new();
        for (cost, tokens) in [(1, 0), (1, 1), (2, 0), (2, 1), (2, 2)] {
            let Some(after) = token_bucket::charge(terms, time, &reading, cost) else { continue };
            let owed = after - position;
            let charged = State { owed, kept: state.kept + cost - tokens, ..state.clone() };
            for is_permit in [false, true] {
                let mut next = charged.clone();
                if tokens > 0 && next.out.len() < most_out {
                    next.out.push(Out { tokens, since: 0, left: owed, is_permit });
                } else if tokens > 0 {
                    continue;
                }
                found.push(next);
            }
        }
        for at in 0..state.out.len() {
            let mut next = state.clone();
            let out = next.out.remove(at);
            if let Some(after) = give_back(terms, time, &reading, &out, rule) {
                next.owed = after - position;
                if matches!(rule, Rule::WhereItLies | Rule::Both) {
                    let units = time - after;
                    next.out.iter_mut().for_each(|out| out.left = out.left.saturating_sub(units));
                }
            }
            found.push(next);
        }
        let mut later = state.clone();
        later.owed = later.owed.saturating_sub(1);
        later.kept = later.kept.saturating_sub(1);
        for out in &mut later.out {
            // All is back by then, however long ago.
            (out.since, out.left) = ((out.since + 1).min(9), out.left.saturating_sub(1));
        }
        found.push(later);
        for state in &mut found {
            state.out.sort_unstable();
        }
        found
    }

    fn give_back(
        terms: &Terms,
        time: u64,
        reading: &Reading,
        out: &Out,
        rule: Rule,
    ) -> Option<u64> {
        let position = reading.position;
        let word = Word::live(position + out.left, 0, 0);
        let (cost, sequence, given_back) = (out.tokens, 0, 0);
        let position = position - out.since;
        let charge = Charge { index: 0, word, position, cost, sequence, given_back };
        match rule {
            Rule::Both if !out.is_permit => token_bucket::take_back(terms, time, reading, &charge),
            Rule::TimeSince => token_bucket::take_back(terms, time, reading, &charge),
            Rule::WhereItLies | Rule::WhatIsLeft | Rule::Both => {
                token_bucket::settle(terms, time, reading, &charge, 0)
            }
            Rule::All => token_bucket::give_back(terms, time, reading, cost),
        }
    }

    /// Exact: never more than the burst beyond the time, and that much is reached.
    #[test]
    #[cfg_attr(miri, ignore = "thousands of states of functions without unsafe code or atomics")]
    fn what_is_given_back_is_spent_once_in_every_interval() {
        for rule in [Rule::TimeSince, Rule::WhereItLies, Rule::Both] {
            for burst in 1..5 {
                assert_eq!(most_kept(burst, rule, 3), burst, "burst {burst}, {rule:?}");
            }
        }
    }

    /// The search finds what the rules that come to mind first would let be kept. One permit at a time
    /// needs no book.
    #[test]
    #[cfg_attr(miri, ignore = "thousands of states of functions without unsafe code or atomics")]
    fn other_rules_are_found_out() {
        assert!(most_kept(2, Rule::All, 3) > 2);
        assert!(most_kept(2, Rule::WhatIsLeft, 3) > 2);
        assert_eq!(most_kept(3, Rule::WhatIsLeft, 1), 3);
    }
}

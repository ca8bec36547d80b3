//! The reference: one key's limiter, as naive as can be, in integers and fractions of any size.
//!
//! It has the engine's arithmetic without the engine's bounds: a clock in units of a token that is
//! rounded down, debts that are whole units. Tests, the replay example, fuzzing and benches compare
//! the engine with it; `exact.rs` compares it with fractions of a token in turn.

use std::time::Duration;

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{One, ToPrimitive, Zero};
use tollgate::{Algorithm, Decision, Quota, WaitError};

/// What a call is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    pub allowed: bool,
    pub remaining: u64,
    /// Nanoseconds; 0 when allowed, `None` for never.
    pub retry_after: Option<u64>,
    pub reset_after: Option<u64>,
    pub delay: u64,
}

/// A decision in the reference's terms.
impl From<&Decision> for Answer {
    fn from(decision: &Decision) -> Answer {
        let nanos = |wait: Duration| wait.as_nanos().to_u64().expect("64 bits of nanoseconds");
        Answer {
            allowed: decision.is_allowed(),
            remaining: decision.remaining(),
            retry_after: decision.retry_after().map(nanos),
            reset_after: decision.reset_after().map(nanos),
            delay: nanos(decision.delay()),
        }
    }
}

/// One key.
#[derive(Clone, Debug, PartialEq)]
pub struct Reference {
    algorithm: Algorithm,
    quota: Quota,
    /// The moment before which time stands still.
    origin: u64,
    state: State,
}

#[derive(Clone, Debug, PartialEq)]
enum State {
    Bucket(Bucket),
    Window(Window),
    Log(Log),
}

/// The stamps of all admitted tokens, oldest first, in ticks.
#[derive(Clone, Debug, PartialEq)]
struct Log {
    stamps: Vec<i128>,
    /// The newest stamp there ever was: none comes that is older.
    newest: i128,
    /// Tokens up to this tick have expired, whatever the window.
    expired: i128,
    ring: usize,
    cost_max: u64,
    /// Nanoseconds, two to this many.
    tick_bits: u32,
}

/// One window's count, or two for the sliding counter.
#[derive(Clone, Debug, PartialEq)]
struct Window {
    index: BigInt,
    previous: BigInt,
    current: BigInt,
}

#[derive(Clone, Debug, PartialEq)]
struct Bucket {
    /// Units per token.
    unit: BigInt,
    /// Units per nanosecond.
    slope: BigRational,
    /// The clock at `origin`.
    base: BigRational,
    /// The most that may be owed.
    room: BigInt,
    /// The virtual time up to which everything is spent.
    spent: BigInt,
    /// The places in its line, and how many lives it has had.
    places: Vec<Place>,
    life: u64,
    /// Whether anybody ever asked for a place.
    has_lines: bool,
}

/// A place in a line.
#[derive(Clone, Debug, PartialEq)]
struct Place {
    cost: u64,
    /// The virtual time after its charge.
    end: BigInt,
    /// The life in which it was charged.
    life: u64,
}

/// Where the engine starts its clock and where it starts over; only differences matter but for
/// that.
const BASE: u64 = 1 << 24;
const RENEW_AT: u64 = 3 << 56;
const ROOM_MAX: u64 = 1 << 58;
const TEN_YEARS: u64 = 315_576_000 * 1_000_000_000;

impl Reference {
    pub fn new(algorithm: Algorithm, quota: Quota) -> Reference {
        if algorithm == Algorithm::SlidingWindowLog {
            return Reference::log(quota, quota.limit().max(1), 1);
        }
        let state = match algorithm {
            Algorithm::FixedWindow | Algorithm::SlidingWindowCounter => {
                State::Window(Window::unseen())
            }
            _ => State::Bucket(Bucket::new(algorithm, quota, natural_unit(algorithm, quota))),
        };
        Reference { algorithm, quota, origin: 0, state }
    }

    /// A sliding log of so many tokens at the most, and so many at once.
    pub fn log(quota: Quota, ring: u64, cost_max: u64) -> Reference {
        let state = State::Log(Log {
            stamps: Vec::new(),
            newest: 0,
            expired: i128::MIN,
            ring: ring as usize,
            cost_max,
            tick_bits: (2 * ring).ilog2() + cost_max.next_power_of_two().ilog2(),
        });
        Reference { algorithm: Algorithm::SlidingWindowLog, quota, origin: 0, state }
    }

    pub fn check(&mut self, cost: u64, now: u64) -> Answer {
        let answer = self.peek(cost, now);
        if !answer.allowed || cost == 0 {
            return answer;
        }
        let (origin, window) = (self.origin, self.window());
        match &mut self.state {
            State::Bucket(bucket) => {
                bucket.spent = bucket.start(origin, now) + bucket.unit.clone() * cost;
            }
            State::Window(one) => {
                *one = one.at(&window, now.max(origin));
                one.current += cost;
            }
            State::Log(log) => {
                let least = log.newest.max(log.expired.saturating_add(1));
                let stamp = log.tick(now.max(origin)).max(least);
                log.newest = stamp;
                log.stamps.extend((0..cost).map(|_| stamp));
                let beyond = log.stamps.len().saturating_sub(log.ring);
                log.stamps.drain(..beyond);
            }
        }
        let after = self.peek(0, now);
        Answer { remaining: after.remaining, reset_after: after.reset_after, ..answer }
    }

    /// A check under a quota that the call brings; for GCRA, whose debts are times.
    pub fn check_with(&mut self, cost: u64, quota: Quota, now: u64) -> Answer {
        // Time does not stand still for one call alone: a limit of 0 has no room instead.
        let quota = match quota.limit() {
            0 => Quota::new(1, std::time::Duration::from_nanos(1)).burst(0),
            _ => quota,
        };
        let own = self.put_in_force(quota);
        let answer = self.check(cost, now);
        self.put_in_force(own);
        answer
    }

    /// Judges by another quota from here on, and leaves debts as the times that they are.
    fn put_in_force(&mut self, quota: Quota) -> Quota {
        if let State::Bucket(bucket) = &mut self.state {
            let next = Bucket::new(self.algorithm, quota, natural_unit(self.algorithm, quota));
            (bucket.unit, bucket.slope, bucket.room) = (next.unit, next.slope, next.room);
        }
        std::mem::replace(&mut self.quota, quota)
    }

    /// What a call would be told.
    pub fn peek(&mut self, cost: u64, now: u64) -> Answer {
        self.renew(now);
        match &self.state {
            State::Bucket(bucket) => bucket.peek(self.algorithm, self.origin, cost, now),
            State::Window(one) => {
                let view = one.at(&self.window(), now.max(self.origin));
                let limit = BigInt::from(self.quota.limit());
                match self.algorithm {
                    Algorithm::FixedWindow => view.peek_fixed(&limit, &self.window(), cost, now),
                    _ => view.peek_sliding(&limit, &self.window(), cost, now, self.origin),
                }
            }
            State::Log(log) => log.peek(self.quota, cost, now),
        }
    }

    pub fn refund(&mut self, tokens: u64, now: u64) {
        self.renew(now);
        let (origin, window) = (self.origin, self.window());
        match &mut self.state {
            State::Bucket(bucket) => {
                let clock = bucket.clock(origin, now);
                let back = bucket.unit.clone() * tokens;
                let owed = bucket.spent.clone() - &clock;
                let is_line = owed > bucket.held_from(self.algorithm);
                if bucket.spent > clock && !(is_line && bucket.has_lines) {
                    bucket.spent = (bucket.spent.clone() - back).max(clock);
                }
            }
            State::Window(one) => {
                let mut view = one.at(&window, now.max(origin));
                let is_known = view.current < count_max(self.algorithm, &window);
                if !view.current.is_zero() && is_known {
                    view.current = (view.current - tokens).max(BigInt::zero());
                    *one = view;
                }
            }
            State::Log(_) => {}
        }
    }

    pub fn reset(&mut self) {
        match &mut self.state {
            State::Bucket(bucket) => {
                bucket.spent = BigInt::zero();
                bucket.life += 1;
            }
            State::Window(one) => *one = Window::unseen(),
            State::Log(log) => log.stamps.clear(),
        }
    }

    pub fn set_quota(&mut self, quota: Quota, now: u64) {
        let now = now.max(self.origin);
        let old_window = self.window();
        let algorithm = self.algorithm;
        let late = self.is_late(now);
        match &mut self.state {
            State::Bucket(bucket) => {
                let same = Bucket::new(algorithm, quota, bucket.unit.clone());
                let fits = match algorithm {
                    Algorithm::Gcra => {
                        natural_unit(algorithm, quota) == bucket.unit && same.slope == bucket.slope
                    }
                    _ => same.keeps_units(),
                };
                if fits && !late {
                    if same.slope != bucket.slope {
                        bucket.base = bucket.handed_on(self.origin, now);
                        self.origin = now;
                    }
                    (bucket.slope, bucket.room) = (same.slope, same.room);
                } else {
                    let unit = bucket.unit_for(algorithm, quota);
                    *bucket = bucket.translated(algorithm, quota, unit, self.origin, now);
                    self.origin = now;
                }
            }
            State::Window(one) => {
                let window = BigInt::from(quota.period().as_nanos());
                if window != old_window || late {
                    *one = one.settled(algorithm, &old_window, &window, now);
                    self.origin = now;
                }
            }
            State::Log(log) => {
                if quota.period() != self.quota.period() || late {
                    log.expire(self.quota, now);
                }
                if late {
                    self.origin = now;
                }
            }
        }
        self.quota = quota;
    }

    /// Charges a call that waits for its turn, and names its place.
    pub fn line_up(&mut self, cost: u64, max: Duration, now: u64) -> Result<usize, WaitError> {
        self.renew(now);
        let State::Bucket(bucket) = &mut self.state else { panic!("only buckets have lines") };
        bucket.has_lines = true;
        bucket.line_up(self.algorithm, self.origin, (cost, max), now)
    }

    /// The wait for a place's turn.
    pub fn remaining(&mut self, place: usize, now: u64) -> Result<Option<Duration>, WaitError> {
        self.renew(now);
        let State::Bucket(bucket) = &self.state else { panic!("only buckets have lines") };
        let Place { cost, end, .. } = &bucket.places[place];
        let turn = bucket.turn(self.algorithm, end, *cost);
        let clock = bucket.clock(self.origin, now);
        match bucket.wait(self.origin, now, &clock, &turn) {
            Some(0) => Ok(None),
            Some(wait) if &bucket.unit * *cost <= bucket.room => {
                Ok(Some(Duration::from_nanos(wait)))
            }
            _ => Err(bucket.never(*cost)),
        }
    }

    /// A place is left.
    pub fn give_up(&mut self, place: usize, now: u64) {
        if self.remaining(place, now) == Ok(None) {
            return;
        }
        let State::Bucket(bucket) = &mut self.state else { panic!("only buckets have lines") };
        let Place { cost, end, life } = &bucket.places[place];
        let after = end - &bucket.unit * *cost;
        let is_last = *life == bucket.life && bucket.spent == *end;
        if is_last && after >= bucket.clock(self.origin, now) {
            bucket.spent = after;
        }
    }

    fn window(&self) -> BigInt {
        BigInt::from(self.quota.period().as_nanos())
    }

    /// Whether the engine's word has no room left for its clock.
    pub fn is_late(&self, now: u64) -> bool {
        match &self.state {
            State::Bucket(bucket) => bucket.clock(self.origin, now) > BigInt::from(RENEW_AT),
            State::Window(_) => {
                let window = self.window();
                let count_bits = count_bits(self.algorithm, &window);
                let index = BigInt::from(now) / &window - BigInt::from(self.origin) / &window;
                let base = (BASE - 1) / (1 << count_bits) + 2;
                index + base > BigInt::from((((1_u64 << 59) - 1) / 4 * 3) >> count_bits)
            }
            State::Log(log) => {
                let below = log.tick_bits + 1;
                let passed = log.tick(now) - log.tick(self.origin.min(now));
                passed + (1 << (57 - below)) > i128::from((((1_u64 << 59) - 1) / 4 * 3) >> below)
            }
        }
    }

    /// The engine starts its clock over when its word has no room left; every key's at once.
    pub fn renew(&mut self, now: u64) {
        if self.is_late(now) {
            let (window, algorithm) = (self.window(), self.algorithm);
            match &mut self.state {
                State::Bucket(bucket) => {
                    let unit = natural_unit(algorithm, self.quota);
                    *bucket = bucket.translated(algorithm, self.quota, unit, self.origin, now);
                }
                State::Window(one) => *one = one.settled(algorithm, &window, &window, now),
                State::Log(log) => log.expire(self.quota, now),
            }
            self.origin = now;
        }
    }
}

impl Bucket {
    fn new(algorithm: Algorithm, quota: Quota, unit: BigInt) -> Bucket {
        let period = BigInt::from(quota.period().as_nanos());
        let slope = match algorithm {
            _ if quota.limit() == 0 => BigRational::zero(),
            Algorithm::Gcra => BigRational::one(),
            _ => BigRational::new(&unit * quota.limit(), period),
        };
        let room = &unit * quota.burst_size();
        let base = BigRational::from(BigInt::from(BASE));
        Bucket {
            unit,
            slope,
            base,
            room,
            spent: BigInt::zero(),
            places: Vec::new(),
            life: 0,
            has_lines: false,
        }
    }

    fn keeps_units(&self) -> bool {
        let half = BigRational::new(BigInt::one(), BigInt::from(2));
        let steep = BigRational::from(BigInt::from(1 << 20));
        (self.slope.is_zero() || self.slope >= half)
            && self.slope < steep
            && self.room <= BigInt::from(ROOM_MAX)
    }

    /// The slope as the engine has it: rounded up to 2^-128.
    fn slope_rounded(&self) -> BigRational {
        let finest = BigInt::one() << 128;
        let scaled = self.slope.numer() * &finest;
        let rounded = (scaled + self.slope.denom() - 1) / self.slope.denom();
        // Not reduced, as that takes long.
        BigRational::new_raw(rounded, finest)
    }

    /// The slope that the clock goes by. On a line that began within a unit, at 2^-64 parts of it, a
    /// unit may end at the very nanosecond at which what the slope is rounded by makes the difference.
    fn slope_of_clock(&self) -> BigRational {
        if self.base.is_integer() { self.slope.clone() } else { self.slope_rounded() }
    }

    /// The clock as the engine hands it on when the quota changes: 2^-64 of a unit, rounded up, of
    /// what its slope can tell.
    fn handed_on(&self, origin: u64, now: u64) -> BigRational {
        let finest = BigInt::one() << 128;
        let parts = BigRational::from(BigInt::one() << 64);
        let elapsed = BigRational::from(BigInt::from(now.saturating_sub(origin)));
        let clock = &self.base + &elapsed * self.slope_rounded();
        let whole = clock.floor();
        let fraction =
            (clock - &whole - elapsed / BigRational::from(finest)).max(BigRational::zero());
        whole + (fraction * &parts).ceil() / parts
    }

    /// In integers, as fractions take long to be reduced.
    fn clock(&self, origin: u64, now: u64) -> BigInt {
        let (base, slope) = (&self.base, self.slope_of_clock());
        let elapsed = BigInt::from(now.saturating_sub(origin));
        let units = base.numer() * slope.denom() + elapsed * slope.numer() * base.denom();
        units / (base.denom() * slope.denom())
    }

    fn start(&self, origin: u64, now: u64) -> BigInt {
        self.spent.clone().max(self.clock(origin, now))
    }

    /// The wait at `now`, which is `clock`, until the clock comes to `target`.
    fn wait(&self, origin: u64, now: u64, clock: &BigInt, target: &BigInt) -> Option<u64> {
        if target <= clock {
            return Some(0);
        }
        if self.slope.is_zero() {
            return None;
        }
        let (base, slope) = (&self.base, self.slope_of_clock());
        let left = (target * base.denom() - base.numer()) * slope.denom();
        let per_nano = slope.numer() * base.denom();
        nanos(&((left + &per_nano - 1) / per_nano + origin - now))
    }

    fn peek(&self, algorithm: Algorithm, origin: u64, cost: u64, now: u64) -> Answer {
        let clock = self.clock(origin, now);
        let start = self.spent.clone().max(clock.clone());
        let wait = |target: &BigInt| self.wait(origin, now, &clock, target);
        let reset_after = wait(&start);
        let units = &self.unit * cost;
        let end = &start + &units;
        let allowed = cost == 0 || &end - &clock <= self.room;
        Answer {
            allowed,
            remaining: whole(&((&self.room - (&start - &clock)) / &self.unit)),
            retry_after: match allowed {
                true => Some(0),
                false if units > self.room => None,
                false => wait(&(&end - &self.room)),
            },
            reset_after,
            delay: match algorithm {
                Algorithm::LeakyBucket if allowed && cost > 0 => reset_after.unwrap_or(u64::MAX),
                _ => 0,
            },
        }
    }

    /// What may be owed before it is a line.
    fn held_from(&self, algorithm: Algorithm) -> BigInt {
        if algorithm == Algorithm::LeakyBucket { BigInt::zero() } else { self.room.clone() }
    }

    /// The virtual time that is the turn of a charge.
    fn turn(&self, algorithm: Algorithm, end: &BigInt, cost: u64) -> BigInt {
        match algorithm {
            Algorithm::LeakyBucket => end - &self.unit * cost,
            _ => end - &self.room,
        }
    }

    fn never(&self, cost: u64) -> WaitError {
        WaitError::Never { cost, burst: whole(&(&self.room / &self.unit)) }
    }

    fn line_up(
        &mut self,
        algorithm: Algorithm,
        origin: u64,
        (cost, max): (u64, Duration),
        now: u64,
    ) -> Result<usize, WaitError> {
        let clock = self.clock(origin, now);
        let start = self.spent.clone().max(clock.clone());
        let end = &start + &self.unit * cost;
        if &self.unit * cost > self.room {
            return Err(self.never(cost));
        }
        let turn = self.turn(algorithm, &end, cost);
        let wait =
            |target: &BigInt| self.wait(origin, now, &clock, target).map(Duration::from_nanos);
        let fits = &end - &self.room;
        let Some(free_in) = wait(&fits) else { return Err(self.never(cost)) };
        if algorithm == Algorithm::LeakyBucket && !free_in.is_zero() {
            return Err(WaitError::Full { retry_after: Some(free_in) });
        }
        let Some(turn_in) = wait(&turn) else { return Err(self.never(cost)) };
        if turn_in > max || &end - clock > BigInt::from(ROOM_MAX) {
            return Err(WaitError::TooLong { wait: turn_in, max });
        }
        self.spent.clone_from(&end);
        self.places.push(Place { cost, end, life: self.life });
        Ok(self.places.len() - 1)
    }

    /// Units per token for another quota, whose debts have to be translated: a multiple of those
    /// that there are, or as fine as can be.
    fn unit_for(&self, algorithm: Algorithm, quota: Quota) -> BigInt {
        let natural = natural_unit(algorithm, quota);
        if algorithm == Algorithm::Gcra {
            return natural;
        }
        if quota.limit() == 0 {
            return match quota.burst_size() {
                0 => natural,
                burst => self.unit.clone().min(BigInt::from(ROOM_MAX / burst)),
            };
        }
        let (period, limit) =
            (BigInt::from(quota.period().as_nanos()), BigInt::from(quota.limit()));
        let finer = &period / (&limit * &self.unit);
        let unit = if finer.is_zero() {
            let finest = BigInt::from((1 << 20) - 1) * period / limit;
            let burst = BigInt::from(quota.burst_size());
            match burst.is_zero() {
                true => return natural,
                false => finest.min(BigInt::from(ROOM_MAX) / burst),
            }
        } else {
            finer * &self.unit
        };
        let is_countable = unit <= BigInt::from(u64::MAX);
        let fits = is_countable && Bucket::new(algorithm, quota, unit.clone()).keeps_units();
        if fits { unit } else { natural }
    }

    /// The same debt in the units of another quota, from `now` on.
    fn translated(
        &self,
        algorithm: Algorithm,
        quota: Quota,
        unit: BigInt,
        origin: u64,
        now: u64,
    ) -> Bucket {
        let mut next = Bucket::new(algorithm, quota, unit);
        let clock = self.handed_on(origin, now);
        let ratio = BigRational::new(next.unit.clone(), self.unit.clone());
        let zero = BigRational::zero();
        let carry = |time: &BigInt| {
            let owed = (BigRational::from(time.clone()) - clock.floor()).max(zero.clone()) * &ratio;
            BigInt::from(BASE) + owed.ceil().to_integer().min(BigInt::from(ROOM_MAX))
        };
        next.spent = carry(&self.spent);
        let places = self.places.iter();
        next.places = places.map(|place| Place { end: carry(&place.end), ..*place }).collect();
        next.life = self.life + 1;
        next.has_lines = self.has_lines;
        let parts = BigRational::from(BigInt::one() << 64);
        next.base += ((&clock - clock.floor()) * ratio * &parts).ceil() / parts;
        next
    }
}

impl Log {
    /// The tick at whose end `now` counts.
    fn tick(&self, now: u64) -> i128 {
        i128::from(now.div_ceil(1 << self.tick_bits))
    }

    fn expires(&self, quota: Quota, stamp: i128) -> i128 {
        (stamp << self.tick_bits) + quota.period().as_nanos() as i128
    }

    fn counts(&self, quota: Quota, stamp: i128, now: u64) -> bool {
        stamp > self.expired && self.expires(quota, stamp) > i128::from(now)
    }

    /// What has expired by now stays expired.
    fn expire(&mut self, quota: Quota, now: u64) {
        let expired = i128::from(now) - quota.period().as_nanos() as i128;
        self.expired = self.expired.max(expired >> self.tick_bits);
    }

    fn peek(&self, quota: Quota, cost: u64, now: u64) -> Answer {
        let limit = quota.limit();
        let counted =
            self.stamps.iter().filter(|&&stamp| self.counts(quota, stamp, now)).count() as u64;
        let until = |stamp: i128| u64::try_from(self.expires(quota, stamp) - i128::from(now)).ok();
        let possible = cost <= limit && cost <= self.cost_max;
        // The token that this call would push out of the limit.
        let blocker = (cost > 0 && possible)
            .then(|| self.stamps.iter().rev().nth((limit - cost) as usize))
            .flatten()
            .filter(|&&stamp| self.counts(quota, stamp, now));
        let newest = self.stamps.last().filter(|&&stamp| self.counts(quota, stamp, now));
        let allowed = cost == 0 || (possible && blocker.is_none());
        Answer {
            allowed,
            remaining: limit.saturating_sub(counted),
            retry_after: match blocker {
                _ if allowed => Some(0),
                Some(&stamp) => until(stamp),
                None => None,
            },
            reset_after: newest.map_or(Some(0), |&stamp| until(stamp)),
            delay: 0,
        }
    }
}

impl Window {
    fn unseen() -> Window {
        Window { index: BigInt::zero(), previous: BigInt::zero(), current: BigInt::zero() }
    }

    /// As it is seen at `now`: in a newer window the counts move on, in an older one they stay.
    fn at(&self, window: &BigInt, now: u64) -> Window {
        let index = BigInt::from(now) / window;
        if index <= self.index {
            return self.clone();
        }
        let next = index == &self.index + 1;
        let previous = if next { self.current.clone() } else { BigInt::zero() };
        Window { index, previous, current: BigInt::zero() }
    }

    /// Nanoseconds of the window that have passed at `now`.
    fn elapsed(&self, window: &BigInt, now: u64) -> BigInt {
        (BigInt::from(now) - &self.index * window).max(BigInt::zero())
    }

    /// What of the window before is still in sight, rounded up.
    fn in_sight(&self, window: &BigInt, elapsed: &BigInt) -> BigInt {
        (&self.previous * (window - elapsed) + window - 1) / window
    }

    fn peek_fixed(&self, limit: &BigInt, window: &BigInt, cost: u64, now: u64) -> Answer {
        let allowed = cost == 0 || &self.current + cost <= *limit;
        let edge = nanos(&((&self.index + 1) * window - now));
        Answer {
            allowed,
            remaining: whole(&(limit - &self.current)),
            retry_after: match allowed {
                true => Some(0),
                false if BigInt::from(cost) > *limit => None,
                false => edge,
            },
            reset_after: if self.current.is_zero() { Some(0) } else { edge },
            delay: 0,
        }
    }

    fn peek_sliding(
        &self,
        limit: &BigInt,
        window: &BigInt,
        cost: u64,
        now: u64,
        origin: u64,
    ) -> Answer {
        let elapsed = self.elapsed(window, now.max(origin));
        let in_sight = self.in_sight(window, &elapsed);
        let allowed = cost == 0 || in_sight + &self.current + cost <= *limit;
        let start = &self.index * window;
        // The first moment from `from` on at which `count` has faded to `spare`.
        let fades = |from: BigInt, count: &BigInt, spare: BigInt| {
            let kept = if count.is_zero() { window.clone() } else { spare * window / count };
            from + window - kept.min(window.clone())
        };
        let at = if &self.current + cost <= *limit {
            fades(start.clone(), &self.previous, limit - &self.current - cost)
        } else {
            fades(&start + window, &self.current, limit - cost)
        };
        let restored = match (self.previous.is_zero(), self.current.is_zero()) {
            (true, true) => BigInt::from(now),
            (_, true) => &start + window,
            _ => start + window * 2,
        };
        Answer {
            allowed,
            remaining: whole(&(limit - &self.current - self.in_sight(window, &elapsed))),
            retry_after: match allowed {
                true => Some(0),
                false if BigInt::from(cost) > *limit => None,
                false => nanos(&(at - now)),
            },
            reset_after: nanos(&(restored - now)),
            delay: 0,
        }
    }

    /// What counts at `now`, or at the start of the key's window if that is later, as the count of
    /// the window of another length in which that moment lies.
    fn settled(&self, algorithm: Algorithm, old: &BigInt, new: &BigInt, now: u64) -> Window {
        let view = self.at(old, now);
        let moment = BigInt::from(now).max(&view.index * old);
        let elapsed = &moment - &view.index * old;
        let settled = match algorithm {
            Algorithm::FixedWindow => view.current.clone(),
            _ => view.in_sight(old, &elapsed) + &view.current,
        };
        // The engine's fields have an end: a count that fills its own may be any from then on.
        let (full, new_full) = (count_max(algorithm, old), count_max(algorithm, new));
        let has_previous = algorithm != Algorithm::FixedWindow;
        let was_full = view.current >= full || (has_previous && view.previous >= full);
        let (index, previous) = (moment / new, BigInt::zero());
        match algorithm {
            Algorithm::FixedWindow => {
                let current = if was_full { new_full } else { settled.min(new_full) };
                Window { index, previous, current }
            }
            _ if was_full || settled >= new_full => {
                Window { index: index + 1, previous, current: new_full }
            }
            _ => Window { index, previous, current: settled },
        }
    }
}

/// The bits of the engine's counts for windows of a length, in all.
fn count_bits(algorithm: Algorithm, window: &BigInt) -> u64 {
    let windows: BigInt = BigInt::from(TEN_YEARS) / window;
    let index_bits = windows.bits().clamp(3, 58);
    match algorithm {
        Algorithm::FixedWindow => 58 - index_bits,
        _ => (59 - index_bits) / 2 * 2,
    }
}

/// The largest count that the engine can hold.
fn count_max(algorithm: Algorithm, window: &BigInt) -> BigInt {
    let bits = count_bits(algorithm, window);
    let bits = if algorithm == Algorithm::FixedWindow { bits } else { bits / 2 };
    (BigInt::one() << bits) - 1
}

/// Units per token that last a nanosecond each, or up to two.
fn natural_unit(algorithm: Algorithm, quota: Quota) -> BigInt {
    let period = quota.period().as_nanos();
    let limit = u128::from(quota.limit());
    BigInt::from(match algorithm {
        _ if limit == 0 => 1,
        Algorithm::Gcra => period.div_ceil(limit),
        _ => (period / limit).max(1),
    })
}

fn nanos(wait: &BigInt) -> Option<u64> {
    wait.to_u64()
}

fn whole(tokens: &BigInt) -> u64 {
    tokens.to_u64().unwrap_or(0)
}

//! Cases of real bugs with the right answers: what a line of a scenario file means and whether the
//! engine does it. The example `scenarios` runs whole files.

#![allow(clippy::option_option, reason = "a null is told from a field that is not there")]

use std::error::Error;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::time::Duration;

use serde::Deserialize;
use tollgate::{Algorithm, Clock, Decision, JointDecision, KeyedLimiter, Quota, check_all_at};

/// One case: a limiter and the steps that are tried on it.
#[derive(Deserialize)]
pub struct Case {
    pub id: String,
    pub algorithm: String,
    config: Config,
    #[serde(default)]
    tags: Vec<String>,
    steps: Vec<Step>,
}

#[derive(Clone, Deserialize, Default)]
#[serde(default)]
struct Config {
    limit: u64,
    period_ns: u64,
    window_ns: u64,
    burst: Option<u64>,
    /// Of `multi`: all must admit.
    limits: Vec<Limit>,
}

#[derive(Clone, Deserialize)]
struct Limit {
    algorithm: String,
    #[serde(flatten)]
    config: Config,
}

#[derive(Deserialize)]
struct Step {
    t_ns: u64,
    op: String,
    #[serde(default)]
    key: String,
    #[serde(default = "one")]
    cost: u64,
    quota: Option<Config>,
    #[serde(default)]
    expect: Expect,
    /// The other right answer when the clock has gone back: time that is not clamped.
    expect_raw_gcra: Option<Expect>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Expect {
    allowed: Option<bool>,
    remaining: Option<u64>,
    // Absent: not asked. `Some(None)`: never.
    #[serde(deserialize_with = "present")]
    retry_after_ns: Option<Option<u64>>,
    #[serde(deserialize_with = "present")]
    retry_after_header_s: Option<Option<u64>>,
    /// Of `multi`: per limit; when refused, before the call.
    remaining_each: Option<Vec<u64>>,
}

impl Case {
    /// The largest of the limit and of what the steps name.
    fn largest(&self, config: &Config, of: impl Fn(&Step) -> Option<u64>) -> u64 {
        self.steps.iter().filter_map(of).chain([config.limit]).max().unwrap_or(1)
    }

    fn may_be_refused(&self) -> bool {
        self.tags.iter().any(|tag| tag == "may_refuse_config")
    }
}

fn one() -> u64 {
    1
}

/// Tells a `null` from a field that is not there.
fn present<'de, D>(deserializer: D) -> Result<Option<Option<u64>>, D::Error>
where
    D: serde::Deserializer<'de>,
{
    Option::deserialize(deserializer).map(Some)
}

/// Nanoseconds by which an admission may come early where the interval is no whole number of
/// nanoseconds and the busy spell did not start at 0.
const EARLY_MAX: u64 = 2;

/// How a case ended.
pub enum Verdict {
    Passed,
    /// A line for each step that failed.
    Failed(Vec<String>),
    Unsupported,
}

/// The cases of a file.
pub fn read(file: &str) -> Result<Vec<Case>, Box<dyn Error>> {
    let mut cases = Vec::new();
    for (number, line) in BufReader::new(File::open(file)?).lines().enumerate() {
        let line = line?;
        if !line.trim().is_empty() {
            let case = serde_json::from_str(&line);
            cases.push(case.map_err(|error| format!("line {}: {error}", number + 1))?);
        }
    }
    Ok(cases)
}

fn algorithm(name: &str) -> Option<Algorithm> {
    Some(match name {
        "token_bucket" => Algorithm::TokenBucket,
        "fixed_window" => Algorithm::FixedWindow,
        "sliding_log" => Algorithm::SlidingWindowLog,
        "sliding_counter" => Algorithm::SlidingWindowCounter,
        _ => return None,
    })
}

fn quota(config: &Config) -> Quota {
    let quota = Quota::new(config.limit, Duration::from_nanos(config.period_ns + config.window_ns));
    config.burst.map_or(quota, |burst| quota.burst(burst))
}

/// The limiters of a case, most often one, or why there are none.
fn build(case: &Case) -> Result<Vec<KeyedLimiter<str>>, Verdict> {
    let own = (case.algorithm.as_str(), &case.config);
    let limits: Vec<_> = match case.algorithm.as_str() {
        "multi" => case.config.limits.iter().map(|l| (l.algorithm.as_str(), &l.config)).collect(),
        _ => vec![own],
    };
    let mut limiters = Vec::new();
    for (name, config) in limits {
        let algorithm = algorithm(name).ok_or(Verdict::Unsupported)?;
        let largest = case.largest(config, |step| step.quota.as_ref().map(|quota| quota.limit));
        let cost = case.largest(config, |step| (step.op == "check").then_some(step.cost));
        let built = KeyedLimiter::<str>::builder(quota(config))
            .algorithm(algorithm)
            // Rings for the largest limit and cost that the case knows.
            .log_limit(largest)
            .log_cost(cost.min(config.limit))
            .capacity(50)
            .clock(Clock::manual().0)
            .build();
        limiters.push(built.map_err(|error| match case.may_be_refused() {
            true => Verdict::Passed,
            false => Verdict::Failed(vec![format!("not built: {error}")]),
        })?);
    }
    Ok(limiters)
}

/// Runs a case.
pub fn run(case: &Case) -> Verdict {
    let limiters = match build(case) {
        Ok(limiters) => limiters,
        Err(verdict) => return verdict,
    };
    // Where the wait is not a whole number of nanoseconds, see `EARLY_MAX`.
    let fractional =
        |config: &Config| config.period_ns.checked_rem(config.limit).is_some_and(|rest| rest != 0);
    let mut early_max = u64::from(fractional(&case.config)) * EARLY_MAX;
    let any = case.config.limits.iter().any(|limit| fractional(&limit.config));
    early_max = early_max.max(u64::from(any) * EARLY_MAX);
    let mut failures = Vec::new();
    for (number, step) in case.steps.iter().enumerate() {
        early_max =
            early_max.max(step.quota.as_ref().map_or(0, |q| u64::from(fractional(q)) * EARLY_MAX));
        if is_early(&limiters, step, early_max) {
            continue;
        }
        let got = match perform(&limiters, step) {
            Ok(got) => got,
            Err(_) if case.may_be_refused() => return Verdict::Passed,
            Err(error) => {
                failures.push(format!("step {number}: {error}"));
                continue;
            }
        };
        let mut accepted = vec![&step.expect];
        accepted.extend(&step.expect_raw_gcra);
        if !accepted.iter().any(|expect| matches(expect, &got, early_max)) {
            failures.push(format!(
                "step {number} ({} {} at {} ns): expected {}, got {}",
                step.op,
                step.cost,
                step.t_ns,
                describe(&step.expect),
                describe(&got),
            ));
        }
    }
    if failures.is_empty() { Verdict::Passed } else { Verdict::Failed(failures) }
}

/// Whether the step is a check that comes a nanosecond or two before its listed admission, and
/// would be admitted already. That is right too, and the call is not made: the steps that follow
/// count on its token being there.
fn is_early(limiters: &[KeyedLimiter<str>], step: &Step, early_max: u64) -> bool {
    let peek = |limiter: &KeyedLimiter<str>| limiter.peek_at(&step.key, step.cost, step.t_ns);
    step.op == "check"
        && step.expect.allowed == Some(false)
        && matches!(step.expect.retry_after_ns, Some(Some(wait)) if wait <= early_max)
        && limiters.iter().all(|limiter| peek(limiter).is_allowed())
}

/// Does the step and returns what there is to compare.
fn perform(limiters: &[KeyedLimiter<str>], step: &Step) -> Result<Expect, Box<dyn Error>> {
    let (key, now) = (step.key.as_str(), step.t_ns);
    let [limiter] = limiters else { return perform_on_all(limiters, step) };
    match step.op.as_str() {
        "check" => return Ok(observed(&limiter.check_at(key, step.cost, now))),
        "peek" => return Ok(observed(&limiter.peek_at(key, step.cost, now))),
        "refund" => limiter.refund_at(key, step.cost, now),
        "set_quota" => {
            let config = step.quota.as_ref().ok_or("set_quota without a quota")?;
            limiter.set_quota_at(quota(config), now)?;
        }
        other => return Err(format!("unknown operation {other}").into()),
    }
    Ok(observed(&limiter.peek_at(key, 1, now)))
}

fn perform_on_all(limiters: &[KeyedLimiter<str>], step: &Step) -> Result<Expect, Box<dyn Error>> {
    if step.op != "check" {
        return Err(format!("no operation {} of several limits", step.op).into());
    }
    let mut asks: Vec<_> = limiters.iter().map(|one| one.ask(&step.key, step.cost)).collect();
    let joint = check_all_at(&mut asks, step.t_ns);
    let each = asks.iter().map(|ask| ask.decision().remaining()).collect();
    Ok(Expect { remaining_each: Some(each), ..observed_of_all(&joint) })
}

fn observed(decision: &Decision) -> Expect {
    told(decision.is_allowed(), decision.remaining(), decision.retry_after())
}

fn observed_of_all(joint: &JointDecision) -> Expect {
    told(joint.is_allowed(), joint.remaining(), joint.retry_after())
}

fn told(is_allowed: bool, remaining: u64, wait: Option<Duration>) -> Expect {
    let header = wait.map(|wait| wait.as_secs() + u64::from(wait.subsec_nanos() > 0));
    Expect {
        allowed: Some(is_allowed),
        remaining: Some(remaining),
        retry_after_ns: Some(wait.map(|wait| wait.as_nanos() as u64)),
        retry_after_header_s: Some(header),
        remaining_each: None,
    }
}

fn matches(expect: &Expect, got: &Expect, early_max: u64) -> bool {
    let exactly = |want: Option<bool>, is: Option<bool>| want.is_none() || want == is;
    let wait_fits = match (expect.retry_after_ns, got.retry_after_ns) {
        (Some(Some(want)), Some(Some(is))) => is <= want && want - is <= early_max,
        (Some(want), Some(is)) => want == is,
        _ => true,
    };
    let header_fits = expect
        .retry_after_header_s
        .is_none_or(|want| Some(want) == got.retry_after_header_s || (early_max > 0 && wait_fits));
    exactly(expect.allowed, got.allowed)
        && (expect.remaining.is_none() || expect.remaining == got.remaining)
        && (expect.remaining_each.is_none() || expect.remaining_each == got.remaining_each)
        && wait_fits
        && header_fits
}

fn describe(expect: &Expect) -> String {
    let mut parts = Vec::new();
    if let Some(allowed) = expect.allowed {
        parts.push(if allowed { "admitted".to_string() } else { "refused".to_string() });
    }
    if let Some(remaining) = expect.remaining {
        parts.push(format!("{remaining} remaining"));
    }
    match expect.retry_after_ns {
        Some(Some(nanos)) => parts.push(format!("retry after {nanos} ns")),
        Some(None) => parts.push("retry never".to_string()),
        None => {}
    }
    if let Some(each) = &expect.remaining_each {
        parts.push(format!("{each:?} remaining of each"));
    }
    parts.join(", ")
}

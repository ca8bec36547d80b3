//! The builder of a gate, and the errors of a bad one.

use core::fmt;
use core::time::Duration;
use std::sync::Arc;

use bytes::Bytes;
use http::Response;

use crate::tower::answer::{HeaderStyle, RetryAfter};
use crate::tower::gate::{Shared, WithoutKey};
use crate::tower::head::Head;
use crate::tower::hold::Hold;
use crate::tower::layer::GateLayer;
use crate::tower::reply::{Format, Refusal, Replies};
use crate::tower::rule::{Rule, Tests};
use crate::wait::Sleeper;

/// Makes a [`GateLayer`]: see [`GateLayer::builder`].
///
/// ```
/// use tollgate::tower::{GateLayer, HeaderStyle, Rule};
/// use tollgate::{KeyedLimiter, Quota};
///
/// let gate = GateLayer::builder()
///     .rule(Rule::new("default", KeyedLimiter::new(Quota::per_minute(600).burst(50))?)?)
///     .headers(HeaderStyle::Draft10)
///     .tell_admitted()
///     .skip(|head| head.uri.path() == "/health")
///     .build()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a builder does nothing until it is built"]
pub struct GateBuilder {
    rules: Vec<Rule>,
    skips: Vec<Arc<Tests>>,
    without_key: WithoutKey,
    replies: Replies,
    hold: Option<Hold>,
}

impl GateBuilder {
    pub(super) fn new() -> GateBuilder {
        GateBuilder {
            rules: Vec::new(),
            skips: Vec::new(),
            without_key: WithoutKey::default(),
            replies: Replies::default(),
            hold: None,
        }
    }

    /// Adds a rule. A request that several rules count is admitted by all of them, or charged to none.
    ///
    /// ```
    /// # use tollgate::tower::{GateLayer, Rule};
    /// # use tollgate::{KeyedLimiter, Quota};
    /// let rule = Rule::new("default", KeyedLimiter::new(Quota::per_second(10))?)?;
    /// assert!(GateLayer::builder().rule(rule).build().is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn rule(mut self, rule: Rule) -> GateBuilder {
        self.rules.push(rule);
        self
    }

    /// Requests of which this is true pass without being counted, and are told nothing. Preflights of browsers
    /// always do.
    ///
    /// ```
    /// # use tollgate::tower::GateLayer;
    /// let builder = GateLayer::builder().skip(|head| head.uri.path() == "/health");
    /// ```
    pub fn skip(
        mut self,
        skips: impl Fn(&Head<'_>) -> bool + Send + Sync + 'static,
    ) -> GateBuilder {
        self.skips.push(Arc::new(skips));
        self
    }

    /// What to do with a request for which a rule cannot tell whom to count it for.
    ///
    /// ```
    /// # use tollgate::tower::{GateLayer, WithoutKey};
    /// let builder = GateLayer::builder().without_key(WithoutKey::CountTogether);
    /// ```
    pub fn without_key(mut self, without_key: WithoutKey) -> GateBuilder {
        self.without_key = without_key;
        self
    }

    /// The headers that tell of limits, besides `Retry-After`: none unless told otherwise. On refusals; on
    /// other answers with [`tell_admitted`](GateBuilder::tell_admitted).
    ///
    /// ```
    /// # use tollgate::tower::{GateLayer, HeaderStyle};
    /// let builder = GateLayer::builder().headers(HeaderStyle::XEpoch);
    /// ```
    pub fn headers(mut self, style: HeaderStyle) -> GateBuilder {
        self.replies.style = style;
        self
    }

    /// Has admitted requests be told of their limits, too.
    ///
    /// ```
    /// # use tollgate::tower::{GateLayer, HeaderStyle};
    /// let builder = GateLayer::builder().headers(HeaderStyle::Draft10).tell_admitted();
    /// ```
    pub fn tell_admitted(mut self) -> GateBuilder {
        self.replies.tells_admitted = true;
        self
    }

    /// How `Retry-After` tells the wait: in seconds unless told otherwise.
    ///
    /// ```
    /// # use tollgate::tower::{GateLayer, RetryAfter};
    /// let builder = GateLayer::builder().retry_after(RetryAfter::Date);
    /// ```
    pub fn retry_after(mut self, form: RetryAfter) -> GateBuilder {
        self.replies.retry_after = form;
        self
    }

    /// Makes the wait that a refusal tells longer by up to this many per cent, at random: so that those who are
    /// refused together do not all come back together. Never shorter.
    ///
    /// ```
    /// # use tollgate::tower::GateLayer;
    /// let builder = GateLayer::builder().jitter(10);
    /// ```
    pub fn jitter(mut self, per_cent: u8) -> GateBuilder {
        self.replies.jitter = per_cent;
        self
    }

    /// Refuses in plain text instead of problem details.
    ///
    /// ```
    /// # use tollgate::tower::GateLayer;
    /// let builder = GateLayer::builder().plain_text();
    /// ```
    pub fn plain_text(mut self) -> GateBuilder {
        self.replies.format = Format::text();
        self
    }

    /// Refuses by a response of your own. What it leaves out of `Retry-After`, `Cache-Control` and the headers
    /// of the style is added. Not asked for gRPC, which has its own form.
    ///
    /// ```
    /// # use bytes::Bytes;
    /// # use tollgate::tower::GateLayer;
    /// let builder = GateLayer::builder().refuse_with(|refusal, _request| {
    ///     let text = format!("Too many requests. Wait {:?}.", refusal.retry_after());
    ///     let mut response = http::Response::new(Bytes::from(text));
    ///     *response.status_mut() = http::StatusCode::TOO_MANY_REQUESTS;
    ///     response
    /// });
    /// ```
    pub fn refuse_with(
        mut self,
        respond: impl Fn(&Refusal<'_>, &Head<'_>) -> Response<Bytes> + Send + Sync + 'static,
    ) -> GateBuilder {
        self.replies.format = Format::Own(Arc::new(respond));
        self
    }

    /// Has requests that would be refused wait for their turn instead: up to `max` long, and at most so many
    /// at a time; others are refused at once. Where one rule decides, and it is a bucket without settling,
    /// they wait in its line: first come, first served, and nobody comes before them. Under a leaky
    /// bucket every request waits for its departure, so that they leave evenly. Where several rules
    /// decide, a request asks again when its wait is over, and no order is promised.
    ///
    /// A client that hangs up leaves the line.
    ///
    /// ```
    /// # #[cfg(feature = "tokio")] {
    /// use std::time::Duration;
    /// use tollgate::TokioSleeper;
    /// use tollgate::tower::GateLayer;
    ///
    /// let builder = GateLayer::builder().hold(Duration::from_millis(500), 1_000, TokioSleeper);
    /// # }
    /// ```
    pub fn hold<S>(mut self, max: Duration, most_waiting: usize, sleeper: S) -> GateBuilder
    where
        S: Sleeper + Send + Sync + 'static,
        S::Sleep: Send + 'static,
    {
        self.hold = Some(Hold::new(max, most_waiting, sleeper));
        self
    }

    /// Builds the layer.
    ///
    /// # Errors
    ///
    /// * [`GateError::NoRule`] if there is no rule;
    /// * [`GateError::WithoutPermits`] if a rule settles by the answer, and its limiter is built without
    ///   permits;
    /// * [`GateError::SameLimit`] if two rules have the same limit, which `Draft07` cannot tell apart.
    ///
    /// ```
    /// # use tollgate::tower::{GateError, GateLayer};
    /// assert_eq!(GateLayer::builder().build().unwrap_err(), GateError::NoRule);
    /// ```
    pub fn build(self) -> Result<GateLayer, GateError> {
        if self.rules.is_empty() {
            return Err(GateError::NoRule);
        }
        for (at, rule) in self.rules.iter().enumerate() {
            let name = || rule.name.as_str().to_owned();
            if rule.settles() && !rule.has_permits() {
                return Err(GateError::WithoutPermits { rule: name() });
            }
            let limit = rule.limiter.quota().limit();
            let others = &self.rules[..at];
            if self.replies.style == HeaderStyle::Draft07
                && others.iter().any(|other| other.limiter.quota().limit() == limit)
            {
                return Err(GateError::SameLimit { rule: name(), limit });
            }
        }
        Ok(GateLayer::of(self.share()))
    }

    pub(super) fn share(self) -> Shared {
        let GateBuilder { rules, skips, without_key, replies, hold } = self;
        Shared { rules, skips, without_key, replies, hold }
    }
}

impl fmt::Debug for GateBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GateBuilder").field("rules", &self.rules).finish_non_exhaustive()
    }
}

/// Why a gate could not be built.
///
/// ```
/// use tollgate::tower::{GateError, GateLayer};
///
/// let error = GateLayer::builder().build().unwrap_err();
/// assert_eq!(error.to_string(), "gate: it has no rule");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GateError {
    /// It has no rule.
    NoRule,
    /// A rule settles by the answer, and its limiter is built without permits.
    WithoutPermits {
        /// The rule's name.
        rule: String,
    },
    /// Two rules have the same limit, which the headers of `Draft07` cannot tell apart.
    SameLimit {
        /// The name of the second.
        rule: String,
        /// The limit.
        limit: u64,
    },
}

impl fmt::Display for GateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GateError::NoRule => f.write_str("gate: it has no rule"),
            GateError::WithoutPermits { rule } => {
                write!(f, "gate: rule {rule:?} settles, and its limiter is built without permits")
            }
            GateError::SameLimit { rule, limit } => {
                write!(
                    f,
                    "gate: rule {rule:?} has a limit of {limit}, as another; Draft07 forbids it"
                )
            }
        }
    }
}

impl core::error::Error for GateError {}

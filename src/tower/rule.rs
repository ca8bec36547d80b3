//! A rule: which requests a limit counts, by what, and how many tokens each.

use core::fmt;
use std::sync::Arc;

use http::response::Parts as ResponseParts;

use crate::algorithm::Algorithm;
use crate::keyed::KeyedLimiter;
use crate::tower::answer::{PolicyError, PolicyName};
use crate::tower::client::Client;
use crate::tower::head::Head;
use crate::tower::key::Key;

/// Whom a rule counts a request for.
///
/// ```
/// use tollgate::tower::{Key, Pick};
///
/// let user: Option<&str> = None;
/// // A user who is logged in is counted, and others are another rule's.
/// let pick = user.map_or(Pick::Pass, |id| Pick::Count(Key::user(id)));
/// assert_eq!(pick, Pick::Pass);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pick {
    /// It counts for this key.
    Count(Key),
    /// The rule is not for this request.
    Pass,
    /// It should count, but for whom cannot be told. The gate then answers as it is told by
    /// [`without_key`](crate::tower::GateBuilder::without_key).
    Unknown,
}

/// What becomes of a charge once the answer is there.
#[derive(Clone)]
pub(super) enum Settle {
    /// It stays.
    Stays,
    /// It is given back for answers that are no failure; a request that comes to no answer is one.
    CountsFailures,
    /// It is given back for answers that are a failure, and for requests that come to no answer.
    CountsSuccesses,
    /// It becomes this; a request that comes to no answer costs what was charged.
    By(Arc<dyn Fn(&ResponseParts) -> u64 + Send + Sync>),
}

impl Settle {
    /// What a request has cost that was charged so much, by its answer; `None` for no answer.
    pub(super) fn cost(&self, charged: u64, answer: Option<&ResponseParts>) -> u64 {
        let failed = answer.is_none_or(|answer| {
            answer.status.is_client_error() || answer.status.is_server_error()
        });
        match (self, answer) {
            (Settle::CountsFailures, _) if !failed => 0,
            (Settle::CountsSuccesses, _) if failed => 0,
            (Settle::By(cost), Some(answer)) => cost(answer),
            _ => charged,
        }
    }
}

/// How a rule finds whom it counts a request for.
#[derive(Clone)]
enum Picks {
    /// By its client, as most do: apart, as it spares a call that the processor cannot foresee.
    Client(Client),
    By(Arc<dyn Fn(&Head<'_>) -> Pick + Send + Sync>),
}

/// Whether something is so of a request.
pub(super) type Tests = dyn Fn(&Head<'_>) -> bool + Send + Sync;
type Costs = dyn Fn(&Head<'_>) -> u64 + Send + Sync;

/// One limit of a gate: its name, its limiter, and which requests it counts, by what.
///
/// Unless told otherwise it counts every request by the network of its peer, at a cost of 1. The limiter's
/// algorithm, capacity, overflow policy and clock are as it was built; rules that share one limiter share
/// its keys.
///
/// ```
/// use tollgate::tower::{Client, Key, Pick, Rule};
/// use tollgate::{KeyedLimiter, Quota};
///
/// // Whoever has no API key: five a second by address.
/// let client = Client::peer();
/// let anonymous = Rule::new("anonymous", KeyedLimiter::new(Quota::per_second(5))?)?
///     .by(move |head| match head.headers.contains_key("x-api-key") {
///         true => Pick::Pass,
///         false => client.pick(head),
///     });
/// // A log-in: five failures a minute by address.
/// let logins = KeyedLimiter::builder(Quota::per_minute(5)).permits(Default::default()).build()?;
/// let logins = Rule::new("log-in", logins)?
///     .only(|head| head.uri.path() == "/login")
///     .count_failures()
///     .hide_quota();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
#[must_use = "a rule limits nothing until a gate has it"]
pub struct Rule {
    pub(super) name: PolicyName,
    pub(super) limiter: Arc<KeyedLimiter<Key>>,
    picks: Picks,
    only: Option<Arc<Tests>>,
    costs: Option<Arc<Costs>>,
    pub(super) settle: Settle,
    pub(super) is_shadow: bool,
    pub(super) hides_quota: bool,
}

impl Rule {
    /// A rule by this limiter, whose name is seen in headers and problem details.
    ///
    /// # Errors
    ///
    /// [`PolicyError`] if the name is not printable ASCII, or empty.
    ///
    /// ```
    /// # use tollgate::tower::Rule;
    /// # use tollgate::{KeyedLimiter, Quota};
    /// let limiter = || KeyedLimiter::new(Quota::per_second(5));
    /// assert!(Rule::new("default", limiter()?).is_ok());
    /// assert!(Rule::new("größe", limiter()?).is_err());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn new(
        name: &str,
        limiter: impl Into<Arc<KeyedLimiter<Key>>>,
    ) -> Result<Rule, PolicyError> {
        Ok(Rule::named(PolicyName::new(name)?, limiter.into()))
    }

    /// The one rule of a gate that has been told of none.
    pub(super) fn standard(limiter: KeyedLimiter<Key>) -> Rule {
        Rule::named(PolicyName::standard(), limiter.into())
    }

    fn named(name: PolicyName, limiter: Arc<KeyedLimiter<Key>>) -> Rule {
        Rule {
            name,
            limiter,
            picks: Picks::Client(Client::peer()),
            only: None,
            costs: None,
            settle: Settle::Stays,
            is_shadow: false,
            hides_quota: false,
        }
    }

    /// Counts by the network of a client that is found this way.
    ///
    /// ```
    /// # use tollgate::tower::{Client, Rule};
    /// # use tollgate::{KeyedLimiter, Quota};
    /// let rule = Rule::new("default", KeyedLimiter::new(Quota::per_second(5))?)?;
    /// let by_site = rule.by_client(Client::peer().ipv6_prefix(48)?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn by_client(self, client: Client) -> Rule {
        Rule { picks: Picks::Client(client), ..self }
    }

    /// Counts by whatever a function finds in a request. It is called once a request; it should not block.
    ///
    /// ```
    /// # use tollgate::tower::{Key, Pick, Rule};
    /// # use tollgate::{KeyedLimiter, Quota};
    /// /// What the authentication, a layer outside of this, has put into the request.
    /// #[derive(Clone)]
    /// struct User(u64);
    ///
    /// let rule = Rule::new("users", KeyedLimiter::new(Quota::per_second(50))?)?;
    /// let by_user = rule.by(|head| {
    ///     head.extensions.get::<User>().map_or(Pick::Pass, |user| Pick::Count(Key::user(user.0)))
    /// });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn by(self, picks: impl Fn(&Head<'_>) -> Pick + Send + Sync + 'static) -> Rule {
        Rule { picks: Picks::By(Arc::new(picks)), ..self }
    }

    /// Only for requests of which this is true.
    ///
    /// ```
    /// # use tollgate::tower::Rule;
    /// # use tollgate::{KeyedLimiter, Quota};
    /// let rule = Rule::new("search", KeyedLimiter::new(Quota::per_second(5))?)?;
    /// let search = rule.only(|head| head.uri.path().starts_with("/search"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn only(self, is_counted: impl Fn(&Head<'_>) -> bool + Send + Sync + 'static) -> Rule {
        Rule { only: Some(Arc::new(is_counted)), ..self }
    }

    /// The tokens that a request costs: 1 unless told otherwise.
    ///
    /// ```
    /// # use tollgate::tower::Rule;
    /// # use tollgate::{KeyedLimiter, Quota};
    /// let rule = Rule::new("default", KeyedLimiter::new(Quota::per_second(50))?)?;
    /// let by_method = rule.cost(|head| if head.method == http::Method::POST { 10 } else { 1 });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cost(self, costs: impl Fn(&Head<'_>) -> u64 + Send + Sync + 'static) -> Rule {
        Rule { costs: Some(Arc::new(costs)), ..self }
    }

    /// Counts failures alone, such as wrong passwords: a request is charged when it comes, so that no more are
    /// let through at a time than may fail, and given back if its answer is below 400. One whose client
    /// hangs up, or whose service fails without an answer, is a failure.
    ///
    /// The limiter has to be built with [`permits`](crate::KeyedBuilder::permits); [`GateBuilder::build`]
    /// says so if it is not.
    ///
    /// [`GateBuilder::build`]: crate::tower::GateBuilder::build
    ///
    /// ```
    /// # use tollgate::tower::Rule;
    /// # use tollgate::{KeyedLimiter, Permits, Quota};
    /// let limiter = KeyedLimiter::builder(Quota::per_minute(5)).permits(Permits::new()).build()?;
    /// let rule = Rule::new("log-in", limiter)?.count_failures();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn count_failures(self) -> Rule {
        Rule { settle: Settle::CountsFailures, ..self }
    }

    /// Counts successes alone: answers of 400 and above are given back, and so is what comes to no answer. Needs
    /// permits, as [`count_failures`](Rule::count_failures).
    ///
    /// ```
    /// # use tollgate::tower::Rule;
    /// # use tollgate::{KeyedLimiter, Permits, Quota};
    /// let limiter = KeyedLimiter::builder(Quota::per_hour(3)).permits(Permits::new()).build()?;
    /// let rule = Rule::new("sign-up", limiter)?.count_successes();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn count_successes(self) -> Rule {
        Rule { settle: Settle::CountsSuccesses, ..self }
    }

    /// Settles what a request has cost by its answer: less than was charged comes back, more is a debt
    /// ([`Permits::debt`](crate::Permits::debt)), which is also how to punish. Needs permits, as
    /// [`count_failures`](Rule::count_failures). The answer's head is there then, not its body.
    ///
    /// ```
    /// # use tollgate::tower::Rule;
    /// # use tollgate::{KeyedLimiter, Permits, Quota};
    /// let limiter = KeyedLimiter::builder(Quota::per_minute(100_000)).permits(Permits::new());
    /// let rule = Rule::new("tokens", limiter.build()?)?.cost(|_| 4_000).settle(|answer| {
    ///     let taken = answer.headers.get("x-tokens").and_then(|taken| taken.to_str().ok());
    ///     taken.and_then(|taken| taken.parse().ok()).unwrap_or(4_000)
    /// });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn settle(self, cost: impl Fn(&ResponseParts) -> u64 + Send + Sync + 'static) -> Rule {
        Rule { settle: Settle::By(Arc::new(cost)), ..self }
    }

    /// Charges and counts, but refuses nothing and tells nothing: to see what a limit would do. The limiter's
    /// [`stats`](crate::KeyedLimiter::stats) say how often it would have refused.
    ///
    /// ```
    /// # use tollgate::tower::Rule;
    /// # use tollgate::{KeyedLimiter, Quota};
    /// let rule = Rule::new("stricter", KeyedLimiter::new(Quota::per_second(2))?)?.shadow();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn shadow(self) -> Rule {
        Rule { is_shadow: true, ..self }
    }

    /// Says nothing of its quota in headers, but for the wait of a refusal: for log-ins, where it would tell how
    /// many guesses are left.
    ///
    /// ```
    /// # use tollgate::tower::Rule;
    /// # use tollgate::{KeyedLimiter, Quota};
    /// let rule = Rule::new("log-in", KeyedLimiter::new(Quota::per_minute(5))?)?.hide_quota();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn hide_quota(self) -> Rule {
        Rule { hides_quota: true, ..self }
    }

    /// Its limiter's algorithm.
    pub(super) fn algorithm(&self) -> Algorithm {
        self.limiter.table.policy.algorithm()
    }

    /// Whether its limiter is built for permits.
    pub(super) fn has_permits(&self) -> bool {
        self.limiter.table.books.is_some()
    }

    /// Whom it counts a request for.
    pub(super) fn pick(&self, head: &Head<'_>) -> Pick {
        match &self.only {
            Some(only) if !only(head) => Pick::Pass,
            _ => match &self.picks {
                Picks::Client(client) => client.pick(head),
                Picks::By(picks) => picks(head),
            },
        }
    }

    /// What a request costs.
    pub(super) fn cost_of(&self, head: &Head<'_>) -> u64 {
        self.costs.as_ref().map_or(1, |costs| costs(head))
    }

    /// Whether its charges are settled by the answer.
    pub(super) fn settles(&self) -> bool {
        !matches!(self.settle, Settle::Stays)
    }
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Rule { name, limiter, is_shadow, .. } = self;
        f.debug_struct("Rule")
            .field("name", name)
            .field("limiter", limiter)
            .field("is_shadow", is_shadow)
            .finish_non_exhaustive()
    }
}

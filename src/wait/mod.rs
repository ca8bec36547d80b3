//! Waiting: a call that is not refused, but told its turn.
//!
//! A caller who waits charges its key at once, beyond the burst if it must. So its place in the line
//! is in the key's word, like everything else, and there is no queue, no list and no waking of one
//! by another:
//!
//! ```text
//!   time of the key before       what is charged        its turn
//!   ---------------|----------------------------|
//!                  end - cost                  end      the clock comes to end - burst
//! ```
//!
//! * Turns come in the order of the charges. A call that does not wait is refused while anybody
//!   does, as more than the burst is owed; its `retry_after` counts the whole line.
//! * Who would wait longer than it may is refused before it charges, so that nobody who is bound to
//!   leave stands in the line.
//! * Who leaves before its turn takes its charge back if nobody stands behind, by one swap of the word
//!   that the charge left. Otherwise the slot lapses: its time passes, and nobody gets it.
//! * While a line stands nothing else lowers the word: refunds, roll-backs and evictions pass it by.
//! * Who wakes looks again. Timers may be early or late, and quotas change.
//!
//! In a leaky bucket every admitted call stands in the queue, and its turn is its departure.
//!
//! `turn.rs` has the place in a line, `sleep.rs` the loops that sleep, `keyed.rs` and `limiter.rs` the
//! verbs.

mod error;
mod keyed;
mod limiter;
mod options;
mod sleep;
mod sleeper;
mod turn;

pub use error::WaitError;
pub use options::WaitOptions;
#[cfg(feature = "futures-timer")]
pub use sleeper::FuturesTimerSleeper;
pub use sleeper::Sleeper;
#[cfg(feature = "tokio")]
pub use sleeper::TokioSleeper;
pub use turn::Turn;

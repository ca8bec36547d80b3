//! Where checkers take hold of the production code; in production nothing is left of it.
//!
//! * [`Site::at`] names the place of an atomic operation: `docs/orderings.md` has a row for each.
//!   Under `--cfg tollgate_loom` the environment variable `TOLLGATE_MUTANT` weakens the ordering of
//!   one, as in `find/word=Relaxed`.
//! * [`mutant`] names a part of a protocol that the same variable leaves out or does wrongly, also
//!   under `--cfg tollgate_shuttle`. `loom-tests/mutants.txt` lists which model fails then.
//! * [`step`] names a moment at which a thread may be stopped for ever. Under `--cfg tollgate_loom`
//!   or `--cfg tollgate_stops` a test has a thread stop there.

use crate::sync::Ordering;

/// An ordering with a place.
pub(crate) trait Site {
    /// The ordering at the place of this name.
    fn at(self, site: &'static str) -> Ordering;
}

#[cfg(not(tollgate_loom))]
impl Site for Ordering {
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "an atomic's ordering has to be a constant")]
    fn at(self, _site: &'static str) -> Ordering {
        self
    }
}

/// Whether a part of a protocol is to be broken.
#[cfg(not(any(tollgate_loom, tollgate_shuttle)))]
#[inline]
pub(crate) const fn mutant(_name: &'static str) -> bool {
    false
}

/// Names a moment at which a thread may be stopped.
#[cfg(not(any(tollgate_loom, tollgate_stops)))]
#[inline]
pub(crate) const fn step(_name: &'static str) {}

#[cfg(tollgate_loom_statistics)]
pub use crate::stats::end_of_thread;
#[cfg(any(tollgate_loom, tollgate_shuttle))]
pub(crate) use mutants::mutant;
#[cfg(any(tollgate_loom, tollgate_stops))]
pub use stops::on_step;
#[cfg(any(tollgate_loom, tollgate_stops))]
pub(crate) use stops::step;

#[cfg(any(tollgate_loom, tollgate_shuttle))]
mod mutants {
    use std::sync::LazyLock;

    #[cfg(tollgate_loom)]
    use super::{Ordering, Site};

    /// `name`, or `name=Ordering`.
    static CHOSEN: LazyLock<Option<String>> =
        LazyLock::new(|| std::env::var("TOLLGATE_MUTANT").ok().filter(|name| !name.is_empty()));

    pub(crate) fn mutant(name: &'static str) -> bool {
        CHOSEN.as_deref() == Some(name)
    }

    #[cfg(tollgate_loom)]
    impl Site for Ordering {
        fn at(self, site: &'static str) -> Ordering {
            let Some((chosen, weaker)) = CHOSEN.as_deref().and_then(|text| text.split_once('='))
            else {
                return self;
            };
            // No operation's own orderings, so without a reason and a partner: what one is weakened
            // to, and what it must have been.
            match weaker {
                _ if chosen != site => self,
                "Relaxed" => Ordering::Relaxed,
                "Acquire" if self == Ordering::AcqRel => Ordering::Acquire,
                "Release" if self == Ordering::AcqRel => Ordering::Release,
                _ => panic!("{weaker} is not weaker than {self:?}"),
            }
        }
    }
}

#[cfg(any(tollgate_loom, tollgate_stops))]
mod stops {
    use std::cell::RefCell;

    #[cfg(tollgate_loom)]
    use crate::sync::model_thread_local as thread_local;

    type Hook = Box<dyn FnMut(&'static str)>;

    thread_local! {
        static HOOK: RefCell<Option<Hook>> = RefCell::new(None);
    }

    /// Has this thread call `hook` with the name of each step that it comes to. A hook that does
    /// not return, or unwinds, stops the thread there.
    pub fn on_step(hook: impl FnMut(&'static str) + 'static) {
        HOOK.with(|own| *own.borrow_mut() = Some(Box::new(hook)));
    }

    pub(crate) fn step(name: &'static str) {
        // Taken out while it runs, so that it may unwind.
        let Some(mut hook) = HOOK.with(|own| own.borrow_mut().take()) else { return };
        hook(name);
        HOOK.with(|own| *own.borrow_mut() = Some(hook));
    }
}

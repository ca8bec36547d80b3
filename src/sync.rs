//! The only file that names atomics.
//!
//! In production `Atomic<T>` is the typed cell of the `atomic` crate, so that a word can only be
//! exchanged for a word. Under `--cfg tollgate_loom` it is a thin wrapper of the same face over
//! loom's `AtomicU64`, and under `--cfg tollgate_shuttle` over shuttle's: the protocols are checked
//! as they are, not as a copy.

pub(crate) use core::sync::atomic::Ordering::{self, AcqRel, Acquire, Relaxed, Release};

/// Whether this is a build for a checker, with a table that is small enough to be explored.
pub(crate) const IS_MODEL: bool = cfg!(any(tollgate_loom, tollgate_shuttle));

/// What belongs to one thread of a model, and what to all of one execution.
#[cfg(tollgate_loom_statistics)]
pub(crate) use loom::lazy_static as model_static;
#[cfg(tollgate_loom)]
pub(crate) use loom::thread_local as model_thread_local;

/// A counter beside the protocols: statistics. It is never the place where a decision is made, so the
/// models leave it out of their state space.
pub(crate) type Counter = atomic::Atomic<u64>;

/// The nanoseconds of a manual clock; those models that read one have it in their state space.
#[cfg(not(tollgate_loom))]
pub(crate) type Nanos = Counter;
#[cfg(tollgate_loom)]
pub(crate) type Nanos = Atomic<u64>;

/// A count of the statistics; the model of the statistics alone has it in its state space.
#[cfg(not(tollgate_loom_statistics))]
pub(crate) type Tally = Counter;
#[cfg(tollgate_loom_statistics)]
pub(crate) type Tally = Atomic<u64>;

#[cfg(not(any(tollgate_loom, tollgate_shuttle)))]
pub(crate) use production::{Atomic, Mutex, lock, try_lock};

#[cfg(any(tollgate_loom, tollgate_shuttle))]
pub(crate) use model::{Atomic, Mutex, lock, try_lock};

#[cfg(not(any(tollgate_loom, tollgate_shuttle)))]
mod production {
    pub(crate) use atomic::Atomic;
    pub(crate) use std::sync::{Mutex, MutexGuard};
    use std::sync::{PoisonError, TryLockError};

    // Both words of a cell must be swapped in hardware: a lock in their place would break P4.
    const _: () = assert!(Atomic::<u64>::is_lock_free());
    const _: () = assert!(Atomic::<crate::word::Word>::is_lock_free());

    /// Locks, whoever panicked while holding the lock: what it guards is only ever replaced whole.
    pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks if nobody holds the lock.
    pub(crate) fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
        match mutex.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

#[cfg(any(tollgate_loom, tollgate_shuttle))]
mod model {
    use core::marker::PhantomData;

    #[cfg(tollgate_loom)]
    use loom as checker;
    #[cfg(tollgate_shuttle)]
    use shuttle as checker;

    pub(crate) use checker::sync::Mutex;
    use checker::sync::MutexGuard;
    use checker::sync::atomic::AtomicU64;

    use super::Ordering;

    /// What an atomic holds, as the 64 bits that checkers can model.
    pub(crate) trait Bits: Copy {
        fn from_bits(bits: u64) -> Self;
        fn bits(self) -> u64;
    }

    impl Bits for u64 {
        fn from_bits(bits: u64) -> u64 {
            bits
        }
        fn bits(self) -> u64 {
            self
        }
    }

    /// The face of `atomic::Atomic` over a checker's `AtomicU64`.
    #[derive(Debug, Default)]
    pub(crate) struct Atomic<T>(AtomicU64, PhantomData<T>);

    impl<T: Bits> Atomic<T> {
        pub(crate) fn new(value: T) -> Self {
            Atomic(AtomicU64::new(value.bits()), PhantomData)
        }

        pub(crate) fn load(&self, order: Ordering) -> T {
            T::from_bits(self.0.load(order))
        }

        pub(crate) fn store(&self, value: T, order: Ordering) {
            self.0.store(value.bits(), order);
        }

        pub(crate) fn compare_exchange(
            &self,
            current: T,
            new: T,
            success: Ordering,
            failure: Ordering,
        ) -> Result<T, T> {
            self.0
                .compare_exchange(current.bits(), new.bits(), success, failure)
                .map(T::from_bits)
                .map_err(T::from_bits)
        }
    }

    impl Atomic<u64> {
        pub(crate) fn fetch_add(&self, value: u64, order: Ordering) -> u64 {
            self.0.fetch_add(value, order)
        }

        /// Only the manual clock, which loom alone has in its state space.
        #[cfg(tollgate_loom)]
        pub(crate) fn fetch_update(
            &self,
            success: Ordering,
            failure: Ordering,
            update: impl FnMut(u64) -> Option<u64>,
        ) -> Result<u64, u64> {
            self.0.fetch_update(success, failure, update)
        }

        pub(crate) fn fetch_and(&self, value: u64, order: Ordering) -> u64 {
            self.0.fetch_and(value, order)
        }

        pub(crate) fn fetch_max(&self, value: u64, order: Ordering) -> u64 {
            self.0.fetch_max(value, order)
        }
    }

    /// Locks. A model that panics has failed already, so poison is of no interest.
    pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Locks if nobody holds the lock.
    pub(crate) fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
        mutex.try_lock().ok()
    }
}
#[cfg(any(tollgate_loom, tollgate_shuttle))]
pub(crate) use model::Bits;

//! Memory for buckets and rings, and the only `unsafe` code of the crate.
//!
//! A table is one run of zeroed pages: it is asked for at build, with a wish for huge pages, and
//! touched at build, so that no page fault happens inside a decision.

#![allow(unsafe_code)]

use core::ops::Deref;
use core::ptr::NonNull;
use core::slice;

use crate::sync::Atomic;
use crate::table::Bucket;
#[cfg(not(any(tollgate_loom, tollgate_shuttle)))]
use crate::word::Word;

// SAFETY: `Word` is a transparent `u64`: it has no padding and no uninitialised bytes, is `Copy`
// and has no interior mutability.
#[cfg(not(any(tollgate_loom, tollgate_shuttle)))]
unsafe impl bytemuck::NoUninit for Word {}

/// Why the memory for a table could not be had.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BuildMemoryError {
    pub(crate) bytes: u128,
    /// What the system said was there, if it was asked.
    pub(crate) available: Option<u64>,
}

/// What a table is made of: atomics of integers.
///
/// # Safety
///
/// All bytes zero are a valid value, the one that `zeroed` makes, and every field can be changed
/// through a shared reference by any thread.
pub(crate) unsafe trait Zeroed: Send + Sync {
    fn zeroed() -> Self;
}

// SAFETY: a bucket is atomics of 64-bit integers and nothing else.
unsafe impl Zeroed for Bucket {
    fn zeroed() -> Bucket {
        Bucket::new()
    }
}

// SAFETY: an atomic 64-bit integer.
unsafe impl Zeroed for Atomic<u64> {
    fn zeroed() -> Atomic<u64> {
        Atomic::new(0)
    }
}

/// A fixed run of zeroed values.
#[derive(Debug)]
pub(crate) struct Run<T> {
    first: NonNull<T>,
    count: usize,
    /// Keeps the values until they are dropped; never touched meanwhile.
    _owner: Owner<T>,
}

#[derive(Debug)]
#[allow(dead_code)]
enum Owner<T> {
    /// A short run, or one under a checker that knows no pages.
    Heap(Heap<T>),
    #[cfg(not(any(miri, tollgate_loom, tollgate_shuttle)))]
    Pages(memmap2::MmapMut),
}

/// Values on the heap. Not as a box, which wherever it is moved to is the only way to its values:
/// the run's own pointer would no longer be one.
#[derive(Debug)]
struct Heap<T>(NonNull<[T]>);

impl<T> Drop for Heap<T> {
    fn drop(&mut self) {
        // SAFETY: `Run::new` leaked the box; it is freed here and nowhere else, and whoever borrowed
        // from the run is gone.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

// SAFETY: the values are owned by the run, and `T` is `Send`.
unsafe impl<T: Zeroed> Send for Run<T> {}
// SAFETY: `T` is `Sync`, and nothing else is reached through a shared reference.
unsafe impl<T: Zeroed> Sync for Run<T> {}

impl<T: Zeroed> Run<T> {
    /// `count` values. Unless `lazy`, every page is touched.
    pub(crate) fn new(count: usize, lazy: bool) -> Result<Run<T>, BuildMemoryError> {
        let bytes = count as u128 * size_of::<T>() as u128;
        #[cfg(not(any(miri, tollgate_loom, tollgate_shuttle)))]
        if bytes >= pages::FROM {
            let (first, owner) = pages::map(bytes, lazy)?;
            // Aligned to a huge page, and so to any value.
            return Ok(Run { first: first.cast(), count, _owner: Owner::Pages(owner) });
        }
        let _ = lazy;
        let mut values = Vec::new();
        if values.try_reserve_exact(count).is_err() {
            return Err(BuildMemoryError { bytes, available: None });
        }
        values.extend((0..count).map(|_| T::zeroed()));
        let values = NonNull::from(Box::leak(values.into_boxed_slice()));
        Ok(Run { first: values.cast(), count, _owner: Owner::Heap(Heap(values)) })
    }

    /// Bytes of the values.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val::<[T]>(self)
    }

    /// The value that `hash` falls on, its index, and what is left of the hash: a multiply-shift,
    /// so that any number of values is hit evenly. The run is not empty.
    #[inline]
    pub(crate) fn pick(&self, hash: u64) -> (&T, usize, u64) {
        let product = u128::from(hash) * self.count as u128;
        let index = (product >> 64) as usize;
        // SAFETY: the product is below `2^64 * count`, so the index is below `count`.
        (unsafe { self.get_unchecked(index) }, index, product as u64)
    }
}

impl<T: Zeroed> Deref for Run<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY:
        // * `first` points to `count` values, aligned, that the owner holds as long as `self`
        //   lives; moving `self` moves neither heap nor pages;
        // * they are initialised: on the heap as such, or zeroed by the system, which is valid by
        //   `Zeroed`;
        // * nobody holds a mutable reference to them after `new`.
        unsafe { slice::from_raw_parts(self.first.as_ptr(), self.count) }
    }
}

/// Asks the processor to fetch the line at `line`; says nothing about when.
#[inline]
pub(crate) fn prefetch<T>(line: &T) {
    #[cfg(all(target_arch = "x86_64", not(any(miri, tollgate_loom, tollgate_shuttle))))]
    // SAFETY: a prefetch has no effect but on the caches, whatever the address; SSE is part of
    // every x86-64.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(core::ptr::from_ref(line).cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(any(miri, tollgate_loom, tollgate_shuttle)))))]
    let _ = line;
}

#[cfg(not(any(miri, tollgate_loom, tollgate_shuttle)))]
mod pages {
    use core::ptr::NonNull;

    use memmap2::{MmapMut, MmapOptions};

    use super::BuildMemoryError;
    use crate::table::SHARD_BYTES;

    /// From this size on a run has pages of its own.
    pub(super) const FROM: u128 = 1 << 16;

    /// A huge page, and a shard.
    const HUGE: usize = SHARD_BYTES;

    /// Zeroed pages for so many bytes, which start at the edge of a huge page.
    pub(super) fn map(bytes: u128, lazy: bool) -> Result<(NonNull<u8>, MmapMut), BuildMemoryError> {
        // What is touched later may be there later.
        let available = if lazy { None } else { super::system::available() };
        let error = BuildMemoryError { bytes, available };
        if available.is_some_and(|available| bytes > u128::from(available)) {
            return Err(error);
        }
        // Room to start at the edge of a huge page.
        let wanted = usize::try_from(bytes + HUGE as u128).map_err(|_| error)?;
        let mut owner = MmapOptions::new().len(wanted).map_anon().map_err(|_| error)?;
        let start = owner.as_mut_ptr().align_offset(HUGE);
        let length = wanted - HUGE;
        // Only whole huge pages: beyond the table's end none is to become resident. A wish, so a
        // system without them is no error.
        #[cfg(target_os = "linux")]
        let _ = owner.advise_range(memmap2::Advice::HugePage, start, length / HUGE * HUGE);
        let table = &mut owner[start..start + length];
        if !lazy {
            // One store for each small page; a huge page comes with its first.
            table.iter_mut().step_by(4096).for_each(|byte| *byte = 0);
        }
        Ok((NonNull::from(table).cast(), owner))
    }
}

#[cfg(not(any(miri, tollgate_loom, tollgate_shuttle)))]
mod system {
    use std::fs::read_to_string;

    /// Bytes that can be had without swapping or being killed for it, where the system tells: what
    /// the kernel calls available, and what a memory limit of the container leaves.
    pub(super) fn available() -> Option<u64> {
        [of_machine(), of_container()].into_iter().flatten().min()
    }

    fn of_machine() -> Option<u64> {
        let text = read_to_string("/proc/meminfo").ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
        let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        kibibytes.checked_mul(1024)
    }

    fn of_container() -> Option<u64> {
        let read = |name: &str| -> Option<u64> {
            read_to_string(format!("/sys/fs/cgroup/{name}")).ok()?.trim().parse().ok()
        };
        Some(read("memory.max")?.saturating_sub(read("memory.current")?))
    }
}

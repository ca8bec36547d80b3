//! Memory for the buckets, and the only `unsafe` code of the crate.
//!
//! A table is one run of zeroed pages: it is asked for at build, with a wish for huge pages, and
//! touched at build, so that no page fault happens inside a decision.

#![allow(unsafe_code)]

use core::ops::Deref;
use core::ptr::NonNull;
use core::slice;

use crate::table::Bucket;
#[cfg(not(tollgate_loom))]
use crate::word::Word;

// SAFETY: `Word` is a transparent `u64`: it has no padding and no uninitialised bytes, is `Copy`
// and has no interior mutability.
#[cfg(not(tollgate_loom))]
unsafe impl bytemuck::NoUninit for Word {}

/// Why the memory for a table could not be had.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BuildMemoryError {
    pub(crate) bytes: u128,
    /// What the system said was there, if it was asked.
    pub(crate) available: Option<u64>,
}

/// A fixed run of buckets.
#[derive(Debug)]
pub(crate) struct Buckets {
    first: NonNull<Bucket>,
    count: usize,
    /// Keeps the buckets until they are dropped; never touched meanwhile.
    _owner: Owner,
}

#[derive(Debug)]
#[allow(dead_code)]
enum Owner {
    /// A small table, or one under a checker that knows no pages.
    Heap(Box<[Bucket]>),
    #[cfg(not(any(miri, tollgate_loom)))]
    Pages(memmap2::MmapMut),
}

// SAFETY: the buckets are owned by this value and are not tied to a thread.
unsafe impl Send for Buckets {}
// SAFETY: all that is reached through a shared reference is atomics.
unsafe impl Sync for Buckets {}

impl Buckets {
    /// `count` buckets of zeroes. Unless `lazy`, every page is touched.
    pub(crate) fn new(count: usize, lazy: bool) -> Result<Buckets, BuildMemoryError> {
        let bytes = count as u128 * size_of::<Bucket>() as u128;
        #[cfg(not(any(miri, tollgate_loom)))]
        if bytes >= pages::FROM {
            let (first, owner) = pages::map(count, bytes, lazy)?;
            return Ok(Buckets { first, count, _owner: Owner::Pages(owner) });
        }
        let _ = lazy;
        let mut buckets = Vec::new();
        if buckets.try_reserve_exact(count).is_err() {
            return Err(BuildMemoryError { bytes, available: None });
        }
        buckets.extend((0..count).map(|_| Bucket::new()));
        let mut buckets = buckets.into_boxed_slice();
        let first = NonNull::from(&mut *buckets).cast();
        Ok(Buckets { first, count, _owner: Owner::Heap(buckets) })
    }

    /// Bytes of the buckets.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val::<[Bucket]>(self)
    }

    /// The bucket that `hash` falls into, and what is left of the hash: a multiply-shift, so that
    /// any number of buckets is filled evenly.
    #[inline]
    pub(crate) fn pick(&self, hash: u64) -> (&Bucket, u64) {
        let product = u128::from(hash) * self.count as u128;
        let index = (product >> 64) as usize;
        // SAFETY: the product is below `2^64 * count`, so the index is below `count`.
        (unsafe { self.get_unchecked(index) }, product as u64)
    }
}

impl Deref for Buckets {
    type Target = [Bucket];

    #[inline]
    fn deref(&self) -> &[Bucket] {
        // SAFETY:
        // * `first` points to `count` buckets, aligned, that the owner holds as long as `self`
        //   lives; moving `self` moves neither heap nor pages;
        // * they are initialised: boxed as such, or zeroed by the system, and all-zero bytes are a
        //   valid `Bucket`, which is atomics of integers;
        // * nobody holds a mutable reference to them after `new`.
        unsafe { slice::from_raw_parts(self.first.as_ptr(), self.count) }
    }
}

/// Asks the processor to fetch the line at `line`; says nothing about when.
#[inline]
pub(crate) fn prefetch<T>(line: &T) {
    #[cfg(all(target_arch = "x86_64", not(any(miri, tollgate_loom))))]
    // SAFETY: a prefetch has no effect but on the caches, whatever the address; SSE is part of
    // every x86-64.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(core::ptr::from_ref(line).cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(any(miri, tollgate_loom)))))]
    let _ = line;
}

#[cfg(not(any(miri, tollgate_loom)))]
mod pages {
    use core::ptr::NonNull;

    use memmap2::{MmapMut, MmapOptions};

    use super::BuildMemoryError;
    use crate::table::{BUCKETS_PER_SHARD, Bucket};

    /// From this size on a table has pages of its own.
    pub(super) const FROM: u128 = 1 << 16;

    /// A huge page, and a shard.
    const HUGE: usize = BUCKETS_PER_SHARD * size_of::<Bucket>();

    const _: () = assert!(HUGE == 2 << 20);

    /// Zeroed pages for `count` buckets, which start at the edge of a huge page.
    pub(super) fn map(
        count: usize,
        bytes: u128,
        lazy: bool,
    ) -> Result<(NonNull<Bucket>, MmapMut), BuildMemoryError> {
        let available = super::system::available();
        let error = BuildMemoryError { bytes, available };
        if available.is_some_and(|available| bytes > u128::from(available)) {
            return Err(error);
        }
        // Room to start at the edge of a huge page.
        let wanted = usize::try_from(bytes + HUGE as u128).map_err(|_| error)?;
        let mut owner = MmapOptions::new().len(wanted).map_anon().map_err(|_| error)?;
        let start = owner.as_mut_ptr().align_offset(HUGE);
        let length = count * size_of::<Bucket>();
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

#[cfg(not(any(miri, tollgate_loom)))]
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

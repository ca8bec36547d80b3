//! The look around a bucket before an insert: is the key there, and which cell could be taken?

use crate::cell;
use crate::probe::Site;
use crate::sync::{Acquire, Atomic, Relaxed};
use crate::table::bucket::{Cell, Control};
use crate::table::{Place, Table};
use crate::terms::{Reading, Terms};
use crate::word::Word;

/// A cell that can be taken.
#[derive(Clone, Copy)]
pub(super) struct Victim<'a> {
    pub(super) index: usize,
    pub(super) cell: &'a Cell,
    pub(super) word: Word,
}

/// What a scan of a bucket without the key has found.
#[derive(Default)]
pub(super) struct Scan<'a> {
    /// The first free cell from the home line on.
    pub(super) free: Option<Victim<'a>>,
    /// The first idle cell from the home line on. Second choice: taking it raises the floor.
    pub(super) idle: Option<Victim<'a>>,
    /// The live cell with the smallest time: the key with the least to lose.
    pub(super) nearest: Option<Victim<'a>>,
    /// Whether another insert is under way.
    pub(super) transient: bool,
}

impl Table {
    /// Looks for the key wherever it may be, and for a cell to take; `None` if the key is there.
    ///
    /// A cell that was not valid when the control word was read held no key then; if it has got one
    /// since, the commit fails. And while a cell of the home line is as the table was built, no
    /// insert can have gone past it, so that the key is in its home line or nowhere: while a table
    /// fills, an insert touches two lines of the bucket's eight.
    #[inline]
    pub(super) fn scan<'a>(
        &self,
        place: &Place<'a>,
        control: Control,
        terms: &Terms,
        reading: &Reading,
    ) -> Option<Scan<'a>> {
        let mut scan = Scan::default();
        if !scan.look_at_home(place, control)? {
            scan.look_elsewhere(place, control)?;
        }
        if scan.free.is_none() {
            self.scan_for_victims(place, control, (terms, reading), &mut scan)?;
        }
        Some(scan)
    }

    /// Looks at every cell that holds a key for one that could be taken from it; `None` if the key is
    /// there, or an epoch has begun after the terms were loaded.
    fn scan_for_victims<'a>(
        &self,
        place: &Place<'a>,
        control: Control,
        (terms, reading): (&Terms, &Reading),
        scan: &mut Scan<'a>,
    ) -> Option<()> {
        for (index, cell) in place.bucket.cells_of(control.valid(), place.first()) {
            // Acquire: as in `find`.
            let load = || cell.word.load(Acquire.at("scan/word"));
            let mut word = load();
            if word.is_live() && word.epoch() != terms.epoch() {
                cell::translate(&cell.word, &self.policy);
                word = load();
            }
            let victim = Victim { index, cell, word };
            if !word.is_live() {
                // Being taken from its key, or committed and not yet charged.
                scan.transient = true;
            // A cell that has become the key's own since its tag was looked at. Relaxed: the word brings
            // the tag of its life along; by a tag of a later life the swap of the word fails.
            } else if cell.tag.load(Relaxed.at("scan/victim")) == place.tag
                || word.epoch() != terms.epoch()
            {
                return None;
            } else if terms.is_idle(word.time(), reading) {
                scan.idle = Some(victim);
                break;
            } else if scan.nearest.is_none_or(|nearest| word.time() < nearest.word.time()) {
                scan.nearest = Some(victim);
            }
        }
        Some(())
    }
}

impl<'a> Scan<'a> {
    /// Looks for the key and for a free cell in the home line, and returns whether one of its cells
    /// has never been taken; `None` if the key is there.
    #[inline]
    pub(super) fn look_at_home(&mut self, place: &Place<'a>, control: Control) -> Option<bool> {
        let hits = place.hits(place.tag, load_tag);
        let home = place.home_bits();
        let hits = u64::from(hits) << place.first() & home & control.valid();
        if hits != 0 && place.bucket.cells_of(hits, 0).any(|(at, cell)| may_hold(place, at, cell)) {
            return None;
        }
        Some(self.look_for_free(place, control.vacant() & home))
    }

    /// The same among the other cells.
    fn look_elsewhere(&mut self, place: &Place<'a>, control: Control) -> Option<()> {
        let bits = !place.home_bits();
        for (index, cell) in place.bucket.cells_of(control.valid() & bits, place.first()) {
            if load_tag(&cell.tag) == place.tag && may_hold(place, index, cell) {
                return None;
            }
        }
        self.look_for_free(place, control.vacant() & bits);
        Some(())
    }

    /// Looks for a free cell among those whose bits are set, and returns whether one of them has never
    /// been taken.
    #[inline]
    fn look_for_free(&mut self, place: &Place<'a>, bits: u64) -> bool {
        for (index, cell) in place.bucket.cells_of(bits, place.first()) {
            // Acquire: who gives a cell up has written its tag before. Pairs with the Release of
            // the free word.
            let word = cell.word.load(Acquire.at("scan/free"));
            if !word.is_free() {
                self.transient = true;
                continue;
            }
            self.free = self.free.or(Some(Victim { index, cell, word }));
            // Relaxed: whoever takes a cell gives it a generation before it writes the tag, so that
            // both are as built only in a cell that has not been taken up to now. (A tag is 0 by
            // chance once in 2^64 keys.)
            if word == Word::zero() && cell.tag.load(Relaxed.at("scan/new")) == 0 {
                return true;
            }
        }
        false
    }
}

fn load_tag(tag: &Atomic<u64>) -> u64 {
    // Acquire: a tag of a later life hides the key that was here before, and must bring the floor by
    // which that key was forgotten. Pairs with the Release of the tag.
    tag.load(Acquire.at("scan/tag"))
}

/// Whether a cell with the key's tag may hold the key. Who is told so looks properly; who is told so
/// wrongly, because the cell is changing hands, as well.
#[cold]
fn may_hold(place: &Place<'_>, index: usize, cell: &Cell) -> bool {
    // Acquire: a busy word tells that the key is being taken from the cell. Until its valid bit is
    // cleared nothing else does, and the floor by which the key is forgotten must be seen. Pairs with
    // the Release of the swap that took the cell.
    let word = cell.word.load(Acquire.at("scan/key_word"));
    word.is_live() || (word.may_hold_key() && place.bucket.is_committed(index))
}

//! The meaning of uses of a page at the inactive tail (rules/page-decisions#reference-check).
//!
//! A young bit shows that a page was used since the bit was cleared, not how often. So one user is
//! not enough: the page is rotated once with REFERENCED set, and only a second use activates it.
//! Several users at once, or program text, are enough, because all these programs would wait for
//! the page.
//!
//! | mappings used | REFERENCED | file page | other |
//! |---|---|---|---|
//! | none | no | reclaimed | reclaimed |
//! | none | yes | reclaimed if it is clean | reclaimed |
//! | one | no | rotated; text: active | rotated |
//! | one | yes | active | active |
//! | more | | active | active |
//! | any, and noted (policy `handed-over`) | | active | active |
//!
//! The first use counts for little because every page has had one: its fault set the young bit.
//! Otherwise a mapped file that is read once would fill the active list, and push out pages that
//! are used repeatedly.
//!
//! REFERENCED without a young mapping counts only for file pages: `read()` sets it, and leaves no
//! young bit. An mlocked VMA makes any page active, and putback moves it to the unevictable list
//! from there.
//!
//! From: [`super`], through `reclaim::folios`.

use super::super::{Busy, Decision, Marks, References, Rules, Uses};
use crate::config::AnonStart;
use crate::vm::VmaFlags;

/// The rules for inactive pages. Busy pages go to the active list, which exists here.
pub(super) const fn rules(anon_new: AnonStart) -> Rules<impl Fn(&Uses) -> Decision + Copy> {
    let decide = move |uses: &Uses| {
        let decision = decide(uses);
        match anon_new {
            AnonStart::Inactive => decision,
            AnonStart::Active => up_to_5_8(uses, decision),
        }
    };
    Rules { uses: Some(decide), busy: Busy::Activate, marks: Marks::TakenOff }
}

/// The table above. The second value sets the mark that the walk took off.
pub(in crate::reclaim::algorithm) fn decide(uses: &Uses) -> Decision {
    if uses.flags.contains(VmaFlags::LOCKED) {
        return (References::Activate, false);
    }
    // The unmapping task left the activation to this pass.
    if uses.was_noted {
        return (References::Activate, false);
    }
    // Somebody changes the mappings just now. It costs a round; to wait would cost the others
    // theirs.
    let Some(users) = uses.users else { return (References::Keep, false) };
    if users == 0 {
        // A file page that read() touched, once: worth keeping over a write, not more.
        let clean_only = uses.was_referenced && uses.is_file;
        return (if clean_only { References::ReclaimClean } else { References::Reclaim }, false);
    }
    let is_exec = uses.flags.contains(VmaFlags::EXEC) && uses.is_file;
    if uses.was_referenced || users > 1 || is_exec {
        (References::Activate, true)
    } else {
        (References::Keep, true)
    }
}

/// Anonymous pages started active then, and one use takes them back there.
const fn up_to_5_8(uses: &Uses, decision: Decision) -> Decision {
    match decision {
        (References::Keep, true) if !uses.is_file => (References::Activate, true),
        decision => decision,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_uses_mean() {
        use References::*;
        let (none, exec) = (VmaFlags::empty(), VmaFlags::EXEC);
        let table = [
            (Some(1), false, none, true, Keep, true),
            (Some(1), true, none, false, Activate, true),
            (Some(2), false, none, false, Activate, true),
            (Some(1), false, exec, true, Activate, true),
            (Some(1), false, exec, false, Keep, true),
            (Some(0), true, none, true, ReclaimClean, false),
            (Some(0), true, none, false, Reclaim, false),
            (None, true, none, true, Keep, false),
        ];
        for (users, was_referenced, flags, is_file, verdict, set_again) in table {
            let uses = Uses {
                users,
                flags,
                was_referenced,
                was_noted: false,
                was_workingset: false,
                is_file,
            };
            assert_eq!(decide(&uses), (verdict, set_again), "{uses:?}");
            let noted = Uses { was_noted: true, ..uses };
            assert_eq!(decide(&noted), (Activate, false), "{noted:?}");
        }
        let once = Uses {
            users: Some(1),
            flags: none,
            was_referenced: false,
            was_noted: false,
            was_workingset: false,
            is_file: false,
        };
        let locked = Uses { users: Some(0), flags: VmaFlags::LOCKED, is_file: true, ..once };
        assert_eq!(decide(&locked), (Activate, false));
        let before = |uses: Uses| up_to_5_8(&uses, decide(&uses));
        assert_eq!(before(once), (Activate, true));
        assert_eq!(before(Uses { is_file: true, ..once }), (Keep, true));
        assert_eq!(before(Uses { users: None, ..once }), (Keep, false));
    }
}

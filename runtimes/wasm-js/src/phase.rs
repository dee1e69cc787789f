//! Before the snapshot or after it, and what code that runs before asks of its surroundings.
//!
//! A snapshot is shared by all later instances. Code at the top of a file that reads the environment, the clock or
//! random bytes would give every instance the same answer, that of the build. Such code is noticed here (clocks and random
//! bytes by the builder too, which sees the calls), and the builder then has it run at the start of each instance.

use std::cell::{Cell, RefCell};

/// More reasons than a person reads.
const MAX_IMPURE: usize = 8;

thread_local! {
    static SERVING: Cell<bool> = const { Cell::new(false) };
    static IMPURE: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Whether this is an instance that serves, not the builder's.
pub(crate) fn serving() -> bool {
    SERVING.get()
}

pub(crate) fn serve() {
    SERVING.set(true);
}

/// Notes that code asked for `what`; `place` says where it is.
pub(crate) fn impure(what: &str, place: impl FnOnce() -> Option<String>) {
    if serving() {
        return;
    }
    IMPURE.with_borrow_mut(|list| {
        if list.len() < MAX_IMPURE {
            list.push(match place() {
                Some(place) => format!("{what} ({place})"),
                None => what.to_owned(),
            });
        }
    });
}

pub(crate) fn take_impure() -> Vec<String> {
    IMPURE.take()
}

pub(crate) fn is_impure() -> bool {
    IMPURE.with_borrow(|list| !list.is_empty())
}

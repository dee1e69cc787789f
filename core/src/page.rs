//! Lists come in pages: `?limit` and `?cursor` in, `{items, next}` out.

use serde::{Deserialize, Serialize};

/// The most items of one page.
pub const MAX_LIMIT: u32 = 500;
/// Items of a page when nothing is said.
pub const DEFAULT_LIMIT: u32 = 100;

/// Which page is wanted.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PageRequest {
    /// At most so many items, 1 to [`MAX_LIMIT`].
    pub limit: u32,
    /// `next` of the page before; opaque to clients.
    pub cursor: Option<String>,
}

impl Default for PageRequest {
    fn default() -> Self {
        Self { limit: DEFAULT_LIMIT, cursor: None }
    }
}

/// A page of a list.
#[derive(Debug, Clone, Serialize, Deserialize, utoipa::ToSchema)]
pub struct Page<T> {
    /// The items, in the list's order.
    pub items: Vec<T>,
    /// The cursor of the next page; none at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

impl<T> Page<T> {
    /// The same page with other items.
    pub fn map<U>(self, each: impl FnMut(T) -> U) -> Page<U> {
        Page { items: self.items.into_iter().map(each).collect(), next: self.next }
    }
}

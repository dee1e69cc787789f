//! Tokens (JWT): who a caller is and what it may do.

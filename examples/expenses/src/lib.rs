//! Totals an expense sheet in one currency.
//!
//! A sheet is CSV: `date,description,amount,currency,category`. Each amount is changed at the European Central Bank's
//! reference rate of its day, which the function fetches; the answer has the total, and totals by category and by month.
//! [`sheet`], [`rates`] and [`report`] are pure; [`guest`] talks HTTP on both sides, through the library `sless`.

pub mod guest;
pub mod rates;
pub mod report;
pub mod sheet;

//! Adds a sheet up. Every expense is rounded to cents on its own, as a bookkeeper does, so the parts add up to the total.

use std::collections::BTreeMap;

use rust_decimal::{Decimal, RoundingStrategy};
use serde::Serialize;

use crate::rates::Rates;
use crate::sheet::{Currency, Expense};

/// Expenses that the report shows one by one.
const LARGEST: usize = 5;

/// What the function answers with. Amounts are decimal text, since JSON's numbers are not exact everywhere.
#[derive(Debug, Serialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The currency of every amount here.
    pub currency: Currency,
    /// All of them.
    pub total: Decimal,
    /// How many there are.
    pub count: usize,
    /// By category, the largest first.
    pub by_category: Vec<Group>,
    /// By month (`2026-03`), in order.
    pub by_month: Vec<Group>,
    /// The largest expenses.
    pub largest: Vec<Item>,
}

/// A total of some of them.
#[derive(Debug, Serialize, PartialEq, Eq)]
pub struct Group {
    /// Of which.
    pub name: String,
    /// Their sum.
    pub total: Decimal,
    /// How many there are.
    pub count: usize,
}

/// An expense in the report's currency.
#[derive(Debug, Serialize, PartialEq, Eq)]
pub struct Item {
    /// Its line in the sheet.
    pub line: u64,
    /// What for.
    pub description: String,
    /// In the report's currency.
    pub amount: Decimal,
}

/// Whether any expense has to be changed, so that rates are needed.
pub fn needs_rates(expenses: &[Expense], currency: Currency) -> bool {
    expenses.iter().any(|expense| expense.currency != currency)
}

/// Makes the report. The error names the line that can't be changed.
pub fn report(expenses: &[Expense], currency: Currency, rates: &Rates) -> Result<Report, String> {
    let mut total = Decimal::ZERO;
    let (mut categories, mut months) = (BTreeMap::new(), BTreeMap::new());
    let mut items = Vec::with_capacity(expenses.len());
    for expense in expenses {
        let at_line = |error| format!("line {}: {error}", expense.line);
        let amount = rates.change(expense.amount, expense.currency, currency, expense.date).map_err(at_line)?;
        let mut amount = amount.round_dp_with_strategy(2, RoundingStrategy::MidpointNearestEven);
        amount.rescale(2);
        let too_large = || at_line("the sum is too large".to_owned());
        total = total.checked_add(amount).ok_or_else(too_large)?;
        add(&mut categories, expense.category.clone(), amount);
        add(&mut months, expense.date.strftime("%Y-%m").to_string(), amount);
        items.push(Item { line: expense.line, description: expense.description.clone(), amount });
    }
    let by_month = groups(months);
    let mut by_category = groups(categories);
    by_category.sort_by_key(|group| std::cmp::Reverse(group.total));
    items.sort_by_key(|item| (std::cmp::Reverse(item.amount), item.line));
    items.truncate(LARGEST);
    Ok(Report { currency, total, count: expenses.len(), by_category, by_month, largest: items })
}

/// A part is never larger than the sum of all amounts' sizes; where that is too large, the total's check has failed or
/// saturation here only shortens a group that cancels out.
fn add(groups: &mut BTreeMap<String, (Decimal, usize)>, name: String, amount: Decimal) {
    let group = groups.entry(name).or_default();
    group.0 = group.0.saturating_add(amount);
    group.1 += 1;
}

fn groups(sums: BTreeMap<String, (Decimal, usize)>) -> Vec<Group> {
    sums.into_iter().map(|(name, (total, count))| Group { name, total, count }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sheet;

    const SHEET: &[u8] = include_bytes!("../tests/trip.csv");

    #[test]
    fn a_trip_adds_up() {
        let rates = Rates::parse(include_str!("../tests/rates.xml")).unwrap();
        let expenses = sheet::parse(SHEET).unwrap();
        let report = report(&expenses, Currency::EUR, &rates).unwrap();
        // 100.00 + 20.00 + 9.38 (1500 JPY at 160) + 40.00 (50 USD at 1.25) - 10.00
        assert_eq!(report.total.to_string(), "159.38");
        let parts: Vec<_> =
            report.by_category.iter().map(|g| (g.name.as_str(), g.total.to_string(), g.count)).collect();
        assert_eq!(
            parts,
            [("hotel", "90.00".to_owned(), 2), ("travel", "60.00".to_owned(), 2), ("food", "9.38".to_owned(), 1)]
        );
        assert_eq!(report.by_month.iter().map(|g| g.total).sum::<Decimal>(), report.total);
        assert_eq!(report.largest[0].description, "two nights, breakfast");
    }

    #[test]
    fn an_expense_without_a_rate_is_named() {
        let expenses = sheet::parse(b"date,description,amount,currency,category\n2026-03-06,x,1,CHF,a\n").unwrap();
        let rates = Rates::parse(include_str!("../tests/rates.xml")).unwrap();
        assert_eq!(
            report(&expenses, Currency::EUR, &rates).unwrap_err(),
            "line 2: the bank has no rate for CHF on 2026-03-06"
        );
    }

    #[test]
    fn amounts_that_overflow_are_refused() {
        let big = "79228162514264337593543950335";
        let rows =
            format!("date,description,amount,currency,category\n2026-03-06,x,{big},EUR,a\n2026-03-06,x,{big},EUR,a\n");
        let expenses = sheet::parse(rows.as_bytes()).unwrap();
        assert_eq!(report(&expenses, Currency::EUR, &Rates::none()).unwrap_err(), "line 3: the sum is too large");
    }

    #[test]
    fn a_sheet_in_one_currency_needs_no_rates() {
        let expenses = sheet::parse(b"date,description,amount,currency,category\n2026-03-06,x,1,USD,a\n").unwrap();
        assert!(!needs_rates(&expenses, "USD".parse().unwrap()));
        assert!(needs_rates(&expenses, Currency::EUR));
        assert_eq!(report(&expenses, "USD".parse().unwrap(), &Rates::none()).unwrap().total.to_string(), "1.00");
    }
}

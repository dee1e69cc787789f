//! The European Central Bank's reference rates (`eurofxref-hist-90d.xml`): how many units of a currency one euro buys, day by day.
//!
//! Rates are set on business days; a day without one has the rate of the last business day before it.

use std::collections::{BTreeMap, HashMap};

use jiff::civil::Date;
use quick_xml::Reader;
use quick_xml::events::Event;
use rust_decimal::Decimal;

use crate::sheet::Currency;

/// How old a rate may be: the longest run of holidays that the bank has (Easter, the end of the year) is shorter.
pub const MAX_AGE_DAYS: i32 = 7;

/// Rates by day.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rates(BTreeMap<Date, HashMap<Currency, Decimal>>);

impl Rates {
    /// Rates for sheets that are all in euro.
    pub fn none() -> Self {
        Self::default()
    }

    /// Reads the bank's document: `<Cube time="…"><Cube currency="…" rate="…"/>…</Cube>`.
    pub fn parse(xml: &str) -> Result<Self, String> {
        let mut days = BTreeMap::<Date, HashMap<Currency, Decimal>>::new();
        let mut day = None;
        let mut reader = Reader::from_str(xml);
        loop {
            let event = reader.read_event().map_err(|error| format!("not XML: {error}"))?;
            let (Event::Start(cube) | Event::Empty(cube)) = &event else {
                if matches!(event, Event::Eof) {
                    break;
                }
                continue;
            };
            if cube.local_name().as_ref() != "Cube" {
                continue;
            }
            let attribute = |name: &str| -> Result<Option<String>, String> {
                let found = cube.try_get_attribute(name).map_err(|error| format!("not XML: {error}"))?;
                Ok(found.map(|found| found.value.into_owned()))
            };
            if let Some(time) = attribute("time")? {
                day = Some(time.parse::<Date>().map_err(|_| format!("`{time}` is not a date"))?);
            } else if let (Some(currency), Some(rate)) = (attribute("currency")?, attribute("rate")?) {
                let day = day.ok_or("a rate comes before its day")?;
                let value = Decimal::from_str_exact(&rate).ok().filter(|rate| *rate > Decimal::ZERO);
                let value = value.ok_or_else(|| format!("`{rate}` is not a rate"))?;
                days.entry(day).or_default().insert(currency.parse()?, value);
            }
        }
        if days.is_empty() { Err("there are no rates in it".to_owned()) } else { Ok(Self(days)) }
    }

    /// The first and the last day with rates.
    pub fn span(&self) -> Option<(Date, Date)> {
        Some((*self.0.first_key_value()?.0, *self.0.last_key_value()?.0))
    }

    /// Changes an amount, unrounded.
    pub fn change(&self, amount: Decimal, from: Currency, to: Currency, date: Date) -> Result<Decimal, String> {
        if from == to {
            return Ok(amount);
        }
        let overflow = || format!("{amount} {from} is too large to change");
        let euros = amount.checked_div(self.per_euro(from, date)?).ok_or_else(overflow)?;
        euros.checked_mul(self.per_euro(to, date)?).ok_or_else(overflow)
    }

    fn per_euro(&self, currency: Currency, date: Date) -> Result<Decimal, String> {
        if currency == Currency::EUR {
            return Ok(Decimal::ONE);
        }
        let latest = self.0.range(..=date).next_back();
        let fresh = latest.filter(|(day, _)| (date - **day).get_days() <= MAX_AGE_DAYS);
        let (_, day) = fresh.ok_or_else(|| match self.span() {
            Some((first, last)) => format!("there is no rate for {date}; the bank's list has {first} to {last}"),
            None => format!("there is no rate for {date}"),
        })?;
        day.get(&currency).copied().ok_or_else(|| format!("the bank has no rate for {currency} on {date}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rates() -> Rates {
        Rates::parse(include_str!("../tests/rates.xml")).unwrap()
    }
    fn change(amount: &str, from: &str, to: &str, date: &str) -> Result<String, String> {
        let amount = Decimal::from_str_exact(amount).unwrap();
        let changed = rates().change(amount, from.parse().unwrap(), to.parse().unwrap(), date.parse().unwrap());
        changed.map(|amount| amount.round_dp(4).normalize().to_string())
    }

    #[test]
    fn the_rate_is_of_the_day_or_of_the_last_business_day_before() {
        assert_eq!(change("110", "USD", "EUR", "2026-03-06").unwrap(), "100");
        // Saturday and Sunday have Friday's.
        assert_eq!(change("110", "USD", "EUR", "2026-03-08").unwrap(), "100");
        assert_eq!(change("125", "USD", "EUR", "2026-03-09").unwrap(), "100");
        assert_eq!(change("1", "EUR", "USD", "2026-03-09").unwrap(), "1.25");
    }

    #[test]
    fn two_foreign_currencies_cross_over_the_euro() {
        assert_eq!(change("160", "JPY", "USD", "2026-03-06").unwrap(), "1.1");
    }

    #[test]
    fn a_day_or_currency_without_a_rate_is_named() {
        let early = change("1", "USD", "EUR", "2026-03-01").unwrap_err();
        assert_eq!(early, "there is no rate for 2026-03-01; the bank's list has 2026-03-06 to 2026-03-09");
        assert!(change("1", "USD", "EUR", "2026-03-17").is_err(), "eight days after the last rate");
        assert!(change("1", "XXX", "EUR", "2026-03-06").unwrap_err().contains("no rate for XXX"));
        // The same currency needs none.
        assert_eq!(change("1", "XXX", "XXX", "1999-01-01").unwrap(), "1");
    }

    #[test]
    fn what_is_not_the_banks_document_is_refused() {
        for (xml, named) in [
            ("<html><body>Service unavailable</body></html>", "no rates"),
            ("", "no rates"),
            ("<Cube currency='USD' rate='1'/>", "before its day"),
            ("<Cube time='2026-03-06'><Cube currency='USD' rate='0'/></Cube>", "`0` is not a rate"),
            ("<Cube time='today'/>", "`today` is not a date"),
            ("<Cube time='2026-03-06'></Cub>", "not XML"),
        ] {
            assert!(Rates::parse(xml).unwrap_err().contains(named), "{xml}: {:?}", Rates::parse(xml));
        }
    }
}

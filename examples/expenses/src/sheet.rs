//! Reads an expense sheet. Every refusal names the line and what would be right.

use jiff::civil::Date;
use rust_decimal::Decimal;
use serde::Deserialize;

/// The most lines of a sheet: a year of a busy traveller, and far from the function's memory limit.
pub const MAX_ROWS: usize = 10_000;

/// One expense.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expense {
    /// Line of the sheet, counted from 1.
    pub line: u64,
    /// When it was paid.
    pub date: Date,
    /// What for.
    pub description: String,
    /// How much, in its own currency.
    pub amount: Decimal,
    /// ISO 4217 code.
    pub currency: Currency,
    /// Its group in the report.
    pub category: String,
}

/// An ISO 4217 code: three upper-case letters. Whether there is a rate for it is for [`crate::rates`] to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Currency([u8; 3]);

impl Currency {
    /// The euro, which the rates are quoted in.
    pub const EUR: Self = Self(*b"EUR");
}

impl std::str::FromStr for Currency {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match <[u8; 3]>::try_from(text.as_bytes()) {
            Ok(code) if code.iter().all(u8::is_ascii_uppercase) => Ok(Self(code)),
            _ => Err(format!("`{text}` is not a currency; it is three upper-case letters, such as EUR")),
        }
    }
}

impl std::fmt::Display for Currency {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| std::fmt::Write::write_char(f, *byte as char))
    }
}

impl serde::Serialize for Currency {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

#[derive(Deserialize)]
struct Row {
    date: String,
    description: String,
    amount: String,
    currency: String,
    category: String,
}

/// Reads a sheet. The error names the line.
pub fn parse(text: &[u8]) -> Result<Vec<Expense>, String> {
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(text);
    let header = reader.headers().map_err(|error| error.to_string())?;
    for column in ["date", "description", "amount", "currency", "category"] {
        if !header.iter().any(|name| name == column) {
            return Err(format!("line 1: the column `{column}` is missing"));
        }
    }
    let header = header.clone();
    let mut expenses = Vec::new();
    for record in reader.into_records() {
        let record = record.map_err(|error| error.to_string())?;
        let line = record.position().map_or(0, csv::Position::line);
        if expenses.len() == MAX_ROWS {
            return Err(format!("line {line}: a sheet has at most {MAX_ROWS} expenses; send it in parts"));
        }
        let row: Row = record.deserialize(Some(&header)).map_err(|error| error.to_string())?;
        expenses.push(expense(line, row).map_err(|error| format!("line {line}: {error}"))?);
    }
    Ok(expenses)
}

fn expense(line: u64, row: Row) -> Result<Expense, String> {
    let date = row.date.parse().map_err(|_| format!("`{}` is not a date; it is written 2026-01-31", row.date))?;
    let amount = Decimal::from_str_exact(&row.amount)
        .map_err(|_| format!("`{}` is not an amount; it is written 1234.56, without spaces or commas", row.amount))?;
    if row.category.is_empty() {
        return Err("the category is empty".to_owned());
    }
    let (description, category) = (row.description, row.category);
    Ok(Expense { line, date, description, amount, currency: row.currency.parse()?, category })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "date,description,amount,currency,category\n";

    #[test]
    fn reads_quotes_and_columns_in_any_order() {
        let sheet = "category, amount,currency,description,date\nfood,12.50,EUR,\"soup, bread\",2026-03-02\n";
        let [expense] = &parse(sheet.as_bytes()).unwrap()[..] else { panic!("one expense") };
        assert_eq!(expense.description, "soup, bread");
        assert_eq!(expense.amount.to_string(), "12.50");
        assert_eq!((expense.line, expense.currency), (2, Currency::EUR));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        for (row, named) in [
            ("31.01.2026,x,1,EUR,a", "`31.01.2026` is not a date"),
            ("2026-02-30,x,1,EUR,a", "`2026-02-30` is not a date"),
            ("2026-01-31,x,1 000,EUR,a", "`1 000` is not an amount"),
            ("2026-01-31,x,NaN,EUR,a", "`NaN` is not an amount"),
            ("2026-01-31,x,1,eur,a", "`eur` is not a currency"),
            ("2026-01-31,x,1,EUR,", "category is empty"),
            ("2026-01-31,x,1,EUR", "line: 2"),
        ] {
            let error = parse(format!("{HEADER}{row}\n").as_bytes()).unwrap_err();
            assert!(error.contains(named) && error.contains("line"), "{row}: {error}");
        }
        assert!(parse(b"date,amount\n").unwrap_err().contains("`description` is missing"));
    }

    #[test]
    fn the_number_of_lines_is_bounded() {
        let sheet = HEADER.to_owned() + &"2026-01-31,x,1,EUR,a\n".repeat(MAX_ROWS);
        assert_eq!(parse(sheet.as_bytes()).unwrap().len(), MAX_ROWS);
        let longer = sheet + "2026-01-31,x,1,EUR,a\n";
        assert!(parse(longer.as_bytes()).unwrap_err().starts_with("line 10002: a sheet has at most 10000"));
    }
}

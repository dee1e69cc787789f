//! The function's two HTTP sides: the call that came in, and the call for the rates that goes out.

use std::time::Duration;

use sless::prelude::*;
use sless::{bail, http};

use crate::rates::Rates;
use crate::report::{needs_rates, report};
use crate::sheet::{self, Currency};

sless::serve!(handler);

/// Where the rates come from unless `RATES_URL` says otherwise.
const RATES_URL: &str = "https://www.ecb.europa.eu/stats/eurofxref/eurofxref-hist-90d.xml";
/// A sheet of the most rows that are read has less.
const MAX_SHEET_BYTES: usize = 1 << 20;
/// Ten times what the bank's 90 days take.
const MAX_RATES_BYTES: usize = 1 << 20;
/// Each wait of the outbound call; together they stay below the function's own timeout.
const WAIT: Duration = Duration::from_secs(8);

/// Answers a posted sheet with its totals.
pub async fn handler(mut request: Request) -> Result<Response> {
    if request.method() != Method::POST {
        let refused = Response::from_text("post a sheet: date,description,amount,currency,category\n");
        return refused.with_status(StatusCode::METHOD_NOT_ALLOWED).with_header("allow", "POST");
    }
    let currency = request.query("currency").map_or(Ok(Currency::EUR), |name| name.parse::<Currency>());
    let currency = currency.map_err(refuse(StatusCode::BAD_REQUEST))?;
    let text = request.bytes_within(MAX_SHEET_BYTES).await?;
    let unprocessable = || refuse(StatusCode::UNPROCESSABLE_ENTITY);
    let expenses = sheet::parse(&text).map_err(unprocessable())?;
    let rates = match needs_rates(&expenses, currency) {
        true => rates().await.map_err(|error| refuse(StatusCode::BAD_GATEWAY)(format!("{error:#}")))?,
        false => Rates::none(),
    };
    Response::from_json(&report(&expenses, currency, &rates).map_err(unprocessable())?)
}

fn refuse<T: Into<String>>(status: StatusCode) -> impl Fn(T) -> Problem {
    move |detail| Problem::new(status, detail)
}

/// Fetches the rates; the error says what was asked and how it failed.
async fn rates() -> Result<Rates> {
    let url = sless::env::optional("RATES_URL")?.unwrap_or_else(|| RATES_URL.to_owned());
    let rates = fetched(&url).await.with_context(|| format!("the rates could not be had from {url}"))?;
    if let Some((first, last)) = rates.span() {
        log::info!("rates from {url}: {first} to {last}");
    }
    Ok(rates)
}

async fn fetched(url: &str) -> Result<Rates> {
    let request = http::Request::get(url).header("accept", "application/xml").body(())?;
    let mut response = fetch_within(WAIT, request).await?;
    if response.status() != StatusCode::OK {
        bail!("it answered with status {}", response.status().as_u16());
    }
    let xml = response.bytes_within(MAX_RATES_BYTES).await?;
    Rates::parse(std::str::from_utf8(&xml).context("the answer is not text")?).map_err(sless::Error::msg)
}

#[cfg(test)]
mod tests {
    use sless::testing::{Answer, call, get};

    use super::*;

    fn posted(path: &str, sheet: impl Into<Vec<u8>>) -> Answer {
        call(handler, http::Request::post(path).body(sheet.into()).unwrap())
    }

    const SHEET: &str = "date,description,amount,currency,category\n2026-03-02,Train,10.50,EUR,travel\n2026-03-03,Lunch,4.25,EUR,meals\n";

    #[test]
    fn a_sheet_in_the_wanted_currency_needs_no_rates() {
        let answer = posted("/", SHEET);
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(answer.json::<serde_json::Value>()["total"], "14.75");
    }

    #[test]
    fn every_refusal_has_its_status() {
        let answer = call(handler, get("/"));
        assert_eq!((answer.status, answer.headers["allow"].to_str().unwrap()), (405, "POST"));
        assert_eq!(posted("/?currency=euros", SHEET).status, 400);
        assert_eq!(posted("/", vec![b'x'; MAX_SHEET_BYTES + 1]).status, 413);
        let answer = posted("/", SHEET.replace("4.25", "four"));
        assert_eq!(answer.status, 422);
        assert!(answer.text().contains("line 3"), "{}", answer.text());
    }
}

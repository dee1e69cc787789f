//! Says what was measured: a table to read, JSON for programs, Markdown for docs, a plot for the eye.

mod plot;

use std::fmt::Write as _;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use crate::Args;
use crate::figure::Figure;
use crate::load;
use crate::{figures, languages};

/// A table beside the figures.
pub(crate) struct Table {
    /// What it is called in JSON.
    name: &'static str,
    header: &'static [&'static str],
    cells: Vec<Vec<String>>,
    /// The rows for programs.
    rows: Vec<Value>,
}

/// Writes everything that is asked for.
pub(crate) fn write(args: &Args, figures: &[Figure], tables: &[Table]) -> Result<()> {
    let machine = machine();
    println!("{}", drawn(&HEADER, figures.iter().map(|figure| cells(figure).to_vec())));
    for table in tables.iter().filter(|table| !table.cells.is_empty()) {
        println!("{}", drawn(table.header, table.cells.iter().cloned()));
    }
    if let Some(path) = &args.json {
        let text = serde_json::to_string_pretty(&document(&machine, figures, tables)).context("write JSON")?;
        std::fs::write(path, text + "\n").with_context(|| format!("write {}", path.display()))?;
    }
    if let Some(path) = &args.markdown {
        let text = markdown(args, &machine, figures, tables);
        std::fs::write(path, text).with_context(|| format!("write {}", path.display()))?;
    }
    if let Some(path) = &args.plot {
        plot::draw(path, figures).with_context(|| format!("draw {}", path.display()))?;
    }
    Ok(())
}

fn document(machine: &Value, figures: &[Figure], tables: &[Table]) -> Value {
    let figures: Vec<_> = figures
        .iter()
        .map(|figure| {
            json!({
                "name": figure.name,
                "value": figure.value,
                "unit": figure.unit,
                "peer": figure.peer,
                "peer_value": figure.peer_value,
                "ratio": figure.ratio,
            })
        })
        .collect();
    let mut document = json!({ "machine": machine, "figures": figures });
    for table in tables {
        document[table.name] = table.rows.clone().into();
    }
    document
}

fn drawn(header: &[&str], rows: impl Iterator<Item = Vec<String>>) -> comfy_table::Table {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::UTF8_HORIZONTAL_ONLY);
    table.set_header(header);
    table.add_rows(rows);
    table
}

const HEADER: [&str; 7] = ["figure", "ours", "unit", "peer", "peer's", "ratio", "asked"];

fn cells(figure: &Figure) -> [String; 7] {
    let asked = match (figure.bar, figure.met()) {
        (Some(bar), Some(true)) => format!("{bar}: met"),
        (Some(bar), _) => format!("{bar}: NOT met"),
        _ => String::new(),
    };
    [
        figure.name.to_owned(),
        number(figure.value),
        figure.unit.to_owned(),
        figure.peer.unwrap_or("–").to_owned(),
        figure.peer_value.map_or_else(|| "–".to_owned(), number),
        figure.ratio.map_or_else(|| "–".to_owned(), |ratio| format!("{ratio:.2}")),
        asked,
    ]
}

/// Three significant digits.
fn number(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Servers under loads.
pub(crate) fn loads(rows: &[figures::Row]) -> Table {
    let cells = |row: &figures::Row| {
        let [rate, p50, p99] = [row.load.requests_per_second, row.load.p50_us, row.load.p99_us].map(number);
        vec![row.server.to_owned(), row.connections.to_string(), rate, p50, p99]
    };
    let json = |row: &figures::Row| {
        json!({
            "server": row.server,
            "connections": row.connections,
            "requests_per_second": row.load.requests_per_second,
            "p50_us": row.load.p50_us,
            "p99_us": row.load.p99_us,
        })
    };
    Table {
        name: "loads",
        header: &["server", "connections", "requests/s", "p50 µs", "p99 µs"],
        cells: rows.iter().map(cells).collect(),
        rows: rows.iter().map(json).collect(),
    }
}

/// Runtimes for source.
pub(crate) fn languages(rows: &[languages::Row]) -> Table {
    let cells = |row: &languages::Row| {
        let [first, again, changed] = [row.first_ms, row.again_ms, row.changed_ms].map(number);
        let artifact = row.artifact_bytes.map_or_else(|| "–".to_owned(), |bytes| number(bytes as f64 / 1024.0));
        let call = format!("{} ({})", number(row.first_call_us / 1e3), row.grade);
        let memory = number(row.memory_bytes as f64 / 1024.0);
        let load = [row.load.requests_per_second, row.load.p50_us, row.load.p99_us].map(number);
        [vec![row.runtime.to_owned(), first, again, changed, artifact, call, memory], load.to_vec()].concat()
    };
    let json = |row: &languages::Row| {
        json!({
            "runtime": row.runtime,
            "deploy_first_ms": row.first_ms,
            "deploy_again_ms": row.again_ms,
            "deploy_changed_ms": row.changed_ms,
            "artifact_bytes": row.artifact_bytes,
            "first_call_us": row.first_call_us,
            "first_call_grade": row.grade,
            "memory_bytes": row.memory_bytes,
            "requests_per_second": row.load.requests_per_second,
            "p50_us": row.load.p50_us,
            "p99_us": row.load.p99_us,
        })
    };
    Table {
        name: "languages",
        header: &[
            "runtime",
            "first deploy ms",
            "again ms",
            "changed ms",
            "artifact KiB",
            "first call ms",
            "memory KiB",
            "requests/s",
            "p50 µs",
            "p99 µs",
        ],
        cells: rows.iter().map(cells).collect(),
        rows: rows.iter().map(json).collect(),
    }
}

fn markdown(args: &Args, machine: &Value, figures: &[Figure], tables: &[Table]) -> String {
    let mut text = String::from("# Benchmark results\n\n");
    let _ = writeln!(
        text,
        "Written by `cargo xtask bench` on {} × {}, Linux {}, {} rounds of {} s, load by {}. What the figures mean: \
         [guides/benchmark.md](guides/benchmark.md).\n",
        machine["cpus"],
        machine["cpu"].as_str().unwrap_or("?"),
        machine["kernel"].as_str().unwrap_or("?"),
        args.rounds,
        args.seconds,
        load::generator(),
    );
    let mut rows = |header: &[&str], rows: Vec<Vec<String>>| {
        let _ = writeln!(text, "| {} |\n|{}", header.join(" | "), "---|".repeat(header.len()));
        for row in rows {
            let _ = writeln!(text, "| {} |", row.join(" | "));
        }
        text.push('\n');
    };
    rows(&HEADER, figures.iter().map(|figure| cells(figure).to_vec()).collect());
    for table in tables.iter().filter(|table| !table.cells.is_empty()) {
        rows(table.header, table.cells.clone());
    }
    text.trim_end().to_owned() + "\n"
}

fn machine() -> Value {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpuinfo = read("/proc/cpuinfo");
    let cpu = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    let meminfo = read("/proc/meminfo");
    let memory = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    let load = read("/proc/loadavg");
    json!({
        "cpu": cpu.map(|(_, name)| name.trim()),
        "cpus": std::thread::available_parallelism().map_or(0, usize::from),
        "memory_bytes": memory.map(|kib| kib * 1024),
        "kernel": read("/proc/sys/kernel/osrelease").trim(),
        "load_average_1m": load.split(' ').next().and_then(|load| load.parse::<f64>().ok()),
        "load_generator": load::generator(),
        "wasmtime": "48.0.8",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_has_the_agreed_fields() {
        let figures = [Figure::ratio("rps_vs_hyper", "requests/s", 20_000.0, "hyper", 80_000.0)];
        let document = document(&machine(), &figures, &[]);
        assert_eq!(
            document["figures"][0],
            json!({"name": "rps_vs_hyper", "value": 20_000.0, "unit": "requests/s", "peer": "hyper", "peer_value": 80_000.0, "ratio": 0.25})
        );
        assert!(document["machine"]["cpus"].as_u64().is_some_and(|cpus| cpus > 0));
    }
}

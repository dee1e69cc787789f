//! Says what was measured: a table to read, JSON for programs, Markdown for docs, a plot for the eye.

mod plot;

use std::fmt::Write as _;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use crate::Args;
use crate::figure::Figure;
use crate::figures::Row;
use crate::load;

/// Writes everything that is asked for.
pub(crate) fn write(args: &Args, figures: &[Figure], loads: &[Row]) -> Result<()> {
    let machine = machine();
    println!("{}", table(figures));
    if !loads.is_empty() {
        println!("{}", loads_table(loads));
    }
    if let Some(path) = &args.json {
        let text = serde_json::to_string_pretty(&document(&machine, figures, loads)).context("write JSON")?;
        std::fs::write(path, text + "\n").with_context(|| format!("write {}", path.display()))?;
    }
    if let Some(path) = &args.markdown {
        let text = markdown(args, &machine, figures, loads);
        std::fs::write(path, text).with_context(|| format!("write {}", path.display()))?;
    }
    if let Some(path) = &args.plot {
        plot::draw(path, figures).with_context(|| format!("draw {}", path.display()))?;
    }
    Ok(())
}

fn document(machine: &Value, figures: &[Figure], loads: &[Row]) -> Value {
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
    let loads: Vec<_> = loads
        .iter()
        .map(|row| {
            json!({
                "server": row.server,
                "connections": row.connections,
                "requests_per_second": row.load.requests_per_second,
                "p50_us": row.load.p50_us,
                "p99_us": row.load.p99_us,
            })
        })
        .collect();
    json!({ "machine": machine, "figures": figures, "loads": loads })
}

fn table(figures: &[Figure]) -> comfy_table::Table {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::UTF8_HORIZONTAL_ONLY);
    table.set_header(HEADER);
    for figure in figures {
        table.add_row(cells(figure));
    }
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

fn loads_table(loads: &[Row]) -> comfy_table::Table {
    let mut table = comfy_table::Table::new();
    table.load_style(comfy_table::presets::UTF8_HORIZONTAL_ONLY);
    table.set_header(["server", "connections", "requests/s", "p50 µs", "p99 µs"]);
    for row in loads {
        table.add_row(load_cells(row));
    }
    table
}

fn load_cells(row: &Row) -> [String; 5] {
    let load = row.load;
    let numbers = [load.requests_per_second, load.p50_us, load.p99_us].map(number);
    let [rate, p50, p99] = numbers;
    [row.server.to_owned(), row.connections.to_string(), rate, p50, p99]
}

fn markdown(args: &Args, machine: &Value, figures: &[Figure], loads: &[Row]) -> String {
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
    if !loads.is_empty() {
        let header = ["server", "connections", "requests/s", "p50 µs", "p99 µs"];
        rows(&header, loads.iter().map(|row| load_cells(row).to_vec()).collect());
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

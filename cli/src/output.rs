//! What commands print: tables for people, JSON for programs, progress beside both.

use std::fmt::Write as _;
use std::io::{IsTerminal as _, Write as _};

use comfy_table::{Table, presets};
use serde::Serialize;

use crate::failure::Failure;

/// How results are printed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Format {
    /// For people.
    #[default]
    Table,
    /// For programs: one document, as the API has it.
    Json,
}

/// Standard output.
pub(crate) struct Output {
    pub(crate) format: Format,
}

impl Output {
    pub(crate) fn new(format: Format) -> Self {
        Self { format }
    }

    pub(crate) fn is_json(&self) -> bool {
        self.format == Format::Json
    }

    /// Prints a result: as JSON, or as what `table` makes of it.
    pub(crate) fn result<T: Serialize>(&mut self, value: &T, table: impl FnOnce(&T) -> String) -> Result<(), Failure> {
        match self.format {
            Format::Table => self.text(&table(value)),
            Format::Json => {
                let document = serde_json::to_string_pretty(value).expect("results have string keys only");
                self.text(&document)
            }
        }
    }

    /// Prints text, with a line's end if it lacks one.
    pub(crate) fn text(&mut self, text: &str) -> Result<(), Failure> {
        let mut stdout = std::io::stdout().lock();
        stdout.write_all(text.as_bytes())?;
        if !text.ends_with('\n') && !text.is_empty() {
            stdout.write_all(b"\n")?;
        }
        Ok(stdout.flush()?)
    }

    /// Prints bytes as they are.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let mut stdout = std::io::stdout().lock();
        stdout.write_all(bytes)?;
        Ok(stdout.flush()?)
    }
}

/// Says something beside the result.
pub(crate) fn say(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Whether a person watches standard error.
pub(crate) fn watched() -> bool {
    std::io::stderr().is_terminal()
}

/// A table without borders: easy to read, and to cut with other tools.
pub(crate) fn table<const N: usize>(header: [&str; N], rows: impl IntoIterator<Item = [String; N]>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header);
    for row in rows {
        table.add_row(row);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    trim(&table.to_string())
}

/// Names and values, one a line.
pub(crate) fn fields(pairs: &[(&str, String)]) -> String {
    let width = pairs.iter().map(|(name, _)| name.len()).max().unwrap_or(0) + 2;
    let mut text = String::new();
    for (name, value) in pairs {
        let mut lines = value.lines();
        let _ = writeln!(text, "{name:width$}{}", lines.next().unwrap_or("-"));
        for line in lines {
            let _ = writeln!(text, "{:width$}{line}", "");
        }
    }
    trim(&text)
}

fn trim(text: &str) -> String {
    text.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// A number of bytes: `512 B`, `98.7 KiB`.
pub(crate) fn bytes(count: u64) -> String {
    let mut value = count as f64;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if value < 1000.0 || unit == "GiB" {
            return if unit == "B" { format!("{count} B") } else { format!("{value:.1} {unit}") };
        }
        value /= 1024.0;
    }
    unreachable!("the last unit returns")
}

/// A duration in microseconds: `87 µs`, `1.3 ms`, `2.1 s`.
pub(crate) fn micros(count: u64) -> String {
    match count {
        0..1_000 => format!("{count} µs"),
        1_000..1_000_000 => format!("{:.1} ms", count as f64 / 1e3),
        _ => format!("{:.1} s", count as f64 / 1e6),
    }
}

/// An instant to the second, UTC.
pub(crate) fn instant(at: jiff::Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// All commands with their help, as Markdown.
pub(crate) fn reference(mut command: clap::Command) -> String {
    command.build();
    let mut text = String::from("# `sless`, the command line\n\nMade by `cargo xtask gen` from the program itself.\n");
    describe(&mut command, &mut text);
    text
}

fn describe(command: &mut clap::Command, text: &mut String) {
    // A fixed width, so that the document is the same on every terminal.
    let help = command.clone().term_width(100).render_long_help().to_string();
    let name = command.get_display_name().unwrap_or(command.get_name()).replace('-', " ");
    let name = command.get_bin_name().map_or(name, str::to_owned);
    let _ = write!(text, "\n## `{name}`\n\n```text\n{}```\n", trim(&help));
    let subcommands = command.get_subcommands_mut().filter(|c| !c.is_hide_set() && c.get_name() != "help");
    for subcommand in subcommands {
        describe(subcommand, text);
    }
}

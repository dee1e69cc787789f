//! Bars of the ratios, on a scale where twice as much and half as much are equally far from one.

use std::path::Path;

use anyhow::{Result, anyhow};
use plotters::prelude::*;

use crate::figure::{Bar, Figure};

const WIDTH: u32 = 900;
const ROW: i32 = 34;
/// Where the bars begin and end; names stand left of it, numbers right.
const LEFT: i32 = 270;
const RIGHT: i32 = 780;

/// Draws the figures that have a ratio.
pub(super) fn draw(path: &Path, figures: &[Figure]) -> Result<()> {
    let bars: Vec<_> =
        figures.iter().filter_map(|figure| Some((figure, figure.ratio.filter(|ratio| *ratio > 0.0)?))).collect();
    let height = u32::try_from(bars.len()).unwrap_or(0) * ROW.unsigned_abs() + 60;
    let area = SVGBackend::new(path, (WIDTH, height)).into_drawing_area();
    let failed = |error: DrawingAreaErrorKind<_>| anyhow!("{error}");
    area.fill(&WHITE).map_err(failed)?;
    let reach = bars.iter().map(|(_, ratio)| ratio.log2().abs()).fold(1.0, f64::max).ceil();
    let x = |ratio: f64| {
        let part = (ratio.log2().clamp(-reach, reach) + reach) / (2.0 * reach);
        LEFT + (part * f64::from(RIGHT - LEFT)) as i32
    };
    let text = |size: i32| ("sans-serif", size).into_font();
    for power in -(reach as i32)..=(reach as i32) {
        let at = x(2f64.powi(power));
        let line =
            PathElement::new(vec![(at, 30), (at, height as i32 - 20)], BLACK.mix(if power == 0 { 0.8 } else { 0.15 }));
        area.draw(&line).map_err(failed)?;
        // Far apart, every second one is enough to read.
        if reach > 6.0 && power % 2 != 0 {
            continue;
        }
        let label = if power < 0 { format!("1/{}", 1 << -power) } else { (1 << power).to_string() };
        area.draw(&Text::new(label, (at - 6, 12), text(12))).map_err(failed)?;
    }
    for (row, (figure, ratio)) in bars.iter().enumerate() {
        let top = 36 + ROW * i32::try_from(row).unwrap_or(0);
        let color = if figure.met() == Some(false) { RGBColor(191, 64, 64) } else { RGBColor(26, 127, 55) };
        let (from, to) = (x(1.0).min(x(*ratio)), x(1.0).max(x(*ratio)));
        area.draw(&Rectangle::new([(from, top), (to, top + 18)], color.filled())).map_err(failed)?;
        area.draw(&Text::new(figure.name, (8, top + 3), text(14))).map_err(failed)?;
        area.draw(&Text::new(format!("{ratio:.2}"), (RIGHT + 30, top + 3), text(14))).map_err(failed)?;
        if let Some(Bar::RatioAtLeast(asked) | Bar::RatioAtMost(asked)) = figure.bar {
            let line = PathElement::new(vec![(x(asked), top - 4), (x(asked), top + 22)], BLACK.stroke_width(3));
            area.draw(&line).map_err(failed)?;
        }
    }
    area.draw(&Text::new("ours ÷ peer; a thick line is what is asked", (8, 12), text(12))).map_err(failed)?;
    area.present().map_err(failed)
}

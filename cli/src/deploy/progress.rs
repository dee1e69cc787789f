//! How far an upload is: a bar where a person watches, else one line.

use std::sync::Arc;

use indicatif::{ProgressBar, ProgressStyle};

use super::plan::Plan;
use crate::output::{bytes, say, watched};

/// The progress of one upload.
pub(super) struct Upload(Option<ProgressBar>);

/// Begins it.
pub(super) fn upload(plan: &Plan) -> Upload {
    let path = plan.code.file();
    let size = std::fs::metadata(path).map_or(0, |m| m.len());
    let file = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    if !watched() {
        say(&format!("uploading {file} ({})", bytes(size)));
        return Upload(None);
    }
    let style = ProgressStyle::with_template("uploading {msg} [{bar:30}] {bytes} of {total_bytes}")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    Upload(Some(ProgressBar::new(size).with_style(style.progress_chars("=> ")).with_message(file.into_owned())))
}

impl Upload {
    pub(super) fn callback(&self) -> sless_client::Progress {
        match self.0.clone() {
            Some(bar) => Arc::new(move |sent| bar.set_position(sent)),
            None => Arc::new(|_| ()),
        }
    }

    pub(super) fn finish(self) {
        if let Some(bar) = self.0 {
            bar.finish_and_clear();
        }
    }
}

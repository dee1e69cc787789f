//! The crate `log`, written to standard output and error: one JSON object a line, with the request's id. What is printed
//! otherwise is a line of the function's log as well.

use std::cell::RefCell;
use std::io::Write as _;

use log::kv::{self, Key, Value, VisitSource};
use log::{Level, LevelFilter, Log, Metadata, Record};
use serde_json::Map;

thread_local! {
    static REQUEST_ID: RefCell<String> = const { RefCell::new(String::new()) };
}

/// From now on lines are of this request.
pub(crate) fn enter(request_id: &str) {
    REQUEST_ID.with_borrow_mut(|id| request_id.clone_into(id));
    // The first call of an instance sets it up; the others find it there.
    if log::set_logger(&Lines).is_ok() {
        // What is misspelt is as good as not said: a log that is too long is better than none.
        log::set_max_level(crate::env::parsed("LOG_LEVEL", LevelFilter::Info).unwrap_or(LevelFilter::Info));
    }
}

struct Lines;

impl Log for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= log::max_level()
    }

    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let line = line(record);
        // A log that can't be written is no reason to fail.
        let _ = match record.level() {
            Level::Error | Level::Warn => std::io::stderr().write_all(line.as_bytes()),
            _ => std::io::stdout().write_all(line.as_bytes()),
        };
    }

    fn flush(&self) {}
}

struct Fields(Map<String, serde_json::Value>);

impl<'kvs> VisitSource<'kvs> for Fields {
    fn visit_pair(&mut self, key: Key<'kvs>, value: Value<'kvs>) -> Result<(), kv::Error> {
        let value = match (value.to_bool(), value.to_i64(), value.to_f64()) {
            (Some(value), ..) => value.into(),
            (_, Some(value), _) => value.into(),
            (.., Some(value)) => value.into(),
            _ => value.to_string().into(),
        };
        self.0.insert(key.as_str().to_owned(), value);
        Ok(())
    }
}

fn line(record: &Record<'_>) -> String {
    let mut fields = Fields(Map::new());
    let _ = record.key_values().visit(&mut fields);
    let mut entry = fields.0;
    entry.insert("level".into(), record.level().as_str().to_ascii_lowercase().into());
    entry.insert("message".into(), record.args().to_string().into());
    REQUEST_ID.with_borrow(|id| {
        if !id.is_empty() {
            entry.insert("requestId".into(), id.as_str().into());
        }
    });
    format!("{}\n", serde_json::Value::Object(entry))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_one_object_with_its_fields_and_request() {
        REQUEST_ID.with_borrow_mut(|id| "r1".clone_into(id));
        let pairs = [("count", Value::from(3)), ("name", Value::from("two\nlines"))];
        let text = line(&Record::builder().level(Level::Warn).args(format_args!("low")).key_values(&pairs).build());
        assert_eq!(text.matches('\n').count(), 1);
        let entry: serde_json::Value = serde_json::from_str(&text).unwrap();
        let expected = serde_json::json!({
            "level": "warn", "message": "low", "requestId": "r1", "count": 3, "name": "two\nlines"
        });
        assert_eq!(entry, expected);
    }
}

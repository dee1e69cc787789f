//! Archives of source on any bytes: no panic, no hang, no path that leads out, and every refusal in words that can be shown.

#![no_main]

use std::io::Cursor;

use libfuzzer_sys::fuzz_target;
use sless_builder::source::{Context, zip};

fuzz_target!(|bytes: &[u8]| {
    match zip::read(bytes) {
        Ok(tree) => {
            for (path, _) in tree.iter() {
                assert!(!path.starts_with('/') && path.split('/').all(|s| !matches!(s, "" | "." | "..")), "{path:?}");
            }
            let mut written = Cursor::new(Vec::new());
            zip::write(&tree, &mut written).expect("what was read can be written");
            assert_eq!(zip::read(written.get_ref()).expect("what was written can be read"), tree);
            let context = Context { function: tree, ..Context::default() };
            let mut packed = Vec::new();
            context.write(&mut packed).expect("memory takes it");
            assert_eq!(Context::read(&packed[..]).expect("what was written can be read"), context);
        }
        Err(error) => {
            let text = error.to_string();
            assert!(!text.is_empty() && text.len() < 16 << 10, "{} bytes", text.len());
            assert!(!text.chars().any(|c| c.is_control()), "{text:?}");
        }
    }
});

//! Text and bytes between JavaScript and Rust.

use rquickjs_core::{Ctx, Exception, Object, Result, String as JsString, TypedArray, Value};

/// UTF-8 of a JavaScript string; a lone surrogate becomes U+FFFD, as everywhere on the web.
pub(crate) fn utf8(text: &JsString<'_>) -> Result<Vec<u8>> {
    let text = text.clone().to_cstring()?;
    // SAFETY: pointer and length are those of the buffer that `text` keeps alive. Not its `as_str`: QuickJS writes lone
    // surrogates as three bytes that are not UTF-8.
    let mut bytes = unsafe { std::slice::from_raw_parts(text.as_ptr().cast::<u8>(), text.len()) }.to_vec();
    // In UTF-8, 0xED is followed by 0x80..=0x9F only; what is above encodes a surrogate.
    let mut from = 0;
    while let Some(at) = bytes[from..].iter().position(|byte| *byte == 0xed) {
        let at = from + at;
        from = at + 1;
        if bytes.get(at + 1).is_some_and(|next| *next >= 0xa0) && at + 2 < bytes.len() {
            bytes[at..at + 3].copy_from_slice("\u{fffd}".as_bytes());
            from = at + 3;
        }
    }
    Ok(bytes)
}

/// The text of a JavaScript string.
pub(crate) fn text(text: &JsString<'_>) -> Result<String> {
    let bytes = utf8(text)?;
    Ok(String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

/// A copy of the bytes of a `Uint8Array`.
pub(crate) fn from_array(array: &TypedArray<'_, u8>) -> Vec<u8> {
    // SAFETY: no JavaScript runs before the copy is made.
    unsafe { array.as_bytes() }.unwrap_or_default().to_vec()
}

pub(crate) fn to_array<'js>(ctx: &Ctx<'js>, bytes: Vec<u8>) -> Result<TypedArray<'js, u8>> {
    TypedArray::new(ctx.clone(), bytes)
}

/// Header bytes as text: latin-1, so that every byte survives.
pub(crate) fn from_latin1(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if text.is_ascii() => text.to_owned(),
        _ => bytes.iter().map(|byte| char::from(*byte)).collect(),
    }
}

/// Text as header bytes; none if it has a character that headers can't carry.
pub(crate) fn to_latin1(text: &str) -> Option<Vec<u8>> {
    if text.is_ascii() {
        return Some(text.as_bytes().to_vec());
    }
    text.chars().map(|c| u8::try_from(u32::from(c)).ok()).collect()
}

/// A pair list `[name, value, name, value…]` of latin-1 values.
pub(crate) fn header_list<'js>(ctx: &Ctx<'js>, entries: &[(String, Vec<u8>)]) -> Result<rquickjs_core::Array<'js>> {
    let list = rquickjs_core::Array::new(ctx.clone())?;
    for (index, (name, value)) in entries.iter().enumerate() {
        list.set(index * 2, name.as_str())?;
        list.set(index * 2 + 1, from_latin1(value))?;
    }
    Ok(list)
}

/// Throws a `TypeError`.
pub(crate) fn type_error(ctx: &Ctx<'_>, message: &str) -> rquickjs_core::Error {
    Exception::throw_type(ctx, message)
}

/// `object.name`, if it is text.
pub(crate) fn text_field<'js>(object: &Object<'js>, name: &str) -> Option<String> {
    let value: Value<'js> = object.get(name).ok()?;
    value.as_string().and_then(|value| text(value).ok())
}

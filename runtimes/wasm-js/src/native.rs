//! What the JavaScript in `js/` can't do itself, as functions of one object that only that code sees.

use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use base64::{Engine as _, alphabet};
use hmac::{Hmac, KeyInit as _, Mac as _};
use rquickjs_core::{Array, Ctx, Function, Object, Result, String as JsString, TypedArray, Value};
use sha1::Sha1;
use sha2::{Digest as _, Sha256, Sha384, Sha512};
use wasip2::clocks::monotonic_clock;

use crate::output::{Stream, print};
use crate::{bytes, fetch, phase, pump, serve, thrown, url};

/// What `crypto.getRandomValues` may ask for at once, by its specification.
const MAX_RANDOM_BYTES: usize = 65_536;

/// The object.
pub(crate) fn object<'js>(ctx: &Ctx<'js>) -> Result<Object<'js>> {
    let native = Object::new(ctx.clone())?;
    macro_rules! functions {
        ($($name:literal => $function:expr),* $(,)?) => {
            $(native.set($name, Function::new(ctx.clone(), $function)?)?;)*
        };
    }
    functions! {
        "print" => print_text,
        "env" => env,
        "serving" => phase::serving,
        "random" => random,
        "fill" => fill,
        "now" => || serve::since_start_ms(monotonic_clock::now()),
        "startTimer" => pump::start_timer,
        "stopTimer" => pump::stop_timer,
        "utf8Encode" => utf8_encode,
        "utf8Decode" => utf8_decode,
        "utf16Decode" => utf16_decode,
        "latin1Decode" => latin1_decode,
        "base64Decode" => base64_decode,
        "base64Encode" => |bytes: TypedArray<'_, u8>| to_base64(&bytes::from_array(&bytes)),
        "digest" => digest,
        "hmac" => hmac,
        "urlParse" => url::parse,
        "urlSet" => url::set,
        "formParse" => url::form_parse,
        "formWrite" => url::form_write,
        "httpStart" => fetch::start,
        "httpResponse" => fetch::response,
        "httpRead" => fetch::read,
        "httpWrite" => fetch::write,
        "httpFinish" => fetch::finish,
        "httpClose" => fetch::close,
        "answerPiece" => serve::answer_piece,
    }
    Ok(native)
}

fn print_text(stream: u32, text: JsString<'_>) -> Result<()> {
    let text = bytes::utf8(&text)?;
    print(if stream == 2 { Stream::Err } else { Stream::Out }, &text);
    Ok(())
}

/// The environment as a flat list.
fn env(ctx: Ctx<'_>) -> Result<Array<'_>> {
    phase::impure("the environment", || thrown::place(&ctx));
    let list = Array::new(ctx)?;
    if phase::serving() {
        for (index, (name, value)) in serve::environment().into_iter().enumerate() {
            list.set(index * 2, name)?;
            list.set(index * 2 + 1, value)?;
        }
    }
    Ok(list)
}

thread_local! {
    static RANDOM: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// `Math.random`: xorshift64* (Vigna 2016), seeded by the host at its first use in an instance.
fn random(ctx: Ctx<'_>) -> f64 {
    phase::impure("random numbers", || thrown::place(&ctx));
    let mut x = RANDOM.get();
    if x == 0 {
        x = wasip2::random::insecure::get_insecure_random_u64() | 1;
    }
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    // Not kept before the snapshot, or all instances would go on from here.
    if phase::serving() {
        RANDOM.set(x);
    }
    (x.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) as f64 / (1_u64 << 53) as f64
}

/// Random bytes of cryptographic quality, straight from the host.
fn fill<'js>(ctx: Ctx<'js>, array: TypedArray<'js, u8>) -> Result<()> {
    phase::impure("random bytes", || thrown::place(&ctx));
    let length = array.len();
    if length > MAX_RANDOM_BYTES {
        return Err(bytes::type_error(&ctx, "at most 65536 random bytes at once"));
    }
    let random = wasip2::random::random::get_random_bytes(length as u64);
    if let Some(target) = array.as_raw() {
        // SAFETY: the array's bytes are alive and nobody else has them: no JavaScript runs here.
        unsafe {
            std::ptr::copy_nonoverlapping(random.as_ptr(), target.cast::<u8>().as_ptr(), target.len().min(random.len()))
        };
    }
    Ok(())
}

fn utf8_encode<'js>(ctx: Ctx<'js>, text: JsString<'js>) -> Result<TypedArray<'js, u8>> {
    let bytes = bytes::utf8(&text)?;
    bytes::to_array(&ctx, bytes)
}

/// Decodes; null where `fatal` and the bytes are not UTF-8.
fn utf8_decode<'js>(ctx: Ctx<'js>, bytes: TypedArray<'js, u8>, fatal: bool) -> Result<Value<'js>> {
    // SAFETY: the string is made before any JavaScript runs.
    let bytes = unsafe { bytes.as_bytes() }.unwrap_or_default();
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => std::borrow::Cow::Borrowed(text),
        Err(_) if fatal => return Ok(Value::new_null(ctx)),
        Err(_) => String::from_utf8_lossy(bytes),
    };
    JsString::from_str(ctx, &text).map(JsString::into_value)
}

fn utf16_decode<'js>(ctx: Ctx<'js>, bytes: TypedArray<'js, u8>, big_endian: bool, fatal: bool) -> Result<Value<'js>> {
    let bytes = bytes::from_array(&bytes);
    let units = bytes.chunks(2).map(|pair| match *pair {
        [a, b] if big_endian => u16::from_be_bytes([a, b]),
        [a, b] => u16::from_le_bytes([a, b]),
        _ => 0xd800, // Half a unit: not valid, like a lone surrogate.
    });
    let mut text = String::with_capacity(bytes.len());
    for decoded in char::decode_utf16(units) {
        match decoded {
            Ok(c) => text.push(c),
            Err(_) if fatal => return Ok(Value::new_null(ctx)),
            Err(_) => text.push(char::REPLACEMENT_CHARACTER),
        }
    }
    JsString::from_str(ctx, &text).map(JsString::into_value)
}

fn latin1_decode<'js>(ctx: Ctx<'js>, bytes: TypedArray<'js, u8>) -> Result<JsString<'js>> {
    JsString::from_str(ctx, &bytes::from_latin1(&bytes::from_array(&bytes)))
}

/// Standard alphabet with padding (RFC 4648, section 4); strict, but for the bits behind the last byte, as in Node.
const BASE64: GeneralPurpose =
    GeneralPurpose::new(&alphabet::STANDARD, GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true));

pub(crate) fn to_base64(bytes: &[u8]) -> String {
    BASE64.encode(bytes)
}

pub(crate) fn from_base64(text: &[u8]) -> Option<Vec<u8>> {
    BASE64.decode(text).ok()
}

/// Bytes of base64 text, or undefined where it is none.
fn base64_decode<'js>(ctx: Ctx<'js>, text: JsString<'js>) -> Result<Option<TypedArray<'js, u8>>> {
    from_base64(&bytes::utf8(&text)?).map(|decoded| bytes::to_array(&ctx, decoded)).transpose()
}

/// A hash of bytes, or undefined for an algorithm that there is none of here.
fn digest<'js>(ctx: Ctx<'js>, algorithm: String, data: TypedArray<'js, u8>) -> Result<Option<TypedArray<'js, u8>>> {
    let data = bytes::from_array(&data);
    let hash = match algorithm.as_str() {
        "SHA-1" => Sha1::digest(&data).to_vec(),
        "SHA-256" => Sha256::digest(&data).to_vec(),
        "SHA-384" => Sha384::digest(&data).to_vec(),
        "SHA-512" => Sha512::digest(&data).to_vec(),
        _ => return Ok(None),
    };
    bytes::to_array(&ctx, hash).map(Some)
}

fn hmac<'js>(
    ctx: Ctx<'js>,
    algorithm: String,
    key: TypedArray<'js, u8>,
    data: TypedArray<'js, u8>,
) -> Result<Option<TypedArray<'js, u8>>> {
    let (key, data) = (bytes::from_array(&key), bytes::from_array(&data));
    macro_rules! mac {
        ($hash:ty) => {
            Hmac::<$hash>::new_from_slice(&key).ok().map(|mut mac| {
                mac.update(&data);
                mac.finalize().into_bytes().to_vec()
            })
        };
    }
    let mac = match algorithm.as_str() {
        "SHA-1" => mac!(Sha1),
        "SHA-256" => mac!(Sha256),
        "SHA-384" => mac!(Sha384),
        "SHA-512" => mac!(Sha512),
        _ => None,
    };
    mac.map(|mac| bytes::to_array(&ctx, mac)).transpose()
}

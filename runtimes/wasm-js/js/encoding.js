// TextEncoder and TextDecoder: UTF-8, UTF-16 and latin-1 (which the standard reads as windows-1252).

import { native } from './native.js';
import { needBytes } from './values.js';

const LABELS = new Map();
for (const [name, labels] of [
  ['utf-8', 'unicode-1-1-utf-8 unicode11utf8 unicode20utf8 utf-8 utf8 x-unicode20utf8'],
  ['utf-16le', 'csunicode iso-10646-ucs-2 ucs-2 unicode unicodefeff utf-16 utf-16le'],
  ['utf-16be', 'unicodefffe utf-16be'],
  [
    'windows-1252',
    'ansi_x3.4-1968 ascii cp1252 cp819 csisolatin1 ibm819 iso-8859-1 iso-ir-100 iso8859-1 iso88591 iso_8859-1 ' +
      'iso_8859-1:1987 l1 latin1 us-ascii windows-1252 x-cp1252',
  ],
]) {
  for (const label of labels.split(' ')) LABELS.set(label, name);
}

// Bytes 0x80 to 0x9F of windows-1252.
const UPPER = '\u20ac\x81\u201a\u0192\u201e\u2026\u2020\u2021\u02c6\u2030\u0160\u2039\u0152\x8d\u017d\x8f' +
  '\x90\u2018\u2019\u201c\u201d\u2022\u2013\u2014\u02dc\u2122\u0161\u203a\u0153\x9d\u017e\u0178';
const NOTHING = new Uint8Array(0);

export class TextEncoder {
  get encoding() {
    return 'utf-8';
  }

  encode(text = '') {
    return native.utf8Encode(String(text));
  }

  encodeInto(text, target) {
    if (!(target instanceof Uint8Array)) throw new TypeError('the target must be a Uint8Array');
    const bytes = native.utf8Encode(String(text));
    let written = Math.min(bytes.length, target.length);
    // Not within a character.
    while (written > 0 && written < bytes.length && (bytes[written] & 0xc0) === 0x80) written -= 1;
    target.set(bytes.subarray(0, written));
    return { read: native.utf8Decode(bytes.subarray(0, written), false).length, written };
  }

  get [Symbol.toStringTag]() {
    return 'TextEncoder';
  }
}

/** How many bytes at the end belong to a character that is not complete. */
function incomplete(bytes, encoding) {
  const { length } = bytes;
  if (encoding !== 'utf-8') {
    const odd = length % 2;
    const high = length - odd - (encoding === 'utf-16le' ? 1 : 2);
    return high >= 0 && (bytes[high] & 0xfc) === 0xd8 ? odd + 2 : odd;
  }
  for (let back = 1; back <= Math.min(3, length); back += 1) {
    const byte = bytes[length - back];
    if ((byte & 0xc0) === 0x80) continue;
    const needed = byte >= 0xf0 && byte <= 0xf4 ? 4 : byte >= 0xe0 && byte < 0xf0 ? 3 : byte >= 0xc2 && byte < 0xe0 ? 2 : 1;
    return needed > back && isPrefix(bytes, length - back) ? back : 0;
  }
  return 0;
}

/** Whether the second byte is one that can follow the first. */
function isPrefix(bytes, at) {
  if (at + 1 >= bytes.length) return true;
  const [first, second] = [bytes[at], bytes[at + 1]];
  if (first === 0xe0) return second >= 0xa0;
  if (first === 0xed) return second < 0xa0;
  if (first === 0xf0) return second >= 0x90;
  return first !== 0xf4 || second < 0x90;
}

export class TextDecoder {
  #encoding;
  #fatal;
  #ignoreBOM;
  #rest = NOTHING;
  #bomSeen = false;

  constructor(label = 'utf-8', { fatal = false, ignoreBOM = false } = {}) {
    this.#encoding = LABELS.get(String(label).trim().toLowerCase());
    if (this.#encoding === undefined) {
      throw new RangeError(`the encoding ${label} is not supported; there are utf-8, utf-16le, utf-16be and windows-1252`);
    }
    this.#fatal = Boolean(fatal);
    this.#ignoreBOM = Boolean(ignoreBOM);
  }

  get encoding() {
    return this.#encoding;
  }

  get fatal() {
    return this.#fatal;
  }

  get ignoreBOM() {
    return this.#ignoreBOM;
  }

  decode(input, { stream = false } = {}) {
    let bytes = input === undefined ? NOTHING : needBytes(input, 'the input');
    if (this.#encoding === 'windows-1252') {
      return native.latin1Decode(bytes).replace(/[\x80-\x9f]/g, (c) => UPPER[c.charCodeAt(0) - 0x80]);
    }
    if (this.#rest.length > 0) {
      const joined = new Uint8Array(this.#rest.length + bytes.length);
      joined.set(this.#rest);
      joined.set(bytes, this.#rest.length);
      bytes = joined;
      this.#rest = NOTHING;
    }
    if (stream) {
      const kept = incomplete(bytes, this.#encoding);
      if (kept > 0) {
        this.#rest = bytes.slice(bytes.length - kept);
        bytes = bytes.subarray(0, bytes.length - kept);
      }
    }
    let text = this.#encoding === 'utf-8'
      ? native.utf8Decode(bytes, this.#fatal)
      : native.utf16Decode(bytes, this.#encoding === 'utf-16be', this.#fatal);
    if (text === null) {
      this.#bomSeen = false;
      throw new TypeError(`the bytes are not valid ${this.#encoding}`);
    }
    if (!this.#bomSeen && text.length > 0) {
      if (!this.#ignoreBOM && text[0] === '\ufeff') text = text.slice(1);
      this.#bomSeen = true;
    }
    if (!stream) this.#bomSeen = false;
    return text;
  }

  get [Symbol.toStringTag]() {
    return 'TextDecoder';
  }
}

const TEXTS = {
  '/emoji': '\u{1F468}\u200D\u{1F469}\u200D\u{1F467}', '/combining': 'e\u0301 \u00e9', '/rtl': '\u05e9\u05dc\u05d5\u05dd',
  '/nul': 'a\u0000b', '/lone': 'a\ud800b', '/separators': '\u2028\u2029',
};

export async function handler(event) {
  const text = TEXTS[event.path];
  return event.query.as === 'json' ? { text } : text;
}

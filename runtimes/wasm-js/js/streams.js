// Web streams (web-streams-polyfill, made from the standard's reference implementation), and those for text.

import {
  ByteLengthQueuingStrategy, CountQueuingStrategy, ReadableStream, TransformStream, WritableStream,
} from 'web-streams-polyfill';
import { TextDecoder, TextEncoder } from './encoding.js';

export { ByteLengthQueuingStrategy, CountQueuingStrategy, ReadableStream, TransformStream, WritableStream };

export class TextEncoderStream {
  #stream;

  constructor() {
    const encoder = new TextEncoder();
    this.#stream = new TransformStream({
      transform(chunk, controller) {
        const bytes = encoder.encode(chunk);
        if (bytes.length > 0) controller.enqueue(bytes);
      },
    });
  }

  get encoding() {
    return 'utf-8';
  }

  get readable() {
    return this.#stream.readable;
  }

  get writable() {
    return this.#stream.writable;
  }
}

export class TextDecoderStream {
  #stream;
  #decoder;

  constructor(label, options) {
    const decoder = new TextDecoder(label, options);
    this.#decoder = decoder;
    this.#stream = new TransformStream({
      transform(chunk, controller) {
        const text = decoder.decode(chunk, { stream: true });
        if (text !== '') controller.enqueue(text);
      },
      flush(controller) {
        const text = decoder.decode();
        if (text !== '') controller.enqueue(text);
      },
    });
  }

  get encoding() {
    return this.#decoder.encoding;
  }

  get fatal() {
    return this.#decoder.fatal;
  }

  get ignoreBOM() {
    return this.#decoder.ignoreBOM;
  }

  get readable() {
    return this.#stream.readable;
  }

  get writable() {
    return this.#stream.writable;
  }
}

'use strict';
// Settings, read from the environment once at start. A bad one is refused with its name and what would be right.

const MIB = 1 << 20;
const LOG_LEVELS = ['debug', 'info', 'warn', 'error'];

class SettingError extends Error {}

function number(env, name, fallback, low, high, whole) {
  const text = env[name] ?? '';
  if (text === '') return fallback;
  const value = /^\s*\d+(\.\d+)?\s*$/.test(text) ? Number(text) : NaN;
  if (!(value >= low && value <= high) || (whole && !Number.isInteger(value))) {
    const what = whole ? 'a whole number' : 'a number';
    throw new SettingError(
      `${name} is ${JSON.stringify(text)}; set ${what} from ${low} to ${high}, or leave it out for ${fallback}`,
    );
  }
  return value;
}

/** The settings of an environment. Defaults are those of the platform's function settings. */
function read(env) {
  const logLevel = env.SLESS_LOG_LEVEL || 'info';
  if (!LOG_LEVELS.includes(logLevel)) {
    throw new SettingError(`SLESS_LOG_LEVEL is ${JSON.stringify(logLevel)}; set one of ${LOG_LEVELS.join(', ')}`);
  }
  return Object.freeze({
    host: env.SLESS_HOST || '0.0.0.0',
    port: number(env, 'PORT', 8080, 0, 65535, true),
    functionDir: env.SLESS_FUNCTION_DIR || '/function',
    entrypoint: env.SLESS_ENTRYPOINT || 'handler.handler',
    functionName: env.SLESS_FUNCTION_NAME || '',
    namespace: env.SLESS_NAMESPACE || '',
    version: number(env, 'SLESS_VERSION', 0, 0, 2 ** 32 - 1, true),
    timeoutSeconds: number(env, 'SLESS_TIMEOUT_SECONDS', 30, 0.001, 900, false),
    concurrency: number(env, 'SLESS_CONCURRENCY', 100, 1, 10_000, true),
    requestBytes: number(env, 'SLESS_REQUEST_BYTES', 6 * MIB, 0, 100 * MIB, true),
    responseBytes: number(env, 'SLESS_RESPONSE_BYTES', 6 * MIB, 0, 100 * MIB, true),
    logBytes: number(env, 'SLESS_LOG_BYTES', 64 << 10, 0, MIB, true),
    // Below the 30 s that Kubernetes waits before it kills.
    graceSeconds: number(env, 'SLESS_GRACE_SECONDS', 25, 0, 900, false),
    // A client has this long for request line and headers.
    headSeconds: number(env, 'SLESS_HEAD_SECONDS', 10, 0.1, 300, false),
    logLevel,
  });
}

module.exports = { read, SettingError };

'use strict';
// Finds and imports the user's handler. What goes wrong is told with file, line and what to do about it.

const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { pathToFileURL, fileURLToPath } = require('node:url');

const ENTRYPOINT = /^((?:[\w-]+(?:\.[\w-]+)*\/)*[\w-]+(?:\.[\w-]+)*)\.([A-Za-z_$][\w$]*)$/;
const EXTENSIONS = ['.js', '.mjs', '.cjs'];
// The second run of a file that does not parse, only to learn the line.
const LOCATE_MILLISECONDS = 10_000;

/** Why there is no handler. `certain` is false where it may come from the surroundings (a missing variable). */
class LoadError extends Error {
  constructor(error, remedy, { file, line, stack, certain = true } = {}) {
    super(error);
    this.fields = { error, file, line, remedy, stack };
    this.certain = certain;
  }
}

/** The handler that `entrypoint` (`file.export`) names below `functionDir`. */
async function load(functionDir, entrypoint) {
  const match = ENTRYPOINT.exec(entrypoint);
  if (match === null) {
    throw new LoadError(
      `the entrypoint ${JSON.stringify(entrypoint)} is not \`file.export\``,
      'write it as `handler.handler` or `folder/file.export`',
    );
  }
  const [, base, name] = match;
  let root = path.resolve(functionDir);
  try {
    root = fs.realpathSync(root);
  } catch {
    // Told below: there is no such file in it.
  }
  const file = EXTENSIONS.map((extension) => base + extension).find((f) => fs.existsSync(path.join(root, f)));
  if (file === undefined) {
    throw new LoadError(
      `there is no ${base}.js`,
      `add ${base}.js with \`exports.${name} = async (event, context) => …\`, or set the entrypoint to the right file`,
      { file: `${base}.js` },
    );
  }
  const url = pathToFileURL(path.join(root, file)).href;
  let module;
  try {
    module = await import(url);
  } catch (error) {
    throw explain(error, root, url);
  }
  const handler = module[name] ?? module.default?.[name];
  if (handler === undefined || handler === null) {
    throw new LoadError(
      `${file} exports no \`${name}\``,
      `add \`exports.${name} = …\` or \`export async function ${name}(event, context)\`, or set the entrypoint`,
      { file },
    );
  }
  if (typeof handler !== 'function') {
    throw new LoadError(`\`${name}\` in ${file} is a ${typeof handler}, not a function`, 'export a function', { file });
  }
  return handler;
}

function explain(error, root, url) {
  const isError = error instanceof Error;
  const text = isError ? `${error.name}: ${error.message.split('\n', 1)[0]}` : String(error);
  const stack = isError ? String(error.stack) : undefined;
  if (error instanceof SyntaxError) {
    const place = locate(url, root);
    const remedy = /require is not defined|does not provide an export/.test(text)
      ? 'import a name that the module has'
      : 'correct the file at that line; the runtime has Node.js 20';
    return new LoadError(text, remedy, place);
  }
  const place = firstFrame(stack, root);
  if (error?.code === 'ERR_MODULE_NOT_FOUND' || error?.code === 'MODULE_NOT_FOUND') {
    const wanted = /'([^']+)'/.exec(error.message)?.[1] ?? 'it';
    const from = error.requireStack?.[0] ?? /imported from (\S+)$/.exec(error.message)?.[1];
    const importer = place.file ?? relative(from, root);
    const line = place.line ?? lineOf(importer, wanted, root) ?? lineOf(importer, path.basename(wanted), root);
    const isFile = wanted.startsWith('.') || wanted.startsWith('/');
    const remedy = isFile
      ? 'add the file to the source, or correct the path (ES modules need the extension)'
      : `add \`${wanted}\` to the dependencies in package.json, with its lock file`;
    return new LoadError(text, remedy, { file: importer, line });
  }
  const remedy = 'the code at the top of the file failed; correct it, or set the variable it needs in `env`';
  return new LoadError(text, remedy, { ...place, stack, certain: error instanceof ReferenceError });
}

function relative(file, root) {
  if (!file) return undefined;
  const plain = file.startsWith('file://') ? fileURLToPath(file) : file;
  return plain.startsWith(root + path.sep) ? path.relative(root, plain) : plain;
}

function firstFrame(stack, root) {
  for (const [, file, line] of (stack ?? '').matchAll(/(?:\(|at |^)((?:file:\/\/)?\/[^\s():]+):(\d+)(?::\d+)?\)?$/gm)) {
    const plain = file.startsWith('file://') ? fileURLToPath(file) : file;
    if (plain.startsWith(root + path.sep)) return { file: path.relative(root, plain), line: Number(line) };
  }
  return {};
}

function lineOf(file, wanted, root) {
  try {
    const lines = fs.readFileSync(path.join(root, file), 'utf8').split('\n');
    const index = lines.findIndex((line) => line.includes(wanted));
    return index < 0 ? undefined : index + 1;
  } catch {
    return undefined;
  }
}

/** Where a file does not parse: V8 tells it only where it prints an uncaught error. */
function locate(url, root) {
  const code = `await import(${JSON.stringify(url)})`;
  const run = spawnSync(process.execPath, ['--input-type=module', '-e', code], {
    encoding: 'utf8',
    timeout: LOCATE_MILLISECONDS,
    maxBuffer: 1 << 20,
  });
  const match = /^((?:file:\/\/)?\/.*):(\d+)$/m.exec(run.stderr ?? '');
  return match ? { file: relative(match[1], root), line: Number(match[2]) } : { file: relative(url, root) };
}

module.exports = { load, LoadError };

"""The log, the same for both servers: every line of the process is one JSON object, whatever the handler does."""

import pathlib
import tempfile
import unittest

from harness import Server, wait_until

PYTHON = '''
import logging
import sys
import warnings

print("while loading")


class Odd:
    def __repr__(self):
        return "<odd>"


def handler(event, context):
    logging.info("plain logging")
    logging.debug("too fine")
    try:
        raise ValueError("caught")
    except ValueError:
        logging.getLogger("shop").exception("went wrong")
    sys.stdout.buffer.write("bytes \\u00fc\\n".encode())
    sys.stdout.flush()
    print("two\\nlines")
    print("part", end=" ")
    print("and rest")
    print("x" * 20_000)
    print('quotes " and \\\\ and \\x1b[1m and \\ud800')
    context.log("odd fields", time="t", odd=Odd(), level=1)
    context.log.debug("too fine")
    context.log.info("quite %s", "sure")
    warnings.warn("old ways")
    return "ok"
'''
NODE = '''
console.log('while loading');

export async function handler(event, context) {
  console.info('plain logging');
  console.debug('too fine');
  console.error('went wrong', new RangeError('caught'));
  process.stdout.write(Buffer.from('bytes \\u00fc\\n'));
  process.stdout.write('two\\nlines\\n');
  process.stdout.write('part ');
  process.stdout.write('and rest\\n');
  console.log('x'.repeat(20_000));
  console.log('quotes " and \\\\ and \\x1b[1m and \\ud800');
  const circle = { toJSON: undefined };
  circle.self = circle;
  context.log('odd fields', { time: 't', level: 1, odd: 10n });
  context.log('circle', circle);
  context.log.debug('too fine');
  context.log.info('quite %s', 'sure');
  console.table([{ a: 1 }]);
  process.emitWarning('old ways');
  return 'ok';
}
'''


class Logs:
    """Mixed into a case for each server."""

    runtime = source = file = None

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        pathlib.Path(cls.folder.name, cls.file).write_text(cls.source)
        cls.server = Server(cls.runtime, folder=cls.folder.name)
        cls.answer = cls.server.get("/", headers="X-Request-Id: the-call\r\n")
        wait_until(lambda: [r for r in cls.server.records() if "old ways" in r["message"]], "the last record")
        cls.records = cls.server.records()  # Fails where a line is no JSON.

    @classmethod
    def tearDownClass(cls):
        cls.server.kill()
        cls.folder.cleanup()

    def one(self, message):
        found = [r for r in self.records if r["message"] == message]
        self.assertEqual(len(found), 1, (message, self.records))
        return found[0]

    def test_the_call_is_answered(self):
        self.assertEqual((self.answer.status, self.answer.body), (200, b"ok"))

    def test_lines_carry_the_request_id_of_their_call_and_only_those(self):
        self.assertNotIn("requestId", self.one("while loading"))
        for message in ("plain logging", "bytes ü", "two", "lines", "part and rest", "quite sure"):
            self.assertEqual(self.one(message)["requestId"], "the-call")

    def test_what_is_below_the_level_is_not_there(self):
        self.assertEqual([r for r in self.records if r["message"] == "too fine"], [])

    def test_errors_have_their_traceback(self):
        wrong = [r for r in self.records if r["message"].startswith("went wrong")]
        self.assertEqual([r["level"] for r in wrong], ["error"])
        text = wrong[0]["message"] + wrong[0].get("stack", "")
        self.assertIn("caught", text)
        self.assertIn(self.file, text)

    def test_long_lines_are_cut(self):
        cut = [r for r in self.records if r["message"].startswith("xxx")]
        self.assertEqual([len(r["message"]) for r in cut], [16384 + len("… (cut)")])

    def test_odd_text_and_fields_stay_one_record(self):
        odd = self.one("odd fields")
        self.assertEqual((odd["time_"], odd["level_"], odd["level"]), ("t", 1, "info"))
        self.assertIn(odd["odd"], ("<odd>", "10"))
        self.assertEqual(len([r for r in self.records if r["message"].startswith('quotes " and \\ and \x1b[1m')]), 1)


class Python(Logs, unittest.TestCase):
    runtime, source, file = "python3.11", PYTHON, "handler.py"


class Node(Logs, unittest.TestCase):
    runtime, source, file = "nodejs20", NODE, "handler.mjs"


if __name__ == "__main__":
    unittest.main()

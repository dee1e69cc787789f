import unittest

from handler import handler
from sless.testing import call


class Greeting(unittest.TestCase):
    def test_it_greets_whom_the_query_names(self):
        answer = call(handler, "/?name=Ada")
        self.assertEqual((answer.status, answer.json()), (200, {"message": "hello, Ada"}))
        self.assertEqual(answer.logs, [{"level": "info", "message": "greeting Ada", "path": "/"}])
        self.assertEqual(call(handler).json(), {"message": "hello, world"})

    def test_an_empty_name_is_refused(self):
        self.assertEqual(call(handler, "/?name=").status, 400)

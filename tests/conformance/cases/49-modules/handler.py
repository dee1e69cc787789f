import hashlib
import json

from lib import prices


def handler(event, context):
    return {"total": prices.total([1, 2, 3]), "sha256": hashlib.sha256(event["body"].encode()).hexdigest(),
            "json": json.loads(event["body"])["a"]}

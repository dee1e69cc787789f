"""{{name}}: greets whom the query names."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sless import Context, HttpEvent, Result


def handler(event: HttpEvent, context: Context) -> Result:
    name = event["query"].get("name", "world")
    if not name or isinstance(name, list):
        return {"statusCode": 400, "body": {"detail": "`name` is empty or given twice; leave it out or give one"}}
    context.log(f"greeting {name}", path=event["path"])
    return {"message": f"hello, {name}"}

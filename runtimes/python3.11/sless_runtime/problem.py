"""The runtime's own answers: problem+json (RFC 9457), in the platform's shape and words."""

import json

MEDIA_TYPE = "application/problem+json"
# An exception's message goes to the client up to here; the log has all of it.
MAX_DETAIL_CHARS = 2000

# code → (status, title, whether it is an outcome of the platform and so goes into X-Sless-Outcome).
CODES = {
    "bad_request": (400, "The request can't be read", False),
    "request_timeout": (408, "The request came too slowly", False),
    "payload_too_large": (413, "The request is too large", True),
    "expectation_failed": (417, "The expectation can't be met", False),
    "concurrency_exceeded": (429, "Too many calls at once", True),
    "headers_too_large": (431, "The request's headers are too large", True),
    "function_error": (500, "The function raised an error", False),
    "out_of_memory": (500, "The function ran out of memory", True),
    "not_implemented": (501, "Not supported by the runtime", False),
    "bad_response": (502, "The function's response is not valid", True),
    "unhealthy": (503, "The function is stuck", False),
    "shutting_down": (503, "The host is shutting down", True),
    "deadline_exceeded": (504, "The function took too long", True),
    "http_version_not_supported": (505, "HTTP version not supported", False),
}


def answer(code: str, detail: str, instance: str, request_id: str):
    """`(status, header lines, body)` of a problem."""
    status, title, outcome = CODES[code]
    if len(detail) > MAX_DETAIL_CHARS:
        detail = detail[:MAX_DETAIL_CHARS] + "…"
    document = {"type": f"urn:sless:problem:{code}", "title": title, "status": status, "detail": detail,
                "instance": instance, "code": code, "requestId": request_id}
    head = f"content-type: {MEDIA_TYPE}\r\n"
    if outcome:
        head += f"x-sless-outcome: {code}\r\n"
    if code in ("concurrency_exceeded", "shutting_down"):
        head += "retry-after: 1\r\n"
    body = json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "backslashreplace")
    return status, head, body

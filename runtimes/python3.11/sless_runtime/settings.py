"""Settings, read from the environment once at start. A bad one is refused with its name and what would be right."""

import math
from dataclasses import dataclass

MIB = 1 << 20


class SettingError(ValueError):
    """A setting that is not allowed; the text names it and the remedy."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What the platform tells the runtime."""

    host: str
    port: int
    function_dir: str
    entrypoint: str
    function_name: str
    namespace: str
    version: int
    timeout_seconds: float
    concurrency: int
    request_bytes: int
    response_bytes: int
    log_bytes: int
    grace_seconds: float
    head_seconds: float
    log_level: str


LOG_LEVELS = ("debug", "info", "warn", "error")


def _number(env, name, default, low, high, kind):
    text = env.get(name, "")
    if text == "":
        return default
    what = "a whole number" if kind is int else "a number"
    try:
        value = kind(text)
    except ValueError:
        value = math.nan
    if not low <= value <= high:
        raise SettingError(f"{name} is {text!r}; set {what} from {low} to {high}, or leave it out for {default}")
    return value


def read(env) -> Settings:
    """The settings of an environment. Defaults are those of the platform's function settings."""
    level = env.get("SLESS_LOG_LEVEL") or "info"
    if level not in LOG_LEVELS:
        raise SettingError(f"SLESS_LOG_LEVEL is {level!r}; set one of {', '.join(LOG_LEVELS)}")
    return Settings(
        host=env.get("SLESS_HOST") or "0.0.0.0",
        port=_number(env, "PORT", 8080, 0, 65535, int),
        function_dir=env.get("SLESS_FUNCTION_DIR") or "/function",
        entrypoint=env.get("SLESS_ENTRYPOINT") or "handler.handler",
        function_name=env.get("SLESS_FUNCTION_NAME") or "",
        namespace=env.get("SLESS_NAMESPACE") or "",
        version=_number(env, "SLESS_VERSION", 0, 0, 2**32 - 1, int),
        timeout_seconds=_number(env, "SLESS_TIMEOUT_SECONDS", 30.0, 0.001, 900, float),
        concurrency=_number(env, "SLESS_CONCURRENCY", 100, 1, 10_000, int),
        request_bytes=_number(env, "SLESS_REQUEST_BYTES", 6 * MIB, 0, 100 * MIB, int),
        response_bytes=_number(env, "SLESS_RESPONSE_BYTES", 6 * MIB, 0, 100 * MIB, int),
        log_bytes=_number(env, "SLESS_LOG_BYTES", 64 << 10, 0, MIB, int),
        # Below the 30 s that Kubernetes waits before it kills.
        grace_seconds=_number(env, "SLESS_GRACE_SECONDS", 25.0, 0, 900, float),
        # A client has this long for request line and headers.
        head_seconds=_number(env, "SLESS_HEAD_SECONDS", 10.0, 0.1, 300, float),
        log_level=level,
    )

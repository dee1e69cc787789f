-- What is acknowledged here survives the end of the process, not a loss of power (synchronous = NORMAL): a row a call is
-- too many to wait for a disk. Times are microseconds since 1970, UTC.

-- Names once, not in every row and index entry.
CREATE TABLE namespaces (
    key INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
) STRICT;

CREATE TABLE functions (
    key INTEGER PRIMARY KEY,
    namespace_key INTEGER NOT NULL REFERENCES namespaces (key),
    name TEXT NOT NULL,
    uid BLOB NOT NULL,
    UNIQUE (uid, namespace_key, name)
) STRICT;
CREATE INDEX functions_by_name ON functions (namespace_key, name);

-- Ids are UUIDv7 and come in order of time, so rows go to the end of the tree.
CREATE TABLE invocations (
    id BLOB PRIMARY KEY,
    namespace_key INTEGER NOT NULL,
    function_key INTEGER NOT NULL,
    version INTEGER NOT NULL,
    trigger TEXT NOT NULL,
    request_id TEXT,
    started_at INTEGER NOT NULL,
    duration_us INTEGER NOT NULL,
    status INTEGER NOT NULL,
    outcome TEXT NOT NULL,
    cold TEXT,
    cpu_us INTEGER NOT NULL,
    peak_memory_bytes INTEGER NOT NULL,
    bytes_in INTEGER NOT NULL,
    bytes_out INTEGER NOT NULL,
    log_tail TEXT NOT NULL,
    error TEXT
) STRICT, WITHOUT ROWID;
-- The outcome is in both, so that a filter on it reads the index only.
CREATE INDEX invocations_by_function ON invocations (function_key, started_at, id, outcome);
CREATE INDEX invocations_by_namespace ON invocations (namespace_key, started_at, id, outcome);

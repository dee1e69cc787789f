-- What is acknowledged here survives a loss of power (synchronous = FULL). Times are microseconds since 1970, UTC.

-- The one counter of all changes: the resource version of every object comes from it, so it never goes back.
CREATE TABLE revision (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    value INTEGER NOT NULL
) STRICT;
INSERT INTO revision (id, value) VALUES (1, 0);

CREATE TABLE resources (
    kind TEXT NOT NULL,
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    uid BLOB NOT NULL,
    generation INTEGER NOT NULL,
    version INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    spec TEXT NOT NULL,
    status TEXT NOT NULL,
    PRIMARY KEY (kind, namespace, name)
) STRICT;
-- Watchers read changes in this order.
CREATE UNIQUE INDEX resources_by_version ON resources (kind, version);

-- Last states of deleted objects, until every watcher has seen that they are gone.
CREATE TABLE tombstones (
    kind TEXT NOT NULL,
    version INTEGER NOT NULL,
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    uid BLOB NOT NULL,
    generation INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    spec TEXT NOT NULL,
    status TEXT NOT NULL,
    PRIMARY KEY (kind, version)
) STRICT, WITHOUT ROWID;

CREATE TABLE secrets (
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    version INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    nonce BLOB NOT NULL,
    ciphertext BLOB NOT NULL,
    PRIMARY KEY (namespace, name)
) STRICT;
CREATE UNIQUE INDEX secrets_by_version ON secrets (version);

-- The highest number that a function's versions have had: a deleted version's number is not given out again.
CREATE TABLE version_numbers (
    function_uid BLOB PRIMARY KEY,
    newest INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE versions (
    function_uid BLOB NOT NULL REFERENCES version_numbers (function_uid),
    number INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    namespace TEXT NOT NULL,
    function TEXT NOT NULL,
    spec TEXT NOT NULL,
    cause TEXT NOT NULL,
    state TEXT NOT NULL,
    source_bytes INTEGER NOT NULL,
    build_ms INTEGER,
    created_at INTEGER NOT NULL,
    -- Taken out of spec and state, to find artifacts and what must be kept.
    s3_key TEXT,
    artifact BLOB,
    wasm BLOB,
    engine BLOB,
    PRIMARY KEY (function_uid, number),
    UNIQUE (function_uid, generation)
) STRICT;
CREATE INDEX versions_by_component ON versions (namespace, wasm, engine) WHERE wasm IS NOT NULL;

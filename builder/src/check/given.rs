//! What hosts give: the interfaces of WASI 0.2.12 that wasmtime-wasi and wasmtime-wasi-http 48 link without their unstable
//! features, with the functions of each. Sockets are linked, and refused when used.
//!
//! A table and not a `Linker`, because the builder has no host inside. A host that links more or less has to say so here.

/// Interface without its version → its functions.
pub(super) const GIVEN: &[(&str, &[&str])] = &[
    (
        "wasi:cli/environment",
        &["get-environment", "get-arguments", "initial-cwd"],
    ),
    (
        "wasi:cli/exit",
        &["exit", "exit-with-code"],
    ),
    (
        "wasi:cli/stderr",
        &["get-stderr"],
    ),
    (
        "wasi:cli/stdin",
        &["get-stdin"],
    ),
    (
        "wasi:cli/stdout",
        &["get-stdout"],
    ),
    (
        "wasi:cli/terminal-input",
        &[],
    ),
    (
        "wasi:cli/terminal-output",
        &[],
    ),
    (
        "wasi:cli/terminal-stderr",
        &["get-terminal-stderr"],
    ),
    (
        "wasi:cli/terminal-stdin",
        &["get-terminal-stdin"],
    ),
    (
        "wasi:cli/terminal-stdout",
        &["get-terminal-stdout"],
    ),
    (
        "wasi:clocks/monotonic-clock",
        &["now", "resolution", "subscribe-instant", "subscribe-duration"],
    ),
    (
        "wasi:clocks/wall-clock",
        &["now", "resolution"],
    ),
    (
        "wasi:filesystem/preopens",
        &["get-directories"],
    ),
    (
        "wasi:filesystem/types",
        &["[method]descriptor.read-via-stream", "[method]descriptor.write-via-stream", "[method]descriptor.append-via-stream", "[method]descriptor.advise", "[method]descriptor.sync-data", "[method]descriptor.get-flags", "[method]descriptor.get-type", "[method]descriptor.set-size", "[method]descriptor.set-times", "[method]descriptor.read", "[method]descriptor.write", "[method]descriptor.read-directory", "[method]descriptor.sync", "[method]descriptor.create-directory-at", "[method]descriptor.stat", "[method]descriptor.stat-at", "[method]descriptor.set-times-at", "[method]descriptor.link-at", "[method]descriptor.open-at", "[method]descriptor.readlink-at", "[method]descriptor.remove-directory-at", "[method]descriptor.rename-at", "[method]descriptor.symlink-at", "[method]descriptor.unlink-file-at", "[method]descriptor.is-same-object", "[method]descriptor.metadata-hash", "[method]descriptor.metadata-hash-at", "[method]directory-entry-stream.read-directory-entry", "filesystem-error-code"],
    ),
    (
        "wasi:http/outgoing-handler",
        &["handle"],
    ),
    (
        "wasi:http/types",
        &["[constructor]fields", "[static]fields.from-list", "[method]fields.get", "[method]fields.has", "[method]fields.set", "[method]fields.delete", "[method]fields.append", "[method]fields.entries", "[method]fields.clone", "[method]incoming-request.method", "[method]incoming-request.path-with-query", "[method]incoming-request.scheme", "[method]incoming-request.authority", "[method]incoming-request.headers", "[method]incoming-request.consume", "[constructor]outgoing-request", "[method]outgoing-request.body", "[method]outgoing-request.method", "[method]outgoing-request.set-method", "[method]outgoing-request.path-with-query", "[method]outgoing-request.set-path-with-query", "[method]outgoing-request.scheme", "[method]outgoing-request.set-scheme", "[method]outgoing-request.authority", "[method]outgoing-request.set-authority", "[method]outgoing-request.headers", "[constructor]request-options", "[method]request-options.connect-timeout", "[method]request-options.set-connect-timeout", "[method]request-options.first-byte-timeout", "[method]request-options.set-first-byte-timeout", "[method]request-options.between-bytes-timeout", "[method]request-options.set-between-bytes-timeout", "[static]response-outparam.set", "[method]incoming-response.status", "[method]incoming-response.headers", "[method]incoming-response.consume", "[method]incoming-body.stream", "[static]incoming-body.finish", "[method]future-trailers.subscribe", "[method]future-trailers.get", "[constructor]outgoing-response", "[method]outgoing-response.status-code", "[method]outgoing-response.set-status-code", "[method]outgoing-response.headers", "[method]outgoing-response.body", "[method]outgoing-body.write", "[static]outgoing-body.finish", "[method]future-incoming-response.subscribe", "[method]future-incoming-response.get", "http-error-code"],
    ),
    (
        "wasi:io/error",
        &["[method]error.to-debug-string"],
    ),
    (
        "wasi:io/poll",
        &["[method]pollable.ready", "[method]pollable.block", "poll"],
    ),
    (
        "wasi:io/streams",
        &["[method]input-stream.read", "[method]input-stream.blocking-read", "[method]input-stream.skip", "[method]input-stream.blocking-skip", "[method]input-stream.subscribe", "[method]output-stream.check-write", "[method]output-stream.write", "[method]output-stream.blocking-write-and-flush", "[method]output-stream.flush", "[method]output-stream.blocking-flush", "[method]output-stream.subscribe", "[method]output-stream.write-zeroes", "[method]output-stream.blocking-write-zeroes-and-flush", "[method]output-stream.splice", "[method]output-stream.blocking-splice"],
    ),
    (
        "wasi:random/insecure",
        &["get-insecure-random-bytes", "get-insecure-random-u64"],
    ),
    (
        "wasi:random/insecure-seed",
        &["insecure-seed"],
    ),
    (
        "wasi:random/random",
        &["get-random-bytes", "get-random-u64"],
    ),
    (
        "wasi:sockets/instance-network",
        &["instance-network"],
    ),
    (
        "wasi:sockets/ip-name-lookup",
        &["[method]resolve-address-stream.resolve-next-address", "[method]resolve-address-stream.subscribe", "resolve-addresses"],
    ),
    (
        "wasi:sockets/network",
        &[],
    ),
    (
        "wasi:sockets/tcp",
        &["[method]tcp-socket.start-bind", "[method]tcp-socket.finish-bind", "[method]tcp-socket.start-connect", "[method]tcp-socket.finish-connect", "[method]tcp-socket.start-listen", "[method]tcp-socket.finish-listen", "[method]tcp-socket.accept", "[method]tcp-socket.local-address", "[method]tcp-socket.remote-address", "[method]tcp-socket.is-listening", "[method]tcp-socket.address-family", "[method]tcp-socket.set-listen-backlog-size", "[method]tcp-socket.keep-alive-enabled", "[method]tcp-socket.set-keep-alive-enabled", "[method]tcp-socket.keep-alive-idle-time", "[method]tcp-socket.set-keep-alive-idle-time", "[method]tcp-socket.keep-alive-interval", "[method]tcp-socket.set-keep-alive-interval", "[method]tcp-socket.keep-alive-count", "[method]tcp-socket.set-keep-alive-count", "[method]tcp-socket.hop-limit", "[method]tcp-socket.set-hop-limit", "[method]tcp-socket.receive-buffer-size", "[method]tcp-socket.set-receive-buffer-size", "[method]tcp-socket.send-buffer-size", "[method]tcp-socket.set-send-buffer-size", "[method]tcp-socket.subscribe", "[method]tcp-socket.shutdown"],
    ),
    (
        "wasi:sockets/tcp-create-socket",
        &["create-tcp-socket"],
    ),
    (
        "wasi:sockets/udp",
        &["[method]udp-socket.start-bind", "[method]udp-socket.finish-bind", "[method]udp-socket.stream", "[method]udp-socket.local-address", "[method]udp-socket.remote-address", "[method]udp-socket.address-family", "[method]udp-socket.unicast-hop-limit", "[method]udp-socket.set-unicast-hop-limit", "[method]udp-socket.receive-buffer-size", "[method]udp-socket.set-receive-buffer-size", "[method]udp-socket.send-buffer-size", "[method]udp-socket.set-send-buffer-size", "[method]udp-socket.subscribe", "[method]incoming-datagram-stream.receive", "[method]incoming-datagram-stream.subscribe", "[method]outgoing-datagram-stream.check-send", "[method]outgoing-datagram-stream.send", "[method]outgoing-datagram-stream.subscribe"],
    ),
    (
        "wasi:sockets/udp-create-socket",
        &["create-udp-socket"],
    ),
];

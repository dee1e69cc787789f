// Functions for sless in C: write `sless_handle`, which answers one request.
//
// Text is UTF-8 and ends with a zero byte; bodies have a length. Whoever makes something with a function that says "to be
// freed" frees it; all else belongs to the library and lives as long as the call. Where there is no memory left, the
// program ends: the platform says so to the client (`function_trapped` or `out_of_memory`).

#ifndef SLESS_H
#define SLESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  const char *name;  // In lower case.
  const char *value;
} sless_header;

// A request, whole. How large it may be is for the platform to say (`limits.requestBytes`).
typedef struct {
  const char *method;  // As sent, such as "GET".
  const char *path;    // After the function's name, byte for byte: "%2F" stays "%2F".
  const char *query;   // What follows "?", byte for byte; "" without one.
  const sless_header *headers;
  size_t headers_len;
  const uint8_t *body;
  size_t body_len;
} sless_request;

// A response as far as it is made. `= {0}` is one with status 200 and nothing in it.
typedef struct {
  int status;  // 200 to 599; 0 is 200.
  sless_header *headers;
  size_t headers_len;
  uint8_t *body;
  size_t body_len;
  size_t body_capacity;
} sless_response;

// Yours: answers a request by filling the response.
void sless_handle(const sless_request *request, sless_response *response);

// ---- The request.

// The first header of that name, whose case does not matter; NULL where there is none.
const char *sless_header_value(const sless_request *request, const char *name);
// The first parameter of that name in the query, decoded as a form, to be freed; NULL where there is none.
char *sless_query_value(const sless_request *request, const char *name);
// The request's id, which is in its log lines too; "" outside of the platform.
const char *sless_request_id(const sless_request *request);

// ---- The response.

// Adds a header; several of a name stay apart. False, and nothing added, if it could not be sent: a name is a token of
// RFC 9110, a value has no control characters.
bool sless_add_header(sless_response *response, const char *name, const char *value);
// Adds bytes to the body.
void sless_write(sless_response *response, const void *bytes, size_t len);
// Adds text to the body, as `printf` forms it.
void sless_printf(sless_response *response, const char *format, ...) __attribute__((format(printf, 2, 3)));
// Adds a JSON string to the body: the text in quotes, with what has to be escaped escaped.
void sless_write_json(sless_response *response, const char *text);
// Makes it a problem document (RFC 9457) instead of what it was. `code` is a word for programs, such as "not_found".
void sless_problem(sless_response *response, int status, const char *code, const char *detail);
// Frees what a response holds; for tests, since the library does it for each call.
void sless_response_free(sless_response *response);

// ---- The log and the settings.

typedef enum { SLESS_DEBUG, SLESS_INFO, SLESS_WARN, SLESS_ERROR } sless_level;

// Writes a line to the function's log: a JSON object with level, message and the request's id. What is printed otherwise
// is a line of the log as well. `request` may be NULL.
void sless_log(const sless_request *request, sless_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

// A variable of `[env]` or `[secretRefs]` in sless.toml; `fallback` where it is absent.
const char *sless_env(const char *name, const char *fallback);

// ---- HTTP out. Where to is for the platform to say (`egress.allow`).

typedef struct {
  const char *method;  // NULL is GET.
  const char *url;     // http:// or https://
  const sless_header *headers;
  size_t headers_len;
  const uint8_t *body;
  size_t body_len;
} sless_outgoing;

// Sends a request and reads the response, to be freed with `sless_response_free`; any status is an answer. At most
// `max_bytes` of body are read, more is a failure. NULL if it went well, else a sentence that says what did not.
const char *sless_fetch(const sless_outgoing *outgoing, size_t max_bytes, sless_response *response);

#ifdef __cplusplus
}
#endif
#endif

// The host's side: `wasi:http` in and out, by the generated bindings.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bindings/bindings.h"
#include "internal.h"
#include "sless.h"

#define HTTP(name) wasi_http_types_##name

// The most that one `blocking-write-and-flush` takes, and a piece of what is read.
enum { WRITE_BYTES = 4096, READ_BYTES = 64 << 10 };

// The bindings ask for the object file that carries their types; `sless-componentize` adds the types instead.
void __component_type_object_force_link_bindings(void) {}

static const char *const METHODS[] = {"GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"};
enum { METHODS_LEN = sizeof METHODS / sizeof *METHODS };

// Of the connection, not of the message: the host sets them, and refuses a function's.
static bool is_hop_by_hop(const char *name) {
  static const char *const names[] = {"connection", "keep-alive", "proxy-connection", "te", "transfer-encoding",
                                      "upgrade", "host"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (strcmp(name, names[i]) == 0) return true;
  }
  return false;
}

static bindings_string_t text(const char *bytes) { return (bindings_string_t){(uint8_t *)bytes, strlen(bytes)}; }

// Headers as a list, to be freed with their texts.
static sless_header *take_headers(HTTP(own_fields_t) fields, size_t *len) {
  HTTP(list_tuple2_field_name_field_value_t) entries;
  HTTP(method_fields_entries)(HTTP(borrow_fields)(fields), &entries);
  sless_header *headers = sless_allocate(NULL, entries.len * sizeof *headers);
  for (size_t i = 0; i < entries.len; i++) {
    headers[i].name = sless_copy(entries.ptr[i].f0.ptr, entries.ptr[i].f0.len);
    headers[i].value = sless_copy(entries.ptr[i].f1.ptr, entries.ptr[i].f1.len);
  }
  *len = entries.len;
  HTTP(list_tuple2_field_name_field_value_free)(&entries);
  HTTP(fields_drop_own)(fields);
  return headers;
}

static HTTP(own_fields_t) give_headers(const sless_header *headers, size_t len) {
  HTTP(own_fields_t) fields = HTTP(constructor_fields)();
  for (size_t i = 0; i < len; i++) {
    if (is_hop_by_hop(headers[i].name)) continue;
    bindings_string_t name = text(headers[i].name);
    HTTP(field_value_t) value = {(uint8_t *)headers[i].value, strlen(headers[i].value)};
    HTTP(header_error_t) error;
    // `sless_add_header` has checked it; what the host refuses beyond that is left out.
    HTTP(method_fields_append)(HTTP(borrow_fields)(fields), &name, &value, &error);
  }
  return fields;
}

// Reads a body to its end into `into`, and drops it. False if it breaks off or has more than `max_bytes`.
static bool read_body(HTTP(own_incoming_body_t) body, size_t max_bytes, sless_response *into) {
  wasi_io_streams_own_input_stream_t stream;
  HTTP(method_incoming_body_stream)(HTTP(borrow_incoming_body)(body), &stream);
  bool whole = false;
  for (;;) {
    bindings_list_u8_t piece;
    wasi_io_streams_stream_error_t error;
    if (!wasi_io_streams_method_input_stream_blocking_read(wasi_io_streams_borrow_input_stream(stream), READ_BYTES,
                                                           &piece, &error)) {
      whole = error.tag == WASI_IO_STREAMS_STREAM_ERROR_CLOSED;
      wasi_io_streams_stream_error_free(&error);
      break;
    }
    bool fits = piece.len <= max_bytes - into->body_len;
    if (fits) sless_write(into, piece.ptr, piece.len);
    bindings_list_u8_free(&piece);
    if (!fits) break;
  }
  wasi_io_streams_input_stream_drop_own(stream);
  HTTP(incoming_body_drop_own)(body);
  return whole;
}

// Writes a body and ends it. A failure means that the other side has gone: there is nobody left to tell.
static void write_body(HTTP(own_outgoing_body_t) body, const uint8_t *bytes, size_t len) {
  wasi_io_streams_own_output_stream_t stream;
  HTTP(method_outgoing_body_write)(HTTP(borrow_outgoing_body)(body), &stream);
  bool well = true;
  while (well && len > 0) {
    bindings_list_u8_t piece = {(uint8_t *)bytes, len < WRITE_BYTES ? len : WRITE_BYTES};
    wasi_io_streams_stream_error_t error;
    well = wasi_io_streams_method_output_stream_blocking_write_and_flush(wasi_io_streams_borrow_output_stream(stream),
                                                                         &piece, &error);
    if (!well) wasi_io_streams_stream_error_free(&error);
    bytes += piece.len;
    len -= piece.len;
  }
  wasi_io_streams_output_stream_drop_own(stream);
  if (!well) {
    HTTP(outgoing_body_drop_own)(body);
    return;
  }
  HTTP(error_code_t) error;
  if (!HTTP(static_outgoing_body_finish)(body, NULL, &error)) HTTP(error_code_free)(&error);
}

static void respond(HTTP(own_response_outparam_t) out, sless_response *response) {
  int status = response->status == 0 ? 200 : response->status;
  bool has_length = false;
  for (size_t i = 0; i < response->headers_len; i++) {
    has_length = has_length || strcmp(response->headers[i].name, "content-length") == 0;
  }
  if (!has_length && status != 204 && status != 304) {
    char length[24];
    snprintf(length, sizeof length, "%zu", response->body_len);
    sless_add_header(response, "content-length", length);
  }
  HTTP(own_outgoing_response_t) made =
      HTTP(constructor_outgoing_response)(give_headers(response->headers, response->headers_len));
  HTTP(method_outgoing_response_set_status_code)(HTTP(borrow_outgoing_response)(made), (uint16_t)status);
  HTTP(own_outgoing_body_t) body;
  HTTP(method_outgoing_response_body)(HTTP(borrow_outgoing_response)(made), &body);
  HTTP(result_own_outgoing_response_error_code_t) result = {.is_err = false, .val.ok = made};
  HTTP(static_response_outparam_set)(out, &result);
  write_body(body, response->body, response->body_len);
}

void exports_wasi_http_incoming_handler_handle(HTTP(own_incoming_request_t) incoming,
                                               HTTP(own_response_outparam_t) out) {
  HTTP(borrow_incoming_request_t) borrowed = HTTP(borrow_incoming_request)(incoming);
  sless_request request = {0};
  sless_response body = {0}, response = {0};

  HTTP(method_t) method;
  HTTP(method_incoming_request_method)(borrowed, &method);
  char *other = NULL;
  if (method.tag < METHODS_LEN) {
    request.method = METHODS[method.tag];
  } else {
    request.method = other = sless_copy(method.val.other.ptr, method.val.other.len);
  }
  HTTP(method_free)(&method);

  bindings_string_t target = {0};
  char *path = HTTP(method_incoming_request_path_with_query)(borrowed, &target)
                   ? sless_copy(target.ptr, target.len)
                   : sless_copy("/", 1);
  if (target.ptr != NULL) bindings_string_free(&target);
  char *question = strchr(path, '?');
  if (question != NULL) *question = '\0';
  request.path = path;
  request.query = question == NULL ? "" : question + 1;

  request.headers = take_headers(HTTP(method_incoming_request_headers)(borrowed), &request.headers_len);
  HTTP(own_incoming_body_t) stream;
  bool whole = HTTP(method_incoming_request_consume)(borrowed, &stream) && read_body(stream, SIZE_MAX, &body);
  HTTP(incoming_request_drop_own)(incoming);
  request.body = body.body;
  request.body_len = body.body_len;

  if (whole) {
    sless_handle(&request, &response);
  } else {
    sless_problem(&response, 400, "bad_request", "the request's body broke off");
  }
  respond(out, &response);

  for (size_t i = 0; i < request.headers_len; i++) {
    free((void *)request.headers[i].name);
    free((void *)request.headers[i].value);
  }
  free((void *)request.headers);
  free(path);
  free(other);
  sless_response_free(&body);
  sless_response_free(&response);
}

static const char *why(const HTTP(error_code_t) * error) {
  switch (error->tag) {
    case WASI_HTTP_TYPES_ERROR_CODE_HTTP_REQUEST_DENIED:
    case WASI_HTTP_TYPES_ERROR_CODE_DESTINATION_IP_PROHIBITED:
      return "the function may not connect there; name the host in `egress.allow` of sless.toml";
    case WASI_HTTP_TYPES_ERROR_CODE_DNS_ERROR:
    case WASI_HTTP_TYPES_ERROR_CODE_DNS_TIMEOUT:
    case WASI_HTTP_TYPES_ERROR_CODE_DESTINATION_NOT_FOUND:
      return "the host's name is not known";
    case WASI_HTTP_TYPES_ERROR_CODE_CONNECTION_REFUSED:
    case WASI_HTTP_TYPES_ERROR_CODE_DESTINATION_UNAVAILABLE:
      return "the connection was refused";
    case WASI_HTTP_TYPES_ERROR_CODE_CONNECTION_TIMEOUT:
    case WASI_HTTP_TYPES_ERROR_CODE_HTTP_RESPONSE_TIMEOUT:
      return "it took too long";
    case WASI_HTTP_TYPES_ERROR_CODE_TLS_PROTOCOL_ERROR:
    case WASI_HTTP_TYPES_ERROR_CODE_TLS_CERTIFICATE_ERROR:
    case WASI_HTTP_TYPES_ERROR_CODE_TLS_ALERT_RECEIVED:
      return "TLS failed: the host's certificate or protocol is not accepted";
    default:
      return "the exchange failed";
  }
}

// Sets method and address. False if one of them is none.
static bool address(HTTP(borrow_outgoing_request_t) request, const sless_outgoing *outgoing) {
  const char *name = outgoing->method == NULL ? "GET" : outgoing->method;
  HTTP(method_t) method = {.tag = METHODS_LEN, .val.other = text(name)};
  for (uint8_t i = 0; i < METHODS_LEN; i++) {
    if (strcmp(METHODS[i], name) == 0) method.tag = i;
  }
  HTTP(scheme_t) scheme = {.tag = WASI_HTTP_TYPES_SCHEME_HTTPS};
  const char *rest = outgoing->url;
  if (strncmp(rest, "https://", 8) == 0) {
    rest += 8;
  } else if (strncmp(rest, "http://", 7) == 0) {
    scheme.tag = WASI_HTTP_TYPES_SCHEME_HTTP;
    rest += 7;
  } else {
    return false;
  }
  size_t host = strcspn(rest, "/?#");
  bindings_string_t authority = {(uint8_t *)rest, host};
  // A fragment stays with the client; a query needs a path before it.
  char *path = sless_copy(rest + host, strcspn(rest + host, "#"));
  if (path[0] != '/') {
    path = sless_allocate(path, strlen(path) + 2);
    memmove(path + 1, path, strlen(path) + 1);
    path[0] = '/';
  }
  bindings_string_t target = text(path);
  bool well = HTTP(method_outgoing_request_set_method)(request, &method) &&
              HTTP(method_outgoing_request_set_scheme)(request, &scheme) &&
              HTTP(method_outgoing_request_set_authority)(request, &authority) &&
              HTTP(method_outgoing_request_set_path_with_query)(request, &target);
  free(path);
  return well;
}

const char *sless_fetch(const sless_outgoing *outgoing, size_t max_bytes, sless_response *response) {
  *response = (sless_response){0};
  HTTP(own_fields_t) fields = give_headers(outgoing->headers, outgoing->headers_len);
  if (outgoing->body_len > 0) {
    char length[24];
    int digits = snprintf(length, sizeof length, "%zu", outgoing->body_len);
    bindings_string_t name = text("content-length");
    HTTP(list_field_value_t) values = {&(HTTP(field_value_t)){(uint8_t *)length, (size_t)digits}, 1};
    HTTP(header_error_t) refused;
    HTTP(method_fields_set)(HTTP(borrow_fields)(fields), &name, &values, &refused);
  }
  HTTP(own_outgoing_request_t) request = HTTP(constructor_outgoing_request)(fields);
  if (!address(HTTP(borrow_outgoing_request)(request), outgoing)) {
    HTTP(outgoing_request_drop_own)(request);
    return "the method or the URL is not valid; a URL begins with http:// or https://";
  }
  HTTP(own_outgoing_body_t) body;
  HTTP(method_outgoing_request_body)(HTTP(borrow_outgoing_request)(request), &body);
  wasi_http_outgoing_handler_own_future_incoming_response_t future;
  HTTP(error_code_t) error;
  if (!wasi_http_outgoing_handler_handle(request, NULL, &future, &error)) {
    HTTP(outgoing_body_drop_own)(body);
    const char *reason = why(&error);
    HTTP(error_code_free)(&error);
    return reason;
  }
  write_body(body, outgoing->body, outgoing->body_len);

  HTTP(borrow_future_incoming_response_t) waiting = HTTP(borrow_future_incoming_response)(future);
  wasi_io_poll_own_pollable_t ready = HTTP(method_future_incoming_response_subscribe)(waiting);
  wasi_io_poll_method_pollable_block(wasi_io_poll_borrow_pollable(ready));
  wasi_io_poll_pollable_drop_own(ready);
  HTTP(result_result_own_incoming_response_error_code_void_t) result;
  if (!HTTP(method_future_incoming_response_get)(waiting, &result) || result.is_err) abort();
  HTTP(future_incoming_response_drop_own)(future);
  if (result.val.ok.is_err) {
    const char *reason = why(&result.val.ok.val.err);
    HTTP(error_code_free)(&result.val.ok.val.err);
    return reason;
  }
  HTTP(own_incoming_response_t) incoming = result.val.ok.val.ok;
  HTTP(borrow_incoming_response_t) borrowed = HTTP(borrow_incoming_response)(incoming);
  response->status = HTTP(method_incoming_response_status)(borrowed);
  response->headers = take_headers(HTTP(method_incoming_response_headers)(borrowed), &response->headers_len);
  HTTP(own_incoming_body_t) stream;
  bool whole = HTTP(method_incoming_response_consume)(borrowed, &stream) && read_body(stream, max_bytes, response);
  HTTP(incoming_response_drop_own)(incoming);
  if (whole) return NULL;
  sless_response_free(response);
  return "the response broke off or has more bytes than allowed";
}

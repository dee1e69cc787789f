// What needs no host: reading requests, making responses, the log. Tests link this alone.

#include "sless.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

void *sless_allocate(void *old, size_t len) {
  void *made = realloc(old, len == 0 ? 1 : len);
  if (made == NULL) abort();
  return made;
}

char *sless_copy(const void *bytes, size_t len) {
  char *copy = sless_allocate(NULL, len + 1);
  if (len > 0) memcpy(copy, bytes, len);
  copy[len] = '\0';
  return copy;
}

static char lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c; }

static bool same_name(const char *a, const char *b) {
  while (*a != '\0' && lower(*a) == lower(*b)) a++, b++;
  return *a == *b;
}

const char *sless_header_value(const sless_request *request, const char *name) {
  for (size_t i = 0; i < request->headers_len; i++) {
    if (same_name(request->headers[i].name, name)) return request->headers[i].value;
  }
  return NULL;
}

const char *sless_request_id(const sless_request *request) {
  const char *id = sless_header_value(request, "x-request-id");
  return id == NULL ? "" : id;
}

static int hex(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  c = lower(c);
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// As forms are decoded: "+" is a space, a "%" without two digits stays. A zero byte would end the text, so it stays "%00".
static char *decoded(const char *text, size_t len) {
  char *out = sless_copy(text, len);
  size_t end = 0;
  for (size_t i = 0; i < len; i++, end++) {
    out[end] = text[i] == '+' ? ' ' : text[i];
    if (text[i] != '%' || i + 2 >= len) continue;
    int high = hex(text[i + 1]), low = hex(text[i + 2]);
    if (high < 0 || low < 0 || high + low == 0) continue;
    out[end] = (char)(high * 16 + low);
    i += 2;
  }
  out[end] = '\0';
  return out;
}

char *sless_query_value(const sless_request *request, const char *name) {
  const char *at = request->query;
  while (*at != '\0') {
    size_t len = strcspn(at, "&");
    const char *equals = memchr(at, '=', len);
    size_t name_len = equals == NULL ? len : (size_t)(equals - at);
    char *key = decoded(at, name_len);
    bool found = len > 0 && strcmp(key, name) == 0;
    free(key);
    if (found) return equals == NULL ? sless_copy("", 0) : decoded(equals + 1, len - name_len - 1);
    at += len;
    if (*at == '&') at++;
  }
  return NULL;
}

static bool is_token(const char *name) {
  if (*name == '\0') return false;
  for (; *name != '\0'; name++) {
    char c = lower(*name);
    bool alphanumeric = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    if (!alphanumeric && strchr("!#$%&'*+-.^_`|~", c) == NULL) return false;
  }
  return true;
}

static bool is_value(const char *value) {
  for (; *value != '\0'; value++) {
    unsigned char c = (unsigned char)*value;
    if ((c < 0x20 && c != '\t') || c == 0x7f) return false;
  }
  return true;
}

bool sless_add_header(sless_response *response, const char *name, const char *value) {
  if (!is_token(name) || !is_value(value)) return false;
  size_t len = response->headers_len;
  response->headers = sless_allocate(response->headers, (len + 1) * sizeof *response->headers);
  char *copy = sless_copy(name, strlen(name));
  for (char *c = copy; *c != '\0'; c++) *c = lower(*c);
  response->headers[len] = (sless_header){copy, sless_copy(value, strlen(value))};
  response->headers_len = len + 1;
  return true;
}

// Room for so many more bytes.
static uint8_t *grow(sless_response *response, size_t len) {
  size_t wanted = response->body_len + len;
  if (wanted < len) abort();
  if (wanted > response->body_capacity) {
    size_t doubled = response->body_capacity * 2;
    response->body_capacity = doubled > wanted ? doubled : wanted + 64;
    response->body = sless_allocate(response->body, response->body_capacity);
  }
  return response->body + response->body_len;
}

void sless_write(sless_response *response, const void *bytes, size_t len) {
  if (len == 0) return;
  memcpy(grow(response, len), bytes, len);
  response->body_len += len;
}

void sless_printf(sless_response *response, const char *format, ...) {
  va_list args, again;
  va_start(args, format);
  va_copy(again, args);
  int len = vsnprintf(NULL, 0, format, args);
  va_end(args);
  if (len > 0) {
    // It ends with a zero byte, which is no part of the body.
    vsnprintf((char *)grow(response, (size_t)len + 1), (size_t)len + 1, format, again);
    response->body_len += (size_t)len;
  }
  va_end(again);
}

void sless_write_json(sless_response *response, const char *text) {
  sless_write(response, "\"", 1);
  for (; *text != '\0'; text++) {
    unsigned char c = (unsigned char)*text;
    if (c == '"' || c == '\\') {
      sless_printf(response, "\\%c", c);
    } else if (c < 0x20) {
      sless_printf(response, "\\u%04x", c);
    } else {
      sless_write(response, text, 1);
    }
  }
  sless_write(response, "\"", 1);
}

void sless_response_free(sless_response *response) {
  for (size_t i = 0; i < response->headers_len; i++) {
    free((void *)response->headers[i].name);
    free((void *)response->headers[i].value);
  }
  free(response->headers);
  free(response->body);
  *response = (sless_response){0};
}

void sless_problem(sless_response *response, int status, const char *code, const char *detail) {
  // `detail` may be of what is given up here.
  sless_response made = {.status = status};
  sless_add_header(&made, "content-type", "application/problem+json");
  sless_printf(&made, "{\"type\":\"about:blank\",\"status\":%d,\"code\":", status);
  sless_write_json(&made, code);
  sless_printf(&made, ",\"detail\":");
  sless_write_json(&made, detail);
  sless_printf(&made, "}");
  sless_response_free(response);
  *response = made;
}

void sless_log(const sless_request *request, sless_level level, const char *format, ...) {
  static const char *const names[] = {"debug", "info", "warn", "error"};
  sless_response message = {0}, line = {0};
  va_list args, again;
  va_start(args, format);
  va_copy(again, args);
  int len = vsnprintf(NULL, 0, format, args);
  va_end(args);
  char *text = (char *)grow(&message, (size_t)(len < 0 ? 0 : len) + 1);
  text[0] = '\0';
  if (len > 0) vsnprintf(text, (size_t)len + 1, format, again);
  va_end(again);
  sless_printf(&line, "{\"level\":\"%s\",\"message\":", names[level]);
  sless_write_json(&line, text);
  if (request != NULL && sless_request_id(request)[0] != '\0') {
    sless_printf(&line, ",\"requestId\":");
    sless_write_json(&line, sless_request_id(request));
  }
  sless_printf(&line, "}\n");
  FILE *out = level >= SLESS_WARN ? stderr : stdout;
  fwrite(line.body, 1, line.body_len, out);
  fflush(out);
  sless_response_free(&message);
  sless_response_free(&line);
}

const char *sless_env(const char *name, const char *fallback) {
  const char *value = getenv(name);
  return value == NULL ? fallback : value;
}

// The part of the library that needs no host.

#undef NDEBUG
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../sless.h"

static void expect_query(const char *query, const char *name, const char *expected) {
  sless_request request = {.query = query};
  char *value = sless_query_value(&request, name);
  if (expected == NULL ? value != NULL : value == NULL || strcmp(value, expected) != 0) {
    fprintf(stderr, "%s in %s: expected %s, got %s\n", name, query, expected ? expected : "none", value ? value : "none");
    abort();
  }
  free(value);
}

static void a_query_is_decoded_as_a_form(void) {
  expect_query("x=1&x=2", "x", "1");
  expect_query("sum=a%2Bb+c&empty&y=", "sum", "a+b c");
  expect_query("sum=a%2Bb+c&empty&y=", "empty", "");
  expect_query("sum=a%2Bb+c&empty&y=", "y", "");
  expect_query("%6e=%e2%82%AC", "n", "\xe2\x82\xac");
  expect_query("a=%zz%4&b=%00x", "a", "%zz%4");
  expect_query("a=%zz%4&b=%00x", "b", "%00x");
  expect_query("", "a", NULL);
  expect_query("&&ab=1", "a", NULL);
  expect_query("&&ab=1", "", NULL);
}

static void headers_are_found_and_checked(void) {
  sless_header headers[] = {{"content-type", "text/plain"}, {"x-request-id", "r1"}};
  sless_request request = {.headers = headers, .headers_len = 2};
  assert(strcmp(sless_header_value(&request, "Content-Type"), "text/plain") == 0);
  assert(sless_header_value(&request, "content") == NULL);
  assert(strcmp(sless_request_id(&request), "r1") == 0);
  sless_response response = {0};
  assert(sless_add_header(&response, "Set-Cookie", "a=1") && sless_add_header(&response, "set-cookie", "b=2"));
  assert(!sless_add_header(&response, "", "x") && !sless_add_header(&response, "a b", "x"));
  assert(!sless_add_header(&response, "x", "a\r\nb: c"));
  assert(response.headers_len == 2 && strcmp(response.headers[0].name, "set-cookie") == 0);
  sless_response_free(&response);
}

static void a_body_grows_and_json_is_escaped(void) {
  sless_response response = {0};
  for (int i = 0; i < 1000; i++) sless_printf(&response, "%d,", i);
  assert(response.body_len == 3890);
  sless_response_free(&response);
  sless_write_json(&response, "a\"\\\n\x01\xc3\xbc");
  const char *expected = "\"a\\\"\\\\\\u000a\\u0001\xc3\xbc\"";
  assert(response.body_len == strlen(expected) && memcmp(response.body, expected, response.body_len) == 0);
  sless_response_free(&response);
}

static void a_problem_replaces_what_was_there(void) {
  sless_response response = {0};
  sless_add_header(&response, "x-a", "b");
  sless_printf(&response, "half an answer");
  sless_problem(&response, 404, "not_found", "there is no \"7\"");
  const char *expected =
      "{\"type\":\"about:blank\",\"status\":404,\"code\":\"not_found\",\"detail\":\"there is no \\\"7\\\"\"}";
  assert(response.status == 404 && response.headers_len == 1);
  assert(response.body_len == strlen(expected) && memcmp(response.body, expected, response.body_len) == 0);
  sless_response_free(&response);
}

int main(void) {
  a_query_is_decoded_as_a_form();
  headers_are_found_and_checked();
  a_body_grows_and_json_is_escaped();
  a_problem_replaces_what_was_there();
  puts("4 passed");
}

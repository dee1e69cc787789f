// Calls the handler without a server, in a program of this machine: `make test`.

#undef NDEBUG
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "../sless/sless.h"

static void expect(const char *query, int status, const char *body) {
  sless_request request = {.method = "GET", .path = "/", .query = query};
  sless_response response = {0};
  sless_handle(&request, &response);
  int answered = response.status == 0 ? 200 : response.status;
  if (answered != status || (body != NULL && (response.body_len != strlen(body) || memcmp(response.body, body, response.body_len) != 0))) {
    fprintf(stderr, "?%s: %d %.*s\n", query, answered, (int)response.body_len, (const char *)response.body);
    assert(!"another answer was expected");
  }
  sless_response_free(&response);
}

int main(void) {
  expect("name=Ada", 200, "{\"message\":\"hello, Ada\"}");
  expect("name=%22x%22", 200, "{\"message\":\"hello, \\\"x\\\"\"}");
  expect("", 200, "{\"message\":\"hello, world\"}");
  expect("name=", 400, NULL);
  puts("4 passed");
}

// Every part of the library that needs the host, for tests/tests/sdks.rs. The same in each language.

#include <stdlib.h>
#include <string.h>

#include "../sless/sless.h"

void sless_handle(const sless_request *request, sless_response *response) {
  const char *path = request->path;
  if (strcmp(path, "/echo") == 0) {
    const char *kind = sless_header_value(request, "Content-Type");
    sless_add_header(response, "content-type", kind == NULL ? "application/octet-stream" : kind);
    sless_write(response, request->body, request->body_len);
    return;
  }
  if (strcmp(path, "/error") == 0) {
    sless_problem(response, 500, "function_error", "no number");
    return;
  }
  sless_add_header(response, "content-type", "text/plain; charset=utf-8");
  if (strcmp(path, "/fetch") == 0) {
    char *url = sless_query_value(request, "url");
    sless_header header = {"x-a", "b"};
    sless_outgoing outgoing = {.method = "POST", .url = url, .headers = &header, .headers_len = 1,
                               .body = (const uint8_t *)"ping", .body_len = 4};
    sless_response answer;
    const char *failed = sless_fetch(&outgoing, 1 << 20, &answer);
    free(url);
    if (failed != NULL) {
      sless_problem(response, 500, "function_error", failed);
      return;
    }
    const char *seen = "";
    for (size_t i = 0; i < answer.headers_len; i++) {
      if (strcmp(answer.headers[i].name, "x-seen") == 0) seen = answer.headers[i].value;
    }
    sless_printf(response, "%d %s ", answer.status, seen);
    sless_write(response, answer.body, answer.body_len);
    sless_response_free(&answer);
  } else if (strcmp(path, "/env") == 0) {
    sless_printf(response, "%s", sless_env("GREETING", "nothing"));
  } else if (strcmp(path, "/cookies") == 0) {
    response->status = 201;
    sless_add_header(response, "Set-Cookie", "a=1");
    sless_add_header(response, "Set-Cookie", "b=2");
  } else {
    const char *question = request->query[0] == '\0' ? "" : "?";
    sless_printf(response, "%s %s%s%s", request->method, path, question, request->query);
  }
}

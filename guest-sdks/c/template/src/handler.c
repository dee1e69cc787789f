// {{name}}: greets whom the query names.

#include <stdlib.h>

#include "../sless/sless.h"

void sless_handle(const sless_request *request, sless_response *response) {
  char *name = sless_query_value(request, "name");
  if (name != NULL && name[0] == '\0') {
    sless_problem(response, 400, "bad_request", "`name` is empty; leave it out or give one");
  } else {
    const char *whom = name == NULL ? "world" : name;
    sless_log(request, SLESS_INFO, "greeting %s", whom);
    sless_response text = {0};
    sless_printf(&text, "hello, %s", whom);
    sless_write(&text, "", 1);
    sless_add_header(response, "content-type", "application/json");
    sless_printf(response, "{\"message\":");
    sless_write_json(response, (const char *)text.body);
    sless_printf(response, "}");
    sless_response_free(&text);
  }
  free(name);
}

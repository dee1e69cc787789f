// What the library's own files share.

#ifndef SLESS_INTERNAL_H
#define SLESS_INTERNAL_H

#include <stddef.h>

// `realloc` that never fails.
void *sless_allocate(void *old, size_t len);
// A copy with a zero byte at its end, to be freed.
char *sless_copy(const void *bytes, size_t len);

#endif

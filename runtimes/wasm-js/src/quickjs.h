/* Included before each file of QuickJS (build.sh).
 *
 * QuickJS has no stack limit for targets that define __wasi__. It does count the stack of linear memory, and by a limit of that
 * recursion ends in a RangeError instead of a trap (src/init.rs). So it shall not see __wasi__, though the headers of
 * wasi-libc do: they come first. What else it asks __wasi__ for, it also does for __ANDROID__ (malloc_usable_size) and
 * EMSCRIPTEN (no threads), which rquickjs-sys defines. */
#include <alloca.h>
#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <malloc.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
#undef __wasi__
#define __ANDROID__ 1

#include "schema/core/error.h"

#include <cstdio>
#include <cstdlib>

namespace genesis {

void assertion_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "genesis: internal error: '%s' does not hold at %s:%d. This is a bug in Genesis.\n",
               condition, file, line);
  std::abort();
}

}  // namespace genesis

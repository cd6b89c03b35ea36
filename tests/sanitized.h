// Adapts time limits to builds with a sanitizer.
#pragma once

#include <ctime>

namespace genesis::testing {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kIsSanitized = false;
#endif
inline constexpr double kSlower = kIsSanitized ? 5 : 1;  // factor by which a sanitizer slows work down
// Seconds after which a test takes something for hanging. The limit is far from any time that work takes, so that tests
// pass on a busy machine, too.
inline constexpr double kHangs = 300 * kSlower;

// Returns the CPU time, scaled to that of a build without a sanitizer.
inline double processor_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC / kSlower; }

}  // namespace genesis::testing

// Limits of time in builds with a sanitizer.
#pragma once

#include <ctime>

namespace genesis::testing {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kIsSanitized = false;
#endif
inline constexpr double kSlower = kIsSanitized ? 5 : 1;  // what a sanitizer makes of the same work

// Of the processor, as a build without a sanitizer would take.
inline double processor_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC / kSlower; }

}  // namespace genesis::testing

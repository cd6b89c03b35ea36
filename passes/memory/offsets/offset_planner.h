// Gives every buffer an offset in one arena so that no two buffers alive at the same time overlap, and keeps the arena small
// (dynamic storage allocation). The result does not depend on the number or the speed of processors, unless `max_seconds` is
// reached.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace genesis::passes {

struct PlanBuffer {
  int64_t lower = 0;  // alive in [lower, upper); never if both are equal
  int64_t upper = 0;
  int64_t size = 0;  // bytes
};

inline constexpr int64_t kQuickSearch = 500'000'000;  // a fraction of a second: while a model is loaded
inline constexpr int64_t kThoroughSearch = 10'000'000'000;  // several seconds: for tools

struct OffsetOptions {
  int64_t alignment = 1;  // every offset is a multiple of it
  // Limits the search in units of work instead of time, so that a busy machine makes the same plan as an idle one. A unit is
  // about a nanosecond of one core, and up to four cores share the work. 0: greedy orders only.
  int64_t search_budget = kQuickSearch;
  double max_seconds = 8;  // safety limit for slow machines; a plan cut short by it is valid but may differ
};

struct OffsetPlan {
  std::vector<int64_t> offsets;  // one for each buffer, in input order
  int64_t height = 0;            // maximum of offset + size: the bytes the arena needs
  int64_t lower_bound = 0;       // no plan can be lower: maximum of live bytes, or the largest buffer
  double ratio() const;          // height / lower_bound; 1 if there is nothing to place
};

// Throws an Error for negative sizes, lower > upper, alignment < 1, or sizes whose sum overflows int64.
OffsetPlan plan_offsets(std::span<const PlanBuffer> buffers, const OffsetOptions& options = {});

}  // namespace genesis::passes

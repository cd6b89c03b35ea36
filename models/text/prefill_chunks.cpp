#include "models/text/prefill_chunks.h"

#include <bit>

namespace genesis::text {
namespace {

// Rows that cost little beside reading the weights for one of them.
constexpr int64_t kCheapRows = 32;

}  // namespace

int64_t next_chunk(int64_t unread, int64_t room, int64_t most) {
  if (unread >= most) return most;
  const auto padded = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(unread)));
  const bool is_waste = padded > kCheapRows && 4 * (padded - unread) > padded;
  if (padded <= room && padded <= most && !is_waste) return padded;
  return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(unread)));
}

}  // namespace genesis::text

#include "models/generation/generate_options.h"

namespace genesis::text {

std::string_view name_of(StopReason reason) {
  static constexpr std::string_view kNames[] = {"max_tokens", "stop_token", "stop_string", "cache_full",
                                                "callback"};
  return kNames[static_cast<size_t>(reason)];
}

}  // namespace genesis::text

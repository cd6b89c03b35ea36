#include "models/serving/answer_format.h"

#include <fmt/core.h>

#include <ctime>
#include <random>

namespace genesis::serving {

std::string event(const Json& data) { return "data: " + json_line(data) + "\n\n"; }

std::string event(const std::string& name, const Json& data) { return "event: " + name + "\n" + event(data); }

std::string finish_reason(text::StopReason reason) {
  const bool is_cut = reason == text::StopReason::kMaxTokens || reason == text::StopReason::kCacheFull;
  return is_cut ? "length" : "stop";
}

std::string random_id(const std::string& prefix) {
  thread_local std::mt19937_64 random{std::random_device()()};
  return fmt::format("{}{:016x}{:08x}", prefix, random(), random() >> 32);
}

int64_t seconds_now() { return static_cast<int64_t>(std::time(nullptr)); }

}  // namespace genesis::serving

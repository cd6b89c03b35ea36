#include "executor/generation/request.h"

namespace genesis::generation {

std::string_view name_of(FinishReason reason) {
  static constexpr std::string_view kNames[] = {"max_tokens", "stop_token", "cache_full",
                                                "callback",   "cancelled",  "failed"};
  return kNames[static_cast<size_t>(reason)];
}

std::string Result::error_text() const {
  if (!error) return "";
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& exception) {
    return exception.what();
  } catch (...) {
    return "an exception that is no std::exception";
  }
}

}  // namespace genesis::generation

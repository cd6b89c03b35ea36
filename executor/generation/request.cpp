#include "executor/generation/request.h"

#include "schema/core/error.h"

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

void check_prompt(const std::vector<int64_t>& prompt, int64_t behind, const RequestLimits& limits) {
  if (prompt.empty() && behind == 0)
    fail("the prompt is empty: a language model needs at least one token to go on from");
  for (size_t i = 0; i < prompt.size(); ++i)
    if (prompt[i] < 0 || prompt[i] >= limits.vocabulary)
      fail("token {} at place {} of the prompt is not in the model's vocabulary of {}", prompt[i], i,
           limits.vocabulary);
  const int64_t length = behind + std::ssize(prompt);
  if (length > limits.capacity)
    fail(
        "the prompt makes a text of {} tokens, the model's KV cache holds {}: give {} tokens or fewer, or "
        "--context N where the model can read more (`genesis-run generate --truncate` reads the end of it)",
        length, limits.capacity, limits.capacity - behind);
}

}  // namespace genesis::generation

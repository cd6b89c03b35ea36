#include "models/formats/hugging_face/name_expression.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>

#include "schema/core/error.h"

namespace genesis::models::hugging_face {
namespace {

constexpr uint32_t kMaxSteps = 100'000;
constexpr size_t kMaxBytes = 10'000;

std::string message_of(int error) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(error, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

}  // namespace

NameExpression::NameExpression(const std::string& expression) : expression_(expression) {
  if (expression.size() > kMaxBytes)
    fail("an expression of {} bytes, the limit is {}", expression.size(), kMaxBytes);
  // The groups are the same as PEFT's, so that references to groups mean the same.
  const std::string whole = "(.*\\.)?(" + expression + ")$";
  int error = 0;
  size_t place = 0;
  code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(whole.data()), whole.size(),
                            PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED, &error, &place, nullptr),
              pcre2_code_free);
  if (!code_) fail("'{}' is not a valid expression: {}", expression, message_of(error));
}

bool NameExpression::matches(const std::string& name) const {
  const std::unique_ptr<pcre2_match_data, void (*)(pcre2_match_data*)> match(
      pcre2_match_data_create(1, nullptr), pcre2_match_data_free);
  const std::unique_ptr<pcre2_match_context, void (*)(pcre2_match_context*)> context(
      pcre2_match_context_create(nullptr), pcre2_match_context_free);
  if (!match || !context) fail("out of memory");
  pcre2_set_match_limit(context.get(), kMaxSteps);
  const int found = pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(name.data()), name.size(), 0, 0,
                                match.get(), context.get());
  if (found == PCRE2_ERROR_NOMATCH) return false;
  if (found < 0) fail("the expression '{}' on the name '{}': {}", expression_, name, message_of(found));
  return true;
}

}  // namespace genesis::models::hugging_face

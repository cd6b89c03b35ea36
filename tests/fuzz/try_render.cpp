#include "tests/fuzz/try_render.h"

#include "models/chat/jinja/template.h"
#include "models/chat/jinja/values/json_value.h"
#include "schema/core/error.h"

namespace genesis::testing {
namespace {

constexpr const char* kVariables[] = {
    R"({"messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi é"},
        {"role": "assistant", "content": "<think>\nx</think>\n\nHello"}], "tools": null, "add_generation_prompt": true, "bos_token": "<s>"})",
    R"({"messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]},
        {"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "f", "arguments": {"a": [1, 2.5, null]}}}]},
        {"role": "tool", "content": {"x": true}}], "tools": [{"function": {"name": "f", "parameters": {}}}], "eos_token": "</s>"})"};
constexpr jinja::Limits kLimits = {.steps = 50'000, .text_bytes = 1 << 20, .made_bytes = 4 << 20};

}  // namespace

bool try_render(const std::string& source) {
  try {
    const auto parsed = jinja::Template::parse(source);
    for (const char* variables : kVariables) parsed.render(*jinja::parse_json(variables).dict(), 0, kLimits);
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace genesis::testing

#include "tests/fuzz/try_request.h"

#include "models/serving/chat_messages.h"
#include "models/serving/tool_calls.h"
#include "tests/fuzz/try_grammar.h"

namespace genesis::testing {
namespace {

void try_format(const serving::Json& format) {
  if (format.is_object()) return try_grammar(Description::kSchema, format.dump());
  if (!format.is_string()) return;
  const auto text = format.get<std::string>();
  try_grammar(text.find("::=") == std::string::npos ? Description::kRegex : Description::kGbnf, text);
}

}  // namespace

bool try_request(const std::string& body) {
  serving::ToolCallReader reader;
  reader.add(body.substr(0, body.size() / 2));
  reader.add(body.substr(body.size() / 2));
  reader.finish();
  try {
    const serving::Json request = serving::parse_body(body);
    serving::Fields fields(request);
    if (const auto* format = fields.find("format")) try_format(*format);
    serving::read_tools(fields);
    fields.number("n", Range<int64_t>{1, 128});
    fields.number("seed", Range<uint64_t>{});
    fields.number("temperature", Range<double>{0, 2});
    fields.texts("stop");
    serving::template_messages(fields.required("messages", "a list"), "messages");
    fields.refuse_others();
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace genesis::testing

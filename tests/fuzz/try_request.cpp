#include "tests/fuzz/try_request.h"

#include "models/grammar/gbnf.h"
#include "models/grammar/json_schema.h"
#include "models/grammar/regex.h"
#include "models/serving/chat_messages.h"
#include "models/serving/tool_calls.h"

namespace genesis::testing {
namespace {

// Follows a few texts, which makes states of the grammar.
void follow(grammar::Grammar grammar, grammar::Grammar::Rule root) {
  grammar.set_root(root);
  grammar::Recognizer recognizer(std::move(grammar));
  for (const std::string text : {"{\"name\": \"a\", \"n\": [1, 2.5e3]}", "abc", "[[[", "\"\\u00e9"}) {
    auto state = recognizer.start();
    for (const char byte : text) state = recognizer.next(state, static_cast<unsigned char>(byte));
  }
}

void try_format(const serving::Json& format) {
  grammar::Grammar grammar;
  if (format.is_string()) {
    const auto text = format.get<std::string>();
    const auto root =
        text.find("::=") == std::string::npos ? add_regex_search(grammar, text) : add_gbnf(grammar, text);
    return follow(std::move(grammar), root);
  }
  if (!format.is_object()) return;
  const auto root = add_json_schema(grammar, format);
  follow(std::move(grammar), root);
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

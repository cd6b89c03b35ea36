#include "tests/fuzz/try_grammar.h"

#include "models/grammar/gbnf.h"
#include "models/grammar/json_schema.h"
#include "models/grammar/regex.h"
#include "schema/file/json_text.h"

namespace genesis::testing {
namespace {

grammar::Grammar::Rule add(grammar::Grammar& grammar, Description kind, const std::string& text) {
  if (kind == Description::kRegex) return add_regex_search(grammar, text);
  if (kind == Description::kGbnf) return add_gbnf(grammar, text);
  return add_json_schema(grammar, parse_ordered_json_text(text, "the schema"));
}

}  // namespace

void try_grammar(Description kind, const std::string& text) {
  grammar::Grammar grammar;
  grammar.set_root(add(grammar, kind, text));
  grammar::Recognizer recognizer(std::move(grammar));
  for (const std::string followed : {"{\"name\": \"a\", \"n\": [1, 2.5e3]}", "abc", "[[[", "\"\\u00e9"}) {
    auto state = recognizer.start();
    for (const char byte : followed) state = recognizer.next(state, static_cast<unsigned char>(byte));
  }
}

}  // namespace genesis::testing

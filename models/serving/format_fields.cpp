#include "models/serving/format_fields.h"

#include "models/grammar/gbnf.h"
#include "models/grammar/json_schema.h"
#include "models/grammar/regex.h"

namespace genesis::serving {
namespace {

using grammar::Grammar;
using Rule = Grammar::Rule;

// Throws the errors of a schema or an expression as those of a field.
template <class Make>
Rule made(const std::string& field, const Make& make) {
  try {
    return make();
  } catch (const ApiError&) {
    throw;
  } catch (const Error& error) {
    refuse(field, "{}: {}", field, error.message());
  }
}

std::optional<Rule> response_format(Fields& fields, Grammar& g) {
  const Json* given = fields.find("response_format");
  if (!given) return {};
  Fields inner(*given, "response_format.");
  const std::string type = inner.text("type").value_or("");
  std::optional<Rule> rule;
  if (type == "json_object") rule = add_json_object(g);
  if (type == "json_schema") {
    Fields named(inner.required("json_schema", "an object with a schema"), "response_format.json_schema.");
    for (const char* note : {"name", "description"}) named.text(note);
    named.flag("strict");
    const Json& schema = named.required("schema", "a JSON schema");
    rule = made("response_format.json_schema.schema", [&] { return add_json_schema(g, schema); });
    named.refuse_others();
  }
  if (!rule && type != "text")
    refuse("response_format.type",
           "response_format.type: expected \"text\", \"json_object\" or \"json_schema\", got \"{}\"", type);
  inner.refuse_others();
  return rule;
}

Rule choice_of(const std::vector<std::string>& texts, Grammar& g) {
  std::vector<Rule> choices;
  for (const std::string& text : texts) choices.push_back(g.text(text));
  return g.any_of(choices);
}

// The extension of vLLM: one of regex, choice, json and grammar.
std::optional<Rule> structured_outputs(Fields& fields, Grammar& g) {
  const Json* given = fields.find("structured_outputs");
  if (!given) return {};
  Fields inner(*given, "structured_outputs.");
  std::vector<Rule> rules;
  if (const auto regex = inner.text("regex"))
    rules.push_back(made("structured_outputs.regex", [&] { return grammar::add_regex(g, *regex); }));
  if (inner.find("choice")) rules.push_back(choice_of(inner.texts("choice"), g));
  if (const Json* schema = inner.find("json"))
    rules.push_back(made("structured_outputs.json", [&] { return add_json_schema(g, *schema); }));
  if (const auto text = inner.text("grammar"))
    rules.push_back(made("structured_outputs.grammar", [&] { return grammar::add_gbnf(g, *text); }));
  inner.refuse_others();
  if (rules.size() != 1)
    refuse("structured_outputs", "structured_outputs: expected one of regex, choice, json and grammar");
  return rules[0];
}

// The field of llama.cpp's server.
std::optional<Rule> gbnf_grammar(Fields& fields, Grammar& g) {
  const auto text = fields.text("grammar");
  if (!text || text->empty()) return {};
  return made("grammar", [&] { return grammar::add_gbnf(g, *text); });
}

Rule call_of(const Json& function, Grammar& g, bool is_marked) {
  const Json schema = function.value("parameters", Json(true));
  const std::string key = is_marked ? "arguments" : "parameters";
  const Rule arguments = made("tools", [&] { return add_json_schema(g, schema); });
  const std::string before = "{\"name\": " + function["name"].dump() + ", \"" + key + "\": ";
  return g.sequence({g.text((is_marked ? "<tool_call>\n" : "") + before), arguments,
                     g.text(is_marked ? "}\n</tool_call>" : "}")});
}

std::optional<Rule> forced_call(const ToolChoice& tools, Grammar& g, bool is_marked) {
  if (!tools.must_call) return {};
  std::vector<Rule> calls;
  for (const Json& tool : tools.variables["tools"])
    if (tools.name.empty() || tool["function"]["name"] == tools.name)
      calls.push_back(call_of(tool["function"], g, is_marked));
  if (calls.empty()) refuse("tool_choice", "tool_choice: there is no tool '{}'", tools.name);
  return g.any_of(calls);
}

}  // namespace

void read_format(Fields& fields, const LanguageModel& model, const ToolChoice& tools, TextTask& task) {
  Grammar g;
  std::optional<Rule> root;
  for (const auto& rule : {response_format(fields, g), structured_outputs(fields, g), gbnf_grammar(fields, g),
                           forced_call(tools, g, model.marks_tool_calls())}) {
    if (!rule) continue;
    if (root)
      refuse(
          "response_format",
          "an answer has one form: give one of response_format, structured_outputs, grammar and tool_choice");
    root = rule;
  }
  if (!root) return;
  if (task.options.stop_tokens.empty())
    refuse("ignore_eos",
           "an answer of a given form ends with an end token of the model: it must not be ignored");
  g.set_root(*root);
  // A grammar that is too large is refused here.
  const auto masks =
      std::make_shared<grammar::TokenMasks>(model.token_tree(), std::move(g), task.options.stop_tokens);
  task.constrain = [masks] {
    const auto constraint = std::make_shared<grammar::Constraint>(masks);
    return [constraint](std::span<const int64_t> chosen, std::span<float> bias) {
      constraint->apply(chosen, bias);
    };
  };
}

}  // namespace genesis::serving

// Renders templates read as lines of JSON, for compare_templates.py, which compares the results with those of Jinja:
// {"template": ..., "variables": {...}} gives {"text": ..., "generations": [[begin, end], ...]} or {"error": ...}.
#include <iostream>
#include <nlohmann/json.hpp>

#include "models/chat/jinja/template.h"
#include "models/chat/jinja/values/json_value.h"

namespace {

nlohmann::json rendered(const std::string& line) {
  using namespace genesis;
  try {
    const auto input = nlohmann::json::parse(line);
    const jinja::Value variables =
        jinja::parse_json(nlohmann::ordered_json::parse(line).at("variables").dump());
    const auto result = jinja::Template::parse(input.at("template").get<std::string>())
                            .render(*variables.dict(), input.value("now", 0));
    auto spans = nlohmann::json::array();
    for (const jinja::Span& span : result.generations) spans.push_back({span.begin, span.end});
    return {{"text", result.text}, {"generations", spans}};
  } catch (const Error& error) {
    return {{"error", error.message()}};
  }
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) std::cout << rendered(line).dump() << std::endl;
}

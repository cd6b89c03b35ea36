#include "tools/opt/lists.h"

#include <algorithm>
#include <iostream>

#include "passes/pipelines.h"
#include "schema/graph/op.h"

namespace genesis::tools {

void list_passes(const Output& out) {
  nlohmann::ordered_json json;
  for (const passes::Pass& pass : passes::all_passes()) json[std::string(pass.name)] = pass.why;
  out.print(json, [] {
    for (const passes::Pass& pass : passes::all_passes())
      std::cout << fmt::format("{:<28} {}\n", pass.name, pass.why);
  });
}

void list_ops(const Output& out) {
  nlohmann::ordered_json json;
  std::vector<const OpDef*> ops(all_ops().begin(), all_ops().end());
  std::ranges::sort(ops, {}, &OpDef::name);
  std::string table =
      "| op | inputs | attributes | gradient | precision | result |\n|---|---|---|---|---|---|\n";
  for (const OpDef* op : ops) {
    const auto [min, max] = op->info.inputs;
    const std::string inputs = max >= kVariadic ? fmt::format("{}+", min)
                               : min == max     ? std::to_string(min)
                                                : fmt::format("{}-{}", min, max);
    std::string attributes = op->canonical({}).to_string();
    if (!attributes.empty()) attributes = "`" + attributes.substr(1, attributes.size() - 2) + "`";
    const std::string_view precision = EnumNames<Precision>::names[static_cast<size_t>(op->info.precision)];
    const bool has_gradient = op->grad || op->formula;
    json[std::string(op->name())] = {{"inputs", inputs},
                                     {"gradient", has_gradient},
                                     {"precision", precision},
                                     {"version", op->info.version},
                                     {"doc", op->info.doc}};
    std::string doc(op->info.doc);
    for (size_t at = 0; (at = doc.find('|', at)) != std::string::npos; at += 2) doc.replace(at, 1, "\\|");
    table += fmt::format("| `{}` | {} | {} | {} | {} | {} |\n", op->name(), inputs, attributes,
                         has_gradient ? "yes" : "", precision, doc);
  }
  out.print(json, [&] { std::cout << table; });
}

}  // namespace genesis::tools

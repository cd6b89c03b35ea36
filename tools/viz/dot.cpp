#include "tools/viz/dot.h"

#include <algorithm>

#include "tools/tool.h"

namespace genesis::viz {
namespace {

bool is_number(std::string_view part) {
  return !part.empty() &&
         std::all_of(part.begin(), part.end(), [](unsigned char c) { return std::isdigit(c); });
}

// "model.layers.3.mlp.up_proj" -> "model.layers.*.mlp.up_proj": only the first number, which counts layers.
std::string folded_name(const std::string& name) {
  size_t start = 0;
  while (start < name.size()) {
    const size_t dot = std::min(name.find('.', start), name.size());
    if (is_number(std::string_view(name).substr(start, dot - start)) && start > 0)
      return name.substr(0, start) + "*" + name.substr(dot);
    start = dot + 1;
  }
  return name;
}

// "model.layers.3.mlp.up_proj" -> "model.layers.3"
std::string layer_prefix(const std::string& name) {
  const size_t star = folded_name(name).find('*');
  return star == std::string::npos ? "" : name.substr(0, name.find('.', star));
}

std::string escaped(const std::string& text) {
  std::string out;
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

// The same hue for the same op in every picture.
std::string op_color(std::string_view op) {
  uint32_t hash = 2166136261u;
  for (unsigned char c : op) hash = (hash ^ c) * 16777619u;
  return fmt::format("{:.3f} 0.25 0.95", static_cast<double>(hash % 360) / 360.0);
}

std::string heat(double share) {
  return fmt::format("{:.3f} {:.3f} 1.0", 0.12 * (1 - share), 0.1 + 0.8 * share);
}

// What is drawn as one box.
struct Box {
  std::string label, op;
  std::string type;
  int count = 0;
  double weight = 0;  // bytes or microseconds
  bool here = false, there = false;
};

class Drawing {
 public:
  explicit Drawing(const DotOptions& options) : options_(options) {}

  void add(const Graph& graph, bool here) {
    for (ValueId id : graph.inputs()) add_source(graph.value(id), here);
    for (const Node& node : graph.nodes()) add_node(graph, node, here);
    for (const NamedValue& output : graph.outputs()) {
      Box& box = boxes_["out:" + output.name];
      box.label = output.name + "\\n" + graph.type(output.value).to_string();
      box.op = "output";
      mark(box, here);
      add_edge(key_of(graph, output.value), "out:" + output.name, false);
    }
  }

  std::string text(const std::string& title) const {
    std::string out =
        "digraph genesis {\n  label=\"" + escaped(title) +
        "\"; labelloc=t; fontname=\"Helvetica\";\n"
        "  rankdir=TB; node [shape=box, style=\"rounded,filled\", fontname=\"Helvetica\", fontsize=10];\n"
        "  edge [color=\"#777777\", arrowsize=0.6];\n";
    double most = 0;
    for (const auto& [key, box] : boxes_) most = std::max(most, box.weight);
    for (const auto& [key, box] : boxes_) out += box_text(key, box, most);
    for (const auto& [edge, between_layers] : edges_)
      out += fmt::format("  \"{}\" -> \"{}\"{};\n", escaped(edge.first), escaped(edge.second),
                         between_layers ? " [style=dashed, constraint=false]" : "");
    return out + "}\n";
  }

 private:
  std::string fold(const std::string& name) const { return options_.fold ? folded_name(name) : name; }

  static void mark(Box& box, bool here) { (here ? box.here : box.there) = true; }

  void add_source(const ValueInfo& value, bool here) {
    Box& box = boxes_["in:" + value.name];
    box.label = value.name + "\\n" + value.type.to_string();
    box.op = "input";
    mark(box, here);
  }

  void add_node(const Graph& graph, const Node& node, bool here) {
    const std::string key = fold(node.name);
    Box& box = boxes_[key];
    mark(box, here);
    box.op = node.op->name();
    box.label = key;
    box.type = graph.type(node.outputs[0]).to_string();
    box.count += 1;
    box.weight += weight(graph, node);
    for (ValueId input : node.inputs)
      if (graph.value(input).kind == ValueKind::kNode || graph.value(input).kind == ValueKind::kInput)
        add_edge(key_of(graph, input), key, between_layers(graph, input, node));
  }

  void add_edge(const std::string& from, const std::string& to, bool between) {
    const auto [at, fresh] = edges_.try_emplace({from, to}, between);
    if (!fresh) at->second = at->second && between;
  }

  // From one repetition of a folded layer to another: drawn dashed, and left out of the ranking of boxes.
  bool between_layers(const Graph& graph, ValueId input, const Node& to) const {
    if (!options_.fold || graph.value(input).kind != ValueKind::kNode) return false;
    const std::string& from = graph.node(graph.value(input).producer).name;
    return fold(from) != from && fold(to.name) != to.name && layer_prefix(from) != layer_prefix(to.name);
  }

  double weight(const Graph& graph, const Node& node) const {
    if (options_.color == Color::kTime) {
      const auto at = options_.times_us.find(node.name);
      return at == options_.times_us.end() ? 0 : at->second;
    }
    double bytes = 0;
    for (ValueId output : node.outputs) {
      const Shape shape = graph.type(output).shape.substitute(options_.sizes);
      if (shape.is_constant())
        bytes += static_cast<double>(TensorType{graph.type(output).dtype, shape}.bytes());
    }
    return bytes;
  }

  std::string key_of(const Graph& graph, ValueId id) const {
    const ValueInfo& value = graph.value(id);
    if (value.kind == ValueKind::kNode) return fold(graph.node(value.producer).name);
    return value.kind == ValueKind::kInput ? "in:" + value.name : value.name;
  }

  std::string fill(const Box& box, double most) const {
    if (options_.other) return box.here && box.there ? "white" : box.here ? "#b5e7b5" : "#f4b6b6";
    if (box.op == "input" || box.op == "output") return "#dddddd";
    if (options_.color == Color::kDtype) return op_color(box.type.substr(0, box.type.find('[')));
    if (options_.color == Color::kOp || most <= 0) return op_color(box.op);
    return heat(box.weight / most);
  }

  std::string box_text(const std::string& key, const Box& box, double most) const {
    std::string label = box.label;
    if (box.op != "input" && box.op != "output") {
      label += "\\n" + box.op + (box.count > 1 ? fmt::format(" ×{}", box.count) : "") + "  " + box.type;
      if (options_.color == Color::kMemory && box.weight > 0) label += "\\n" + tools::human_bytes(box.weight);
      if (options_.color == Color::kTime && box.weight > 0) label += fmt::format("\\n{:.0f} us", box.weight);
    }
    std::string safe;
    for (char c : label)
      if (c == '"')
        safe += "\\\"";
      else
        safe += c;
    return fmt::format("  \"{}\" [label=\"{}\", fillcolor=\"{}\"];\n", escaped(key), safe, fill(box, most));
  }

  const DotOptions& options_;
  std::map<std::string, Box> boxes_;
  std::map<std::pair<std::string, std::string>, bool> edges_;  // -> only between layers, never within one
};

}  // namespace

std::string to_dot(const Graph& graph, const DotOptions& options) {
  Drawing drawing(options);
  drawing.add(graph, true);
  if (options.other) drawing.add(*options.other, false);
  return drawing.text(graph.name());
}

}  // namespace genesis::viz

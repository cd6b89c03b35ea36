#include "tools/viz/pictures/dot.h"

#include <algorithm>

#include "tools/common/tool.h"
#include "tools/viz/pictures/escape.h"
#include "tools/viz/pictures/fold.h"

namespace genesis::viz {
namespace {

// Tables indexed by Change.
constexpr const char* kChangeNames[] = {"same", "added", "gone", "changed"};
constexpr const char* kChangeColors[] = {"white", "#b5e7b5", "#f4b6b6", "#ffe08a"};
constexpr const char* kLineColors[] = {"#777777", "#2e9e2e", "#d04040"};

// Returns a color that is the same for one op in all pictures.
std::string op_color(std::string_view op) {
  uint32_t hash = 2166136261u;
  for (unsigned char c : op) hash = (hash ^ c) * 16777619u;
  return fmt::format("{:.3f} 0.25 0.95", static_cast<double>(hash % 360) / 360.0);
}

std::string heat(double share) {
  return fmt::format("{:.3f} {:.3f} 1.0", 0.12 * (1 - share), 0.1 + 0.8 * share);
}

// Something drawn as one box: a node, all nodes folded into one, an input, an output or a state.
struct Box {
  std::string name, op;
  std::map<std::string, int> types;  // number of nodes by the type of their first output
  std::set<std::string> nodes;       // names
  double weight = 0;                 // bytes or microseconds
  size_t changes[kChanges] = {};
  std::vector<std::string> what;  // changes of the first node that changed

  bool is_node() const { return !nodes.empty(); }
};

struct Line {
  bool between_layers = true;  // the line is never within one layer
  bool before = false, after = false;
};

class Drawing {
 public:
  Drawing(const Graph& graph, const DotOptions& options)
      : options_(options),
        folding_(options.fold, options.after ? std::vector<const Graph*>{&graph, options.after}
                                             : std::vector<const Graph*>{&graph}) {
    add(graph, false);
    if (options.after) add(*options.after, true);
  }

  Dot dot() const {
    std::string out = "digraph genesis {\n  label=" + dot_string(options_.title) +
                      "; labelloc=t; fontname=\"Helvetica\";\n"
                      "  rankdir=TB; node [shape=box, style=\"rounded,filled\", fontname=\"Helvetica\", "
                      "fontsize=10];\n"
                      "  edge [color=\"#777777\", arrowsize=0.6];\n";
    double most = 0;
    for (const auto& [key, box] : boxes_) most = std::max(most, box.weight);
    for (const auto& [key, box] : boxes_) out += box_text(key, box, most);
    for (const auto& [ends, line] : lines_) out += line_text(ends, line);
    return {out + legend() + "}\n", boxes_.size()};
  }

 private:
  void add(const Graph& graph, bool after) {
    for (ValueId id : graph.inputs()) add_input(graph.value(id), after);
    for (const Node& node : graph.nodes()) add_node(graph, node, after);
    for (const NamedValue& output : graph.outputs()) add_output(graph, output, after);
  }

  void add_input(const ValueInfo& value, bool after) {
    Box& box = add_port("in:" + value.name, value.name, "input", value.type);
    if (options_.difference) mark(box, options_.difference->input(value.name), after);
  }

  void add_output(const Graph& graph, const NamedValue& output, bool after) {
    Box& box = add_port("out:" + output.name, output.name, "output", graph.type(output.value));
    if (options_.difference) mark(box, options_.difference->output(output.name), after);
    add_line(add_source(graph, output.value), "out:" + output.name, false, after);
  }

  Box& add_port(const std::string& key, const std::string& name, const char* op, const TensorType& type) {
    Box& box = boxes_[key];
    box.name = name;
    box.op = op;
    box.types.try_emplace(type.to_string(), 1);
    return box;
  }

  void add_node(const Graph& graph, const Node& node, bool after) {
    const std::string key = folding_.box_of(node);
    Box& box = boxes_[key];
    box.name = key;
    if (box.op.empty()) box.op = node.op->name();
    if (options_.difference) mark(box, options_.difference->node(node.name), after);
    if (box.nodes.insert(node.name).second) {  // a node in both graphs is counted once
      box.types[graph.type(node.outputs[0]).to_string()] += 1;
      box.weight += weight(graph, node);
    }
    for (ValueId input : node.inputs) {
      const ValueKind kind = graph.value(input).kind;
      if (kind == ValueKind::kNode || kind == ValueKind::kInput)
        add_line(add_source(graph, input), key, between_layers(graph, input, node), after);
    }
  }

  // Returns the box that a value comes from. An output may be a state or a constant, which have no box otherwise.
  std::string add_source(const Graph& graph, ValueId id) {
    const ValueInfo& value = graph.value(id);
    if (value.kind == ValueKind::kNode) return folding_.box_of(graph.node(value.producer));
    if (value.kind == ValueKind::kInput) return "in:" + value.name;
    const char* kind = value.kind == ValueKind::kState ? "state" : "constant";
    add_port("from:" + value.name, value.name, kind, value.type);
    return "from:" + value.name;
  }

  // Counts the change of a node. A node in both graphs counts once.
  void mark(Box& box, const NodeChange& change, bool after) const {
    if (after && change.change != Change::kAdded) return;
    box.changes[static_cast<size_t>(change.change)] += 1;
    if (box.what.empty()) box.what = change.what;
  }

  void add_line(const std::string& from, const std::string& to, bool between, bool after) {
    Line& line = lines_[{from, to}];
    line.between_layers = line.between_layers && between;
    (after ? line.after : line.before) = true;
  }

  // Returns true for a line between two repetitions of a folded layer or within one box. It is drawn dashed and does
  // not affect the ranking of boxes.
  bool between_layers(const Graph& graph, ValueId input, const Node& to) const {
    if (!options_.fold || graph.value(input).kind != ValueKind::kNode) return false;
    const Node& from = graph.node(graph.value(input).producer);
    const std::string a = folding_.layer_of(from), b = folding_.layer_of(to);
    return folding_.box_of(from) == folding_.box_of(to) || (!a.empty() && !b.empty() && a != b);
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

  // A box with several kinds of change counts as changed: some of its layers have nodes that others lack.
  static Change change_of(const Box& box) {
    size_t kinds = 0;
    Change last = Change::kSame;
    for (size_t i = 0; i < kChanges; ++i)
      if (box.changes[i] > 0) last = static_cast<Change>(i), ++kinds;
    return kinds > 1 ? Change::kChanged : last;
  }

  std::string fill(const Box& box, double most) const {
    if (options_.difference) return kChangeColors[static_cast<size_t>(change_of(box))];
    if (!box.is_node()) return "#dddddd";
    const std::string& type = box.types.begin()->first;
    if (options_.color == Color::kDtype) return op_color(type.substr(0, type.find('[')));
    if (options_.color == Color::kOp || most <= 0) return op_color(box.op);
    return heat(box.weight / most);
  }

  std::string box_text(const std::string& key, const Box& box, double most) const {
    std::vector<std::string> lines = {box.name};
    const std::string type =
        box.types.size() == 1 ? box.types.begin()->first : fmt::format("{} types", box.types.size());
    if (box.is_node()) {
      const size_t count = box.nodes.size();
      lines.push_back(box.op + (count > 1 ? fmt::format(" ×{}", count) : "") + "  " + type);
      if (options_.color == Color::kMemory && box.weight > 0) lines.push_back(tools::human_bytes(box.weight));
      if (options_.color == Color::kTime && box.weight > 0)
        lines.push_back(fmt::format("{:.0f} us", box.weight));
    } else {
      lines.push_back(box.op == "input" || box.op == "output" ? type : box.op + "  " + type);
    }
    if (options_.difference) add_changes(box, lines);
    return fmt::format("  {} [label={}, fillcolor=\"{}\"];\n", dot_string(key), dot_lines(lines),
                       fill(box, most));
  }

  static void add_changes(const Box& box, std::vector<std::string>& lines) {
    constexpr size_t kMax = 4;  // differences listed in a box
    const size_t told = std::min(box.what.size(), kMax);
    lines.insert(lines.end(), box.what.begin(), box.what.begin() + static_cast<std::ptrdiff_t>(told));
    if (told < box.what.size()) lines.push_back(fmt::format("and {} more", box.what.size() - told));
    std::string mixed;
    for (size_t i = 0; i < kChanges; ++i)
      if (box.changes[i] > 0 && box.changes[i] < box.nodes.size())
        mixed += fmt::format("{}{} {}", mixed.empty() ? "" : ", ", box.changes[i], kChangeNames[i]);
    if (!mixed.empty()) lines.push_back(mixed);
  }

  std::string line_text(const std::pair<std::string, std::string>& ends, const Line& line) const {
    std::string style;
    if (line.between_layers) style = "style=dashed, constraint=false";
    if (options_.difference && line.before != line.after) {
      const Change change = line.after ? Change::kAdded : Change::kGone;
      style += fmt::format("{}color=\"{}\", penwidth=2", style.empty() ? "" : ", ",
                           kLineColors[static_cast<size_t>(change)]);
    }
    return fmt::format("  {} -> {}{};\n", dot_string(ends.first), dot_string(ends.second),
                       style.empty() ? "" : " [" + style + "]");
  }

  std::string legend() const {
    if (!options_.difference) return "";
    std::string out = "  subgraph cluster_legend {\n    label=\"nodes\"; color=\"#999999\";\n";
    for (size_t i = 0; i < kChanges; ++i)
      out += fmt::format("    \"legend:{0}\" [label=\"{1} {0}\", fillcolor=\"{2}\"];\n", kChangeNames[i],
                         options_.difference->count(static_cast<Change>(i)), kChangeColors[i]);
    return out + "  }\n";
  }

  const DotOptions& options_;
  const Folding folding_;
  std::map<std::string, Box> boxes_;
  std::map<std::pair<std::string, std::string>, Line> lines_;
};

}  // namespace

Dot to_dot(const Graph& graph, const DotOptions& options) { return Drawing(graph, options).dot(); }

}  // namespace genesis::viz

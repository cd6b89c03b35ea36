#include "passes/core/rewrite_log.h"

#include <algorithm>

#include "passes/core/analysis.h"
#include "schema/messages/log.h"

namespace genesis::passes {
namespace {

thread_local std::string_view pass_of_this_thread;  // empty: no pass runs, or the level is off

using Nodes = std::vector<const Node*>;

// Returns the ops of these nodes with their counts, in order of appearance: "3 linear + concat".
std::string ops_of(const Nodes& nodes) {
  std::vector<std::pair<std::string_view, int>> counts;
  for (const Node* node : nodes) {
    const auto same = [&](const auto& count) { return count.first == node->op->name(); };
    const auto at = std::ranges::find_if(counts, same);
    if (at == counts.end())
      counts.emplace_back(node->op->name(), 1);
    else
      ++at->second;
  }
  std::string text;
  for (const auto& [op, count] : counts)
    text += (text.empty() ? "" : " + ") + (count > 1 ? fmt::format("{} {}", count, op) : std::string(op));
  return text;
}

// Returns the nodes with index `first` or higher from which `values` are computed. A rewrite may also have added nodes that it
// did not use.
Nodes makers_of(const Graph& graph, const std::vector<Value>& values, size_t first) {
  std::set<ValueId> needed;
  for (const Value& value : values)
    if (value) needed.insert(value.id);
  Nodes makers;
  for (size_t i = graph.nodes().size(); i-- > first;) {
    const Node& node = graph.nodes()[i];
    const auto is_needed = [&](ValueId output) { return needed.contains(output); };
    if (std::ranges::none_of(node.outputs, is_needed)) continue;
    needed.insert(node.inputs.begin(), node.inputs.end());
    makers.insert(makers.begin(), &node);
  }
  return makers;
}

}  // namespace

LoggedPass::LoggedPass(std::string_view name) : outer_(pass_of_this_thread) {
  pass_of_this_thread = is_logged(LogLevel::kDebug) ? name : std::string_view();
}
LoggedPass::~LoggedPass() { pass_of_this_thread = outer_; }

RewriteLog::RewriteLog() : pass_(pass_of_this_thread) {}

void RewriteLog::add_sources(const Graph& old, const Graph& made, const std::vector<const Node*>& nodes) {
  if (pass_.empty()) return;
  if (logged_) forget_sources();
  logged_ = false;
  if (sources_.empty()) first_made_ = made.nodes().size();
  for (const Node* node : nodes) sources_.insert(id_of(old, *node));
}

void RewriteLog::replaced(const Graph& old, const Graph& made, const Node& node,
                          const std::vector<Value>& values) {
  if (pass_.empty()) return;
  const bool is_source = sources_.contains(id_of(old, node));
  if (logged_ && is_source) return;  // another node of a rewrite that is logged already
  if (!is_source) forget_sources(), add_sources(old, made, {&node});
  logged_ = true;
  Nodes sources;
  for (NodeId id : sources_) sources.push_back(&old.node(id));
  const Nodes makers = makers_of(made, values, first_made_);
  const auto value = std::ranges::find_if(values, [](const Value& v) { return bool(v); });
  const std::string result =
      makers.empty() && value != values.end() ? '\'' + value->name() + '\'' : ops_of(makers);
  log_debug("{}: '{}' {} -> {}", pass_, (makers.empty() ? node : *makers.back()).authored_name(),
            ops_of(sources), result);
}

}  // namespace genesis::passes

// What a pass is, and the runner that gives every pass timing, a kill switch by name, a callback when it
// changed the graph (dumps, --print-after), and verification of all invariants after it. Lists of passes:
// passes/pipelines.h.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "schema/ranks/mesh.h"
#include "schema/graph/graph.h"
#include "schema/graph/state_storage.h"
#include "schema/graph/target.h"

namespace genesis::passes {

// What a pass may know besides the graph.
struct PassContext {
  const Target* target = nullptr;               // null: rewrites that suit every device
  int64_t max_folded_bytes = int64_t{1} << 20;  // constant folding makes no tensor larger than this
  // What the arena of a training step may take, bytes; 0: as little as can be reached. Empty: whatever it
  // takes.
  std::optional<int64_t> memory_budget;
  // The ranks that run this graph together, and which of them it is for.
  Mesh mesh = {};
  int64_t rank = 0;
  int zero = 0;  // ZeRO's stage: what the ranks along "data" share
  // The states that are not kept as what they mean; null: none.
  const StateStorage* storage = nullptr;
  // Called for every hit of a named rewrite with the node that came out, to trace what a pass does.
  std::function<void(std::string_view rewrite, const std::string& node)> on_rewrite;

  // For speeds, which are those of a CPU where nothing is known of the device.
  Target target_or_default() const { return target ? *target : Target(); }
};

struct Pass {
  std::string_view name;
  std::string_view why;  // one line: why it stands where it stands in the pipeline
  Graph (*run)(const Graph&, const PassContext&);
  // Says cheaply that the pass would leave the graph as it is: then the graph is neither rebuilt nor verified. Null: it always
  // runs.
  bool (*may_change)(const Graph&, const PassContext&) = nullptr;
};

struct PassReport {
  std::string name;
  double seconds = 0;
  bool changed = false;
  size_t nodes_before = 0, nodes_after = 0;
};

struct PipelineOptions {
  std::set<std::string, std::less<>> disabled;  // names of passes to leave out
  bool verify = true;                           // schema/graph/verify after every pass
  // Called after every pass that changed the graph; `number` is the pass's place in the pipeline, from 1.
  std::function<void(int number, const Pass& pass, const Graph& graph)> on_change;
  std::vector<PassReport>* reports = nullptr;
};

// An Error from a pass gains "(in pass 'x')".
Graph run_passes(const Graph& graph, std::span<const Pass> pipeline, const PassContext& context,
                 const PipelineOptions& options = {});

// An on_change that writes FOLDER/<entry>.<number>-<pass>.txt.
std::function<void(int, const Pass&, const Graph&)> dump_to_folder(const std::string& folder);

}  // namespace genesis::passes

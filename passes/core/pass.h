// Defines a pass, and the runner that times each pass, can disable it by name, calls back when it changed the graph (dumps,
// --print-after) and verifies all invariants after it. passes/pipelines.h lists the passes.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "schema/graph/graph.h"
#include "schema/graph/state_storage.h"
#include "schema/graph/target.h"
#include "schema/ranks/mesh.h"

namespace genesis::passes {

// Describes what a pass knows besides the graph.
struct PassContext {
  const Target* target = nullptr;               // null: only rewrites that suit every device
  int64_t max_folded_bytes = int64_t{1} << 20;  // limit of a tensor made by constant folding
  // Limit of a training step's arena in bytes. 0: as little as possible; empty: no limit.
  std::optional<int64_t> memory_budget;
  // The ranks that run this graph together, and the rank that the graph is for.
  Mesh mesh = {};
  int64_t rank = 0;
  int zero = 0;  // ZeRO stage: what the ranks along "data" shard
  // The states that are stored encoded or as shards; null if there are none.
  const StateStorage* storage = nullptr;
  // Is called for every hit of a named rewrite with the name of the resulting node, to trace what a pass does.
  std::function<void(std::string_view rewrite, const std::string& node)> on_rewrite;

  // Returns the target for its speeds; without a target, the speeds are those of a CPU.
  Target target_or_default() const { return target ? *target : Target(); }
};

struct Pass {
  std::string_view name;
  std::string_view why;  // one line: the reason for its place in the pipeline
  Graph (*run)(const Graph&, const PassContext&);
  // Returns false if the pass would not change the graph; a cheap test, which saves rebuilding and verifying the graph. Null:
  // the pass always runs.
  bool (*may_change)(const Graph&, const PassContext&) = nullptr;
};

struct PassReport {
  std::string name;
  double seconds = 0;
  bool changed = false;
  size_t nodes_before = 0, nodes_after = 0;
};

struct PipelineOptions {
  std::set<std::string, std::less<>> disabled;  // names of passes to skip
  // Runs schema/graph/verify after every pass that changed the graph; else once after the last one. If it or a pass fails then, a
  // second attempt runs it after every pass, so that the error names the pass that is to blame.
  bool verify_each = true;
  // Is called after every pass that changed the graph; `number` is the position of the pass in the pipeline, from 1.
  std::function<void(int number, const Pass& pass, const Graph& graph)> on_change;
  std::vector<PassReport>* reports = nullptr;
};

// Adds "(in pass 'x')" to an Error that a pass throws.
Graph run_passes(const Graph& graph, std::span<const Pass> pipeline, const PassContext& context,
                 const PipelineOptions& options = {});

// Returns an on_change that writes FOLDER/<entry>.<number>-<pass>.txt.
std::function<void(int, const Pass&, const Graph&)> dump_to_folder(const std::string& folder);

}  // namespace genesis::passes

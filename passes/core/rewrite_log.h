// Logs what each pass rewrites, one line per rewrite at debug level:
//
//   fuse_linear: 'model.layers.0.mlp.up_proj' matmul + add -> linear
//
// A Rewriter reports every rewrite here; the runner of passes sets the name of the pass.
#pragma once

#include <set>
#include <string_view>

#include "schema/graph/graph.h"

namespace genesis::passes {

// Attributes the rewrites of this thread to a pass for as long as the object lives.
class LoggedPass {
 public:
  explicit LoggedPass(std::string_view name);
  ~LoggedPass();
  LoggedPass(const LoggedPass&) = delete;
  LoggedPass& operator=(const LoggedPass&) = delete;

 private:
  const std::string_view outer_;
};

// Logs the rewrites of one Rewriter, from graph `old` to graph `made`. Does nothing if the level is off or no pass runs.
class RewriteLog {
 public:
  RewriteLog();

  // Adds `nodes` to the sources of the nodes that are made from now on.
  void add_sources(const Graph& old, const Graph& made, const std::vector<const Node*>& nodes);
  void forget_sources() { sources_.clear(); }
  // Reports that `values` replace the results of `node`.
  void replaced(const Graph& old, const Graph& made, const Node& node, const std::vector<Value>& values);

 private:
  const std::string_view pass_;  // empty: nothing is logged
  std::set<NodeId> sources_;     // nodes of the old graph
  size_t first_made_ = 0;        // index of the first new node made from sources_
  bool logged_ = false;
};

}  // namespace genesis::passes

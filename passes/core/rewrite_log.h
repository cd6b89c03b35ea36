// What a pass made of what, a line per rewrite at debug level:
//
//   fuse_linear: 'model.layers.0.mlp.up_proj' matmul + add -> linear
//
// A Rewriter sees every rewrite and says so here; the runner of passes says whose they are.
#pragma once

#include <set>
#include <string_view>

#include "schema/graph/graph.h"

namespace genesis::passes {

// Rewrites of this thread are this pass's for as long as it lives.
class LoggedPass {
 public:
  explicit LoggedPass(std::string_view name);
  ~LoggedPass();
  LoggedPass(const LoggedPass&) = delete;
  LoggedPass& operator=(const LoggedPass&) = delete;

 private:
  const std::string_view outer_;
};

// Of one Rewriter, from graph `old` to graph `made`. Does nothing where the level is off or no pass runs.
class RewriteLog {
 public:
  RewriteLog();

  // What is made from now on comes from `nodes`, too.
  void add_sources(const Graph& old, const Graph& made, const std::vector<const Node*>& nodes);
  void forget_sources() { sources_.clear(); }
  // `values` stand for the results of `node`.
  void replaced(const Graph& old, const Graph& made, const Node& node, const std::vector<Value>& values);

 private:
  const std::string_view pass_;  // empty: nothing is logged
  std::set<NodeId> sources_;     // of the old graph
  size_t first_made_ = 0;        // from them
  bool logged_ = false;
};

}  // namespace genesis::passes

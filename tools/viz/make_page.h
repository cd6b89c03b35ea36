// The page that genesis-viz writes: what its command line names, read and put together.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "schema/core/dim.h"
#include "schema/messages/progress.h"
#include "tools/viz/data/columns.h"

namespace genesis::viz {

struct PageRequest {
  std::string input;                 // a model; empty: training runs alone
  std::string compare;               // a model to hold it against; empty: none
  std::vector<std::string> metrics;  // metrics.jsonl files, or folders of them
  std::string entry;                 // empty: all
  std::string device = "cpu";
  std::set<std::string> disable;  // SessionOptions::disabled
  std::string view;               // to open first
  Bindings sizes;                 // that were given; of all ranks together
  std::string mesh;               // "data=2"; empty: one rank
  int zero = 0;                   // SessionOptions::zero
  bool graph_only = false;        // no passes, kernels and plans
  bool values = false;            // of weights
  OnProgress progress = {};       // is told what is being done
};

// Throws Error for a file that cannot be read, and for an entry point or a size that no model has.
Json make_page(const PageRequest& request);

}  // namespace genesis::viz

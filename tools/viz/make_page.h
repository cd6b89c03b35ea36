// Makes the page of genesis-viz from the files named on the command line.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "schema/core/dim.h"
#include "schema/messages/progress.h"
#include "tools/viz/data/columns.h"

namespace genesis::viz {

struct PageRequest {
  std::string input;                 // a model; empty: only training runs
  std::string compare;               // a second model to compare with; empty: none
  std::vector<std::string> metrics;  // metrics.jsonl files, or folders of them
  std::string entry;                 // empty: all
  std::string device = "cpu";
  std::set<std::string> disable;  // SessionOptions::disabled
  std::string view;               // view to open first
  Bindings sizes;                 // sizes given by the user, over all ranks
  std::string mesh;               // "data=2"; empty: one rank
  int zero = 0;                   // SessionOptions::zero
  bool graph_only = false;        // true: no passes, kernels and plans
  bool values = false;            // true: summaries of the weights' values
  OnProgress progress = {};       // called with the current activity
};

// Throws Error if a file cannot be read, or if no model has the entry point or a size.
Json make_page(const PageRequest& request);

}  // namespace genesis::viz

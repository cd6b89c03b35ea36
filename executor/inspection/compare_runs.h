// Finds the first value that differs between two runs of an entry point with different options: another device, other passes,
// other threads.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/kernel.h"
#include "executor/session.h"

namespace genesis {

struct CompareOptions {
  std::string entry = "forward";
  SessionOptions a, b;
  // The largest |a - b| / max(1, |a|) that counts as equal; 0: the same bits. Less than 0: what the runs promise, which are the
  // same bits if they differ in threads or memory planning only, and else results within rounding (rounding.h).
  double tolerance = -1;

  bool promise_same_bits() const;
  // Returns true if differences that rounding explains are accepted.
  bool by_rounding() const { return tolerance < 0 && !promise_same_bits(); }
};

// A value that both runs computed, and its element with the largest error. That error is relative to max(1, |a|), or with
// rounding to the root mean square of the value if that is larger than |a|.
struct ComparedNode {
  std::string node, author, op;  // author: the author's name of the node
  double worst = 0, tolerance = 0;
  int64_t element = 0;
  double a = 0, b = 0;
};

// The first difference, while the second run is at its step.
struct DifferingStep {
  const Step& step;
  std::span<const TensorView> inputs;
  const Tensor &expected, &got;
};

struct RunComparison {
  std::vector<ComparedNode> values;   // up to the first that differs
  std::optional<ComparedNode> first;  // the value that differs; empty: none does
  Bindings sizes;                     // sizes of the symbols of the entry point
};

// Runs the entry point once with each options. Values are matched by the names of their nodes; a value that only one run
// computes does not count. `on_difference` is called with the first difference. Throws Error as Session::run() does.
RunComparison compare_runs(const std::shared_ptr<const Model>& model, const NamedTensors& inputs,
                           const CompareOptions& options,
                           const std::function<void(const DifferingStep&)>& on_difference = {});

}  // namespace genesis

#include "executor/inspection/compare_runs.h"

#include <cmath>
#include <map>
#include <set>

#include "executor/inspection/rounding.h"
#include "executor/inspector.h"
#include "executor/switches.h"

namespace genesis {
namespace {

struct Seen {
  const Step* step;
  Tensor value;
  double error = 0;  // relative error that rounding may explain
};

// Returns true if both sides computed the same value. A node keeps its name when a pass extends it: a matrix product
// that also takes an addend gives another value.
bool same_value(const Seen& seen, const Step& step, const Tensor& got) {
  return seen.value.type() == got.type() &&
         (seen.step->op != step.op || seen.step->inputs.size() == step.inputs.size());
}

// |a - b| / max(least, |a|) may be at most `relative`.
struct Tolerance {
  double relative = 0, least = 1;
};

// `error`: the error that rounding may explain on both sides together.
Tolerance tolerance_of(const CompareOptions& options, double error, std::span<const double> elements) {
  if (!options.by_rounding()) return Tolerance{std::max(options.tolerance, 0.0)};
  return Tolerance{kRoundingSafety * error, std::max(root_mean_square(elements), 1e-30)};
}

// Returns the largest error between two values, whether it is tolerated or not.
ComparedNode compare(const Step& step, const Tensor& expected, const Tensor& got,
                     const CompareOptions& options, double rounding) {
  const std::vector<double> a = expected.to_doubles(), b = got.to_doubles();
  const Tolerance tolerance = tolerance_of(options, rounding, a);
  ComparedNode result{step.name, step.authored, std::string(step.op->name()), 0, tolerance.relative};
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    double error = std::abs(a[i] - b[i]) / std::max(tolerance.least, std::abs(a[i]));
    if (std::isnan(error)) error = INFINITY;
    if (error <= result.worst) continue;
    result.worst = error;
    result.element = static_cast<int64_t>(i);
    result.a = a[i];
    result.b = b[i];
  }
  return result;
}

std::string key_of(const Step& step, size_t output) { return step.name + ":" + std::to_string(output); }

std::vector<double> errors_of(bool by_rounding, Rounding& rounding, const Step& step,
                              std::span<const TensorView> inputs, std::span<const TensorView> outputs) {
  return by_rounding ? rounding.step(step, inputs, outputs) : std::vector<double>(outputs.size());
}

// Returns every value that a run computes, by node and output number. `step` points into the session.
std::map<std::string, Seen> observe_all(Session& session, const CompareOptions& options,
                                        const NamedTensors& inputs) {
  std::map<std::string, Seen> values;
  Rounding rounding;
  Inspector(session).observe(options.entry, inputs, [&](const Step& step, auto step_inputs, auto outputs) {
    const std::vector<double> errors = errors_of(options.by_rounding(), rounding, step, step_inputs, outputs);
    for (size_t i = 0; i < outputs.size(); ++i)
      values[key_of(step, i)] = {&step, copy_of(outputs[i]), errors[i]};
  });
  return values;
}

}  // namespace

// The number of threads and the planning options never change a bit; passes and devices may round differently.
bool CompareOptions::promise_same_bits() const {
  const auto passes_of = [](const SessionOptions& options) {
    std::set<std::string> names = options.disabled;
    for (const auto& name : step_switches()) names.erase(std::string(name));
    return names;
  };
  return resolved(a).device == resolved(b).device && a.optimize == b.optimize && passes_of(a) == passes_of(b);
}

RunComparison compare_runs(const std::shared_ptr<const Model>& model, const NamedTensors& inputs,
                           const CompareOptions& options,
                           const std::function<void(const DifferingStep&)>& on_difference) {
  Session a(model, options.a);
  const std::map<std::string, Seen> values = observe_all(a, options, inputs);
  Rounding rounding;
  Session b(model, options.b);
  RunComparison comparison;
  Inspector(b).observe(options.entry, inputs, [&](const Step& step, auto step_inputs, auto outputs) {
    const std::vector<double> errors = errors_of(options.by_rounding(), rounding, step, step_inputs, outputs);
    for (size_t i = 0; i < outputs.size() && !comparison.first; ++i) {
      const auto expected = values.find(key_of(step, i));
      const Tensor got = copy_of(outputs[i]);
      if (expected == values.end() || !same_value(expected->second, step, got)) continue;
      const Seen& seen = expected->second;
      comparison.values.push_back(compare(step, seen.value, got, options, std::hypot(seen.error, errors[i])));
      const ComparedNode& found = comparison.values.back();
      if (!(found.worst > found.tolerance)) continue;
      comparison.first = found;
      if (on_difference) on_difference({step, step_inputs, seen.value, got});
    }
  });
  comparison.sizes = b.plan(options.entry, inputs).bindings;
  return comparison;
}

}  // namespace genesis

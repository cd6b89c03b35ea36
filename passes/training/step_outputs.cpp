#include "passes/training/step_outputs.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "passes/core/name_patterns.h"
#include "schema/messages/log.h"
#include "schema/ops/collective/collective.h"
#include "schema/ops/elementwise/cast.h"
#include "schema/ops/elementwise/elementwise.h"
#include "schema/ops/tensor/slice.h"
#include "schema/ranks/mesh_axes.h"

namespace genesis::passes {
namespace {

// Names of the outputs that training steps and evaluations add themselves.
constexpr std::array<std::string_view, 6> kOwn = {"loss",       "grad_norm",     "lr",
                                                  "loss_scale", "skipped_steps", "weight"};

bool is_own(const std::string& name) { return std::ranges::find(kOwn, name) != kOwn.end(); }

void check_patterns(const Graph& loss, const TrainOptions& options) {
  for (const std::string& pattern : options.outputs) {
    const auto fits = [&](const NamedValue& output) { return matches_any({pattern}, output.name); };
    if (pattern == "*" || std::ranges::any_of(loss.outputs(), fits)) continue;
    std::vector<std::string> names;
    for (const NamedValue& output : loss.outputs()) names.push_back(output.name);
    fail("outputs={} names no output of entry point '{}', which has: {}", pattern, loss.name(),
         fmt::join(names, ", "));
  }
}

bool has_rows(const Graph& loss, const Shape& shape) {
  if (loss.inputs().empty()) return false;
  const Shape& first = loss.type(loss.inputs()[0]).shape;
  return first.rank() > 0 && shape.rank() > 0 && shape[0] == first[0];
}

}  // namespace

std::vector<std::string> further_outputs(const Graph& loss, const TrainOptions& options) {
  check_patterns(loss, options);
  std::vector<std::string> names;
  for (const NamedValue& output : loss.outputs()) {
    if (output.name == options.output || !matches_any(options.outputs, output.name)) continue;
    if (!is_own(output.name)) names.push_back(output.name);
    if (is_own(output.name) && std::ranges::find(options.outputs, output.name) != options.outputs.end())
      fail("outputs={}: training has an output of that name itself: rename that of entry point '{}'",
           output.name, loss.name());
  }
  return names;
}

StepOutputs::StepOutputs(const Graph& loss, const TrainOptions& options)
    : share_(1.0 / static_cast<double>(options.accumulate)) {
  const std::vector<std::string> names = further_outputs(loss, options);
  const auto minimized = std::ranges::find(loss.outputs(), options.output, &NamedValue::name);
  for (const NamedValue& output : loss.outputs()) {
    const bool is_wanted = output.name != options.output && matches_any(options.outputs, output.name);
    // The step's own "loss" is the minimized output, so an output "loss" of the same value is not missing.
    const bool is_returned =
        output.name == "loss" && minimized != loss.outputs().end() && output.value == minimized->value;
    if (is_wanted && is_own(output.name) && !is_returned)
      log_warning(
          "the output '{}' of entry point '{}' is left out of '{}', which has one of that name itself",
          output.name, loss.name(), options.name);
    if (std::ranges::find(names, output.name) == names.end()) continue;
    const TensorType& type = loss.type(output.value);
    const Kind kind = has_rows(loss, type.shape)     ? Kind::kRows
                      : is_float(type.dtype)         ? Kind::kMean
                      : type.dtype == DType::boolean ? Kind::kAny
                                                     : Kind::kSum;
    outputs_.push_back({output.name, kind, {}, {}});
  }
}

void StepOutputs::add(const InlinedGraph& micro_batch) {
  for (Output& output : outputs_) {
    Value value = micro_batch.outputs.at(output.name);
    if (output.kind == Kind::kRows) {
      output.rows.push_back(value);
      continue;
    }
    if (output.kind == Kind::kMean && share_ != 1) value = value * share_;
    if (!output.value)
      output.value = value;
    else
      output.value = output.kind == Kind::kAny ? logical_or(output.value, value) : output.value + value;
  }
}

std::vector<Value*> StepOutputs::means() {
  std::vector<Value*> values;
  for (Output& output : outputs_)
    if (output.kind == Kind::kMean) values.push_back(&output.value);
  return values;
}

void StepOutputs::add_to(Graph& graph) const {
  for (const Output& output : outputs_) {
    Value value = output.value;
    if (output.kind == Kind::kRows)
      value = output.rows.size() == 1 ? output.rows[0] : concat(output.rows, 0);
    else if (output.kind == Kind::kSum)
      value = all_reduce(value, kDataAxis, RankReduction::kSum);
    else if (output.kind == Kind::kAny)
      value = cast(all_reduce(cast(value, DType::i64), kDataAxis, RankReduction::kSum), DType::boolean);
    graph.add_output(output.name, value);
  }
}

}  // namespace genesis::passes

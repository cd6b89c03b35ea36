#include "executor/runtime/runner.h"

#include <algorithm>

#include "backends/collectives.h"
#include "passes/core/match.h"
#include "schema/ops/create.h"
#include "schema/ops/elementwise/fused.h"
#include "schema/ops/tensor/slice.h"

namespace genesis {

std::byte* PlanMemory::resolve(const BufferRef& ref) const {
  const auto at = static_cast<size_t>(ref.index);
  std::byte* base = nullptr;
  switch (ref.space) {
    case Space::kArena:
      base = arena;
      break;
    case Space::kState:
      base = states[at];
      break;
    case Space::kConstant:
      base = constants[at];
      break;
    case Space::kInput:
      base = inputs[at];
      break;
  }
  return base ? base + ref.offset : nullptr;
}

void fail_on_data(const Step& step, const Fault& fault) {
  if (fault.what) fail("node '{}' ({}): {}", step.authored, step.op->name(), fault.what);
  fail("node '{}' ({}): index {} is out of range: it must be at least 0 and less than {}", step.authored,
       step.op->name(), fault.value, fault.limit);
}

void check_ranks(const Collectives* collectives, const Plan& plan, const Step* exchange) {
  const std::string why = collectives ? collectives->failure() : "";
  if (why.empty()) return;
  const std::string where =
      exchange ? fmt::format(", node '{}' ({})", exchange->authored, exchange->op->name()) : "";
  fail("entry point '{}'{}: {}", plan.entry, where, why);
}

namespace {

bool overlap(const BufferRef& a, const BufferRef& b) {
  return a.space == b.space && a.index == b.index && a.offset < b.offset + b.bytes &&
         b.offset < a.offset + a.bytes;
}

std::optional<Tensor> small_copy(const TensorView& view) {
  if (view.bytes() > NonfiniteError::kMaxBytes) return std::nullopt;
  return copy_of(view);
}

// Returns copies of the step's inputs; an input that the step has overwritten, or a large one, is omitted.
std::vector<std::optional<Tensor>> inputs_left(const Step& step, std::span<const TensorView> inputs) {
  std::vector<std::optional<Tensor>> left;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const bool is_gone = std::ranges::any_of(
        step.outputs, [&](const BufferRef& output) { return overlap(step.inputs[i], output); });
    left.push_back(is_gone ? std::nullopt : small_copy(inputs[i]));
  }
  return left;
}

}  // namespace

void fail_on_nonfinite(const Plan& plan, const Step& step, size_t output, const Nonfinite& found,
                       bool inputs_were_finite, std::span<const TensorView> inputs,
                       std::span<const TensorView> outputs) {
  NonfiniteError::Found values{plan.entry,
                               plan.bindings,
                               step.name,
                               step.authored,
                               std::string(step.op->name()),
                               output,
                               found.index,
                               inputs_left(step, inputs)};
  for (const TensorView& view : outputs) values.outputs.push_back(small_copy(view));
  throw NonfiniteError(
      fmt::format(
          "node '{}' ({}, '{}' after optimization) is the first to produce {} at element {} of {}: {}",
          step.authored, step.op->name(), step.name, name_of(found), found.index,
          step.output_types[output].to_string(),
          inputs_were_finite ? "its inputs were finite" : "it was given one that is not finite"),
      std::move(values));
}

namespace {

// Returns true if the step itself contains an infinity; a fused region may contain constants.
bool holds_infinity(const Step& step) {
  if (!passes::is<ops::Fused>(*step.op)) return passes::is<ops::Full, ops::Pad>(*step.op);
  const auto body = from_attributes<ops::Fused>(step.attributes).body;
  return std::ranges::any_of(body, [](const std::string& line) {
    return line.starts_with("full") && line.find("inf") != std::string::npos;
  });
}

}  // namespace

bool makes_infinities(const Step& step, bool inputs_were_finite) {
  return inputs_were_finite && !holds_infinity(step);
}

}  // namespace genesis

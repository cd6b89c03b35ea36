#include "executor/runtime/runner.h"

#include <algorithm>

#include "backends/collectives.h"
#include "passes/core/match.h"
#include "schema/ops/elementwise/fused.h"
#include "schema/ops/tensor/create.h"
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

void check_ranks(const Collectives* collectives, const Plan& plan) {
  if (const std::string why = collectives ? collectives->failure() : ""; !why.empty())
    fail("entry point '{}': {}", plan.entry, why);
}

void fail_on_nonfinite(const Step& step, size_t output, const Nonfinite& found, bool inputs_were_finite) {
  fail("node '{}' ({}, '{}' after optimisation) is the first to produce {} at element {} of {}: {}",
       step.authored, step.op->name(), step.name, name_of(found), found.index,
       step.output_types[output].to_string(),
       inputs_were_finite ? "its inputs were finite" : "it was given one that is not finite");
}

namespace {

// A region may make the numbers it is written with inside.
bool holds_infinity(const Step& step) {
  if (!passes::is<ops::Fused>(*step.op)) return passes::is<ops::Full, ops::Pad>(*step.op);
  const auto body = from_attributes<ops::Fused>(step.attributes).body;
  return std::any_of(body.begin(), body.end(), [](const std::string& line) {
    return line.starts_with("full") && line.find("inf") != std::string::npos;
  });
}

}  // namespace

bool makes_infinities(const Step& step, bool inputs_were_finite) {
  return inputs_were_finite && !holds_infinity(step);
}

}  // namespace genesis

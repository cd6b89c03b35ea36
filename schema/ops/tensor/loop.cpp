#include "schema/ops/tensor/loop.h"

#include "schema/core/error.h"

namespace genesis {
namespace ops {
namespace {

void check_rows(Types collected) {
  for (size_t i = 0; i < collected.size(); ++i) {
    if (collected[i].shape.rank() == 0) fail("loop collects rows in value {}, which is a scalar", i);
    if (!(collected[i].shape[0] == collected[0].shape[0]))
      fail("loop collects rows in {} and {}: expected one number of rows", collected[0].to_string(),
           collected[i].to_string());
  }
}

}  // namespace

std::vector<TensorType> Loop::infer(Types in) const {
  if (entry.empty()) fail("loop names no entry point as its body");
  const auto given = static_cast<int64_t>(in.size()) - 2;
  if (carried < 0 || collected < 0 || carried > given || collected > given - carried ||
      carried + collected == 0)
    fail("loop carries {} values and collects {}: expected 1 to {}, the operands behind the number of steps",
         carried, collected, given);
  if (!(in[0] == TensorType{DType::boolean, {}}) || !(in[1] == TensorType{DType::i64, {}}))
    fail("loop takes a condition bool[] and the most steps i64[], got {} and {}", in[0].to_string(),
         in[1].to_string());
  std::vector<TensorType> results = {in.begin() + 2, in.begin() + 2 + carried + collected};
  if (collected == 0) return results;
  check_rows(std::span(results).subspan(static_cast<size_t>(carried)));
  results.push_back({DType::i64, {}});
  return results;
}

}  // namespace ops

std::span<const OpDef* const> loop_ops() { return kOpDefs<ops::Loop>; }

std::vector<Value> loop(const std::string& entry, const LoopOperands& operands) {
  std::vector<Value> inputs = {operands.condition, operands.most_steps};
  for (const auto* values : {&operands.carried, &operands.collected, &operands.read})
    inputs.insert(inputs.end(), values->begin(), values->end());
  return emit_node(ops::Loop{.entry = entry,
                             .carried = static_cast<int64_t>(operands.carried.size()),
                             .collected = static_cast<int64_t>(operands.collected.size())},
                   inputs);
}

LoopMemory loop_memory(const Plan& body, int64_t carried) {
  constexpr int64_t kAlignment = 256;  // arenas of all devices have it
  LoopMemory memory;
  const auto place = [&](int64_t bytes) {
    const int64_t at = memory.bytes;
    memory.bytes += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    return at;
  };
  memory.arena = place(body.arena_bytes);
  memory.number = place(sizeof(int64_t));
  for (int64_t i = 0; i < carried; ++i) {
    const BufferRef& result = body.outputs[static_cast<size_t>(i) + 1].buffer;
    const bool moves = result.space == Space::kInput && result.index <= carried && result.index != i + 1;
    memory.aside.push_back(moves ? std::optional(place(result.bytes)) : std::nullopt);
  }
  return memory;
}

}  // namespace genesis

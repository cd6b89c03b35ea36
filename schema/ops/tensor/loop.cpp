#include "schema/ops/tensor/loop.h"

#include "schema/core/error.h"

namespace genesis {
namespace ops {

std::vector<TensorType> Loop::infer(Types in) const {
  if (entry.empty()) fail("loop names no entry point as its body");
  const auto given = static_cast<int64_t>(in.size()) - 2;
  if (carried < 1 || carried > given)
    fail("loop carries {} values: expected 1 to {}, the operands behind the number of steps", carried, given);
  if (!(in[0] == TensorType{DType::boolean, {}}) || !(in[1] == TensorType{DType::i64, {}}))
    fail("loop takes a condition bool[] and the most steps i64[], got {} and {}", in[0].to_string(),
         in[1].to_string());
  return {in.begin() + 2, in.begin() + 2 + carried};
}

}  // namespace ops

std::span<const OpDef* const> loop_ops() { return kOpDefs<ops::Loop>; }

std::vector<Value> loop(const std::string& entry, Value condition, Value most_steps,
                        const std::vector<Value>& carried, const std::vector<Value>& read) {
  std::vector<Value> inputs = {condition, most_steps};
  inputs.insert(inputs.end(), carried.begin(), carried.end());
  inputs.insert(inputs.end(), read.begin(), read.end());
  return emit_node(ops::Loop{.entry = entry, .carried = static_cast<int64_t>(carried.size())}, inputs);
}

LoopMemory loop_memory(int64_t arena_bytes, Types carried) {
  constexpr int64_t kAlignment = 256;  // arenas of all devices have it
  LoopMemory memory;
  const auto place = [&](int64_t bytes) {
    const int64_t at = memory.bytes;
    memory.bytes += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    return at;
  };
  memory.arena = place(arena_bytes);
  memory.step = place(sizeof(int64_t));
  for (auto& offsets : memory.carried)
    for (const TensorType& type : carried) offsets.push_back(place(type.bytes()));
  return memory;
}

}  // namespace genesis

#include <algorithm>
#include <utility>

#include "backends/cpu/fused/tile_program.h"

namespace genesis::cpu {
namespace {

constexpr size_t kMicroOpsPerStep = 3;  // at most: store the held value, load another one, compute
constexpr size_t kMemoryPerStep = 4;

size_t index(int i) { return static_cast<size_t>(i); }

// Builds a chain by adding steps. `held_` is the register whose value the vectors hold at this point. If another value replaces
// it and a later step still reads it, it is stored to memory first.
class Chain {
 public:
  Chain(const std::vector<Register>& registers, std::vector<int>& uses, Extent extent)
      : registers_(registers), uses_(uses) {
    step_.kind = TileStep::Kind::kChain;
    step_.extent = extent;
  }

  bool takes(const TileStep& step) const {
    return step.extent == step_.extent && step_.chain.size() + kMicroOpsPerStep + 2 <= kMaxMicroOps &&
           memory_.size() + kMemoryPerStep <= kMaxChainMemory;
  }

  void add(const TileStep& step) {
    int position = position_of_held(step);
    for (int r : step.in)
      if (r >= 0) --uses_[index(r)];
    const bool gives_way = step.role != TileStep::Role::kStore || position < 0;
    if (gives_way) keep_held(step, position);
    if (step.role == TileStep::Role::kLoad) return load(step.micro_ops[0], step, step.out);
    if (position < 0) {
      position = step.micro_ops[2] ? 1 : 0;  // `where` loads its first branch, not the condition
      const int r = step.in[index(position)];
      load(find_load_micro_op(reg(r).dtype), step, r, position);
      in_memory_ = true;
    }
    operate(step, position);
  }

  TileStep finish() {
    if (held_ >= 0 && !in_memory_ && wanted(held_)) store_held();
    step_.chain.push_back({.micro_op = {.run = find_end_micro_op()}});
    return std::move(step_);
  }

 private:
  const Register& reg(int r) const { return registers_[index(r)]; }
  bool wanted(int r) const { return uses_[index(r)] > 0 || reg(r).kind == Register::Kind::kOutput; }

  int position_of_held(const TileStep& step) const {
    if (step.role == TileStep::Role::kLoad || held_ < 0) return -1;
    for (int i = 0; i < 3; ++i)
      if (step.in[index(i)] == held_ && step.micro_ops[index(i)] && !step.scalar[index(i)]) return i;
    return -1;
  }

  // Stores the held value if a later step reads it, or if this step reads it as another operand too.
  void keep_held(const TileStep& step, int position) {
    bool again = false;
    for (int i = 0; i < 3; ++i) again |= i != position && held_ >= 0 && step.in[index(i)] == held_;
    if (held_ >= 0 && !in_memory_ && (again || wanted(held_))) store_held();
  }

  void store_held() {
    push({.run = find_store_micro_op(reg(held_).dtype, false), .writes = true}, {held_, -1});
    in_memory_ = true;
  }

  void load(MicroOpFunction run, const TileStep& step, int result, int position = 0) {
    push({.run = run, .scalar = {step.scalar[index(position)], false}}, {step.in[index(position)], -1});
    held_ = result;
    in_memory_ = false;
  }

  void operate(const TileStep& step, int position) {
    if (step.role == TileStep::Role::kStore) {
      push({.run = step.around ? step.around : step.micro_ops[0], .writes = true}, {step.out, -1},
           step.micro_ops[0]);
      return;
    }
    MicroOp micro_op{
        .run = step.micro_ops[index(position)],
        .parameters = {static_cast<float>(step.parameters[0]), static_cast<float>(step.parameters[1])}};
    std::array<int, 2> memory{-1, -1};
    size_t next = 0;
    for (int i = 0; i < 3; ++i) {
      if (i == position || step.in[index(i)] < 0) continue;
      micro_op.scalar[next] = step.scalar[index(i)];
      memory[next++] = step.in[index(i)];
    }
    push(micro_op, memory);
    held_ = step.out;
    in_memory_ = false;
  }

  void push(MicroOp micro_op, std::array<int, 2> memory, MicroOpFunction plain = nullptr) {
    for (size_t m = 0; m < 2; ++m) {
      if (memory[m] < 0) continue;
      micro_op.far[m] = reg(memory[m]).far;
      micro_op.element_bytes[m] = static_cast<uint8_t>(reg(memory[m]).element_bytes());
      if (std::ranges::find(memory_, memory[m]) == memory_.end()) memory_.push_back(memory[m]);
    }
    step_.chain.push_back({micro_op, memory, plain});
  }

  const std::vector<Register>& registers_;
  std::vector<int>& uses_;
  TileStep step_;
  std::vector<int> memory_;
  int held_ = -1;
  bool in_memory_ = false;
};

}  // namespace

std::vector<TileStep> join_chains(std::vector<TileStep> steps, const std::vector<Register>& registers,
                                  std::vector<int>& uses) {
  std::vector<TileStep> joined;
  for (size_t s = 0; s < steps.size();) {
    if (steps[s].kind != TileStep::Kind::kF32) {
      for (int r : steps[s].in)
        if (r >= 0) --uses[index(r)];
      joined.push_back(std::move(steps[s++]));
      continue;
    }
    Chain chain(registers, uses, steps[s].extent);
    while (s < steps.size() && steps[s].kind == TileStep::Kind::kF32 && chain.takes(steps[s]))
      chain.add(steps[s++]);
    joined.push_back(chain.finish());
  }
  return joined;
}

}  // namespace genesis::cpu

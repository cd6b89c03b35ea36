#include <algorithm>
#include <utility>

#include "backends/cpu/fused/tile_program.h"

namespace genesis::cpu {
namespace {

constexpr size_t kStagesPerLink = 3;  // store what is held, load, operate
constexpr size_t kMemoryPerLink = 4;

size_t index(int i) { return static_cast<size_t>(i); }

// One chain as it grows. `held` is the register whose value stands in the vectors; it is written to memory
// when it gives way to another while something still wants it.
class Chain {
 public:
  Chain(const std::vector<Register>& registers, std::vector<int>& uses, Extent extent)
      : registers_(registers), uses_(uses) {
    step_.kind = TileStep::Kind::kChain;
    step_.extent = extent;
  }

  bool takes(const TileStep& link) const {
    return link.extent == step_.extent && step_.chain.size() + kStagesPerLink + 2 <= kMaxStages &&
           memory_.size() + kMemoryPerLink <= kMaxChainMemory;
  }

  void add(const TileStep& link) {
    int position = position_of_held(link);
    for (int r : link.in)
      if (r >= 0) --uses_[index(r)];
    const bool gives_way = link.role != TileStep::Role::kStore || position < 0;
    if (gives_way) keep_held(link, position);
    if (link.role == TileStep::Role::kLoad) return load(link.stages[0], link, link.out);
    if (position < 0) {
      position = link.stages[2] ? 1 : 0;  // of `where`: not the condition
      const int r = link.in[index(position)];
      load(find_load_stage(reg(r).dtype), link, r, position);
      in_memory_ = true;
    }
    operate(link, position);
  }

  TileStep finish() {
    if (held_ >= 0 && !in_memory_ && wanted(held_)) store_held();
    step_.chain.push_back({.stage = {.run = finish_stage()}});
    return std::move(step_);
  }

 private:
  const Register& reg(int r) const { return registers_[index(r)]; }
  bool wanted(int r) const { return uses_[index(r)] > 0 || reg(r).place == Register::Place::kOutput; }

  int position_of_held(const TileStep& link) const {
    if (link.role == TileStep::Role::kLoad || held_ < 0) return -1;
    for (int i = 0; i < 3; ++i)
      if (link.in[index(i)] == held_ && link.stages[index(i)] && !link.scalar[index(i)]) return i;
    return -1;
  }

  // Another operand of the same link may be the value that is held.
  void keep_held(const TileStep& link, int position) {
    bool again = false;
    for (int i = 0; i < 3; ++i) again |= i != position && held_ >= 0 && link.in[index(i)] == held_;
    if (held_ >= 0 && !in_memory_ && (again || wanted(held_))) store_held();
  }

  void store_held() {
    push({.run = find_store_stage(reg(held_).dtype, false), .writes = true}, {held_, -1});
    in_memory_ = true;
  }

  void load(StageFunction run, const TileStep& link, int result, int position = 0) {
    push({.run = run, .scalar = {link.scalar[index(position)], false}}, {link.in[index(position)], -1});
    held_ = result;
    in_memory_ = false;
  }

  void operate(const TileStep& link, int position) {
    if (link.role == TileStep::Role::kStore) {
      push({.run = link.around ? link.around : link.stages[0], .writes = true}, {link.out, -1},
           link.stages[0]);
      return;
    }
    Stage stage{
        .run = link.stages[index(position)],
        .parameters = {static_cast<float>(link.parameters[0]), static_cast<float>(link.parameters[1])}};
    std::array<int, 2> memory{-1, -1};
    size_t next = 0;
    for (int i = 0; i < 3; ++i) {
      if (i == position || link.in[index(i)] < 0) continue;
      stage.scalar[next] = link.scalar[index(i)];
      memory[next++] = link.in[index(i)];
    }
    push(stage, memory);
    held_ = link.out;
    in_memory_ = false;
  }

  void push(Stage stage, std::array<int, 2> memory, StageFunction plain = nullptr) {
    for (size_t m = 0; m < 2; ++m) {
      if (memory[m] < 0) continue;
      stage.far[m] = reg(memory[m]).far;
      stage.element_bytes[m] = static_cast<uint8_t>(reg(memory[m]).element_bytes());
      if (std::find(memory_.begin(), memory_.end(), memory[m]) == memory_.end()) memory_.push_back(memory[m]);
    }
    step_.chain.push_back({stage, memory, plain});
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
    if (steps[s].kind != TileStep::Kind::kLink) {
      for (int r : steps[s].in)
        if (r >= 0) --uses[index(r)];
      joined.push_back(std::move(steps[s++]));
      continue;
    }
    Chain chain(registers, uses, steps[s].extent);
    while (s < steps.size() && steps[s].kind == TileStep::Kind::kLink && chain.takes(steps[s]))
      chain.add(steps[s++]);
    joined.push_back(chain.finish());
  }
  return joined;
}

}  // namespace genesis::cpu

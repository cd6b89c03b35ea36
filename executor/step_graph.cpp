#include "executor/step_graph.h"

#include <algorithm>
#include <map>
#include <set>

#include "executor/cost.h"

namespace genesis {
namespace {

// Below this a step is over before another thread has woken up.
constexpr double kTinyBytes = 64 << 10, kTinyFlops = 1e6;

struct Access {
  int64_t begin, end;  // bytes
  int32_t step;
  bool writes;
};

// The accesses that later steps may still collide with, for one space.
class Memory {
 public:
  template <class Wait>
  void access(const Access& next, Wait&& wait_for) {
    for (const Access& earlier : accesses_)
      if (earlier.begin < next.end && next.begin < earlier.end && (earlier.writes || next.writes) &&
          earlier.step != next.step)
        wait_for(earlier.step);
    // What is overwritten whole is only reached through the new writer from now on.
    if (next.writes)
      std::erase_if(accesses_, [&](const Access& a) {
        return a.step != next.step && next.begin <= a.begin && a.end <= next.end;
      });
    accesses_.push_back(next);
  }

 private:
  std::vector<Access> accesses_;
};

class Builder {
 public:
  explicit Builder(const Plan& plan) : plan_(plan) {}

  StepGraph build() {
    const size_t count = plan_.steps.size();
    graph_.successors.resize(count);
    graph_.waits.assign(count, 0);
    for (size_t i = 0; i < count; ++i) add(static_cast<int32_t>(i), plan_.steps[i]);
    return std::move(graph_);
  }

 private:
  void add(int32_t index, const Step& step) {
    std::set<int32_t> before;
    const auto touch = [&](const BufferRef& ref, bool writes) {
      if (ref.bytes == 0 || ref.space == Space::kConstant || ref.space == Space::kInput) return;
      Memory& memory = memories_[{ref.space, ref.space == Space::kState ? ref.index : 0}];
      memory.access({ref.offset, ref.offset + ref.bytes, index, writes},
                    [&](int32_t earlier) { before.insert(earlier); });
    };
    for (const BufferRef& ref : step.inputs) touch(ref, false);
    for (const BufferRef& ref : step.outputs) touch(ref, true);
    touch({Space::kArena, 0, step.scratch_offset, step.scratch_bytes}, true);
    for (int32_t earlier : before) graph_.successors[static_cast<size_t>(earlier)].push_back(index);
    graph_.waits[static_cast<size_t>(index)] = static_cast<int32_t>(before.size());
    const Cost cost = cost_of(step);
    graph_.tiny.push_back(cost.bytes < kTinyBytes && cost.flops < kTinyFlops);
  }

  const Plan& plan_;
  StepGraph graph_;
  std::map<std::pair<Space, int32_t>, Memory> memories_;
};

}  // namespace

StepGraph make_step_graph(const Plan& plan) { return Builder(plan).build(); }

}  // namespace genesis

#include "executor/runtime/step_graph.h"
#include "schema/graph/cost_model.h"

#include <algorithm>
#include <bit>
#include <compare>
#include <map>
#include <set>

namespace genesis {
namespace {

// The maximum number of readers of one range that are waited for one by one. With more, the first step that overwrites a part of
// the range waits for all of them and then stands for them, so that the number of waits does not grow as readers times writers.
constexpr size_t kManyReaders = 1000;

struct Range {
  int64_t begin, end;  // bytes
  auto operator<=>(const Range&) const = default;
  bool overlaps(const Range& other) const { return begin < other.end && other.begin < end; }
  bool contains(const Range& other) const { return begin <= other.begin && other.end <= end; }
};

// The ranges of one memory space that later steps may still conflict with, and the steps that touched them.
class Ranges {
 public:
  void add(const Range& range, int32_t step) {
    std::vector<int32_t>& steps = by_length_[length_class(range)][range];
    if (steps.empty() || steps.back() != step) steps.push_back(step);
  }

  // Calls visit(range, steps) for each range that overlaps `range`; it may change the steps.
  template <class Visit>
  void visit_overlapping(const Range& range, Visit&& visit) {
    for (auto& [length, ranges] : by_length_) {
      const int64_t longest = (int64_t{2} << length) - 1;
      for (auto at = ranges.lower_bound({range.begin - longest, 0}); at != ranges.end();) {
        if (at->first.begin >= range.end) break;
        if (at->first.overlaps(range)) visit(at->first, at->second);
        at = at->second.empty() ? ranges.erase(at) : std::next(at);
      }
    }
  }

  void erase_within(const Range& range, int32_t step) {
    visit_overlapping(range, [&](const Range& earlier, std::vector<int32_t>& steps) {
      if (range.contains(earlier)) std::erase_if(steps, [&](int32_t other) { return other != step; });
    });
  }

 private:
  // Ranges are grouped by length, so that ranges that begin before another one and overlap it are found near its begin.
  static int length_class(const Range& range) {
    return std::bit_width(static_cast<uint64_t>(range.end - range.begin)) - 1;
  }

  std::map<int, std::map<Range, std::vector<int32_t>>> by_length_;
};

class Memory {
 public:
  template <class Wait>
  void access(const Range& range, int32_t step, bool writes, Wait&& wait_for) {
    const auto wait_for_all = [&](const Range&, std::vector<int32_t>& steps) {
      for (const int32_t earlier : steps)
        if (earlier != step) wait_for(earlier);
    };
    writes_.visit_overlapping(range, wait_for_all);
    if (!writes) return reads_.add(range, step);
    reads_.visit_overlapping(range, [&](const Range& read, std::vector<int32_t>& steps) {
      wait_for_all(read, steps);
      if (steps.size() > kManyReaders) steps = {step};
    });
    // Later steps only need to wait for the new writer where it has overwritten a range completely.
    writes_.erase_within(range, step);
    reads_.erase_within(range, step);
    writes_.add(range, step);
  }

 private:
  Ranges reads_, writes_;
};

class Builder {
 public:
  Builder(const Plan& plan, const Target& target) : plan_(plan), target_(target) {}

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
      memory.access({ref.offset, ref.offset + ref.bytes}, index, writes,
                    [&](int32_t earlier) { before.insert(earlier); });
    };
    for (const BufferRef& ref : step.inputs) touch(ref, false);
    for (const BufferRef& ref : step.outputs) touch(ref, true);
    touch({Space::kArena, 0, step.scratch_offset, step.scratch_bytes}, true);
    if (step.op->info.collective) {
      if (last_collective_ >= 0) before.insert(last_collective_);
      last_collective_ = index;
    }
    for (int32_t earlier : before) graph_.successors[static_cast<size_t>(earlier)].push_back(index);
    graph_.waits[static_cast<size_t>(index)] = static_cast<int32_t>(before.size());
    const Cost cost = cost_of(step);
    graph_.tiny.push_back(cost.bytes < target_.tiny_bytes && cost.flops < target_.tiny_flops);
  }

  const Plan& plan_;
  const Target& target_;
  StepGraph graph_;
  int32_t last_collective_ = -1;
  std::map<std::pair<Space, int32_t>, Memory> memories_;
};

}  // namespace

StepGraph make_step_graph(const Plan& plan, const Target& target) { return Builder(plan, target).build(); }

}  // namespace genesis

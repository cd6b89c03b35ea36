#include "passes/memory/offsets/valley_search.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace genesis::passes {
namespace {

constexpr int64_t kWall = std::numeric_limits<int64_t>::max();
// Keeps the recursion within the 4 MB of stack of a TBB thread: 304 bytes per level, and more than a kilobyte under a
// sanitizer.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr size_t kMaxDepth = 1000;
#else
constexpr size_t kMaxDepth = 4000;
#endif

// Tuned on generated instances; results are not sensitive to any of them.
constexpr double kSizeValue = 0.3, kWallValue = 1.0, kLevelValue = 1.0, kLuck = 0.5;
constexpr double kRaiseCost = 0.5, kSlackCost = 8, kMuchSlack = 0.05;
constexpr double kTroubleKept = 0.3;

}  // namespace

ValleySearch::ValleySearch(const Problem& problem, uint64_t seed) : problem_(problem), random_(seed) {
  const auto sections = static_cast<size_t>(problem.sections());
  covering_.resize(sections);
  for (size_t i = 0; i < problem.blocks.size(); ++i) {
    const Block& block = problem.blocks[i];
    reset_cost_ += 10 + block.last - block.first;
    for (int32_t s = block.first; s < block.last; ++s) covering_[s].push_back(static_cast<int32_t>(i));
    const double area = static_cast<double>(block.size) * (block.last - block.first);
    value_.push_back(kSizeValue * std::log(area));
  }
  trouble_.assign(sections, 1);
  valley_.resize(sections);
  fitting_.resize(sections + 1);
}

void ValleySearch::reset() {
  const size_t n = problem_.blocks.size(), sections = problem_.load.size();
  floor_.assign(sections, 0);
  remaining_ = problem_.load;
  crossing_.assign(sections + 1, 0);
  for (const Block& block : problem_.blocks)
    for (int32_t s = block.first + 1; s < block.last; ++s) ++crossing_[s];
  for (double& t : trouble_) t = std::max(1.0, t * kTroubleKept);
  placed_.assign(n, 0);
  offsets_.assign(n, 0);
  changes_.clear();
}

bool ValleySearch::solve(int64_t ceiling, int64_t node_limit, WorkMeter& meter) {
  reset();
  ceiling_ = ceiling;
  nodes_left_ = node_limit;
  meter_ = &meter;
  meter.spend(reset_cost_);
  std::vector<int32_t> all(problem_.blocks.size());
  for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int32_t>(i);
  return solve_parts({0, problem_.sections()}, all, 0);
}

void ValleySearch::place(int32_t block, int64_t floor) {
  const Block& b = problem_.blocks[block];
  changes_.push_back({block, 0, floor});
  placed_[block] = 1;
  offsets_[block] = floor;
  for (int32_t s = b.first; s < b.last; ++s) {
    floor_[s] = floor + b.size;
    remaining_[s] -= b.size;
  }
  for (int32_t s = b.first + 1; s < b.last; ++s) --crossing_[s];
}

void ValleySearch::raise(int32_t section, int64_t floor) {
  changes_.push_back({-1, section, floor_[section]});
  floor_[section] = floor;
}

void ValleySearch::undo(size_t to) {
  for (; changes_.size() > to; changes_.pop_back()) {
    const Change& change = changes_.back();
    if (change.block < 0) {
      floor_[change.section] = change.floor;
      continue;
    }
    const Block& b = problem_.blocks[change.block];
    placed_[change.block] = 0;
    for (int32_t s = b.first; s < b.last; ++s) {
      floor_[s] = change.floor;
      remaining_[s] += b.size;
    }
    for (int32_t s = b.first + 1; s < b.last; ++s) ++crossing_[s];
  }
}

// Splits the range into subranges that no open block connects.
void ValleySearch::split(Range range, std::vector<Range>& parts) const {
  parts.clear();
  for (int32_t s = range.first; s < range.last;) {
    const int32_t begin = s++;
    if (remaining_[begin] == 0) continue;
    while (s < range.last && crossing_[s] > 0) ++s;
    parts.push_back({begin, s});
  }
}

// Subranges are independent: if one has no solution, another solution of the others does not help. The one with the most
// trouble comes first.
bool ValleySearch::solve_parts(Range range, std::span<const int32_t> open, size_t depth) {
  blame_ = range;
  if (depth >= kMaxDepth) return false;
  if (frames_.size() <= depth) frames_.resize(depth + 1);
  Frame& frame = frames_[depth];
  split(range, frame.parts);
  const auto worst = [&](const Range& part) {
    return *std::max_element(trouble_.begin() + part.first, trouble_.begin() + part.last);
  };
  if (frame.parts.size() > 1)
    std::ranges::stable_sort(frame.parts,
                             [&](const Range& a, const Range& b) { return worst(a) > worst(b); });
  for (const Range part : frame.parts) {
    frame.open.clear();
    for (const int32_t i : open)
      if (!placed_[i] && problem_.blocks[i].first >= part.first && problem_.blocks[i].last <= part.last)
        frame.open.push_back(i);
    if (!branch(part, depth)) return false;
  }
  return true;
}

// Tries every way to continue one section.
bool ValleySearch::branch(Range range, size_t depth) {
  Frame& frame = frames_[depth];
  --nodes_left_;
  const auto size = static_cast<int64_t>(frame.open.size()) + (range.last - range.first);
  if (!meter_->spend(300 + 3 * size)) nodes_left_ = 0;
  if (out_of_work()) return false;
  find_valleys(range);
  count_fitting(range, frame.open);
  const int32_t section = pick_section(range);
  Range blame = {valley_[section].first - 1, valley_[section].last + 1};
  const int64_t floor = floor_[section];
  const size_t mark = changes_.size();
  bool may_vary = true;
  // Continues after a choice made for sections [first, last).
  const auto go_on = [&](int32_t first, int32_t last) {
    if (solve_parts(range, frame.open, depth + 1)) return true;
    undo(mark);
    may_vary = blame_.first < last && first < blame_.last && !out_of_work();
    blame = {std::min(blame.first, blame_.first), std::max(blame.last, blame_.last)};
    return false;
  };
  if (fitting_[section] > 0)
    list_options(section, range, frame.options);
  else
    frame.options.clear();
  for (const Option& option : frame.options) {
    place(option.block, floor);
    if (go_on(problem_.blocks[option.block].first, problem_.blocks[option.block].last)) return true;
    if (!may_vary) return false;
  }
  if (const int64_t next = next_level(section, frame.open); next - floor <= slack(section)) {
    raise(section, next);
    if (go_on(section, section + 1)) return true;
    if (!may_vary) return false;
  }
  blame_ = blame;
  trouble_[section] += 1;
  return false;
}

void ValleySearch::find_valleys(Range range) {
  const auto height = [&](int32_t s) {
    return s < range.first || s >= range.last || remaining_[s] == 0 ? kWall : floor_[s];
  };
  int64_t left = kWall;
  for (int32_t s = range.first; s < range.last;) {
    const int32_t begin = s;
    const int64_t floor = height(begin);
    while (s < range.last && height(s) == floor) ++s;
    const bool is_valley = floor < left && floor < height(s);
    std::fill(valley_.begin() + begin, valley_.begin() + s, is_valley ? Range{begin, s} : Range{0, 0});
    left = floor;
  }
}

void ValleySearch::count_fitting(Range range, std::span<const int32_t> open) {
  std::fill(fitting_.begin() + range.first, fitting_.begin() + range.last + 1, 0);
  for (const int32_t i : open) {
    const Block& block = problem_.blocks[i];
    if (!fits_valley(block, block.first)) continue;
    ++fitting_[block.first];
    --fitting_[block.last];
  }
  for (int32_t s = range.first + 1; s < range.last; ++s) fitting_[s] += fitting_[s - 1];
}

// Returns the section with the fewest ways to continue. Leaving bytes empty counts as a way, with a weight that grows with the
// slack. Prefers sections that ended branches before. Returns a section without any way at once.
int32_t ValleySearch::pick_section(Range range) {
  int32_t picked = -1;
  double lowest = std::numeric_limits<double>::max();
  const double much_slack = kMuchSlack * static_cast<double>(ceiling_);
  for (int32_t s = range.first; s < range.last; ++s) {
    if (valley_[s].last == 0) continue;
    const int64_t free = slack(s);
    if (fitting_[s] == 0 && free <= 0) return s;
    double ways = fitting_[s];
    if (free > 0) ways += kRaiseCost + kSlackCost * std::min(1.0, static_cast<double>(free) / much_slack);
    ways /= trouble_[s];
    if (ways < lowest) {
      lowest = ways;
      picked = s;
    }
  }
  return picked;
}

// Blocks that touch the walls of the valley and end level with them leave fewer and wider valleys, so they are worth more.
double ValleySearch::value_of(int32_t block, int32_t section, Range range) {
  const Block& b = problem_.blocks[block];
  const Range valley = valley_[section];
  const int64_t top = floor_[section] + b.size;
  const auto is_level_with = [&](int32_t s) {
    return s >= range.first && s < range.last && remaining_[s] > 0 && floor_[s] == top;
  };
  double value = value_[block] + kLuck * random_.uniform();
  if (b.first == valley.first) value += kWallValue + (is_level_with(b.first - 1) ? kLevelValue : 0);
  if (b.last == valley.last) value += kWallValue + (is_level_with(b.last) ? kLevelValue : 0);
  return value;
}

// Lists the blocks that can be placed at the bottom of this section, best first; only one of equal blocks.
void ValleySearch::list_options(int32_t section, Range range, std::vector<Option>& options) {
  options.clear();
  for (const int32_t i : covering_[section]) {
    const Block& block = problem_.blocks[i];
    if (placed_[i] || !fits_valley(block, section)) continue;
    const bool is_double = std::ranges::any_of(options, [&](const Option& option) {
      const Block& other = problem_.blocks[option.block];
      return other.first == block.first && other.last == block.last && other.size == block.size;
    });
    if (!is_double) options.push_back({value_of(i, section, range), i});
  }
  std::ranges::sort(options, [](const Option& a, const Option& b) {
    return a.value != b.value ? a.value > b.value : a.block < b.block;
  });
}

// Returns the lowest offset above the bottom at which an open block of this section can be placed, if none is placed at the
// bottom: on top of a wall that the block spans, or of a block that will be placed elsewhere in the valley. kWall if the slack
// of the section is less.
int64_t ValleySearch::next_level(int32_t section, std::span<const int32_t> open) const {
  if (slack(section) <= 0) return kWall;
  const int64_t out_of_reach = floor_[section] + slack(section) + 1;
  int64_t next = out_of_reach;
  bool some_fit = false;
  const Range valley = valley_[section];
  const auto lowest_on_wall = [&](const Block& block) {
    int64_t top = 0;  // stops early: only offsets below `next` matter
    for (int32_t s = valley.first; s-- > block.first && top < next;) top = std::max(top, floor_[s]);
    for (int32_t s = valley.last; s < block.last && top < next; ++s) top = std::max(top, floor_[s]);
    return top;
  };
  for (const int32_t i : covering_[section]) {
    if (placed_[i]) continue;
    if (fits_valley(problem_.blocks[i], section))
      some_fit = true;
    else
      next = std::min(next, lowest_on_wall(problem_.blocks[i]));
  }
  if (some_fit) {
    for (const int32_t i : open) {
      const Block& block = problem_.blocks[i];
      if (fits_valley(block, section) && (block.last <= section || block.first > section))
        next = std::min(next, floor_[section] + block.size);
    }
  }
  return next < out_of_reach ? next : kWall;
}

}  // namespace genesis::passes

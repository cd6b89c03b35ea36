#include "executor/inspection/profile_table.h"

#include <algorithm>

#include "executor/runtime/roofline.h"

namespace genesis {

std::vector<ProfileRow> profile_table(const Plan& plan, const StepTimes& times, const DevicePeaks& peaks,
                                      bool by_op) {
  const std::vector<double> least = least_microseconds(plan, peaks);
  std::map<std::string, ProfileRow> rows;
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const Step& step = plan.steps[i];
    const std::string op(step.op->name());
    ProfileRow& row = rows[by_op ? op : step.name];
    const Cost cost = cost_of(step);
    row.name = by_op ? op : step.name;
    row.op = op;
    row.count += 1;
    ++row.kernels[times.kernels[i]];
    row.us += times.us[i];
    row.median_us += times.median_us[i];
    if (times.us[i] >= kShortestJudgedMicroseconds && least[i] > 0) {
      row.judged_us += times.us[i];
      row.least_us += least[i];
    }
    row.bytes += cost.bytes;
    row.flops += cost.flops;
  }
  std::vector<ProfileRow> sorted;
  for (auto& [name, row] : rows) sorted.push_back(row);
  std::ranges::stable_sort(sorted, [](const ProfileRow& a, const ProfileRow& b) { return a.us > b.us; });
  return sorted;
}

}  // namespace genesis

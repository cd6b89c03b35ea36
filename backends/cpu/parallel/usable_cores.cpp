#include "backends/cpu/parallel/usable_cores.h"

#include <tbb/info.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace genesis::cpu {
namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Parses "quota period", the microseconds of processor time allowed in each period and its length in microseconds. Returns the
// number of cores, 0 if there is no quota. Version 2 of cgroups writes both numbers in one file, with "max" for no quota; version
// 1 writes two files, with -1 for no quota.
int cores_of(const std::string& quota_and_period) {
  std::istringstream words(quota_and_period);
  double quota = 0, period = 0;
  if (!(words >> quota >> period) || quota <= 0 || period <= 0) return 0;
  return static_cast<int>(std::clamp(std::ceil(quota / period), 1.0, 1e6));
}

int cores_of_group(const fs::path& group) {
  const int cores = cores_of(text_of(group / "cpu.max"));
  return cores > 0 ? cores : cores_of(text_of(group / "cpu.cfs_quota_us") + text_of(group / "cpu.cfs_period_us"));
}

// Returns the smaller limit; 0 stands for no limit.
int tighter(int a, int b) { return a == 0 || b == 0 ? std::max(a, b) : std::min(a, b); }

// Returns the smallest quota of `group` and all groups around it, up to the root. In a container the path may be the host's and
// not exist below `root`; then the root itself is the container's group.
int cores_of_nested(const fs::path& root, fs::path group) {
  int fewest = 0;
  for (;; group = group.parent_path()) {
    fewest = tighter(fewest, cores_of_group(root / group));
    if (group.empty()) return fewest;
  }
}

}  // namespace

int quota_cores(const std::string& root, const std::string& membership) {
  std::istringstream lines(membership);  // "0::/a/b" in version 2, "4:cpu,cpuacct:/a/b" in version 1
  int fewest = 0;
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == line.npos || second == line.npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const bool is_unified = controllers == ",,";
    if (!is_unified && controllers.find(",cpu,") == controllers.npos) continue;
    const fs::path mount = is_unified ? fs::path(root) : fs::path(root) / line.substr(first + 1, second - first - 1);
    fewest = tighter(fewest, cores_of_nested(mount, fs::path(line.substr(second + 1)).relative_path()));
  }
  return fewest;
}

int usable_cores() {
  static const int cores = [] {
    return tighter(std::max(1, tbb::info::default_concurrency()),
                   quota_cores("/sys/fs/cgroup", text_of("/proc/self/cgroup")));
  }();
  return cores;
}

}  // namespace genesis::cpu

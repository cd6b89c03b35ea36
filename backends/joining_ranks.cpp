#include "backends/joining_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>
#include <utility>

#include "backends/rank_link.h"
#include "schema/core/parse_number.h"

namespace genesis {
namespace {

namespace fs = std::filesystem;

// The maximum seconds counted for one check, so that a late check (this process was stopped itself, or had no core) does not
// declare others lost.
constexpr double kLongestLook = 2;
constexpr double kLookEvery = 1;
constexpr double kTimeToSay = 4;  // seconds by which other ranks report later than the first one

struct Variables {
  // Variables with the same value in all ranks of a run, and different in other runs on the host.
  std::vector<const char*> run;
  const char* rank;
};

const std::vector<Variables>& variables_of_launchers() {
  static const std::vector<Variables> all = {{{"PMIX_NAMESPACE="}, "PMIX_RANK="},
                                             {{"SLURM_JOB_ID=", "SLURM_STEP_ID="}, "SLURM_PROCID="},
                                             {{"MASTER_ADDR=", "MASTER_PORT="}, "RANK="}};
  return all;
}

using Environment = std::vector<std::string>;

// Returns the initial environment of the process; empty if it has ended or belongs to another user.
Environment environment_of(const fs::path& process) {
  std::ifstream in(process / "environ", std::ios::binary);
  Environment environment;
  for (std::string variable; std::getline(in, variable, '\0');) environment.push_back(variable);
  return environment;
}

// Returns the variable as "NAME=value"; null if it is not set.
const std::string* find_variable(const Environment& environment, std::string_view name) {
  const auto at = std::ranges::find_if(environment, [&](const auto& text) { return text.starts_with(name); });
  return at == environment.end() ? nullptr : &*at;
}

std::optional<int> rank_in(const Environment& environment, std::string_view name) {
  const std::string* variable = find_variable(environment, name);
  if (!variable) return std::nullopt;
  const auto rank = parse_number<int>(std::string_view(*variable).substr(name.size()));
  return rank && *rank >= 0 ? rank : std::nullopt;
}

// Parses "PID (NAME) STATE ...", where the name may contain any characters.
bool is_stopped(const fs::path& process) {
  std::ifstream in(process / "stat");
  std::string line;
  std::getline(in, line);
  const size_t name_end = line.rfind(") ");
  return name_end != line.npos && line.compare(name_end + 2, 1, "T") == 0;
}

}  // namespace

JoiningRanks::JoiningRanks(std::string host, double silence)
    : host_(std::move(host)), silence_(silence), looked_at_(steady_seconds()) {
  const Environment environment = environment_of("/proc/self");
  for (const auto& [run, rank] : variables_of_launchers()) {
    const std::optional<int> own = rank_in(environment, rank);
    std::vector<std::string> same;
    for (const char* name : run)
      if (const std::string* variable = find_variable(environment, name)) same.push_back(*variable);
    if (!own || same.size() != run.size()) continue;
    rank_ = *own, rank_variable_ = rank, same_ = std::move(same);
    return;
  }
}

// Returns the processes of the other ranks. A rank may have several processes, e.g. behind a script: all of them have the
// launcher's variables.
std::vector<JoiningRanks::Process> JoiningRanks::processes() const {
  std::vector<Process> found;
  std::error_code error;
  for (fs::directory_iterator at("/proc", error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename();
    if (!std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; })) continue;
    const Environment environment = environment_of(at->path());
    const std::optional<int> rank = rank_in(environment, rank_variable_);
    const auto has = [&](const std::string& variable) {
      return std::ranges::find(environment, variable) != environment.end();
    };
    if (rank && *rank != rank_ && std::ranges::all_of(same_, has))
      found.push_back({*rank, is_stopped(at->path())});
  }
  return found;
}

std::string JoiningRanks::who_is_stopped() {
  if (rank_variable_.empty()) return "";
  const double at = steady_seconds();
  if (at - looked_at_ < kLookEvery) return "";
  const double passed = std::min(at - std::exchange(looked_at_, at), kLongestLook);
  std::map<int, double> stopped;
  for (const Process& process : processes()) {
    if (process.is_stopped) stopped[process.rank] = stopped_[process.rank] + passed;
    if (!process.is_stopped && process.rank < rank_) is_first_ = false;
  }
  stopped_ = std::move(stopped);
  for (const auto& [rank, seconds] : stopped_)
    if (seconds >= silence_ + (is_first_ ? 0 : kTimeToSay))
      return fmt::format("{} has been stopped for {:.0f} s and has not joined the run",
                         rank_name(rank, host_), seconds);
  return "";
}

}  // namespace genesis

// Tests the addresses at which the processes of a run listen.
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <map>
#include <sstream>
#include <thread>

#include "tests/distributed/runs/rank_runs.h"

namespace genesis::testing {
namespace {

// Returns the children of this process, their children, and so on.
std::set<pid_t> descendants() {
  std::multimap<pid_t, pid_t> children;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc", error)) {
    std::string line;
    if (!std::getline(std::ifstream(entry.path() / "stat"), line)) continue;
    pid_t parent = 0;
    char state = 0;
    std::istringstream(line.substr(std::min(line.rfind(')') + 1, line.size()))) >> state >> parent;
    children.emplace(parent, std::atoi(line.c_str()));
  }
  std::set<pid_t> all;
  std::vector<pid_t> next = {::getpid()};
  while (!next.empty()) {
    const pid_t parent = next.back();
    next.pop_back();
    for (auto [at, end] = children.equal_range(parent); at != end; ++at)
      if (all.insert(at->second).second) next.push_back(at->second);
  }
  return all;
}

// Returns the process that owns each socket, by the socket's number.
std::map<std::string, pid_t> sockets_of(const std::set<pid_t>& processes) {
  std::map<std::string, pid_t> sockets;
  for (const pid_t process : processes) {
    std::error_code error;
    for (const auto& file : fs::directory_iterator(fmt::format("/proc/{}/fd", process), error)) {
      const std::string target = fs::read_symlink(file.path(), error).string();
      if (target.starts_with("socket:[")) sockets[target.substr(8, target.size() - 9)] = process;
    }
  }
  return sockets;
}

// Returns addresses without ports, in the format of /proc/net/tcp and tcp6.
std::set<std::string> listening_addresses() {
  const std::map<std::string, pid_t> sockets = sockets_of(descendants());
  std::set<std::string> addresses;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream in(table);
    std::string line;
    std::getline(in, line);
    while (std::getline(in, line)) {
      std::string number, local, remote, state, queues, timer, retransmits, user, timeout, inode;
      std::istringstream(line) >> number >> local >> remote >> state >> queues >> timer >> retransmits >>
          user >> timeout >> inode;
      constexpr const char* kListens = "0A";
      if (state == kListens && sockets.contains(inode)) addresses.insert(local.substr(0, local.find(':')));
    }
  }
  return addresses;
}

using Listening = RankRuns;

TEST_F(Listening, IsOnTheLoopbackAloneWhereTheToolStartsTheRanks) {
  std::atomic<bool> ended = false;
  Process process;
  std::thread run([&] {
    process = run_tool("genesis-run", train_words("qwen2", 300, {"--mesh", "data=2"}));
    ended = true;
  });
  std::set<std::string> seen;
  while (!ended) {
    seen.merge(listening_addresses());
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  run.join();
  expect_ok(process);
  EXPECT_FALSE(seen.empty()) << "nothing was seen: mpirun listens for its ranks";
  seen.erase("0100007F");                          // 127.0.0.1
  seen.erase("00000000000000000000000001000000");  // ::1
  EXPECT_EQ(seen, std::set<std::string>());
  EXPECT_EQ(listening_addresses(), std::set<std::string>());
}

}  // namespace
}  // namespace genesis::testing

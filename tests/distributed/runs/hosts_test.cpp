// Tests ranks on two hosts: network namespaces joined by a virtual cable. mpirun reaches them through a script in
// place of ssh. Only root can create them.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>

#include "tests/distributed/runs/rank_runs.h"

namespace genesis::testing {
namespace {

class Hosts : public RankRuns {
 protected:
  void SetUp() override {
    RankRuns::SetUp();
    if (IsSkipped()) return;
    if (::geteuid() != 0) GTEST_SKIP() << "network namespaces are made by root";
    if (std::system("command -v ip unshare > /dev/null") != 0)
      GTEST_SKIP() << "ip (iproute2) and unshare are needed";
    const Process made = shell(fmt::format(R"(set -e
for n in {0} {1}; do ip netns add $n; ip -n $n link set lo up; done
ip link add {0} type veth peer name {1}
ip link set {0} netns {0} name eth0
ip link set {1} netns {1} name eth0
ip -n {0} addr add 10.77.31.1/24 dev eth0
ip -n {1} addr add 10.77.31.2/24 dev eth0
for n in {0} {1}; do ip -n $n link set eth0 up; ip netns exec $n sh -c 'echo 5 > /proc/sys/net/ipv4/tcp_retries2'; done)",
                                           first_, second_));
    if (made.code != 0) GTEST_SKIP() << "no network namespaces can be made here: " << made.err;
    write_text(path("agent"), "#!/bin/sh\nhost=$1\nshift\n" + enter("$host") + " \"$*\"\n");
    fs::permissions(path("agent"), fs::perms::owner_exec, fs::perm_options::add);
  }
  void TearDown() override { shell(fmt::format("ip netns del {}; ip netns del {}", first_, second_)); }

  static Process shell(const std::string& lines, const ProcessOptions& options = {}) {
    return run_process({"/bin/sh", "-c", lines}, options);
  }
  // Returns the beginning of a shell command that runs on the host, with the host's name.
  static std::string enter(const std::string& host) {
    return fmt::format("exec ip netns exec {0} unshare --uts sh -c 'hostname \"$0\"; exec sh -c \"$1\"' {0}",
                       host);
  }
  // Runs mpirun on the first host, with a rank on each.
  Process train(int steps, const Words& more, const std::string& before = ":") const {
    std::string words;
    for (const std::string& word : sharing(steps, more)) words += " " + word;
    const std::string rank = fmt::format("{}\nexec {}{}\n", before, tool_path("genesis-run"), words);
    write_text(path("rank"), rank);
    const std::string run = fmt::format(
        "exec mpirun --mca plm_rsh_agent {} --mca oob_tcp_if_include eth0 --mca btl_tcp_if_include eth0 "
        "--mca pml ob1 --mca btl tcp,self {} -H {}:1,{}:1 -n 2 sh {}",
        path("agent"), more_for_mpirun_, first_, second_, path("rank"));
    write_text(path("mpirun"), run);
    return shell(enter(first_) + " 'sh " + path("mpirun") + "'",
                 {.environment = {"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"}});
  }

  std::string more_for_mpirun_;
  const std::string first_ = fmt::format("g{}a", ::getpid()), second_ = fmt::format("g{}b", ::getpid());
};

TEST_F(Hosts, TrainTogetherAndOneMayBeLost) {
  expect_ok(train(6, {"--checkpoint-every", "2"}));
  EXPECT_EQ(newest_step(), 6);
  const Process killed =
      train(1000000, {"--checkpoint-every", "2", "--resume"}, signal_to(1, "9", until(newer_than(6))));
  EXPECT_NE(killed.code, 0);
  EXPECT_FALSE(killed.timed_out);
  EXPECT_NE(killed.err.find(second_), std::string::npos) << killed.err;
  const int64_t step = newest_step();
  EXPECT_GE(step, 6);
  expect_ok(train(static_cast<int>(step) + 2, {"--resume"}));
  EXPECT_EQ(newest_step(), step + 2);
}

TEST_F(Hosts, AHostWhoseCableIsCutIsNamed) {
  const std::string cut =
      fmt::format("({}; ip -n {} link set eth0 down) <&- >/dev/null 2>&1 &", until(newer_than(0)), second_);
  // The remaining rank names the other after twelve seconds, and mpirun must not end it before.
  more_for_mpirun_ = "--mca odls_base_sigkill_timeout 4";
  const Process process = train(1000000, {"--checkpoint-every", "2"}, on_rank(0, cut));
  EXPECT_NE(process.code, 0);
  EXPECT_FALSE(process.timed_out);
  EXPECT_NE(process.err.find(fmt::format("rank 1 (host {}) has said nothing for", second_)),
            std::string::npos)
      << process.err;
}

// Rank 0 waits for the stopped one in a node, or between two steps if the signal comes there, when no node can be named: then it is
// tried again. No checkpoint is due by then, for which it might wait, too.
TEST_F(Hosts, AStoppedRankOfAnotherHostIsNamed) {
  bool names_node = false;
  std::string said;
  for (int attempt = 0; attempt < 3 && !names_node; ++attempt) {
    fs::remove(path("m.jsonl"));
    const Process process = train(1000000, {"--checkpoint-every", "1000000", "--metrics", path("m.jsonl")},
                                  signal_to(1, "STOP", until("[ -s " + path("m.jsonl") + " ]")));
    EXPECT_NE(process.code, 0);
    EXPECT_FALSE(process.timed_out);
    EXPECT_NE(process.err.find(fmt::format("rank 1 (host {}) has said nothing for", second_)),
              std::string::npos)
        << process.err;
    names_node = process.err.find("entry point 'train_step', node '") != std::string::npos;
    said += process.err;
  }
  EXPECT_TRUE(names_node) << said;
}

}  // namespace
}  // namespace genesis::testing

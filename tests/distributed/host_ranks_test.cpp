// Tests ranks that share memory of one host: processes of which one fails, ends, is killed or is stopped.
#include "backends/host_ranks.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <functional>
#include <thread>

#include "backends/rank_link.h"
#include "tests/sanitized.h"

namespace genesis {
namespace {

constexpr double kSilence = 2;

void rest() { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }

// Rank 0 is this process, and rank 1 is a child.
class HostRanksTest : public ::testing::Test {
 protected:
  static std::string address() { return "10.0.0.1/x:" + std::to_string(::getpid()); }
  static std::string memory() {
    return "/dev/shm/genesis-" + std::to_string(::geteuid()) + "-10.0.0.1_x:" + std::to_string(::getpid()) +
           "-2";
  }
  static std::unique_ptr<HostRanks> join(int rank, const std::string& at) {
    return HostRanks::open({rank, 2, "here", at}, kSilence);
  }

  // The child runs `body` when both have joined.
  void start(const std::function<void(HostRanks&)>& body) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const std::string at = address();
    child_ = ::fork();
    if (child_ == 0) {
      const auto ranks = join(1, at);
      char byte = 0;
      if (::write(ends[1], &byte, 1) != 1) ::_exit(1);
      ranks->watch({ranks->place(), ranks->place()});
      body(*ranks);
      ::_exit(0);
    }
    ranks_ = join(0, at);
    char byte = 0;
    ASSERT_EQ(::read(ends[0], &byte, 1), 1);
    ranks_->watch({ranks_->place(), ranks_->place()});
    for (const int end : ends) ::close(end);
  }
  void TearDown() override {
    if (child_ <= 0) return;
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }
  // Returns the failure, waiting at most this many seconds for it.
  std::string failure_within(double seconds) {
    const auto start = std::chrono::steady_clock::now();
    std::string why;
    while (why.empty() &&
           std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() < seconds) {
      rest();
      why = ranks_->failure();
    }
    return why;
  }
  static void live(HostRanks& ranks) {
    for (;; rest()) ranks.failure();
  }

  pid_t child_ = 0;
  std::unique_ptr<HostRanks> ranks_;
};

TEST_F(HostRanksTest, NothingIsWrongWhileBothLive) {
  start(live);
  EXPECT_EQ(failure_within(2 * kSilence), "");
  EXPECT_FALSE(std::filesystem::exists(memory())) << "the name outlives the start";
}

TEST_F(HostRanksTest, AFailureIsHeard) {
  start([](HostRanks& ranks) {
    ranks.fail("rank 1 (host here) failed: no more");
    ranks.fail("and once more");
    live(ranks);
  });
  EXPECT_EQ(failure_within(testing::kHangs), "rank 1 (host here) failed: no more");
}

TEST_F(HostRanksTest, WhoIsKilledHasEndedWithoutAWord) {
  start(live);
  ::kill(child_, SIGKILL);
  EXPECT_EQ(failure_within(testing::kHangs), "rank 1 (host here) has ended without a word");
  EXPECT_EQ(ranks_->failed_rank(), 1);
}

TEST_F(HostRanksTest, WhoIsStoppedIsNamedAfterAWhile) {
  start(live);
  ::kill(child_, SIGSTOP);
  EXPECT_EQ(failure_within(kSilence / 2), "");
  EXPECT_NE(failure_within(testing::kHangs).find("rank 1 (host here) has said nothing for"),
            std::string::npos);
}

TEST_F(HostRanksTest, WhoLeavesMayGo) {
  start([](HostRanks& ranks) { ranks.~HostRanks(); });
  ::waitpid(child_, nullptr, 0);
  child_ = 0;
  EXPECT_EQ(failure_within(2 * kSilence), "");
}

TEST_F(HostRanksTest, WhoLeavesMayBeSilent) {
  start([](HostRanks& ranks) {
    ranks.leave();
    std::this_thread::sleep_for(std::chrono::seconds(60));
  });
  EXPECT_EQ(failure_within(2 * kSilence), "");
}

// Another run was killed as it started, and has left its memory.
TEST_F(HostRanksTest, WhatAnotherRunLeftIsNotRead) {
  const pid_t killed = ::fork();
  if (killed == 0) {
    join(1, "10.0.0.1/x:" + std::to_string(::getppid())).release()->fail("long ago");
    ::_exit(0);
  }
  ::waitpid(killed, nullptr, 0);
  EXPECT_TRUE(std::filesystem::exists(memory()));
  start(live);
  EXPECT_EQ(failure_within(kSilence), "");
}

// A rank that finds no GPU ends before the others join.
TEST_F(HostRanksTest, WhoNeverWatchedLeavesNoMemoryBehind) {
  join(0, address()).reset();
  EXPECT_FALSE(std::filesystem::exists(memory()));
}

// The other rank is on another host or in another container.
TEST_F(HostRanksTest, OtherPlacesAreNotWatched) {
  ranks_ = join(0, address());
  ranks_->watch({ranks_->place(), "elsewhere"});
  EXPECT_EQ(failure_within(2 * kSilence), "");
}

// NCCL refuses such ranks without naming them.
TEST_F(HostRanksTest, RanksOnOneDeviceAreNamed) {
  const auto with_device = [](int rank, const char* device) {
    return HostRanks::open({rank, 2, "here", address(), device}, kSilence);
  };
  const auto first = with_device(0, "GPU-1");
  EXPECT_EQ(first->who_share_a_device(), "");
  auto second = with_device(1, "GPU-2");
  EXPECT_EQ(first->who_share_a_device(), "");
  second = with_device(1, "GPU-1");
  EXPECT_EQ(first->who_share_a_device().find(
                "rank 0 (host here) and rank 1 (host here) have the same GPU, GPU-1, and"),
            0u);
  second.reset();
  EXPECT_NE(first->who_share_a_device(), "") << "the other has given up a moment earlier";
  first->watch({first->place(), ""});
}

}  // namespace
}  // namespace genesis

// Gives a rank time to report which other rank has failed.
#pragma once

#include <array>
#include <csignal>

#include "executor/distributed/world.h"

namespace genesis {

// A launcher sends SIGTERM to the other ranks as soon as one has failed. While this object exists, a rank ends only two seconds
// after that signal. It learns within about a second which rank has failed, so it can still report it. Only one object may
// exist at a time; with one rank it does nothing.
class TimeToSayWhy {
 public:
  explicit TimeToSayWhy(const World& world);
  ~TimeToSayWhy();
  TimeToSayWhy(const TimeToSayWhy&) = delete;
  TimeToSayWhy& operator=(const TimeToSayWhy&) = delete;

 private:
  const bool listens_;
  std::array<struct sigaction, 2> before_{};
};

}  // namespace genesis

#include "executor/distributed/time_to_say_why.h"

#include <unistd.h>

namespace genesis {

TimeToSayWhy::TimeToSayWhy(const World& world) : listens_(world.size() > 1) {
  if (!listens_) return;
  struct sigaction handle {};
  handle.sa_flags = SA_RESTART;
  handle.sa_handler = [](int) { ::alarm(2); };
  sigaction(SIGTERM, &handle, &before_[0]);
  handle.sa_handler = [](int) {
    ::signal(SIGTERM, SIG_DFL);
    ::raise(SIGTERM);
  };
  sigaction(SIGALRM, &handle, &before_[1]);
}

TimeToSayWhy::~TimeToSayWhy() {
  if (!listens_) return;
  sigaction(SIGTERM, &before_[0], nullptr);
  sigaction(SIGALRM, &before_[1], nullptr);
}

}  // namespace genesis

#include "executor/generation/inbox.h"

#include <algorithm>
#include <utility>

namespace genesis::generation {

RequestId Inbox::submit(Request request) {
  const std::lock_guard lock(mutex_);
  mail_.submissions.push_back({++submitted_, std::move(request), Clock::now()});
  arrived_.notify_all();
  return submitted_;
}

void Inbox::cancel(RequestId id) {
  const std::lock_guard lock(mutex_);
  mail_.cancelled.push_back(id);
  arrived_.notify_all();
}

Inbox::Mail Inbox::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(mail_, {});
}

int64_t Inbox::requests() const {
  const std::lock_guard lock(mutex_);
  return std::ssize(mail_.submissions);
}

bool Inbox::is_empty() const {
  const std::lock_guard lock(mutex_);
  return has_none();
}

bool Inbox::contains(RequestId id) const {
  const std::lock_guard lock(mutex_);
  return std::ranges::count(mail_.submissions, id, &Submission::id) > 0;
}

bool Inbox::wait(double seconds) const {
  std::unique_lock lock(mutex_);
  return arrived_.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return !has_none(); });
}

}  // namespace genesis::generation

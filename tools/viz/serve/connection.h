// One client of HttpServer: its request as far as it has come, then the answer as far as it has not been taken. Nothing
// here waits: poll() says when there is something to do, and a client that takes too long is given up.
#pragma once

#include <poll.h>

#include <chrono>
#include <string>
#include <string_view>

namespace genesis::viz {

class Connection {
 public:
  using Clock = std::chrono::steady_clock;

  // Owns `descriptor`, which does not block.
  explicit Connection(int descriptor);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // The event to wait for, as poll() takes it.
  pollfd waits_for() const;
  Clock::time_point deadline() const { return deadline_; }

  // Reads what has come of a request. True when there is something to answer: the head of a request is there, or it is
  // too long.
  bool read();
  // The head of the request; empty when it is too long.
  std::string_view request() const;
  // Begins to send `response`, whose text it keeps.
  void answer(std::string response);
  // Sends what the client takes now.
  void write();

  bool is_answered() const { return is_answered_; }
  // There is nothing left to do: all is sent, the client has gone, or its time is up.
  bool is_over() const { return is_over_ || Clock::now() >= deadline_; }

 private:
  int descriptor_;
  Clock::time_point deadline_;
  std::string text_;  // the request, then the answer
  size_t sent_ = 0;
  bool is_answered_ = false, is_over_ = false;
};

}  // namespace genesis::viz

// A client of HttpServer: first the received part of its request, then the unsent part of the answer. Nothing here
// blocks. poll() tells when there is something to do, and a client that takes too long is dropped.
#pragma once

#include <poll.h>

#include <chrono>
#include <string>
#include <string_view>

namespace genesis::viz {

class Connection {
 public:
  using Clock = std::chrono::steady_clock;

  // Takes ownership of `descriptor`, which must be non-blocking.
  explicit Connection(int descriptor);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Returns the event to wait for, for poll().
  pollfd waits_for() const;
  Clock::time_point deadline() const { return deadline_; }

  // Reads the available part of a request. Returns true if it can be answered: its head is complete, or it is too
  // long.
  bool read();
  // Returns the head of the request; empty if it is too long.
  std::string_view request() const;
  // Begins to send `response` and keeps its text.
  void answer(std::string response);
  // Sends as much as the client accepts now.
  void write();

  bool is_answered() const { return is_answered_; }
  // Returns true if nothing is left to do: all is sent, the client has closed the connection, or its time is up.
  bool is_over() const { return is_over_ || Clock::now() >= deadline_; }

 private:
  int descriptor_;
  Clock::time_point deadline_;
  std::string text_;  // the request, then the answer
  size_t sent_ = 0;
  bool is_answered_ = false, is_over_ = false;
};

}  // namespace genesis::viz

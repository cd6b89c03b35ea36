#include "tools/viz/serve/connection.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

namespace genesis::viz {
namespace {

constexpr size_t kLongestRequest = 16384;
// The time for a client to finish its request or to take its answer.
constexpr auto kPatience = std::chrono::seconds(5);

bool is_try_again(int error) { return error == EAGAIN || error == EWOULDBLOCK || error == EINTR; }

}  // namespace

Connection::Connection(int descriptor) : descriptor_(descriptor), deadline_(Clock::now() + kPatience) {}

Connection::~Connection() {
  ::shutdown(descriptor_, SHUT_RDWR);
  ::close(descriptor_);
}

pollfd Connection::waits_for() const {
  return {descriptor_, static_cast<short>(is_answered_ ? POLLOUT : POLLIN), 0};
}

bool Connection::read() {
  char piece[2048];
  for (;;) {
    const ssize_t count = ::recv(descriptor_, piece, sizeof piece, 0);
    if (count < 0 && is_try_again(errno)) return false;
    if (count <= 0) is_over_ = true;
    if (count <= 0) return false;
    text_.append(piece, static_cast<size_t>(count));
    if (text_.find("\r\n\r\n") != std::string::npos || text_.size() > kLongestRequest) return true;
  }
}

std::string_view Connection::request() const {
  return text_.find("\r\n\r\n") == std::string::npos ? std::string_view() : std::string_view(text_);
}

void Connection::answer(std::string response) {
  text_ = std::move(response);
  is_answered_ = true;
  deadline_ = Clock::now() + kPatience;
  write();
}

void Connection::write() {
  while (sent_ < text_.size()) {
    const ssize_t count = ::send(descriptor_, text_.data() + sent_, text_.size() - sent_, MSG_NOSIGNAL);
    if (count < 0 && is_try_again(errno)) return;
    if (count < 0) break;
    sent_ += static_cast<size_t>(count);
  }
  // Closing a socket with unread bytes resets the connection, and the client may lose the answer.
  char rest[65536];
  static_cast<void>(::recv(descriptor_, rest, sizeof rest, 0));
  is_over_ = true;
}

}  // namespace genesis::viz

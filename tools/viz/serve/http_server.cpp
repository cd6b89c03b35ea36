#include "tools/viz/serve/http_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "schema/core/error.h"
#include "schema/core/parse_number.h"

namespace genesis::viz {
namespace {

constexpr size_t kMaxConnections = 64;

std::string response(const char* status, const HttpAnswer& answer) {
  return fmt::format(
      "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\nCache-Control: "
      "no-store\r\nContent-Security-Policy: {}; frame-ancestors 'none'\r\n"
      "X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\nX-Frame-Options: DENY\r\n\r\n{}",
      status, answer.type, answer.body.size(), answer.policy, answer.body);
}

std::string plain(const char* status, const std::string& text) {
  return response(status, {"text/plain; charset=utf-8", text + "\n"});
}

std::string plain(const char* status) { return plain(status, status); }

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::ranges::equal(
      a, b, [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

// Returns the value of a header; "" if there is none.
std::string_view header(std::string_view request, std::string_view name) {
  for (size_t at = request.find("\r\n"); at != std::string_view::npos; at = request.find("\r\n", at + 2)) {
    const std::string_view line = request.substr(at + 2, request.find("\r\n", at + 2) - at - 2);
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos || !equal_ignoring_case(line.substr(0, colon), name)) continue;
    const size_t begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string_view::npos ? ""
                                           : line.substr(begin, line.find_last_not_of(" \t") + 1 - begin);
  }
  return "";
}

}  // namespace

HttpServer::HttpServer(int port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
  const int yes = 1;
  ::setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  const bool is_open = socket_ >= 0 && ::bind(socket_, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
                       ::listen(socket_, 128) == 0 &&
                       ::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  if (!is_open) {
    const int error = errno;
    if (socket_ >= 0) ::close(socket_);
    fail("cannot listen on port {} of 127.0.0.1: {}: choose another port with --port, or 0 for any", port,
         std::strerror(error));
  }
  port_ = ntohs(address.sin_port);
}

HttpServer::~HttpServer() { ::close(socket_); }

void HttpServer::serve(const HttpHandler& handler) {
  for (;;) {
    wait_for_any();
    accept_waiting();
    for (Connection& connection : connections_) {
      if (connection.is_answered())
        connection.write();
      else if (connection.read())
        connection.answer(response_to(connection.request(), handler));
    }
    std::erase_if(connections_, [](const Connection& connection) { return connection.is_over(); });
  }
}

// Waits until a new client comes, a connection can continue, or the first deadline has passed.
void HttpServer::wait_for_any() {
  std::vector<pollfd> waiting{{socket_, POLLIN, 0}};
  auto next = Connection::Clock::time_point::max();
  for (const Connection& connection : connections_) {
    waiting.push_back(connection.waits_for());
    next = std::min(next, connection.deadline());
  }
  int milliseconds = -1;
  if (!connections_.empty()) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(next - Connection::Clock::now()).count();
    milliseconds = static_cast<int>(std::clamp<int64_t>(left + 1, 0, 60000));
  }
  ::poll(waiting.data(), waiting.size(), milliseconds);
}

void HttpServer::accept_waiting() {
  for (;;) {
    const int descriptor = ::accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (descriptor < 0 && (errno == EMFILE || errno == ENFILE)) make_room();
    if (descriptor < 0) return;
    if (connections_.size() >= kMaxConnections) make_room();
    connections_.emplace_back(descriptor);
  }
}

// Closes the oldest connection without a complete request, so that silent clients cannot keep a new one waiting.
void HttpServer::make_room() {
  if (connections_.empty()) return void(::poll(nullptr, 0, 100));
  const auto silent = std::ranges::find_if(connections_, [](const auto& one) { return !one.is_answered(); });
  connections_.erase(silent == connections_.end() ? connections_.begin() : silent);
}

bool HttpServer::is_our_name(std::string_view host) const {
  return host == fmt::format("127.0.0.1:{}", port_) || host == fmt::format("localhost:{}", port_);
}

std::string HttpServer::response_to(std::string_view request, const HttpHandler& handler) const {
  if (request.empty()) return plain("400 Bad Request");
  const std::string_view line = request.substr(0, request.find("\r\n"));
  const size_t first = line.find(' '), last = line.rfind(' ');
  if (first == std::string_view::npos || first == last) return plain("400 Bad Request");
  if (line.substr(0, first) != "GET") return plain("405 Method Not Allowed");
  if (!is_our_name(header(request, "Host"))) return plain("421 Misdirected Request");
  const std::string_view target = line.substr(first + 1, last - first - 1);
  const size_t mark = target.find('?');
  const std::string_view query = mark == std::string_view::npos ? "" : target.substr(mark + 1);
  try {
    const std::optional<HttpAnswer> found = handler(target.substr(0, mark), query);
    return found ? response("200 OK", *found) : plain("404 Not Found");
  } catch (const Error& error) {
    return plain("500 Internal Server Error", error.what());
  }
}

std::string random_token() {
  unsigned char bytes[16];
  if (::getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
    fail("cannot draw a random token: {}", std::strerror(errno));
  std::string token;
  for (const unsigned char byte : bytes) token += fmt::format("{:02x}", byte);
  return token;
}

std::optional<size_t> number_in(std::string_view query, std::string_view name) {
  while (!query.empty()) {
    const std::string_view part = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), part.size() + 1));
    const size_t equals = part.find('=');
    if (equals == std::string_view::npos || part.substr(0, equals) != name) continue;
    if (const auto number = parse_number<size_t>(part.substr(equals + 1))) return number;
  }
  return std::nullopt;
}

}  // namespace genesis::viz

#include "tools/viz/serve/http_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "schema/core/error.h"
#include "schema/core/parse_number.h"

namespace genesis::viz {
namespace {

constexpr size_t kLongestRequest = 16384;
constexpr auto kPatience =
    std::chrono::seconds(5);  // with a browser that does not finish its request, or read

using Clock = std::chrono::steady_clock;

// Whether `connection` can be read or written in time.
bool wait_for(int connection, short what, Clock::time_point until) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
  pollfd waiting{connection, what, 0};
  return left > 0 && ::poll(&waiting, 1, static_cast<int>(left)) == 1;
}

// The head of a request; empty when it does not come in time or is too long.
std::string read_request(int connection) {
  const auto until = Clock::now() + kPatience;
  std::string request;
  char piece[2048];
  while (request.find("\r\n\r\n") == std::string::npos) {
    if (request.size() > kLongestRequest || !wait_for(connection, POLLIN, until)) return "";
    const ssize_t count = ::recv(connection, piece, sizeof piece, 0);
    if (count <= 0) return "";
    request.append(piece, static_cast<size_t>(count));
  }
  return request;
}

void write_all(int connection, std::string_view text) {
  const auto until = Clock::now() + kPatience;
  while (!text.empty() && wait_for(connection, POLLOUT, until)) {
    const ssize_t count = ::send(connection, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0 && errno != EAGAIN && errno != EINTR) return;
    if (count > 0) text.remove_prefix(static_cast<size_t>(count));
  }
}

std::string response(const char* status, const std::string& type, const std::string& body) {
  return fmt::format(
      "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\nCache-Control: "
      "no-store\r\n"
      "X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\nX-Frame-Options: DENY\r\n\r\n{}",
      status, type, body.size(), body);
}

std::string plain(const char* status) {
  return response(status, "text/plain; charset=utf-8", std::string(status) + "\n");
}

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::ranges::equal(
      a, b, [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

// The value of a header; "": there is none.
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

HttpServer::HttpServer(int port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  const int yes = 1;
  ::setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  const bool is_open = socket_ >= 0 && ::bind(socket_, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
                       ::listen(socket_, 16) == 0 &&
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
    const int connection = ::accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC);
    if (connection < 0) {
      ::poll(nullptr, 0, 100);  // too many open files, say: they will be closed
      continue;
    }
    answer(connection, handler);
    ::shutdown(connection, SHUT_RDWR);
    ::close(connection);
  }
}

void HttpServer::answer(int connection, const HttpHandler& handler) const {
  const std::string request = read_request(connection);
  write_all(connection, request.empty() ? plain("400 Bad Request") : response_to(request, handler));
}

bool HttpServer::is_our_name(std::string_view host) const {
  return host == fmt::format("127.0.0.1:{}", port_) || host == fmt::format("localhost:{}", port_);
}

std::string HttpServer::response_to(std::string_view request, const HttpHandler& handler) const {
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
    return found ? response("200 OK", found->type, found->body) : plain("404 Not Found");
  } catch (const Error& error) {
    return response("500 Internal Server Error", "text/plain; charset=utf-8",
                    std::string(error.what()) + "\n");
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

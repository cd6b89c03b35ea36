// An HTTP/1.1 server for clients that are not trusted: everything that they can make it keep is limited, and one that is slow, sends
// what is no HTTP, leaves, or reads nothing holds up nobody. TLS is the work of a proxy. Only http_server.cpp includes Boost; a build
// without it has no_http_server.cpp.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "models/serving/exchange.h"

namespace genesis::tools {

struct HttpLimits {
  size_t header_bytes = size_t{16} << 10, body_bytes = size_t{16} << 20;
  size_t unread_bytes = size_t{1} << 20;  // a client that leaves more of a stream untaken is dropped
  int connections = 1024;
  // Until a request is complete, counted from the connection or the last answer; and until a client takes more of an answer.
  double request_seconds = 60, write_seconds = 30;
};

struct HttpOptions {
  std::string host = "127.0.0.1";  // an address of this machine
  int port = 8080;                 // 0: any free one
  HttpLimits limits = {};
  double drain_seconds = 30;  // for requests under way, after a signal
  // Answers a request; called by one of a few threads.
  std::function<void(const serving::HttpRequest&, const std::shared_ptr<serving::Reply>&)> handle = {};
  std::function<void()> on_drain = {};  // a signal has asked the server to end
  std::function<bool()> is_idle = {};   // no request is under way
};

// Returns false in a build without Boost.
bool has_http_server();

class HttpServer {
 public:
  // Listens. Throws Error if the address is none of this machine's or the port is taken, and in a build without Boost.
  explicit HttpServer(HttpOptions options);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  int port() const;
  // Serves until SIGINT or SIGTERM, and then until requests under way have ended, or a second signal comes.
  void run();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace genesis::tools

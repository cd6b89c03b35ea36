// A minimal HTTP server that shows a page to a browser on this machine: only GET, only on 127.0.0.1, one answer per
// connection. A request with an unknown path or another host name (DNS rebinding) gets no data. One thread serves all
// connections concurrently, so a slow client does not delay others.
#pragma once

#include <functional>
#include <list>
#include <optional>
#include <string>
#include <string_view>

#include "tools/viz/serve/connection.h"

namespace genesis::viz {

struct HttpAnswer {
  std::string type;  // "text/html; charset=utf-8"
  std::string body;
  std::string policy = "default-src 'none'";  // Content-Security-Policy
};

// `path`: the path of the request without its query; percent signs are not decoded. An empty result means that there
// is no such page.
using HttpHandler = std::function<std::optional<HttpAnswer>(std::string_view path, std::string_view query)>;

class HttpServer {
 public:
  // Port 0 chooses any free port. Throws Error if the port is taken.
  explicit HttpServer(int port);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  int port() const { return port_; }
  // Runs until the process ends. An Error of the handler is sent as an answer. The handler is called only on this
  // thread.
  [[noreturn]] void serve(const HttpHandler& handler);

 private:
  void accept_waiting();
  void make_room();
  void wait_for_any();
  std::string response_to(std::string_view request, const HttpHandler& handler) const;
  bool is_our_name(std::string_view host) const;

  int socket_ = -1, port_ = 0;
  std::list<Connection> connections_;  // oldest first
};

// Returns 32 random hexadecimal digits that cannot be guessed.
std::string random_token();

// Returns the whole number of `name` in a query such as "run=0&from=12"; empty if there is none.
std::optional<size_t> number_in(std::string_view query, std::string_view name);

}  // namespace genesis::viz

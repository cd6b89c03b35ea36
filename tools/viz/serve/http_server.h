// The smallest HTTP server that a browser on this machine can be shown a page by: GET alone, on 127.0.0.1 alone, one
// answer a connection. A request that does not know the path, or that comes under another host's name (DNS rebinding),
// gets nothing. One thread serves all connections side by side, so a slow client keeps nobody waiting.
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

// `path`: what stands in the request, percent signs as they are, without the query. Empty: there is no such page.
using HttpHandler = std::function<std::optional<HttpAnswer>(std::string_view path, std::string_view query)>;

class HttpServer {
 public:
  // Port 0: any that is free. Throws Error when the port is taken.
  explicit HttpServer(int port);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  int port() const { return port_; }
  // Until the process ends. An Error of the handler is an answer, too. The handler runs on this thread alone.
  [[noreturn]] void serve(const HttpHandler& handler);

 private:
  void accept_waiting();
  void make_room();
  void wait_for_any();
  std::string response_to(std::string_view request, const HttpHandler& handler) const;
  bool is_our_name(std::string_view host) const;

  int socket_ = -1, port_ = 0;
  std::list<Connection> connections_;  // the oldest first
};

// 32 hexadecimal digits that nobody can guess.
std::string random_token();

// The whole number that `name` has in a query such as "run=0&from=12"; empty: it has none.
std::optional<size_t> number_in(std::string_view query, std::string_view name);

}  // namespace genesis::viz

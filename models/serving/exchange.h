// A request of a client and the way of its answer, without any protocol beneath: tools/serve/http_server.h has one over HTTP,
// tests have one that keeps the bytes.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace genesis::serving {

using Headers = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string method, path;  // "POST", "/v1/models"; the path without its query
  std::string body = {};
  std::map<std::string, std::string> headers =
      {};  // by lowercase name; those that occur twice are joined by ", "

  std::string header(const std::string& name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? "" : found->second;
  }
};

// The answer to one request: send(), or begin(), any number of write() and end(). Any thread may call these; none waits for the
// client or throws. Calls after the client has left do nothing.
class Reply {
 public:
  virtual ~Reply() = default;
  virtual void send(int status, Headers headers, std::string body) = 0;
  virtual void begin(int status, Headers headers) = 0;
  virtual void write(std::string bytes) = 0;
  virtual void end() = 0;
  // `gone` is called once if the client leaves before its answer is complete, or is dropped because it reads too slowly; at once
  // if that has happened already. It must not throw.
  virtual void on_gone(std::function<void()> gone) = 0;
};

}  // namespace genesis::serving

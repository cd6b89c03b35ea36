// Requests over HTTP, as a hub needs them. libcurl makes them; a build without it refuses them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace genesis::hub {

struct HttpRequest {
  std::string url;
  bool head = false;       // asks for the headers only
  std::string token = {};  // sent as a bearer token; empty: none
  int64_t from = 0;        // the first byte that is wanted
  // Receives the bytes of an answer with the status 200 or 206. Empty: HttpAnswer::body has them.
  std::function<void(std::string_view bytes)> sink = {};
  // Called before the first byte.
  std::function<void(int status)> on_begin = {};
};

struct HttpAnswer {
  int status = 0;
  std::map<std::string, std::string, std::less<>> headers;  // names in lower case
  std::string body;                                         // at most 64 MiB
  std::string broken;  // the reason why the answer ended too early; empty: it is complete

  std::string header(std::string_view name) const {  // empty if there is none
    const auto at = headers.find(name);
    return at == headers.end() ? "" : at->second;
  }
};

// Sends a request and returns its answer. Redirects are answers: nothing is followed. Throws Error if there is no connection.
HttpAnswer send(const HttpRequest& request);

}  // namespace genesis::hub

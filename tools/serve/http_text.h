// The parts of HTTP that need no sockets: heads of answers, and the check of a request's head.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "models/serving/api_error.h"

namespace genesis::tools {

serving::ApiError bad_request(const std::string& why);

// Returns the head of an answer with its empty line. `framing`: lines that say where the body ends.
std::string http_head(int status, const serving::Headers& headers, const std::string& framing, bool closes);
std::string content_length(size_t bytes);

struct HeadFacts {
  size_t lengths = 0, codings = 0, hosts = 0;  // counts of Content-Length, Transfer-Encoding and Host
  std::string_view coding = {}, target = {};
  bool is_newer = true;  // HTTP/1.1
};
// Throws ApiError for what servers and proxies understand differently (request smuggling).
void check_head(const HeadFacts& head);

}  // namespace genesis::tools

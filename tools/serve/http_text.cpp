#include "tools/serve/http_text.h"

#include <fmt/core.h>
#include <strings.h>

#include <map>

namespace genesis::tools {
namespace {

const std::map<int, const char*> kReasons = {
    {200, "OK"},
    {204, "No Content"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {408, "Request Timeout"},
    {413, "Payload Too Large"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {500, "Internal Server Error"},
    {503, "Service Unavailable"},
};

}  // namespace

serving::ApiError bad_request(const std::string& why) {
  return {400, "invalid_request_error", "bad_request", "this is no valid HTTP request: " + why};
}

std::string http_head(int status, const serving::Headers& headers, const std::string& framing, bool closes) {
  const auto reason = kReasons.find(status);
  std::string head =
      fmt::format("HTTP/1.1 {} {}\r\n", status, reason == kReasons.end() ? "Unknown" : reason->second);
  for (const auto& [name, value] : headers) head += name + ": " + value + "\r\n";
  return head + framing + (closes ? "connection: close\r\n\r\n" : "\r\n");
}

std::string content_length(size_t bytes) { return fmt::format("content-length: {}\r\n", bytes); }

void check_head(const HeadFacts& head) {
  if (head.lengths > 1) throw bad_request("it has several lengths");
  if (head.lengths > 0 && head.codings > 0) throw bad_request("it has a length and a transfer coding");
  const std::string coding(head.coding);
  if (head.codings > 1 || (head.codings == 1 && ::strcasecmp(coding.c_str(), "chunked") != 0))
    throw bad_request("the only transfer coding here is chunked");
  if (head.hosts > 1 || (head.hosts == 0 && head.is_newer)) throw bad_request("expected one header Host");
  if (head.target.empty() || head.target[0] != '/') throw bad_request("expected a path that begins with /");
}

}  // namespace genesis::tools

// A libFuzzer target for the heads and bodies of HTTP requests, without sockets. The first byte says into which pieces the others
// are cut: a request must be read the same in whatever pieces it comes, because proxies send it in other ones.
#include <boost/asio/buffer.hpp>
#include <cstdint>
#include <cstdlib>
#include <optional>

#include "tools/serve/http_request.h"

namespace {

using namespace genesis;

// Returns the request in one text, or the error that its client gets; nothing if it is not complete.
std::optional<std::string> read(std::string_view bytes, size_t piece) {
  tools::HttpParser parser;
  parser.eager(true);
  parser.header_limit(8 << 10);
  parser.body_limit(64 << 10);
  std::string left;
  bool is_checked = false;
  for (size_t at = 0; at < bytes.size() && !parser.is_done(); at += piece) {
    left += bytes.substr(at, piece);
    boost::beast::error_code error;
    left.erase(0, parser.put(boost::asio::buffer(left), error));
    if (error == boost::beast::http::error::need_more) continue;
    if (error) return "error";
    if (!parser.is_header_done() || std::exchange(is_checked, true)) continue;
    try {
      tools::check_head(tools::facts_of(parser));
    } catch (const serving::ApiError& known) {
      return "error";
    }
  }
  if (!parser.is_done()) return std::nullopt;
  const serving::HttpRequest request = tools::request_of(parser);
  std::string text = request.method + "\n" + request.path + "\n" + request.body;
  for (const auto& [name, value] : request.headers) text += "\n" + name + ": " + value;
  return text;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto whole = read(bytes, bytes.size()), cut = read(bytes, 1 + data[0] % 64);
  // Pieces never make a request of bytes that are none as a whole, or another one; they may end before the mistake comes.
  if (cut && *cut != "error" && whole != cut) std::abort();
  return 0;
}

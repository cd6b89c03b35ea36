// A request of HTTP as Boost.Beast has read it. The server (http_server.cpp) and the fuzzer of heads and bodies use it.
#pragma once

#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <cctype>
#include <string>
#include <string_view>

#include "tools/serve/http_text.h"

namespace genesis::tools {

using HttpParser = boost::beast::http::request_parser<boost::beast::http::string_body>;

// Returns what check_head() needs of a parser that has read the head.
inline HeadFacts facts_of(const HttpParser& parser) {
  using boost::beast::http::field;
  const auto& head = parser.get();
  const auto text = [](const auto& view) { return std::string_view(view.data(), view.size()); };
  return {head.count(field::content_length),
          head.count(field::transfer_encoding),
          head.count(field::host),
          text(head[field::transfer_encoding]),
          text(head.target()),
          head.version() >= 11};
}

// Takes the request out of a parser that has read all of it.
inline serving::HttpRequest request_of(HttpParser& parser) {
  auto& message = parser.get();
  serving::HttpRequest request = {std::string(message.method_string()), std::string(message.target())};
  request.path = request.path.substr(0, request.path.find('?'));
  for (const auto& field : message) {
    std::string name(field.name_string());
    for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    std::string& value = request.headers[name];
    value += (value.empty() ? "" : ", ") + std::string(field.value());
  }
  request.body = std::move(message.body());
  return request;
}

}  // namespace genesis::tools

#include "models/serving/api_error.h"

#include <new>

#include "models/serving/json.h"

namespace genesis::serving {

std::string ApiError::body() const {
  const auto text_or_null = [](const std::string& text) { return text.empty() ? Json() : Json(text); };
  return json_line({{"error",
                     {{"message", message()},
                      {"type", type},
                      {"param", text_or_null(param)},
                      {"code", text_or_null(code)}}}});
}

ApiError api_error_of(const std::exception& error, bool is_clients) {
  if (const auto* known = dynamic_cast<const ApiError*>(&error)) return *known;
  if (dynamic_cast<const Error*>(&error) && is_clients)
    return {400, "invalid_request_error", "invalid_value", error.what()};
  const bool is_memory = dynamic_cast<const std::bad_alloc*>(&error) != nullptr;
  return {500, "server_error", "internal_error", is_memory ? "the server is out of memory" : error.what()};
}

void send_error(Reply& reply, const ApiError& error, Headers headers) {
  headers.emplace_back("content-type", "application/json");
  reply.send(error.status, std::move(headers), error.body());
}

}  // namespace genesis::serving

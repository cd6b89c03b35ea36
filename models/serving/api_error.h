// The errors that clients get: the objects of OpenAI's API, {"error": {"message", "type", "param", "code"}}.
#pragma once

#include <string>

#include "models/serving/exchange.h"
#include "schema/core/error.h"

namespace genesis::serving {

class ApiError : public Error {
 public:
  // `param`: the field of the request that is wrong; empty: none in particular.
  ApiError(int status, std::string type, std::string code, std::string message, std::string param = {})
      : Error(std::move(message)),
        status(status),
        type(std::move(type)),
        code(std::move(code)),
        param(std::move(param)) {}

  std::string body() const;  // JSON

  const int status;
  const std::string type, code, param;
};

// Throws an ApiError with the status 400 for the value of a field.
template <class... Args>
[[noreturn]] void refuse(const std::string& param, fmt::format_string<Args...> format, Args&&... args) {
  throw ApiError(400, "invalid_request_error", "invalid_value",
                 fmt::format(format, std::forward<Args>(args)...), param);
}

// Returns the error of a request: an ApiError is itself, another Error is the request's fault (400) if `is_clients`, and the
// server's otherwise (500).
ApiError api_error_of(const std::exception& error, bool is_clients);

// Sends the error as the answer.
void send_error(Reply& reply, const ApiError& error, Headers headers = {});

}  // namespace genesis::serving

// Errors. A user's mistake (a wrong file, shape, name, flag) throws genesis::Error. Its message says what is wrong and where,
// what was expected, what was found and what to do; it gains context as it rises through the call stack. GENESIS_ASSERT checks
// invariants of the code itself.
#pragma once

#include <fmt/core.h>

#include <exception>
#include <string>
#include <utility>

namespace genesis {

class Error : public std::exception {
 public:
  explicit Error(std::string message) : message_(std::move(message)) {}
  const char* what() const noexcept override { return message_.c_str(); }
  const std::string& message() const { return message_; }

  // Appends where the error happened, innermost first: "... (while inferring node 'layers.3.mlp.up_proj')".
  Error& add_context(const std::string& where) {
    message_ += " (" + where + ")";
    return *this;
  }

 private:
  std::string message_;
};

template <class... Args>
[[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(fmt::format(format, std::forward<Args>(args)...));
}

// Runs `body`; if an Error rises through it, adds the text that `describe()` returns.
template <class Body, class Describe>
decltype(auto) with_context(Body&& body, Describe&& describe) {
  try {
    return std::forward<Body>(body)();
  } catch (Error& error) {
    error.add_context(describe());
    throw;
  }
}

[[noreturn]] void assertion_failed(const char* condition, const char* file, int line);

}  // namespace genesis

// Checks an invariant of the code in every build type. Never use it for a condition that a user can cause.
#define GENESIS_ASSERT(condition) \
  ((condition) ? static_cast<void>(0) : ::genesis::assertion_failed(#condition, __FILE__, __LINE__))

// Errors. A user's mistake (a wrong file, shape, name, flag) throws genesis::Error, whose message says what,
// where, expected, got, and what to do; it gains context on the way up. A broken invariant of ours is
// GENESIS_ASSERT.
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

  // Appends where this happened, innermost first: "... (while inferring node 'layers.3.mlp.up_proj')".
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

// Runs `body`; an Error that rises through it gains the text that `describe()` returns.
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

// For our own invariants only, in every build type: never for what a user can cause.
#define GENESIS_ASSERT(condition) \
  ((condition) ? static_cast<void>(0) : ::genesis::assertion_failed(#condition, __FILE__, __LINE__))

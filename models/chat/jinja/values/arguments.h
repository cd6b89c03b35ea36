// The arguments of a function, filter, test or method call. They are taken one by one as Python binds them: by position, else by
// name.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/chat/jinja/values/value.h"
#include "schema/core/error.h"

namespace genesis::jinja {

class Arguments {
 public:
  Arguments(std::string function, std::vector<Value> positional,
            std::vector<std::pair<std::string, Value>> named)
      : function_(std::move(function)), positional_(std::move(positional)), named_(std::move(named)) {}
  explicit Arguments(std::string function) : Arguments(std::move(function), {}, {}) {}

  const std::string& function() const { return function_; }
  bool has_next() const { return next_ < positional_.size(); }

  std::optional<Value> take(std::string_view name) {
    if (has_next()) return positional_[next_++];
    return take_named(name);
  }
  // Takes an argument by its name only.
  std::optional<Value> take_named(std::string_view name) {
    for (size_t i = 0; i < named_.size(); ++i)
      if (named_[i].first == name) {
        Value value = std::move(named_[i].second);
        named_.erase(named_.begin() + static_cast<std::ptrdiff_t>(i));
        return value;
      }
    return {};
  }
  Value take(std::string_view name, Value otherwise) { return take(name).value_or(std::move(otherwise)); }
  Value need(std::string_view name) {
    if (auto value = take(name)) return *value;
    fail("{} needs an argument '{}'", function_, name);
  }
  std::string need_text(std::string_view name) { return text_in(need(name), function_); }
  int64_t take_integer(std::string_view name, int64_t otherwise) {
    const auto value = take(name);
    return value ? integer_in(*value, function_) : otherwise;
  }
  std::optional<int64_t> take_index(std::string_view name) {
    const auto value = take(name);
    return value && !value->is_none() ? std::optional(integer_in(*value, function_)) : std::nullopt;
  }
  bool take_flag(std::string_view name, bool otherwise) {
    const auto value = take(name);
    return value ? is_true(*value) : otherwise;
  }

  // Take all remaining arguments.
  std::vector<Value> take_positional() {
    std::vector<Value> rest(positional_.begin() + static_cast<std::ptrdiff_t>(next_), positional_.end());
    next_ = positional_.size();
    return rest;
  }
  std::vector<std::pair<std::string, Value>> take_named() { return std::exchange(named_, {}); }
  // Throws Error if an argument was not taken.
  void finish() const {
    if (has_next()) fail("{} got {} arguments too many", function_, positional_.size() - next_);
    if (!named_.empty()) fail("{} has no argument '{}'", function_, named_[0].first);
  }

 private:
  std::string function_;
  std::vector<Value> positional_;
  std::vector<std::pair<std::string, Value>> named_;
  size_t next_ = 0;
};

}  // namespace genesis::jinja

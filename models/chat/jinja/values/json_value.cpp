#include "models/chat/jinja/values/json_value.h"

#include <nlohmann/json.hpp>

#include "schema/core/error.h"
#include "schema/file/json_problem.h"

namespace genesis::jinja {
namespace {

constexpr size_t kMaxDepth = 64;

// Builds a value from the parser's events. Open lists and objects are on a stack.
class Builder : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit Builder(std::string_view text) : text_(text) {}

  bool null() override { return add(None{}); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override {
    if (value > INT64_MAX) fail("{} is no int of 64 bits", value);
    return add(static_cast<int64_t>(value));
  }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t&) override { return false; }
  bool start_object(size_t) override { return open(true); }
  bool key(string_t& name) override {
    open_.back().key = std::move(name);
    return true;
  }
  bool end_object() override { return close(); }
  bool start_array(size_t) override { return open(false); }
  bool end_array() override { return close(); }
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception& problem) override {
    fail("it is not JSON: {}", json_problem(text_, position, problem.what()));
  }
  Value take() { return std::move(root_); }

 private:
  struct Open {
    bool is_object;
    std::string key;
    Dict object;
    std::vector<Value> list;
  };

  bool add(Value value) {
    if (open_.empty())
      root_ = std::move(value);
    else if (open_.back().is_object)
      open_.back().object.set(open_.back().key, std::move(value));
    else
      open_.back().list.push_back(std::move(value));
    return true;
  }
  bool open(bool is_object) {
    if (open_.size() == kMaxDepth) fail("lists and objects are nested more than {} deep", kMaxDepth);
    open_.push_back({is_object, {}, {}, {}});
    return true;
  }
  bool close() {
    Open done = std::move(open_.back());
    open_.pop_back();
    return add(done.is_object ? Value::dict(std::move(done.object)) : Value::list(std::move(done.list)));
  }

  std::string_view text_;
  std::vector<Open> open_;
  Value root_;
};

}  // namespace

Value parse_json(std::string_view text) {
  Builder builder(text);
  nlohmann::json::sax_parse(text, &builder);
  return builder.take();
}

}  // namespace genesis::jinja

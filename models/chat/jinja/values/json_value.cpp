#include "models/chat/jinja/values/json_value.h"

#include "schema/core/error.h"
#include "schema/file/json_events.h"
#include "schema/file/json_text.h"

namespace genesis::jinja {
namespace {

// Builds a value from the parser's events. Open lists and objects are on a stack.
class Builder final : public JsonEvents {
 public:
  bool null() override { return add(None{}); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override {
    if (value > INT64_MAX) fail("{} is no int of 64 bits", value);
    return add(static_cast<int64_t>(value));
  }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool key(string_t& name) override {
    open_.back().key = std::move(name);
    return true;
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
  void open(bool is_object) override { open_.push_back({is_object, {}, {}, {}}); }
  void close() override {
    Open done = std::move(open_.back());
    open_.pop_back();
    add(done.is_object ? Value::dict(std::move(done.object)) : Value::list(std::move(done.list)));
  }

  std::vector<Open> open_;
  Value root_;
};

}  // namespace

Value parse_json(std::string_view text) {
  Builder builder;
  read_json_events(text, builder);
  return builder.take();
}

}  // namespace genesis::jinja

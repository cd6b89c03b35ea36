// The parts of a JSON text in their order, for readers that build something else than nlohmann's tree. read_json_events() of
// schema/file/json_text.h calls a handler and keeps its limits.
#pragma once

#include <nlohmann/json.hpp>

#include "schema/core/error.h"

namespace genesis {

// A handler that ignores everything; subclasses override what they need. Functions return true to go on.
class JsonEvents : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) final { return false; }
  bool start_object(std::size_t) final { return begin(true); }
  bool key(string_t&) override { return true; }
  bool end_object() final { return end(); }
  bool start_array(std::size_t) final { return begin(false); }
  bool end_array() final { return end(); }
  bool parse_error(std::size_t byte, const std::string&, const nlohmann::detail::exception& problem) final {
    stopped_at_ = byte;
    problem_ = problem.what();
    return false;
  }

 protected:
  // A list or an object begins or ends.
  virtual void open(bool /*is_object*/) {}
  virtual void close() {}
  // The number of lists and objects that are open.
  int depth() const { return depth_; }

 private:
  friend class JsonParser;

  bool begin(bool is_object) {
    if (++depth_ > most_)
      fail("{} nests deeper than is read: lists and objects are nested more than {} deep", what_, most_);
    open(is_object);
    return true;
  }
  bool end() {
    --depth_;
    close();
    return true;
  }

  int most_ = 0, depth_ = 0;
  std::string what_;       // the subject of messages
  size_t stopped_at_ = 0;  // the byte behind the first one that is no JSON
  std::string problem_;    // in the words of the parser
};

}  // namespace genesis

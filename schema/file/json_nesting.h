// Checks how deep JSON nests before a tree is built from a text that is not trusted. (A callback of json::parse could stop it
// too, but after every object it visits all members read so far: quadratic in their number.)
#pragma once

#include <nlohmann/json.hpp>

#include "schema/core/error.h"

namespace genesis {

// A handler for json::sax_parse. Throws Error(`too_deep`) if lists and objects nest deeper than `most`.
class JsonNesting : public nlohmann::json_sax<nlohmann::json> {
 public:
  JsonNesting(int most, const char* too_deep) : most_(most), too_deep_(too_deep) {}

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override { return enter(); }
  bool key(string_t&) override { return true; }
  bool end_object() override { return leave(); }
  bool start_array(std::size_t) override { return enter(); }
  bool end_array() override { return leave(); }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    return false;
  }

 protected:
  int depth() const { return depth_; }

 private:
  bool enter() {
    if (++depth_ > most_) fail("{}", too_deep_);
    return true;
  }
  bool leave() {
    --depth_;
    return true;
  }

  int most_, depth_ = 0;
  const char* too_deep_;
};

}  // namespace genesis

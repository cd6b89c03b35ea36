#include "schema/file/json_text.h"

#include <unordered_set>
#include <vector>

#include "schema/file/json_events.h"
#include "schema/file/json_problem.h"

namespace genesis {
namespace {

using nlohmann::json;

constexpr std::string_view kMark = "\xEF\xBB\xBF";

// Follows the names of the members around the value that is read.
class PathFinder final : public JsonEvents {
 public:
  bool key(string_t& name) override {
    names_.back() = name.substr(0, 60);
    return true;
  }
  std::string path() const {
    std::string path;
    for (const std::string& name : names_) path += (path.empty() || name.empty() ? "" : ".") + name;
    return path;
  }

 private:
  void open(bool /*is_object*/) override { names_.emplace_back(); }
  void close() override { names_.pop_back(); }

  std::vector<std::string> names_;  // one for each open list or object; "" for a list
};

// Rejects two members of one name in the root, so that a tree is at most a small multiple of the text.
class UniqueNames final : public JsonEvents {
 public:
  explicit UniqueNames(std::string_view what) : what_(what) {}
  bool key(string_t& name) override {
    if (depth() == 1 && !names_.insert(name).second) fail("{} names '{}' twice", what_, name);
    return true;
  }

 private:
  std::string_view what_;
  std::unordered_set<std::string> names_;
};

// Returns false if lists and objects certainly are not nested deeper than `most`. Counts brackets outside of strings, which takes
// a small part of the time of a parser.
bool may_nest_deeper(std::string_view text, int most) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\')
        ++i;
      else
        in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > most) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

void check_beginning(std::string_view text, std::string_view what, const JsonLimits& limits) {
  if (text.size() > limits.bytes) fail("{} has {} bytes, the limit is {}", what, text.size(), limits.bytes);
  if (!limits.may_have_mark && text.starts_with(kMark))
    fail("{} begins with a byte order mark, expected '{{'", what);
}

}  // namespace

// Calls a handler.
class JsonParser {
 public:
  // Returns false if the text is not JSON. Throws Error if it nests too deep.
  static bool run(std::string_view text, JsonEvents& handler, std::string_view what, int depth) {
    handler.what_ = what;
    handler.most_ = depth;
    return json::sax_parse(text, &handler);
  }
  [[noreturn]] static void fail_at(std::string_view text, std::string_view what, int depth,
                                   std::string_view expected) {
    PathFinder finder;
    run(text, finder, what, depth);
    fail("{}{} is not JSON: {}", expected, what,
         json_problem(text, finder.stopped_at_, finder.problem_, finder.path()));
  }
};

namespace {

template <class Json>
Json parse(std::string_view text, std::string_view what, const JsonLimits& limits,
           std::string_view expected = "") {
  check_beginning(text, what, limits);
  if (limits.unique_names) {
    UniqueNames names(what);
    JsonParser::run(text, names, what, limits.depth);
  } else if (may_nest_deeper(text, limits.depth)) {
    JsonEvents nesting;
    JsonParser::run(text, nesting, what, limits.depth);
  }
  Json parsed = Json::parse(text, nullptr, false);
  if (parsed.is_discarded()) JsonParser::fail_at(text, what, limits.depth, expected);
  return parsed;
}

}  // namespace

json parse_json_text(std::string_view text, std::string_view what, const JsonLimits& limits) {
  return parse<json>(text, what, limits);
}

nlohmann::ordered_json parse_ordered_json_text(std::string_view text, std::string_view what,
                                               const JsonLimits& limits) {
  return parse<nlohmann::ordered_json>(text, what, limits);
}

json parse_json_object(std::string_view text, std::string_view what, const JsonLimits& limits) {
  json object = parse<json>(text, what, limits, "expected a JSON object, ");
  if (!object.is_object()) fail("{} is not a JSON object: got {}", what, object.type_name());
  return object;
}

json try_parse_json_text(std::string_view text) {
  JsonEvents nesting;
  constexpr int kDepth = JsonLimits{}.depth;
  try {
    if (may_nest_deeper(text, kDepth)) JsonParser::run(text, nesting, "", kDepth);
  } catch (const Error&) {
    return json(json::value_t::discarded);
  }
  return json::parse(text, nullptr, false);
}

json read_json_file(const std::filesystem::path& path, const JsonLimits& limits) {
  return parse_json_text(read_regular_file(path, limits.bytes), path.string(), limits);
}

json read_json_object(const std::filesystem::path& path, const JsonLimits& limits) {
  return parse_json_object(read_regular_file(path, limits.bytes), path.string(), limits);
}

void read_json_events(std::string_view text, JsonEvents& handler, std::string_view what,
                      const JsonLimits& limits) {
  check_beginning(text, what, limits);
  if (!JsonParser::run(text, handler, what, limits.depth)) JsonParser::fail_at(text, what, limits.depth, "");
}

}  // namespace genesis

// Reads the members of a JSON object by name and type. The base of readers of configurations: it knows which members were asked for,
// and what to say about a value of another type or out of range.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace genesis {

// Returns true for null, false, zero, and empty texts, lists and objects.
bool is_neutral_json(const nlohmann::json& value);
// Returns a value for a message, in ASCII and shortened.
std::string shown_json(const nlohmann::json& value);

class ObjectReader {
 public:
  // `entries` is an object, which must outlive the reader. Messages write `prefix` before the name of a member: "pre_tokenizer.".
  explicit ObjectReader(const nlohmann::json& entries, std::string prefix = "")
      : entries_(entries), prefix_(std::move(prefix)) {}
  virtual ~ObjectReader() = default;

  // Returns a member; null if there is none. The name counts as known from now on.
  const nlohmann::json& get(const std::string& name);
  bool has(const std::string& name) { return !get(name).is_null(); }
  // Returns the member, which may be null; `where_absent` if there is none.
  nlohmann::json given(const std::string& name, const nlohmann::json& where_absent);
  // Makes members known.
  void ignore(const std::vector<std::string>& names);

  // These return a member, or nothing if it is absent or null. Any other value is refused: a number must be finite in f32, an integer
  // between the limits.
  std::optional<double> number(const std::string& name);
  std::optional<int64_t> integer_in(const std::string& name, int64_t least, int64_t most);
  std::optional<bool> flag(const std::string& name);
  std::optional<std::string> text(const std::string& name);
  std::optional<std::vector<int64_t>> integers(const std::string& name, int64_t least, int64_t most);
  // Returns null if the member is absent or null.
  const nlohmann::json* object(const std::string& name);
  // Refuses an absent member.
  template <class T>
  T required(std::optional<T> value, const std::string& name, const std::string& expected) {
    if (!value) refuse(name, expected);
    return value.value_or(T{});
  }

  // Throws Error: "'name' is 3, expected ...". Subclasses may collect such problems instead; the functions above then return nothing.
  virtual void refuse(const std::string& name, const std::string& expected);

  // Returns the names of members that nothing has asked for and whose values are not neutral.
  std::vector<std::string> unknown() const;
  const nlohmann::json& entries() const { return entries_; }

 protected:
  // Returns the name of a member for messages, shortened.
  std::string called(const std::string& name) const;

 private:
  const nlohmann::json& entries_;
  std::string prefix_;
  std::set<std::string> known_;
};

}  // namespace genesis

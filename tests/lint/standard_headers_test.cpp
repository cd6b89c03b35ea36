// Tests that each installed header includes, itself or through its own includes, the standard header of every standard name that it
// uses. The test of the installed files compiles the same headers alone, after all standard ones: the two tests together mean that
// each header compiles with nothing before it, for a fifth of the time that 127 compilations from nothing take.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;
using Headers = std::set<std::string>;

// Standard names by the headers that define them, the best one first. One of them must be there. `size_t` and the like also count without `std::`.
const std::map<std::string, std::vector<std::string>> kHomes = {
    {"array", {"array"}},
    {"atomic", {"atomic"}},
    {"bit_cast", {"bit"}},
    {"byte", {"cstddef"}},
    {"chrono", {"chrono"}},
    {"convertible_to", {"concepts"}},
    {"copy_n", {"algorithm"}},
    {"deque", {"deque"}},
    {"exception", {"exception", "stdexcept"}},
    {"exception_ptr", {"exception"}},
    {"filesystem", {"filesystem"}},
    {"forward", {"utility", "memory", "functional"}},
    {"function", {"functional"}},
    {"get", {"variant", "tuple", "utility", "array"}},
    {"get_if", {"variant"}},
    {"holds_alternative", {"variant"}},
    {"in_range", {"utility"}},
    {"initializer_list", {"initializer_list", "vector", "string", "map", "set"}},
    {"int16_t", {"cstdint"}},
    {"int32_t", {"cstdint"}},
    {"int64_t", {"cstdint"}},
    {"int8_t", {"cstdint"}},
    {"integral", {"concepts"}},
    {"is_base_of_v", {"type_traits"}},
    {"is_enum_v", {"type_traits"}},
    {"is_floating_point_v", {"type_traits"}},
    {"is_integral_v", {"type_traits"}},
    {"is_invocable_r_v", {"type_traits"}},
    {"is_same_v", {"type_traits", "concepts"}},
    {"is_signed_v", {"type_traits"}},
    {"isfinite", {"cmath"}},
    {"isnan", {"cmath"}},
    {"less", {"functional", "map", "set"}},
    {"make_shared", {"memory"}},
    {"map", {"map"}},
    {"max", {"algorithm"}},
    {"min", {"algorithm"}},
    {"move", {"utility", "memory", "functional", "vector", "string"}},
    {"nan", {"cmath"}},
    {"nullopt", {"optional"}},
    {"numeric_limits", {"limits"}},
    {"optional", {"optional"}},
    {"pair", {"utility", "map"}},
    {"remove_cvref_t", {"type_traits"}},
    {"same_as", {"concepts"}},
    {"set", {"set"}},
    {"shared_ptr", {"memory"}},
    {"size_t", {"cstddef", "cstdint", "string", "vector", "span", "string_view"}},
    {"span", {"span"}},
    {"string", {"string"}},
    {"string_view", {"string_view", "string"}},
    {"time", {"ctime"}},
    {"time_t", {"ctime"}},
    {"to_string", {"string"}},
    {"uint16_t", {"cstdint"}},
    {"uint32_t", {"cstdint"}},
    {"uint64_t", {"cstdint"}},
    {"uint8_t", {"cstdint"}},
    {"unique_ptr", {"memory"}},
    {"unordered_map", {"unordered_map"}},
    {"variant", {"variant"}},
    {"vector", {"vector"}},
    {"visit", {"variant"}},
};

struct Header {
  Headers included;            // it holds them as they are written: "schema/core/tensor.h", "vector"
  std::set<std::string> used;  // standard names
};

std::string without_comments_and_text(const std::string& code) {
  static const std::regex kNoCode(R"re(//[^\n]*|"(\\.|[^"\\\n])*")re");
  return std::regex_replace(code, kNoCode, " ");
}

Header read_header(const std::string& code) {
  static const std::regex kInclude("#include [<\"]([^>\"]+)[>\"]"),
      kName(R"(\bstd::(\w+)|[^\w:](u?int\d+_t|size_t)\b)");
  Header header;
  for (std::sregex_iterator it(code.begin(), code.end(), kInclude), end; it != end; ++it)
    header.included.insert((*it)[1]);
  const std::string plain = without_comments_and_text(code);
  for (std::sregex_iterator it(plain.begin(), plain.end(), kName), end; it != end; ++it)
    header.used.insert((*it)[1].matched ? (*it)[1] : (*it)[2]);
  return header;
}

// Returns the headers that <genesis/genesis.h> includes, directly or not, by path.
std::map<std::string, Header> installed_headers() {
  std::map<std::string, Header> headers;
  for (std::vector<std::string> open = {"include/genesis/genesis.h"}; !open.empty();) {
    const std::string name = open.back();
    open.pop_back();
    std::ifstream in(fs::path(GENESIS_SOURCE_ROOT) / name);
    if (!in || headers.contains(name)) continue;  // a standard header, or a generated one
    headers[name] = read_header(std::string(std::istreambuf_iterator<char>(in), {}));
    for (const std::string& next : headers[name].included)
      if (next.find('/') != std::string::npos) open.push_back(next);
  }
  return headers;
}

// Returns all that `name` includes, directly or not.
Headers reached_from(const std::map<std::string, Header>& headers, const std::string& name) {
  Headers reached;
  for (std::vector<std::string> open = {name}; !open.empty();) {
    const auto at = headers.find(open.back());
    open.pop_back();
    if (at == headers.end()) continue;
    for (const std::string& next : at->second.included)
      if (reached.insert(next).second) open.push_back(next);
  }
  return reached;
}

// Says what is wrong with the header `name`, or returns "".
std::string missing_includes(const std::map<std::string, Header>& headers, const std::string& name) {
  const Headers reached = reached_from(headers, name);
  std::string missing;
  for (const std::string& used : headers.at(name).used) {
    const auto homes = kHomes.find(used);
    if (homes == kHomes.end()) {
      missing += "\n  std::" + used + ": add it to the table of this test";
      continue;
    }
    bool is_there = false;
    for (const std::string& home : homes->second) is_there |= reached.contains(home);
    if (!is_there) missing += "\n  std::" + used + ": #include <" + homes->second.front() + ">";
  }
  return missing;
}

TEST(StandardHeaders, InstalledHeadersIncludeThoseThatTheyUse) {
  const std::map<std::string, Header> headers = installed_headers();
  ASSERT_GT(headers.size(), 100u) << "the headers were not found under " << GENESIS_SOURCE_ROOT;
  for (const auto& [name, header] : headers) EXPECT_EQ(missing_includes(headers, name), "") << name;
}

TEST(StandardHeaders, MissingOnesAreFound) {
  std::map<std::string, Header> headers = {
      {"a.h", read_header("#include <vector>\nstd::vector<int64_t> f();  // std::map\n")},
      {"b.h", read_header("#include \"a.h\"\nstd::vector<std::string> g();\n")}};
  EXPECT_EQ(missing_includes(headers, "a.h"), "\n  std::int64_t: #include <cstdint>");
  EXPECT_EQ(missing_includes(headers, "b.h"), "\n  std::string: #include <string>");
  headers["c.h"] = read_header("std::strange x;\n");
  EXPECT_EQ(missing_includes(headers, "c.h"), "\n  std::strange: add it to the table of this test");
}

}  // namespace

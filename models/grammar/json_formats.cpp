#include "models/grammar/json_formats.h"

#include <algorithm>
#include <map>

#include "schema/core/error.h"

namespace genesis::grammar {
namespace {

constexpr int64_t kMax = 999'999'999'999'999'999;

std::string digit_range(char low, char high) {
  return low == high ? std::string(1, low) : fmt::format("[{}-{}]", low, high);
}
std::string any_digits(size_t count) { return count == 0 ? "" : fmt::format("[0-9]{{{}}}", count); }

// Returns the numbers from `low` to `high`, which have equally many digits.
std::string same_length(const std::string& low, const std::string& high) {
  const size_t rest = low.size() - 1;
  const std::string nines(rest, '9'), zeros(rest, '0');
  if (low.empty()) return "";
  if (low.substr(1) == zeros && high.substr(1) == nines)
    return digit_range(low[0], high[0]) + any_digits(rest);
  if (low[0] == high[0]) return low[0] + same_length(low.substr(1), high.substr(1));
  std::string choices = low[0] + same_length(low.substr(1), nines);
  if (high[0] - low[0] > 1)
    choices +=
        "|" + digit_range(static_cast<char>(low[0] + 1), static_cast<char>(high[0] - 1)) + any_digits(rest);
  return "(?:" + choices + "|" + high[0] + same_length(zeros, high.substr(1)) + ")";
}

// Returns the numbers from `low` to `high`, which are not negative.
std::string natural(int64_t low, int64_t high) {
  std::string choices;
  for (int64_t begin = low; begin <= high;) {
    const std::string digits = std::to_string(begin);
    const int64_t end = std::min<int64_t>(high, std::stoll(std::string(digits.size(), '9')));
    choices += (choices.empty() ? "" : "|") + same_length(digits, std::to_string(end));
    begin = end + 1;
  }
  return "(?:" + choices + ")";
}

// Appends an alternative.
void add(std::string& choices, const std::string& one) { choices += (choices.empty() ? "" : "|") + one; }

std::string checked(const std::string& choices, int64_t least, int64_t most) {
  if (choices.empty()) fail("no number is at least {} and at most {}", least, most);
  return "(?:" + choices + ")";
}

std::pair<int64_t, int64_t> limits(const NumberRange& range) {
  const int64_t least = range.least.value_or(-kMax), most = range.most.value_or(kMax);
  if (least < -kMax || most > kMax) fail("a limit of numbers has more than 18 digits");
  return {least, most};
}

// Returns the numbers from `low` to `high`, not negative, with a fraction; `at_low` and `at_high`: the limits are among them.
std::string positive(int64_t low, int64_t high, bool at_low, bool at_high) {
  constexpr const char *kAny = "(?:\\.[0-9]{1,17})?", *kZero = "(?:\\.0{1,17})?",
                       *kMore = "\\.[0-9]{0,16}[1-9]";
  std::string choices;
  if (low == high) return at_low && at_high ? std::to_string(low) + kZero : "";
  add(choices, std::to_string(low) + (at_low ? kAny : kMore));
  if (high - low > 1) add(choices, natural(low + 1, high - 1) + kAny);
  if (at_high) add(choices, std::to_string(high) + kZero);
  return "(?:" + choices + ")";
}

std::string dates() {
  const std::string leap =
      "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[048]|[2468][048]|[13579][26])00)-02-29";
  return "(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|"
         "02-(?:0[1-9]|1[0-9]|2[0-8]))|" +
         leap + ")";
}

// Returns the exponents that move the point by `least` places or more.
std::string exponents(int64_t least) { return "[eE]\\+?0?" + natural(least, 17); }

}  // namespace

std::string whole_number_expression() {
  constexpr int64_t kDigits = 15;  // a fraction has no more
  std::string fraction = exponents(kDigits);
  for (int64_t digits = kDigits; digits-- > 1;)
    fraction = fmt::format("(?:{}|[0-9]{})", exponents(digits), fraction);
  return fmt::format("-?(?:0|[1-9][0-9]{{0,17}})(?:{}|\\.(?:0{{1,17}}|[0-9]{}))?", exponents(0), fraction);
}

std::string integer_expression(const NumberRange& range) {
  const auto [least, most] = limits(range);
  std::string choices;
  if (least < 0 && least <= most)
    add(choices, "-" + natural(std::max<int64_t>(1, -std::min<int64_t>(most, -1)), -least));
  if (most >= 0 && least <= most) add(choices, natural(std::max<int64_t>(least, 0), most));
  return checked(choices, least, most);
}

std::string number_expression(const NumberRange& range, bool leaves_least, bool leaves_most) {
  const auto [least, most] = limits(range);
  std::string choices;
  const auto take = [&](const std::string& sign, const std::string& numbers) {
    if (!numbers.empty()) add(choices, sign + numbers);
  };
  if (least < 0 && least <= most) {
    // -0 is zero.
    const int64_t nearest = std::max<int64_t>(-most, 0);
    take("-", positive(nearest, -least, most > 0 || !leaves_most, !leaves_least));
  }
  if (most >= 0 && least <= most)
    take("", positive(std::max<int64_t>(least, 0), most, least < 0 || !leaves_least, !leaves_most));
  return checked(choices, least, most);
}

std::optional<std::string> format_expression(const std::string& format) {
  static const std::string time =
      "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,9})?(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])";
  static const std::string byte = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
  static const std::map<std::string, std::string> known = {
      {"date", dates()},
      {"time", time},
      {"date-time", dates() + "T" + time},
      {"uuid", "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"},
      {"ipv4", byte + "\\." + byte + "\\." + byte + "\\." + byte}};
  const auto found = known.find(format);
  return found == known.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace genesis::grammar

// Every error names file and line, because such files come from other programs.
#include "passes/memory/offsets/plan_csv.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <optional>
#include <unordered_map>

#include "passes/memory/offsets/overlap_check.h"
#include "schema/core/error.h"
#include "schema/file/io/read_file.h"

namespace genesis::passes {
namespace {

constexpr std::array<std::string_view, 4> kColumns = {"id", "lower", "upper", "size"};
using ColumnPositions = std::array<size_t, 4>;  // by kColumns: the field's position in a line

struct Line {
  const std::string& file;
  size_t number;
  std::string place() const { return fmt::format("{}:{}", file, number); }
};

std::string_view trim(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

// Removes a field in double quotes from the front of `rest`. A doubled quote inside stands for one quote.
std::string take_quoted(std::string_view& rest, const Line& line) {
  std::string field;
  rest.remove_prefix(1);
  while (!rest.empty()) {
    const char c = rest.front();
    rest.remove_prefix(1);
    if (c == '"') {
      if (rest.empty() || rest.front() != '"') return field;
      rest.remove_prefix(1);
    }
    field += c;
  }
  fail("{}: a quoted field is not closed; add the missing '\"'", line.place());
}

// Removes one field and the comma behind it from the front of `rest`; returns false if there was no comma.
bool take_field(std::string_view& rest, std::string& field, const Line& line) {
  rest = trim(rest);
  if (rest.starts_with('"')) {
    field = take_quoted(rest, line);
    rest = trim(rest);
    if (!rest.empty() && rest.front() != ',')
      fail("{}: text follows a quoted field; expected a comma", line.place());
  } else {
    const size_t comma = std::min(rest.find(','), rest.size());
    field = trim(rest.substr(0, comma));
    rest.remove_prefix(comma);
  }
  if (rest.empty()) return false;
  rest.remove_prefix(1);
  return true;
}

std::vector<std::string> split_fields(std::string_view text, const Line& line) {
  std::vector<std::string> fields(1);
  while (take_field(text, fields.back(), line)) fields.emplace_back();
  return fields;
}

std::string lower_case(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

// Parses a header, which is a line that names the column `lower`; nothing for other lines.
std::optional<ColumnPositions> try_header(const std::vector<std::string>& fields, const Line& line) {
  std::vector<std::string> names;
  for (const std::string& field : fields) names.push_back(lower_case(field));
  if (std::ranges::find(names, "lower") == names.end()) return std::nullopt;
  ColumnPositions positions;
  for (size_t c = 0; c < kColumns.size(); ++c) {
    const auto found = std::ranges::find(names, kColumns[c]);
    if (found == names.end())
      fail("{}: the header names no column '{}'; expected id, lower, upper and size", line.place(),
           kColumns[c]);
    positions[c] = static_cast<size_t>(found - names.begin());
  }
  if (names.size() != kColumns.size())
    fail("{}: the header names {} columns; expected id, lower, upper and size, each once", line.place(),
         names.size());
  return positions;
}

int64_t parse_integer(const std::string& text, std::string_view column, const Line& line) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::result_out_of_range)
    fail("{}: {} is {}, which does not fit into 64 bits", line.place(), column, text);
  if (error != std::errc() || end != text.data() + text.size())
    fail("{}: {} is '{}', expected an integer", line.place(), column, text);
  return value;
}

PlanBuffer parse_buffer(const std::vector<std::string>& fields, const ColumnPositions& at, const Line& line) {
  if (fields.size() != kColumns.size())
    fail("{}: {} fields, expected 4: id,lower,upper,size", line.place(), fields.size());
  PlanBuffer buffer;
  buffer.lower = parse_integer(fields[at[1]], kColumns[1], line);
  buffer.upper = parse_integer(fields[at[2]], kColumns[2], line);
  buffer.size = parse_integer(fields[at[3]], kColumns[3], line);
  if (buffer.lower > buffer.upper)
    fail("{}: buffer '{}' has lower {} above upper {}; lifetimes are [lower, upper)", line.place(),
         fields[at[0]], buffer.lower, buffer.upper);
  if (buffer.size < 0)
    fail("{}: buffer '{}' has size {}, expected 0 or more", line.place(), fields[at[0]], buffer.size);
  return buffer;
}

}  // namespace

PlanCsv parse_plan_csv(std::string_view text, const std::string& name) {
  if (text.substr(0, 3) == "\xEF\xBB\xBF") text.remove_prefix(3);  // byte order mark
  PlanCsv result;
  ColumnPositions positions = {0, 1, 2, 3};
  bool header_may_come = true;
  std::unordered_map<std::string, size_t> line_of_id;
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t end = text.find('\n');
    const std::string_view content = trim(text.substr(0, end));
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
    if (content.empty() || content.front() == '#') continue;
    const Line line{name, number};
    const std::vector<std::string> fields = split_fields(content, line);
    if (std::exchange(header_may_come, false)) {
      if (const auto header = try_header(fields, line)) {
        positions = *header;
        continue;
      }
    }
    result.buffers.push_back(parse_buffer(fields, positions, line));
    const std::string& id = fields[positions[0]];
    if (const auto [other, fresh] = line_of_id.emplace(id, number); !fresh)
      fail("{}: id '{}' was already used in line {}; ids must be unique", line.place(), id, other->second);
    result.ids.push_back(id);
  }
  return result;
}

PlanCsv read_plan_csv(const std::string& path) { return parse_plan_csv(read_whole_file(path), path); }

PlanCsvReport plan_csv_file(const std::string& path, const OffsetOptions& options) {
  PlanCsv csv = read_plan_csv(path);
  const OffsetPlan plan = with_context([&] { return plan_offsets(csv.buffers, options); },
                                       [&] { return "planning '" + path + "'"; });
  GENESIS_ASSERT(!find_overlap(csv.buffers, plan.offsets));
  PlanCsvReport report{plan.height, plan.lower_bound, plan.ratio(), {}};
  for (size_t i = 0; i < csv.ids.size(); ++i)
    report.offsets.emplace_back(std::move(csv.ids[i]), plan.offsets[i]);
  return report;
}

}  // namespace genesis::passes

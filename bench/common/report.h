// The results of a bench as a JSON object. Only report.cpp includes a JSON library, which takes longer to compile than a bench.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace genesis::bench {

class Report;

// A number, a text, a report or a list of reports. A number that is not finite becomes null.
class ReportValue {
 public:
  ReportValue(double number);
  ReportValue(std::integral auto number) : json_(std::to_string(number)) {}
  ReportValue(std::string_view text);
  ReportValue(const std::string& text) : ReportValue(std::string_view(text)) {}
  ReportValue(const char* text) : ReportValue(std::string_view(text)) {}
  ReportValue(const Report& report);
  ReportValue(const std::vector<Report>& reports);

  const std::string& json() const { return json_; }

 private:
  std::string json_;
};

class Report {
 public:
  using Member = std::pair<std::string, ReportValue>;

  Report(std::initializer_list<Member> members = {}) : members_(members) {}
  void add(const std::string& name, const ReportValue& value) { members_.emplace_back(name, value); }
  std::string json() const;    // one line
  std::string pretty() const;  // indented, sorted by name

 private:
  std::vector<Member> members_;
};

// Does nothing if `file` is empty; ends the process with a message if the file cannot be written.
void write_report(const std::string& file, const Report& report);

}  // namespace genesis::bench

#include "bench/common/report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

namespace genesis::bench {

ReportValue::ReportValue(double number) : json_(std::isfinite(number) ? fmt::format("{}", number) : "null") {}

ReportValue::ReportValue(std::string_view text) : json_(nlohmann::json(text).dump()) {}

ReportValue::ReportValue(const Report& report) : json_(report.json()) {}

ReportValue::ReportValue(const std::vector<Report>& reports) {
  std::vector<std::string> texts;
  for (const Report& report : reports) texts.push_back(report.json());
  json_ = fmt::format("[{}]", fmt::join(texts, ","));
}

std::string Report::json() const {
  std::vector<std::string> texts;
  for (const auto& [name, value] : members_)
    texts.push_back(nlohmann::json(name).dump() + ":" + value.json());
  return fmt::format("{{{}}}", fmt::join(texts, ","));
}

std::string Report::pretty() const { return nlohmann::json::parse(json()).dump(2); }

void write_report(const std::string& file, const Report& report) {
  if (file.empty()) return;
  std::ofstream out(file);
  out << report.pretty() << '\n';
  if (out.flush()) return;
  fmt::print(stderr, "cannot write the report to {}: is there such a folder, and room in it?\n", file);
  std::exit(1);
}

}  // namespace genesis::bench

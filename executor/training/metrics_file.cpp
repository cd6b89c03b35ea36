#include "executor/training/metrics_file.h"

#include <cerrno>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <sstream>

#include "passes/training/expert_load.h"
#include "schema/core/error.h"
#include "schema/file/io/atomic_write.h"
#include "schema/file/io/read_file.h"
#include "schema/file/json_text.h"
#include "schema/messages/log.h"

namespace genesis {
namespace {

bool is_row(const nlohmann::json& row) {
  return row.is_object() && row.contains("step") && row["step"].is_number_integer();
}

// Returns the rows of steps up to `last`. Later rows are dropped: a killed run repeats the steps after its last checkpoint, and
// its last row may be truncated.
std::string rows_until(const std::filesystem::path& path, int64_t last) {
  std::string kept;
  std::istringstream in(read_whole_file(path));
  for (std::string line; std::getline(in, line);) {
    const auto row = try_parse_json_text(line);
    if (is_row(row) && row["step"].get<int64_t>() <= last) kept += line + "\n";
  }
  if (in.bad()) fail("cannot read the metrics in {}: too little memory", path.string());
  return kept;
}

// Appends "_" to a name that the row already has.
void add_numbers(const std::string& prefix, const std::map<std::string, double>& numbers,
                 nlohmann::ordered_json& row) {
  for (const auto& [name, number] : numbers) {
    std::string key = prefix + name;
    while (row.contains(key)) key += "_";
    if (!std::isnan(number)) row[key] = number;
  }
}

nlohmann::ordered_json row_of(const TrainMetrics& m) {
  nlohmann::ordered_json row{{"step", m.step}, {"loss", m.loss}};
  if (!std::isnan(m.evaluation_loss)) row["evaluation_loss"] = m.evaluation_loss;
  if (!std::isnan(m.grad_norm)) row["grad_norm"] = m.grad_norm;
  if (!std::isnan(m.learning_rate)) row["lr"] = m.learning_rate;
  if (!std::isnan(m.loss_scale)) row["loss_scale"] = m.loss_scale;
  if (m.skipped_steps > 0) row["skipped_steps"] = m.skipped_steps;
  row["seconds"] = m.seconds;
  row["items_per_second"] = m.items_per_second;
  if (m.checkpoint_stall_seconds > 0) row["checkpoint_stall_seconds"] = m.checkpoint_stall_seconds;
  add_numbers("", m.outputs, row);
  add_numbers("evaluation_", m.evaluation_outputs, row);
  for (const std::vector<double>& layer : m.expert_load) {
    nlohmann::ordered_json shares = nlohmann::ordered_json::array();
    for (const double share : layer) shares.push_back(std::round(share * 1e5) / 1e5);
    row[passes::kExpertLoad].push_back(std::move(shares));
  }
  return row;
}

void warn_of_no_more(int64_t step, const std::string& why) {
  log_warning("{} (at step {}): training goes on, and no more metrics are written there", why, step);
}

// Returns true if the line is the beginning of a row, truncated by a full disk or a kill, and nothing follows it.
bool is_cut_row(const std::string& line, std::istream& in) {
  const std::string begin = R"({"step":)";
  return in.eof() && line.substr(0, begin.size()) == begin.substr(0, line.size());
}

}  // namespace

void check_holds_metrics(const std::filesystem::path& path) {
  check_leads_somewhere(path);
  if (!std::filesystem::is_regular_file(path)) return;
  std::ifstream in(path);
  if (!in) fail("cannot read the metrics in {}: {}", path.string(), std::strerror(errno));
  std::string line;
  while (std::getline(in, line) && line.find_first_not_of(" \t\r") == std::string::npos) {
  }
  if (line.find_first_not_of(" \t\r") == std::string::npos || is_cut_row(line, in)) return;
  if (!is_row(try_parse_json_text(line)))
    fail(
        "'{}' holds something else than metrics, whose lines are JSON objects with a number \"step\", and it "
        "would be lost: "
        "name another file for the metrics",
        path.string());
}

MetricsFile::MetricsFile(const std::filesystem::path& path, int64_t first) : path_(path) {
  if (path.empty()) return;
  check_holds_metrics(path);
  if (std::filesystem::is_regular_file(path)) write_file_atomically(path, rows_until(path, first));
  file_.open(path, std::ios::app);
  if (!file_) fail("cannot write metrics to {}: {}", path.string(), std::strerror(errno));
}

void MetricsFile::write(const TrainMetrics& m) {
  if (!file_.is_open()) return;
  file_ << row_of(m).dump() << std::endl;
  if (file_) return;
  warn_of_no_more(m.step, fmt::format("writing {} stopped: {}", path_.string(), std::strerror(errno)));
  file_.close();
}

TensorBoardFile::TensorBoardFile(const std::filesystem::path& folder) {
  if (!folder.empty()) file_ = std::make_unique<EventFile>(folder);
}

void TensorBoardFile::write(const TrainMetrics& m) {
  if (!file_) return;
  try {
    std::vector<std::pair<std::string, double>> scalars = {{"loss/train", m.loss},
                                                           {"loss/evaluation", m.evaluation_loss},
                                                           {"grad_norm", m.grad_norm},
                                                           {"lr", m.learning_rate},
                                                           {"items_per_second", m.items_per_second}};
    for (const auto& [name, number] : m.outputs) scalars.emplace_back(name + "/train", number);
    for (const auto& [name, number] : m.evaluation_outputs)
      scalars.emplace_back(name + "/evaluation", number);
    file_->write(m.step, scalars);
  } catch (const Error& error) {
    warn_of_no_more(m.step, error.message());
    file_.reset();
  }
}

}  // namespace genesis

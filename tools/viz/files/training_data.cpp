#include "tools/viz/files/training_data.h"

#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <limits>

#include "schema/core/error.h"
#include "schema/file/io/file_ending.h"

namespace genesis::viz {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr size_t kMaxColumns = 100;  // more are not metrics

struct FileState {
  uint64_t inode = 0, bytes = 0;
};

FileState state_of(const std::filesystem::path& file) {
  struct stat info {};
  if (::stat(file.c_str(), &info) != 0) return {};
  return {info.st_ino, static_cast<uint64_t>(info.st_size)};
}

// "run" for run/metrics.jsonl, else the file's own name.
std::string name_of_run(const std::filesystem::path& file) {
  const std::string folder = std::filesystem::absolute(file).parent_path().filename().string();
  return file.filename() == "metrics.jsonl" && !folder.empty() ? folder : file.filename().string();
}

bool is_metrics(const std::filesystem::directory_entry& entry) {
  return entry.is_regular_file() && is_json_lines(entry.path());
}

}  // namespace

// A training that goes on after a checkpoint writes a new file without the rows that it will write again.
void MetricsTail::update() {
  const FileState state = state_of(file_);
  if (state.inode != inode_ || state.bytes < read_) start_over();
  inode_ = state.inode;
  std::ifstream in(file_);
  if (!in) fail("cannot read the metrics in {}", file_.string());
  in.seekg(static_cast<std::streamoff>(read_));
  for (std::string line; std::getline(in, line);) {
    if (in.eof() && !Json::accept(line)) break;  // still being written
    read_ += line.size() + (in.eof() ? 0 : 1);
    add_line(line);
  }
}

void MetricsTail::start_over() {
  read_ = rows_ = skipped_ = 0;
  columns_.clear();
  places_.clear();
}

MetricsTail::Column& MetricsTail::column(const std::string& name) {
  const auto [at, is_new] = places_.try_emplace(name, columns_.size());
  if (is_new) columns_.push_back({name, std::vector<double>(rows_, kNone)});
  return columns_[at->second];
}

void MetricsTail::add_line(const std::string& line) {
  if (line.find_first_not_of(" \t\r") == std::string::npos) return;
  const Json row = Json::parse(line, nullptr, false);
  if (!row.is_object()) return void(++skipped_);
  for (const auto& [name, value] : row.items()) {
    if (!value.is_number() && !value.is_null()) continue;
    if (columns_.size() >= kMaxColumns && !places_.contains(name)) continue;
    Column& there = column(name);
    there.values.resize(rows_ + 1, kNone);
    there.values[rows_] = value.is_number() ? value.get<double>() : kNone;
  }
  ++rows_;
  for (Column& each : columns_) each.values.resize(rows_, kNone);
}

Json MetricsTail::row(size_t i) const {
  Json json = Json::object();
  for (const Column& each : columns_) json[each.name] = finite(each.values[i]);
  return json;
}

Json MetricsTail::run_data() const {
  Json json{{"name", name_of_run(file_)}, {"file", file_.string()}, {"columns", Json::array()}};
  for (const Column& each : columns_)
    json["columns"].push_back({{"name", each.name}, {"values", finite(each.values)}});
  json["rows"] = rows_;
  json["skipped_lines"] = skipped_;
  return json;
}

std::vector<std::filesystem::path> metrics_files(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) {
    if (state_of(path).inode == 0)
      fail("cannot read the metrics in {}: there is no such file", path.string());
    return {path};
  }
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    if (is_metrics(entry)) files.push_back(entry.path());
    if (entry.is_directory() && std::filesystem::is_regular_file(entry.path() / "metrics.jsonl", error))
      files.push_back(entry.path() / "metrics.jsonl");
  }
  if (files.empty())
    fail("{} has no metrics: `genesis-run train --metrics {}` writes them", path.string(),
         (path / "metrics.jsonl").string());
  std::ranges::sort(files);
  return files;
}

}  // namespace genesis::viz

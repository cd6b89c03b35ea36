#include "tools/viz/files/training_data.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>

#include "schema/core/error.h"
#include "schema/file/io/descriptor.h"
#include "schema/file/io/file_ending.h"
#include "schema/file/json_text.h"
#include "schema/messages/human_bytes.h"
#include "schema/messages/shell_word.h"

namespace genesis::viz {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr size_t kMaxColumns = 100;  // a row with more columns is not metrics
constexpr int64_t kMaxLoads = 480;   // rows whose loads of experts are kept

constexpr size_t kMarkBytes = 256;
constexpr size_t kLongestLine = 64 << 20;

// Opens the file if it is regular: opening a pipe would wait for a writer that may never come.
Descriptor open_metrics(const std::filesystem::path& file) {
  Descriptor descriptor{::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  struct stat info {};
  if (descriptor.fd < 0 || ::fstat(descriptor.fd, &info) != 0)
    fail("cannot read the metrics in {}: {}", file.string(),
         errno == ENOENT ? "there is no such file" : std::strerror(errno));
  if (!S_ISREG(info.st_mode)) fail("cannot read the metrics in {}: it is not a regular file", file.string());
  return descriptor;
}

// Reads up to `bytes` bytes from `offset`; fewer at the end of the file.
std::string read_piece(const Descriptor& file, uint64_t offset, size_t bytes) {
  std::string piece(bytes, '\0');
  size_t held = 0;
  while (held < bytes) {
    const ssize_t more =
        ::pread(file.fd, piece.data() + held, bytes - held, static_cast<off_t>(offset + held));
    if (more < 0 && errno == EINTR) continue;
    if (more <= 0) break;
    held += static_cast<size_t>(more);
  }
  piece.resize(held);
  return piece;
}

// Returns "run" for run/metrics.jsonl, and the file's own name for others.
std::string name_of_run(const std::filesystem::path& file) {
  const std::string folder = std::filesystem::absolute(file).parent_path().filename().string();
  return file.filename() == "metrics.jsonl" && !folder.empty() ? folder : file.filename().string();
}

// Returns null for a line that is not JSON.
Json row_in(const std::string& line) try { return parse_ordered_json_text(line); } catch (const Error&) {
  return nullptr;
}

bool is_metrics(const std::filesystem::directory_entry& entry) {
  return entry.is_regular_file() && is_json_lines(entry.path());
}

}  // namespace

// Reads new lines. A restarted training may write a new file, or write this one again from its beginning. Comparing
// the first and last bytes read so far finds this even if the new file is longer.
void MetricsTail::update() {
  const Descriptor file = open_metrics(file_);
  if (read_piece(file, 0, head_.size()) != head_ ||
      read_piece(file, read_ - tail_.size(), tail_.size()) != tail_)
    start_over();
  constexpr size_t kPiece = 1 << 20;
  std::string text;  // the file's content from read_ on
  for (bool is_end = false; !is_end;) {
    const std::string piece = read_piece(file, read_ + text.size(), kPiece);
    is_end = piece.size() < kPiece;
    text += piece;
    if (text.size() > kLongestLine)
      fail("{} has a line of more than {}: these are no metrics", file_.string(), human_bytes(kLongestLine));
    add_lines(text, is_end);
  }
  head_ = read_piece(file, 0, std::min<uint64_t>(read_, kMarkBytes));
  const uint64_t last = std::min<uint64_t>(read_, kMarkBytes);
  tail_ = read_piece(file, read_ - last, last);
}

// Moves complete lines from `text` to the rows. The last line of the file needs no line feed if it is complete JSON.
void MetricsTail::add_lines(std::string& text, bool is_end) {
  size_t begin = 0;
  for (size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1)
    add_line(text.substr(begin, end - begin));
  const std::string rest = text.substr(begin);
  if (is_end && !rest.empty() && !try_parse_json_text(rest).is_discarded()) {
    add_line(rest);
    begin = text.size();
  }
  read_ += begin;
  text.erase(0, begin);
}

void MetricsTail::start_over() {
  if (read_ > 0) ++generation_;
  read_ = rows_ = skipped_ = 0;
  head_.clear();
  tail_.clear();
  columns_.clear();
  places_.clear();
  loads_.clear();
}

// Drops rows from this step on. A step not greater than the last one was computed again, by a training that continued
// from a checkpoint or started again, so its new rows replace the old ones.
void MetricsTail::drop_rows_from(double step) {
  const auto known = places_.find("step");
  if (known == places_.end() || rows_ == 0) return;
  const std::vector<double>& steps = columns_[known->second].values;
  if (!(steps[rows_ - 1] > step)) return;
  while (rows_ > 0 && !(steps[rows_ - 1] < step)) --rows_;
  for (Column& each : columns_) each.values.resize(rows_);
  if (!loads_.empty()) loads_.resize(rows_);
  ++generation_;
}

MetricsTail::Column& MetricsTail::column(const std::string& name) {
  const auto [at, is_new] = places_.try_emplace(name, columns_.size());
  if (is_new) columns_.push_back({name, std::vector<double>(rows_, kNone)});
  return columns_[at->second];
}

void MetricsTail::add_line(const std::string& line) {
  if (line.find_first_not_of(" \t\r") == std::string::npos) return;
  const Json row = row_in(line);
  if (!row.is_object()) return void(++skipped_);
  if (const auto step = row.find("step"); step != row.end() && step->is_number())
    drop_rows_from(step->get<double>());
  for (const auto& [name, value] : row.items()) {
    if (!value.is_number() && !value.is_null()) continue;
    if (columns_.size() >= kMaxColumns && !places_.contains(name)) continue;
    Column& there = column(name);
    there.values.resize(rows_ + 1, kNone);
    there.values[rows_] = value.is_number() ? value.get<double>() : kNone;
  }
  add_loads(row);
  ++rows_;
  for (Column& each : columns_) each.values.resize(rows_, kNone);
}

// Takes the loads of experts, a list of numbers for each layer.
void MetricsTail::add_loads(const Json& row) {
  const auto loads = row.find("expert_load");
  const auto are_numbers = [](const Json& layer) {
    return layer.is_array() && std::ranges::all_of(layer, [](const Json& load) { return load.is_number(); });
  };
  const bool has_loads =
      loads != row.end() && loads->is_array() && !loads->empty() && std::ranges::all_of(*loads, are_numbers);
  if (!has_loads && loads_.empty()) return;
  loads_.resize(rows_);
  loads_.push_back(has_loads ? *loads : Json());
  if (has_loads && ++kept_loads_ > kMaxLoads) thin_loads();
}

// A long run keeps the loads of every second row that has some.
void MetricsTail::thin_loads() {
  kept_loads_ = 0;
  bool stays = false;
  for (Json& one : loads_) {
    if (one.is_null()) continue;
    stays = !stays;
    if (stays)
      ++kept_loads_;
    else
      one = nullptr;
  }
}

Json MetricsTail::row(size_t i) const {
  Json json = Json::object();
  for (const Column& each : columns_) json[each.name] = finite(each.values[i]);
  if (!loads_.empty()) json["expert_load"] = loads_[i];
  return json;
}

Json MetricsTail::run_data() const {
  Json json{{"name", name_of_run(file_)}, {"file", file_.string()}, {"columns", Json::array()}};
  for (const Column& each : columns_)
    json["columns"].push_back({{"name", each.name}, {"values", finite(each.values)}});
  if (!loads_.empty()) json["expert_load"] = loads_;
  json["rows"] = rows_;
  json["skipped_lines"] = skipped_;
  json["generation"] = generation_;
  return json;
}

std::vector<std::filesystem::path> metrics_files(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) {
    static_cast<void>(open_metrics(path));
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
         shell_word((path / "metrics.jsonl").string()));
  std::ranges::sort(files);
  return files;
}

}  // namespace genesis::viz

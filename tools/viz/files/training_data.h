// Reads training runs for a page: rows of metrics.jsonl files as columns, `TrainingRun` of tools/viz/page/data.d.ts.
// Reading continues from the last position, so that a run can be watched.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tools/viz/data/columns.h"

namespace genesis::viz {

// Follows a metrics.jsonl that may grow, start again or be cut short.
class MetricsTail {
 public:
  explicit MetricsTail(std::filesystem::path file) : file_(std::move(file)) {}

  // Reads complete new lines. Throws Error if the file cannot be read or is not a regular file.
  void update();

  const std::filesystem::path& file() const { return file_; }
  size_t rows() const { return rows_; }
  // Returns a number that grows when new rows replace old ones: the run was started again, or continued from a
  // checkpoint.
  size_t generation() const { return generation_; }
  // Returns the numbers of row `i` by name; null for one that is not finite.
  Json row(size_t i) const;
  Json run_data() const;

 private:
  struct Column {
    std::string name;
    std::vector<double> values;  // NaN: no number
  };
  void add_lines(std::string& text, bool is_end);
  void add_line(const std::string& line);
  void drop_rows_from(double step);
  Column& column(const std::string& name);
  void add_loads(const Json& row);
  void thin_loads();
  void start_over();

  std::filesystem::path file_;
  uint64_t read_ = 0;        // bytes of the complete lines read so far
  std::string head_, tail_;  // the first and last of these bytes, which differ in another file
  size_t rows_ = 0, skipped_ = 0, generation_ = 0;
  std::vector<Column> columns_;
  std::map<std::string, size_t> places_;  // column index by name
  int64_t kept_loads_ = 0;                // since the last thinning, at least as many as there are
  std::vector<Json> loads_;  // loads of experts by row; null: the row has none; empty: no row has one
};

// Returns the metrics files of `path`: the file itself, or those of a folder and of the folders in it. Throws Error
// if there are none.
std::vector<std::filesystem::path> metrics_files(const std::filesystem::path& path);

}  // namespace genesis::viz

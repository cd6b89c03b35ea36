// Training runs as a page shows them: the rows of metrics.jsonl files as columns, `TrainingRun` of
// tools/viz/page/data.d.ts. A file is read on from where it ended, so that a run can be watched.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tools/viz/data/columns.h"

namespace genesis::viz {

// A metrics.jsonl that may grow, be started again or be cut short while it is read.
class MetricsTail {
 public:
  explicit MetricsTail(std::filesystem::path file) : file_(std::move(file)) {}

  // Reads whole lines that are new. Throws Error when the file cannot be read, or is no regular file.
  void update();

  const std::filesystem::path& file() const { return file_; }
  size_t rows() const { return rows_; }
  // Grows when rows that were there gave way to others: the run was started again, or went on from a checkpoint.
  size_t generation() const { return generation_; }
  // The numbers of row `i` by name; null: not finite.
  Json row(size_t i) const;
  Json run_data() const;

 private:
  struct Column {
    std::string name;
    std::vector<double> values;  // NaN: none
  };
  void add_lines(std::string& text, bool is_end);
  void add_line(const std::string& line);
  void drop_rows_from(double step);
  Column& column(const std::string& name);
  void start_over();

  std::filesystem::path file_;
  uint64_t read_ = 0;        // bytes of whole lines that were read
  std::string head_, tail_;  // the first and the last of them: another file has others
  size_t rows_ = 0, skipped_ = 0, generation_ = 0;
  std::vector<Column> columns_;
  std::map<std::string, size_t> places_;  // of columns
};

// The metrics files that `path` means: the file itself, or those of a folder and the folders in it. Throws Error when
// there are none.
std::vector<std::filesystem::path> metrics_files(const std::filesystem::path& path);

}  // namespace genesis::viz

// Writes the metrics of a run to files: one JSON object per line and step, and TensorBoard event files. Additional outputs of the
// training step appear under their names, those of an evaluation as evaluation_NAME.
#pragma once

#include <filesystem>
#include <fstream>
#include <memory>

#include "executor/training/event_file.h"
#include "executor/training/train_metrics.h"

namespace genesis {

// Throws Error if the file holds something else than metrics. A missing or empty file is accepted.
void check_holds_metrics(const std::filesystem::path& path);

class MetricsFile {
 public:
  // Keeps the rows of an existing file up to step `first`, from which training continues. Empty path: writes nothing. Throws
  // Error as check_holds_metrics() does, before anything is written.
  MetricsFile(const std::filesystem::path& path, int64_t first);
  // Writes and flushes a row, so that a killed run keeps its curve. If writing fails (e.g. a full disk), warns once and writes no
  // more: training goes on.
  void write(const TrainMetrics& m);

 private:
  std::filesystem::path path_;
  std::ofstream file_;
};

// Writes the losses, gradient norm, learning rate and speed of each step as TensorBoard scalars.
class TensorBoardFile {
 public:
  explicit TensorBoardFile(const std::filesystem::path& folder);  // empty: writes nothing
  // Warns and stops writing as MetricsFile does.
  void write(const TrainMetrics& m);

 private:
  std::unique_ptr<EventFile> file_;
};

}  // namespace genesis

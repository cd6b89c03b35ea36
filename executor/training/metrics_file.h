// The metrics of a run as files: a JSON object a line per step, and TensorBoard's event files. What the step gives beside its
// own numbers stands there by name, what an evaluation gives as evaluation_NAME. Used by the trainer.
#pragma once

#include <filesystem>
#include <fstream>
#include <memory>

#include "executor/training/event_file.h"
#include "executor/training/train_metrics.h"

namespace genesis {

// Throws Error for a file that holds something else than metrics. One that is not there, or is empty, may become metrics.
void check_holds_metrics(const std::filesystem::path& path);

class MetricsFile {
 public:
  // Keeps the rows of a file that is there up to step `first`, from which training goes on. Empty path: nothing. Throws Error
  // as check_holds_metrics does, before anything is written.
  MetricsFile(const std::filesystem::path& path, int64_t first);
  // Flushed, so that a killed run keeps its curve. Warns, once, where that cannot be, as when the disk is full, and writes no
  // more: the work is worth more than its curve.
  void write(const TrainMetrics& m);

 private:
  std::filesystem::path path_;
  std::ofstream file_;
};

// Losses, gradient norm, rate and speed of each step as scalars that TensorBoard shows.
class TensorBoardFile {
 public:
  explicit TensorBoardFile(const std::filesystem::path& folder);  // empty: nothing
  // Warns as a MetricsFile does.
  void write(const TrainMetrics& m);

 private:
  std::unique_ptr<EventFile> file_;
};

}  // namespace genesis

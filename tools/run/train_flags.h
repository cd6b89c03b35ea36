// The options of `genesis-run train`.
#pragma once

#include <string>

#include "models/jobs/train_job.h"
#include "tools/common/tool.h"

namespace genesis::tools {

struct TrainFlags {
  jobs::TrainJob job;
  std::string mesh;
  bool mfu = false;
  RunFlags run;
  Output out;

  void add_to(Command& command);
  // Throws UsageError for an option that does nothing in this run, since its user expects an effect.
  void check_useful(const Command& command, const Model& model) const;

 private:
  void add_data(Command& command);
  void add_text(Command& command);
  void add_keeping(Command& command);
  void add_training(Command& command);
  void add_evaluation(Command& command);
};

}  // namespace genesis::tools

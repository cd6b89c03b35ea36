// Loads the model of a training job: the file that it names, made ready for training, or the checkpoint that it resumes from.
#pragma once

#include <memory>
#include <string>

#include "executor/distributed/world.h"
#include "models/jobs/train_settings.h"

namespace genesis::jobs {

struct LoadedTraining {
  std::shared_ptr<Model> model;
  std::string file;  // the model file itself: for a folder, the checkpoint that the first rank finds there
  std::string
      digest;  // identifies the model, so that ranks can check that they have the same one; may be empty for one rank
};

// All ranks call it. Throws Error if the model cannot be trained, if its training cannot go on from the checkpoint, and if the
// folder has checkpoints while the job does not resume.
LoadedTraining load_training(const TrainJob& job, World& world);

// Returns the text of the training step; empty if the model has none.
std::string train_step_text(const Model& model);

}  // namespace genesis::jobs

// Writes the results of a training job besides checkpoints and metrics: the trained model, and its memory of the data.
#pragma once

#include <string>

#include "executor/distributed/world.h"
#include "executor/session.h"
#include "models/jobs/train_settings.h"

namespace genesis::jobs {

// Throws Error if the output or the metrics would replace a file with other content.
void check_output_files(const TrainJob& job);

// Warns of results that will be lost because nothing is kept, or that may not fit on the disk.
void warn_of_what_will_be_lost(const TrainJob& job, const Model& model);

// Writes the session's model. All ranks call it. If they cannot write files side by side, the first rank gathers the shards and
// writes.
void write_output(const std::string& file, Session& session, World& world);

// Returns a name that no other run has, the same on all ranks.
std::string name_of_run(World& world);

// Returns a digest of the number of batches and their content. Of large data it reads an evenly spread sample of 64 MiB.
std::string digest_of_data(BatchSource& data);
// Stores in the model which data it is trained on. Warns if the run before a resume had other data.
void remember_data(const TrainJob& job, const std::string& content, Model& model);

}  // namespace genesis::jobs

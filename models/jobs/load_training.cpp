#include "models/jobs/load_training.h"

#include "executor/training/checkpoint.h"
#include "models/data/conversation_files.h"
#include "models/jobs/training_checks.h"
#include "models/open_model.h"
#include "passes/training/expert_load.h"
#include "passes/training/train_options.h"
#include "passes/training/train_step.h"
#include "schema/file/format/hash.h"
#include "schema/graph/text.h"
#include "schema/messages/log.h"

namespace genesis::jobs {
namespace {

// Loads the file and, if the job asks for it, makes it ready for training.
std::shared_ptr<Model> load_prepared(const TrainJob& job, const std::string& file,
                                     const LoadOptions& options = {}) {
  std::shared_ptr<Model> model = load_model(file, options);
  // Reads the adapters here, so that an error in their description names the file.
  with_context([&] { passes::lora_of(*model); }, [&] { return file; });
  if (!job.begins_training()) return model;
  check_has_loss({*model, file}, "loss");
  if (model->find_entry("train_step")) model = to_train_anew(*model);
  if (job.lora.rank > 0) passes::add_lora(*model, job.lora);
  const bool packs = model->find_entry("loss_packed") && !data::conversation_files(job.data).empty();
  const passes::TrainOptions standard{.entry = packs ? "loss_packed" : "loss"};
  check_quantized_training(*model);
  if (job.expert_load) passes::add_expert_load(*model, standard.entry);
  passes::add_training(*model, passes::parse_train_options(job.optimizer, standard));
  return model;
}

// Loads a checkpoint with its own graph. The first rank has verified it. The hash of its graph section, which
// contains the hashes of all its values, shows if another rank sees the same checkpoint.
LoadedTraining resume(const TrainJob& job, const std::string& file, const std::string& checkpoint) {
  LoadedTraining loaded{load_model(checkpoint), file, inspect_file(checkpoint).hash};
  const auto named = load_prepared(job, file);
  check_goes_on({*loaded.model, checkpoint}, {*named, file});
  if (train_step_text(*loaded.model) != train_step_text(*named))
    log_warning(
        "the checkpoint {} was made with other training options than {}: going on with those of the "
        "checkpoint",
        checkpoint, file);
  return loaded;
}

// Returns on all ranks the checkpoint that the first rank has found; empty: there is none.
std::string checkpoint_to_resume(const TrainJob& job, World& world) {
  std::optional<Checkpoint> found;
  if (world.is_first()) found = find_checkpoint(job.checkpoint);
  return world.said_by_first(found ? found->path.string() : "");
}

// Returns a digest of the initial values of all states.
std::string digest_of_states(const Model& model) {
  file::Hasher hasher;
  for (const State& state : model.states()) {
    if (!state.initial.empty_handle())
      hasher.update({state.initial.data(), static_cast<size_t>(state.initial.bytes())});
    for (const Tensor& part : state.encoded.parts)
      hasher.update({part.data(), static_cast<size_t>(part.bytes())});
  }
  return hasher.digest().to_string();
}

}  // namespace

std::string train_step_text(const Model& model) {
  const Graph* entry = model.find_entry("train_step");
  return entry ? to_text(*entry) : "";
}

LoadedTraining load_training(const TrainJob& job, World& world) {
  if (!job.resume && !job.checkpoint.empty() && has_checkpoints(job.checkpoint))
    fail("{} holds checkpoints already: go on from them with --resume, or name another folder",
         job.checkpoint);
  const std::string file = models::model_file(job.model, world);
  if (job.resume)
    if (const std::string checkpoint = checkpoint_to_resume(job, world); !checkpoint.empty())
      return resume(job, file, checkpoint);
  if (world.is_first() && file != job.model)
    log_info(
        "{}: {} its newest checkpoint, {}", job.model,
        job.begins_training() ? "another training begins with the weights of" : "the training goes on from",
        file);
  LoadedTraining loaded{load_prepared(job, file, {.verify = Verify::kFull}), file,
                        ""};  // every weight is read anyway
  if (world.size() > 1) loaded.digest = digest_of_states(*loaded.model);
  return loaded;
}

}  // namespace genesis::jobs

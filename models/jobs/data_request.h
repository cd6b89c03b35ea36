// The request for data of a training, and what it gives: shared by the readers of text (train_data.h) and pictures (image_data.h).
#pragma once

#include <map>
#include <memory>
#include <string>

#include "executor/training/batch_source.h"
#include "schema/messages/progress.h"

namespace genesis::jobs {

// Settings of text. Messages name them as the flags of `genesis-run train`.
struct TextSettings {
  double holdout = 0;            // share of the documents that is not trained on, at least 0 and less than 1
  bool skip_bad = false;         // leave out lines of .jsonl files that hold no text, with a warning
  std::string token_cache = {};  // folder where text is kept as tokens; empty: ~/.cache/genesis/tokens

  // Returns the settings that decide which documents are trained on, as flags; empty if none are held out.
  std::string order() const;
};

struct TrainData {
  std::unique_ptr<BatchSource> training;
  std::unique_ptr<BatchSource> held_out = {};        // not shuffled; null if nothing is held out
  std::map<std::string, std::string> metadata = {};  // for the model that is trained: how it reads such data
};

// The settings of opening the data, beside the settings of the batches.
struct DataRequest {
  std::string file;                  // name of the model's file, for messages
  std::string entry = "train_step";  // batches have the inputs of this entry point
  TextSettings text = {};
  std::string image = {};    // preparation of pictures (images::parse_image_settings)
  bool quiet = false;        // log no counts of tokens and samples, only warnings
  OnProgress progress = {};  // called while text is tokenized
};

}  // namespace genesis::jobs

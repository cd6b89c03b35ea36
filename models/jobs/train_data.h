// Opens the data of a training: text (as tokens of the model's tokenizer, or as bytes without one), conversations (formatted by
// the model's chat template), pictures in folders of classes (image_data.h), and arrays.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "models/data/sources.h"
#include "schema/graph/model.h"
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
  std::string image = {};    // how pictures are prepared (images::parse_image_settings)
  bool quiet = false;        // log no counts of tokens and samples, only warnings
  OnProgress progress = {};  // called while text is tokenized
};

// Warns if texts have more `tokens` than the model was made for, as far as the model says so.
void warn_of_positions(const Model& model, int64_t tokens);

// Opens the data. `names` are files, NAME=FILE.npy, folders of text or conversations, or one folder of pictures. Throws SettingError for settings of text
// that do nothing with such data, and Error for data that cannot be read, or has tokens that the model has no rows for.
TrainData open_train_data(const std::vector<std::string>& names, const Model& model,
                          const data::SourceOptions& options, const DataRequest& request);

}  // namespace genesis::jobs

// Opens the data of `genesis-run train`: text (as tokens of the model's tokenizer, or as bytes without one),
// conversations (formatted by the model's chat template), and arrays.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "models/data/sources.h"
#include "schema/graph/model.h"
#include "tools/common/command.h"

namespace genesis::tools {

struct TextFlags {
  double held_out = 0;  // share of the documents
  bool skip_bad = false;
  std::string token_cache;

  void add_to(Command& command);
  // Returns the flag that decides which documents are held out; empty if none are.
  std::string data_order() const;
};

struct TrainData {
  std::unique_ptr<BatchSource> training;
  std::unique_ptr<BatchSource> held_out;  // not shuffled; null if nothing is held out
};

// Warns if texts have more `tokens` than the model was made for, as far as the model says so.
void warn_of_positions(const Model& model, int64_t tokens);

// Opens the data. `names` are files, NAME=FILE.npy, or folders of text or conversations. Batches have the inputs of
// the entry point `entry`. `file`: the model's name, for messages. Throws UsageError for flags that do nothing with
// such data.
TrainData open_train_data(const std::vector<std::string>& names, const Model& model, const std::string& file,
                          const std::string& entry, const data::SourceOptions& options,
                          const TextFlags& flags, bool quiet);

}  // namespace genesis::tools

// What `genesis-run train` reads its batches from: text as the tokens of the tokenizer that the model brings, or as bytes
// where it brings none, conversations by its chat template, and arrays.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "models/data/conversations.h"
#include "models/data/sources.h"
#include "schema/graph/model.h"
#include "tools/common/command.h"

namespace genesis::tools {

struct TextFlags {
  double held_out = 0;  // share of the documents
  bool skip_bad = false;
  std::string token_cache;

  void add_to(Command& command);
  // "" where nothing is held out; else what decides which documents are, as a flag.
  std::string data_order() const;
};

struct TrainData {
  std::unique_ptr<BatchSource> training;
  std::unique_ptr<BatchSource> held_out;  // null where nothing is held out; in its own order
};

// The files that `names` (files and folders) are, where some of their lines are conversations: {"messages": [...]}; empty where
// none is; between them lines may be {"text": ...}. Of a folder with conversations they are the .jsonl files; those with nothing in them are left out. Throws Error
// where only some are, and for a .json of conversations.
std::vector<std::string> conversation_files(const std::vector<std::string>& names);

// Of texts of so many tokens, where the model says that it was made for shorter ones.
void warn_of_positions(const Model& model, int64_t tokens);

// Lines that were left out; `where`, such as "byte 3 of 'a.txt'": what is no UTF-8.
void warn_of_skipped(const data::Conversations& read);
void warn_of_repaired(const std::string& where);

// `names` are files, NAME=FILE.npy, or folders of text or of conversations. Throws UsageError for flags that do nothing with such data.
// Batches are what the entry point `entry` takes. `file`: the model's, for messages about what it brings.
TrainData open_train_data(const std::vector<std::string>& names, const Model& model, const std::string& file,
                          const std::string& entry, const data::SourceOptions& options,
                          const TextFlags& flags, bool quiet);

}  // namespace genesis::tools

// Batch sources over files. All shuffle by seed, in a new order every epoch, and return the same batch for the same position. The
// last samples of an epoch that do not fill a batch are dropped, or come in a batch that is padded with rows that do not count.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "executor/training/batch_source.h"
#include "models/data/token_shards.h"

namespace genesis::data {

struct SourceOptions {
  int64_t batch_size = 8;
  int64_t sequence_length = 256;  // text only
  uint64_t seed = 0;
  bool shuffle = true;
  // For text: one epoch covers the whole text, as an evaluation needs it. The last row and the last batch are padded with ignored
  // targets, so that every target counts once, whatever the batch size. Arrays ignore this.
  bool fill_last = false;
  // Dtypes of numeric fields of JSON lines, by name. Other fields are i64, or f32 if one of their numbers is not an integer.
  std::map<std::string, DType> dtypes = {};
};

// Serves bytes as tokens: inputs `tokens` and `targets` (the next byte), i64[batch, sequence_length], from windows that do not
// overlap. Throws Error if the text is shorter than one batch.
std::unique_ptr<BatchSource> text_source(std::string text, const SourceOptions& options);

// Serves the tokens of a corpus: the same inputs, from non-overlapping rows of mapped shards. Only the rows of a batch are
// loaded. Throws Error if there are fewer tokens than one batch takes.
std::unique_ptr<BatchSource> token_source(TokenStream tokens, const SourceOptions& options);

// Serves rows of arrays with equal leading dimensions: input name -> tensor.
std::unique_ptr<BatchSource> array_source(NamedTensors arrays, const SourceOptions& options);

// Chooses the reader by file name: .jsonl is text from the field "text" (or numbers from the other fields), .npy is an array
// (written name=FILE.npy), .safetensors holds named arrays, .txt and any other file is text.
std::unique_ptr<BatchSource> open_source(const std::vector<std::string>& files, const SourceOptions& options);

std::string read_file(const std::filesystem::path& path);  // throws Error naming the path and the reason
// The same, and throws Error if the file is not text (corpus::check_is_text).
std::string read_text(const std::filesystem::path& path);

}  // namespace genesis::data

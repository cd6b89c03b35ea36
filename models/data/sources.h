// Batch sources over files. All shuffle by seed, a new order every epoch, and give the same batch for the
// same position. The last samples of an epoch that do not fill a batch are left out, or come in a batch that is filled up with
// what does not count.
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
  // Of text: whether once through it is all of it, for an evaluation, where every target counts alike whatever the batch is:
  // what is missing in the last row and in the last batch is filled up with targets that are ignored. Arrays name no targets.
  bool fill_last = false;
  // What numbers in JSON lines become, by field; fields not named here are i64, or f32 when one of their
  // numbers is not whole.
  std::map<std::string, DType> dtypes = {};
};

// Bytes as tokens: inputs `tokens` and `targets` (the next byte), i64[batch, sequence_length], from windows
// that do not overlap. Throws Error when the text is shorter than one batch.
std::unique_ptr<BatchSource> text_source(std::string text, const SourceOptions& options);

// Tokens of a corpus: the same inputs, from rows of mapped shards that do not overlap. Nothing is loaded but the rows of a
// batch. Throws Error when there are fewer tokens than one batch takes.
std::unique_ptr<BatchSource> token_source(TokenStream tokens, const SourceOptions& options);

// Rows of arrays with one leading size: input name -> tensor.
std::unique_ptr<BatchSource> array_source(NamedTensors arrays, const SourceOptions& options);

// Reads what the file names say: .txt and anything unknown is text, .jsonl text from the field "text" (or
// numbers from the other fields), .npy an array (written name=FILE.npy), .safetensors named arrays.
std::unique_ptr<BatchSource> open_source(const std::vector<std::string>& files, const SourceOptions& options);

std::string read_file(const std::filesystem::path& path);  // throws Error naming the path and the reason
// And for what is no text (corpus::check_is_text).
std::string read_text(const std::filesystem::path& path);

}  // namespace genesis::data

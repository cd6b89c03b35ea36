// Many prompts, and the texts to generate for them.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "models/text/text_model.h"

namespace genesis::text {

struct Prompt {
  std::string text;                                 // if the prompt is given as tokens, the text of these
  std::string place = {};                           // " of FILE, line N"; empty for a prompt without a file
  std::optional<std::vector<int64_t>> tokens = {};  // a prompt that is given as tokens
};

// Returns prompts one by one, in this order: texts, files, lists of tokens, lines. A file of lines is kept as it was read, and a line
// becomes a prompt only when its turn comes, so many prompts take no more memory than their file. Lines are JSON,
// except in a .txt file, whose lines are the prompts themselves. Empty lines are skipped.
class Prompts {
 public:
  // Reads the files; `lines` may be empty. Throws Error if one cannot be read.
  Prompts(const std::vector<std::string>& texts, const std::vector<std::string>& files,
          const std::string& lines, const std::vector<std::vector<int64_t>>& tokens = {});
  // Reads what to_json() returned, for ranks that have no stdin of their own.
  explicit Prompts(const nlohmann::json& json);
  nlohmann::json to_json() const;

  // Returns the next prompt, or nothing at the end. Throws Error naming the file and the line if a line is neither a
  // JSON string nor a list of tokens, nor an object with one of these as "prompt".
  std::optional<Prompt> next();
  void rewind();  // returns to the first prompt
  const std::string& lines_path() const { return path_; }

 private:
  std::optional<std::string> next_line();

  std::vector<Prompt> whole_;
  std::string path_, lines_;
  size_t whole_taken_ = 0, at_ = 0, line_ = 0;  // at_: offset in lines_; line_: number of lines read
};

// A text to generate.
struct Sample {
  Prompt prompt;
  size_t index;    // number of the prompt
  int64_t number;  // number of this text among those of the prompt
  Request request;
};

struct SampleOptions {
  GenerateOptions generate = {};
  int64_t samples = 1;    // texts per prompt: the n-th, from 0, draws with the seed + n, as it would alone
  bool truncate = false;  // read only the last tokens of a prompt that is longer than the context
  std::function<void(int64_t tokens, int64_t read)> on_truncated = {};  // called for each of these prompts
};

// Iterates over the texts to generate; all samples of a prompt come together. A prompt is encoded when its turn comes.
class Samples {
 public:
  // Goes through all prompts once, to find the cache size and to report mistakes before the work. Throws Error if there are
  // none. The model must outlive this object.
  Samples(const TextModel& model, Prompts prompts, SampleOptions options);

  std::optional<Sample> next();
  int64_t count() const { return count_; }
  // Returns the number of cache positions that the longest of the prompts takes with its answer.
  int64_t positions() const;
  // Gives the model a cache of `rows` texts, or as many as there are, no longer than the prompts and their answers need. Throws
  // Error as TextModel::set_cache() does.
  void fit_cache(TextModel& model, int64_t rows) const;
  // Generates all texts, as many at a time as the cache has rows, and passes each as it ends, with its number.
  void generate_each(
      Generator& generator,
      const std::function<void(size_t number, const Sample&, const GenerateResult&)>& on_result);
  // Returns the first sample for which no text can be generated; empty if there is none.
  const std::optional<Sample>& unfit() const { return unfit_; }

 private:
  bool next_prompt();
  void survey();
  std::vector<int64_t> truncated(std::vector<int64_t> tokens) const;

  const TextModel& model_;
  const int64_t context_;
  Prompts prompts_;
  const SampleOptions options_;
  // The current prompt.
  Prompt prompt_;
  std::vector<int64_t> tokens_;
  int64_t read_ = 0;  // tokens before the prompt was truncated
  size_t index_ = 0;  // number of the next prompt
  int64_t number_;    // number of the next sample of this prompt
  int64_t count_ = 0, longest_ = 1;
  std::optional<Sample> unfit_;
};

}  // namespace genesis::text

// Prints the answers of many prompts as lines of JSON, and their totals.
#pragma once

#include <map>
#include <string>

#include "models/text/prompts.h"
#include "tools/text/answer_json.h"

namespace genesis::tools {

// Prints answers as they end or in the order of the prompts. An answer is freed once written. Answers that still wait for an
// earlier one are written in the destructor, also after an error.
class AnswerLines {
 public:
  // `numbered`: each line has the number of its text among those of the prompt.
  AnswerLines(bool numbered, bool unordered) : numbered_(numbered), unordered_(unordered) {}
  ~AnswerLines();
  AnswerLines(const AnswerLines&) = delete;
  AnswerLines& operator=(const AnswerLines&) = delete;

  void add(size_t number, const text::Sample& sample, const text::GenerateResult& result);
  // Prints to stderr how many tokens were read and written in so many seconds.
  void print_totals(double seconds) const;

 private:
  const bool numbered_, unordered_;
  std::map<size_t, std::string> waiting_;  // by number of the text
  size_t next_ = 0;                        // number of the next text to write
  int64_t texts_ = 0, read_ = 0, written_ = 0;
  int64_t steps_ = 0, drafted_ = 0, accepted_ = 0;
  double compile_seconds_ = 0;
};

}  // namespace genesis::tools

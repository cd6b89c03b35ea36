#include "tools/text/answer_lines.h"

#include <iostream>

#include "tools/common/tool.h"

namespace genesis::tools {

AnswerLines::~AnswerLines() {
  for (const auto& [number, line] : waiting_) std::cout << line << std::flush;
}

void AnswerLines::add(size_t number, const text::Sample& sample, const text::GenerateResult& result) {
  nlohmann::ordered_json json = answer_json(sample.prompt, result);
  if (numbered_) json["sample"] = sample.number;
  if (unordered_) json["index"] = sample.index;
  waiting_[number] = json_text(json) + "\n";
  if (unordered_) next_ = number;
  for (auto line = waiting_.begin(); line != waiting_.end() && line->first == next_; ++next_) {
    std::cout << line->second << std::flush;
    line = waiting_.erase(line);
  }
  ++texts_, read_ += result.prefilled, written_ += std::ssize(result.tokens);
  steps_ += result.steps, drafted_ += result.drafted, accepted_ += result.accepted;
  compile_seconds_ += result.compile_seconds;
}

void AnswerLines::print_totals(double seconds) const {
  seconds -= compile_seconds_;
  std::cerr << fmt::format(
      "compile {:.2f} s\n{} texts: {} tokens read and {} written in {:.3f} s, {:.1f} tok/s{}\n",
      compile_seconds_, texts_, read_, written_, seconds, per_second(written_, seconds),
      drafts_text(written_, steps_, drafted_, accepted_));
}

}  // namespace genesis::tools

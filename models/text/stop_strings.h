// Ends a text before the first of some strings, wherever the pieces that it comes in are cut. Used by
// models/text/answer.h.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace genesis::text {

class StopStrings {
 public:
  explicit StopStrings(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  // The text that is sure to stay by now: all that was added but what may be the beginning of a stop string; once
  // one is there, what stands before it. Not to be called after that.
  std::string add(std::string_view text);
  // What was held back, when no more text comes.
  std::string finish();
  // The stop string that the text ended at; empty: none so far.
  const std::string& found() const { return found_; }

 private:
  size_t may_begin_at() const;

  std::vector<std::string> stops_;
  std::string held_, found_;
};

}  // namespace genesis::text

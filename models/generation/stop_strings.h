// Ends a text before the first stop string, even if it spans several chunks of the text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace genesis::text {

class StopStrings {
 public:
  explicit StopStrings(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  // Appends a chunk. Returns the text that has become final: all text so far except a possible beginning of a stop string, or,
  // once one is complete, the text before it. Must not be called after that.
  std::string add(std::string_view text);
  // Returns the text that was held back. Called when no more text comes.
  std::string finish();
  // Returns the stop string that ended the text; empty if there was none so far.
  const std::string& found() const { return found_; }

 private:
  size_t may_begin_at() const;

  std::vector<std::string> stops_;
  std::string held_, found_;
};

}  // namespace genesis::text

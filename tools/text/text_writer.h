// Writes text of a model to stdout as it comes. A model may write anything, including commands of a terminal, which
// are replaced there. A file or a pipe gets every byte unchanged.
#pragma once

#include <string>
#include <string_view>

namespace genesis::tools {

class TextWriter {
 public:
  TextWriter();
  ~TextWriter();
  TextWriter(const TextWriter&) = delete;
  TextWriter& operator=(const TextWriter&) = delete;

  void write(std::string_view bytes);

 private:
  const bool terminal_;
  std::string waiting_;  // bytes of an incomplete character
};

}  // namespace genesis::tools

// Text of a model on stdout, as it comes. What a model writes may be anything, a terminal's commands too; a file or a
// pipe gets every byte as it is. Used by `genesis-run generate` and `chat`.
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
  std::string waiting_;  // for the rest of a character
};

}  // namespace genesis::tools

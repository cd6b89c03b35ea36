#include "tools/text/text_writer.h"

#include <iostream>

#include "schema/file/format/utf8.h"
#include "tools/common/printable.h"

namespace genesis::tools {

TextWriter::TextWriter() : terminal_(writes_to_terminal()) {}
TextWriter::~TextWriter() { std::cout << printable_lines(waiting_) << std::flush; }

void TextWriter::write(std::string_view bytes) {
  if (!terminal_) {
    std::cout << bytes << std::flush;
    return;
  }
  waiting_ += bytes;
  const size_t whole = utf8::whole_characters(waiting_);
  std::cout << printable_lines(std::string_view(waiting_).substr(0, whole)) << std::flush;
  waiting_.erase(0, whole);
}

}  // namespace genesis::tools

// Stands in for line_editor.cpp in a build without libedit.
#include "schema/core/error.h"
#include "tools/chat/line_editor.h"

namespace genesis::tools {

bool has_line_editor() { return false; }

std::unique_ptr<LineReader> make_line_editor(const std::filesystem::path& /*history*/) {
  fail("this build has no line editor: it was made without libedit");
}

}  // namespace genesis::tools

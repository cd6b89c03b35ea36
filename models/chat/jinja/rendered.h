// The result of rendering a template.
#pragma once

#include <string>
#include <vector>

namespace genesis::jinja {

struct Span {
  size_t begin, end;  // byte range
};

struct Rendered {
  std::string text;
  std::vector<Span> generations;  // texts marked with {% generation %} (the assistant's words), in order
  bool lost_generation =
      false;  // a mark was inside of a macro or a {% set %} block, so that its position is unknown
};

}  // namespace genesis::jinja

// What a template renders to.
#pragma once

#include <string>
#include <vector>

namespace genesis::jinja {

struct Span {
  size_t begin, end;  // bytes
};

struct Rendered {
  std::string text;
  std::vector<Span> generations;  // what {% generation %} marks: what the assistant says, in order
  bool lost_generation =
      false;  // one stood inside of a macro or a block that is set, so that its place is not known
};

}  // namespace genesis::jinja

// A strict interpreter of the part of Jinja (a template language) that chat templates use. It renders what Jinja 3.1 renders with
// the settings of transformers; any unsupported feature is an Error with its line.
//
// It does not support templates that include or extend others, integers beyond 64 bits, and the filters pprint, random,
// striptags, urlize, wordwrap and xmlattr. Lists and mappings are immutable, as in transformers. Templates are not trusted: see
// budget.h.
#pragma once

#include <ctime>
#include <memory>
#include <string_view>

#include "models/chat/jinja/rendered.h"
#include "models/chat/jinja/values/budget.h"
#include "models/chat/jinja/values/value.h"

namespace genesis::jinja {

// A compiled template. It is immutable, so that threads may share one; copies share its data.
class Template {
 public:
  // Throws Error with the line of a syntax error or of an unsupported feature.
  static Template parse(std::string_view source);
  // Renders the template. `variables` are the names that it sees; `now` is the time that strftime_now writes, in local time.
  Rendered render(const Dict& variables, std::time_t now = std::time(nullptr),
                  const Limits& limits = {}) const;

 private:
  struct Impl;
  explicit Template(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

  std::shared_ptr<const Impl> impl_;
};

}  // namespace genesis::jinja

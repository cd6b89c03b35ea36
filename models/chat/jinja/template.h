// Chat templates are written in Jinja, a language of its own. This is a strict interpreter of what they use of it: what it
// renders is what Jinja (3.1) renders with the settings of transformers, and anything beyond is one Error that says where.
//
// It lacks templates that include or extend others, integers beyond 64 bits, and the filters pprint, random, striptags, urlize,
// wordwrap and xmlattr. Lists and mappings cannot be changed, as in transformers. Templates are not trusted: see budget.h.
#pragma once

#include <ctime>
#include <memory>
#include <string_view>

#include "models/chat/jinja/rendered.h"
#include "models/chat/jinja/values/budget.h"
#include "models/chat/jinja/values/value.h"

namespace genesis::jinja {

// Never changes, so that threads may share one; copies are the same template.
class Template {
 public:
  // Throws Error that names the line of what is wrong or not supported.
  static Template parse(std::string_view source);
  // `variables`: what the template sees, by name. `now`: what strftime_now writes, in local time.
  Rendered render(const Dict& variables, std::time_t now = std::time(nullptr),
                  const Limits& limits = {}) const;

 private:
  struct Impl;
  explicit Template(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

  std::shared_ptr<const Impl> impl_;
};

}  // namespace genesis::jinja

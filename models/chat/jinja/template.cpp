#include "models/chat/jinja/template.h"

#include "models/chat/jinja/interpreter.h"
#include "models/chat/jinja/library/library.h"
#include "models/chat/jinja/syntax/parser.h"

namespace genesis::jinja {

struct Template::Impl {
  Block block;
};

Template Template::parse(std::string_view source) {
  static constexpr Vocabulary kVocabulary = {
      [](std::string_view name) { return find_filter(name) != nullptr; },
      [](std::string_view name) { return find_test(name) != nullptr; }};
  return Template(std::make_shared<const Impl>(Impl{parse_template(source, kVocabulary)}));
}

Rendered Template::render(const Dict& variables, std::time_t now, const Limits& limits) const {
  return Interpreter(limits, now).run(impl_->block, variables);
}

}  // namespace genesis::jinja

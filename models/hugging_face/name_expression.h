// Regular expressions over names of layers, as Python's `re` reads them: keys of rank_pattern and alpha_pattern of PEFT. PCRE2
// matches them, within a limit of steps, since an adapter is not trusted.
#pragma once

#include <memory>
#include <string>

struct pcre2_real_code_8;

namespace genesis::models::hugging_face {

class NameExpression {
 public:
  // Throws Error with the place where the expression is none.
  explicit NameExpression(const std::string& expression);

  // PEFT's re.match(rf"(.*\.)?({expression})$", name): a whole name, or its end behind a '.'. Throws Error where that takes
  // too many steps.
  bool matches(const std::string& name) const;

 private:
  std::string expression_;
  std::shared_ptr<pcre2_real_code_8> code_;
};

}  // namespace genesis::models::hugging_face

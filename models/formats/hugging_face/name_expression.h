// Matches names of layers against regular expressions in the syntax of Python's `re`: keys of PEFT's rank_pattern and
// alpha_pattern. PCRE2 matches them with a limited number of steps, since adapters are not trusted.
#pragma once

#include <memory>
#include <string>

struct pcre2_real_code_8;

namespace genesis::models::hugging_face {

class NameExpression {
 public:
  // Throws Error with the problem if the expression is invalid.
  explicit NameExpression(const std::string& expression);

  // Returns the result of PEFT's re.match(rf"(.*\.)?({expression})$", name): the expression matches the whole name, or its end
  // behind a '.'. Throws Error if that takes too many steps.
  bool matches(const std::string& name) const;

 private:
  std::string expression_;
  std::shared_ptr<pcre2_real_code_8> code_;
};

}  // namespace genesis::models::hugging_face

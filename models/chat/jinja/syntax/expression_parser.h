// Expressions, with Jinja's grammar: `or` binds least, then and, not, comparisons, + -, ~, * / // %, **, signs, and last
// attributes, calls, filters and tests.
#pragma once

#include "models/chat/jinja/syntax/syntax.h"
#include "models/chat/jinja/syntax/token_stream.h"

namespace genesis::jinja {

// Which filters and tests there are.
struct Vocabulary {
  bool (*has_filter)(std::string_view name);
  bool (*has_test)(std::string_view name);
};

class ExpressionParser {
 public:
  ExpressionParser(TokenStream& tokens, const Vocabulary& vocabulary)
      : tokens_(tokens), vocabulary_(vocabulary) {}

  // Below an `if` what is not known counts once it is reached, as in Jinja.
  void enter_condition() { ++conditions_; }
  void leave_condition() { --conditions_; }

  // Which of the names that stand for a macro's other arguments the text so far has.
  struct MacroUses {
    bool positional = false, named = false, caller = false;
  };
  MacroUses& macro_uses() { return macro_uses_; }

  ExpressionPtr expression();   // a if b else c, and all that binds tighter
  ExpressionPtr or_tuple();     // one, or several between commas
  ExpressionPtr plain_tuple();  // the same without `if`, which stands behind what `for` goes over
  ExpressionPtr filters_of_block();
  ExpressionPtr postfix_of_name();  // the call of {% call %}
  Target target(bool allow_attribute);

 private:
  template <class Node>
  ExpressionPtr make(int line, Node node);
  ExpressionPtr tuple(bool with_condition, bool in_brackets);
  ExpressionPtr disjunction();
  ExpressionPtr conjunction();
  ExpressionPtr negation();
  ExpressionPtr comparison();
  ExpressionPtr sum();
  ExpressionPtr concatenation();
  ExpressionPtr product();
  ExpressionPtr power();
  ExpressionPtr unary(bool with_filters);
  ExpressionPtr primary();
  ExpressionPtr number();
  ExpressionPtr list_display();
  ExpressionPtr dict_display();
  ExpressionPtr postfix(ExpressionPtr object);
  ExpressionPtr filters_and_tests(ExpressionPtr input);
  ExpressionPtr subscript(ExpressionPtr object);
  ExpressionPtr subscript_item(ExpressionPtr object);
  ExpressionPtr filter(ExpressionPtr input);
  ExpressionPtr test(ExpressionPtr input);
  void argument(ArgumentList& list);
  ArgumentList arguments();
  Target one_target(bool allow_attribute);
  ArgumentList test_arguments();
  bool begins_test_argument() const;

  TokenStream& tokens_;
  Vocabulary vocabulary_;
  MacroUses macro_uses_;
  int depth_ = 0, conditions_ = 0;
};

}  // namespace genesis::jinja

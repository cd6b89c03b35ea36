// Parses expressions with Jinja's grammar. From lowest to highest precedence: or, and, not, comparisons, + -, ~, * / // %, **,
// signs, and finally attributes, calls, filters and tests.
#pragma once

#include "models/chat/jinja/syntax/syntax.h"
#include "models/chat/jinja/syntax/token_stream.h"

namespace genesis::jinja {

// Says which filters and tests exist.
struct Vocabulary {
  bool (*has_filter)(std::string_view name);
  bool (*has_test)(std::string_view name);
};

class ExpressionParser {
 public:
  ExpressionParser(TokenStream& tokens, const Vocabulary& vocabulary)
      : tokens_(tokens), vocabulary_(vocabulary) {}

  // Inside an `if`, an unknown filter or test is an error only when it is executed, as in Jinja.
  void enter_condition() { ++conditions_; }
  void leave_condition() { --conditions_; }

  // Records which of a macro's implicit arguments (varargs, kwargs, caller) the text so far names.
  struct MacroUses {
    bool positional = false, named = false, caller = false;
  };
  MacroUses& macro_uses() { return macro_uses_; }

  ExpressionPtr expression();   // a if b else c, and everything that binds tighter
  ExpressionPtr or_tuple();     // an expression, or several separated by commas
  ExpressionPtr plain_tuple();  // the same without `if`, which follows the items of `for`
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

// The syntax tree of a template.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "models/chat/jinja/values/operators.h"

namespace genesis::jinja {

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;
struct Statement;
using Block = std::vector<Statement>;

struct Literal {
  Value value;
};
struct Name {
  std::string name;
};
struct ListDisplay {
  std::vector<ExpressionPtr> items;
  bool is_tuple = false;
};
struct DictDisplay {
  std::vector<std::pair<ExpressionPtr, ExpressionPtr>> entries;
};
struct AttributeOf {
  ExpressionPtr object;
  std::string name;
};
struct ItemOf {
  ExpressionPtr object, key;
};
struct SliceOf {
  ExpressionPtr object, start, stop, step;  // null if omitted
};
struct ArgumentList {
  std::vector<ExpressionPtr> positional;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
  ExpressionPtr more_positional, more_named;  // *list and **mapping; null if omitted
};
struct CallOf {
  ExpressionPtr callee;
  ArgumentList arguments;
};
struct FilterOf {
  ExpressionPtr input;  // null in {% filter %} and {% set %}, whose input is the text of the block
  std::string name;
  ArgumentList arguments;
};
struct TestOf {
  ExpressionPtr input;
  std::string name;
  ArgumentList arguments;
};
struct Unary {
  enum class Op { kNot, kNegative, kPositive } op;
  ExpressionPtr operand;
};
struct Binary {
  BinaryOp op;
  ExpressionPtr left, right;
};
struct Concat {
  std::vector<ExpressionPtr> parts;
};
struct Comparison {  // a < b < c: true if all hold
  ExpressionPtr first;
  std::vector<std::pair<CompareOp, ExpressionPtr>> rest;
};
struct Logic {
  bool is_and;
  ExpressionPtr left, right;
};
struct Conditional {
  ExpressionPtr condition, then, otherwise;  // otherwise: may be null
};

struct Expression {
  using Node = std::variant<Literal, Name, ListDisplay, DictDisplay, AttributeOf, ItemOf, SliceOf, CallOf,
                            FilterOf, TestOf, Unary, Binary, Concat, Comparison, Logic, Conditional>;
  int line = 0;
  int depth = 1;  // height of this subtree
  Node node;
};

// The target of an assignment: a name, an attribute of a namespace, or a tuple of targets.
struct Target {
  std::string name, attribute;
  std::vector<Target> parts;
};

struct TextOut {
  std::string text;
};
struct Output {
  ExpressionPtr value;
};
struct If {
  std::vector<std::pair<ExpressionPtr, Block>> branches;
  Block otherwise;
};
struct For {
  Target target;
  ExpressionPtr items, condition;  // condition: may be null
  Block body, otherwise;
  bool is_recursive = false;
};
struct Set {
  Target target;
  ExpressionPtr value;
};
struct SetBlock {
  Target target;
  ExpressionPtr filter;  // may be null
  Block body;
};
struct FilterBlock {
  ExpressionPtr filter;
  Block body;
};
struct Macro {
  std::string name;
  std::vector<std::pair<std::string, ExpressionPtr>> parameters;  // with defaults, which may be null
  Block body;
  // These are true if the body names `varargs`, `kwargs` or `caller`. Only then does the macro accept the corresponding
  // arguments.
  bool takes_positional = false, takes_named = false, takes_caller = false;
};
struct CallBlock {
  ExpressionPtr call;
  std::shared_ptr<Macro> caller;
};
struct With {
  std::vector<std::pair<Target, ExpressionPtr>> values;
  Block body;
};
struct Generation {
  Block body;
};
struct Break {};
struct Continue {};

struct Statement {
  int line = 0;
  std::variant<TextOut, Output, If, For, Set, SetBlock, FilterBlock, std::shared_ptr<Macro>, CallBlock, With,
               Generation, Break, Continue>
      node;
};

}  // namespace genesis::jinja

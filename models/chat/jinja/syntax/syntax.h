// A template as a tree.
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
  ExpressionPtr object, start, stop, step;  // empty where left out
};
struct ArgumentList {
  std::vector<ExpressionPtr> positional;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
  ExpressionPtr more_positional, more_named;  // *list and **mapping; empty where left out
};
struct CallOf {
  ExpressionPtr callee;
  ArgumentList arguments;
};
struct FilterOf {
  ExpressionPtr input;  // empty in {% filter %} and {% set %}, where it is the block's text
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
struct Comparison {  // a < b < c: all of them
  ExpressionPtr first;
  std::vector<std::pair<CompareOp, ExpressionPtr>> rest;
};
struct Logic {
  bool is_and;
  ExpressionPtr left, right;
};
struct Conditional {
  ExpressionPtr condition, then, otherwise;  // otherwise: may be empty
};

struct Expression {
  using Node = std::variant<Literal, Name, ListDisplay, DictDisplay, AttributeOf, ItemOf, SliceOf, CallOf,
                            FilterOf, TestOf, Unary, Binary, Concat, Comparison, Logic, Conditional>;
  int line = 0;
  int depth = 1;  // of the tree below
  Node node;
};

// What is assigned to: a name, an attribute of a namespace, or several of them.
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
  ExpressionPtr items, condition;  // condition: may be empty
  Block body, otherwise;
  bool is_recursive = false;
};
struct Set {
  Target target;
  ExpressionPtr value;
};
struct SetBlock {
  Target target;
  ExpressionPtr filter;  // may be empty
  Block body;
};
struct FilterBlock {
  ExpressionPtr filter;
  Block body;
};
struct Macro {
  std::string name;
  std::vector<std::pair<std::string, ExpressionPtr>> parameters;  // with defaults, which may be empty
  Block body;
  // Each is true where the body names `varargs`, `kwargs` or `caller`. Only then may there be such arguments.
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

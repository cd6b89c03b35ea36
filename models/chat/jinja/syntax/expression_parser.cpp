#include "models/chat/jinja/syntax/expression_parser.h"

#include <algorithm>

#include "models/chat/jinja/syntax/tree_depth.h"
#include "models/chat/jinja/values/number_text.h"

namespace genesis::jinja {
namespace {

// Limit of nesting: evaluating and freeing a tree uses stack for every level.
constexpr int kMaxDepth = 200;

class Level {
 public:
  Level(int& depth, int line) : depth_(depth) {
    if (++depth_ > kMaxDepth) fail("line {}: expressions are nested more than {} deep", line, kMaxDepth);
  }
  ~Level() { --depth_; }

 private:
  int& depth_;
};

}  // namespace

template <class Node>
ExpressionPtr ExpressionParser::make(int line, Node node) {
  Expression::Node any = std::move(node);
  const int depth = depth_below(any) + 1;
  if (depth > kMaxDepth) fail("line {}: expressions are nested more than {} deep", line, kMaxDepth);
  return std::make_unique<Expression>(Expression{line, depth, std::move(any)});
}

ExpressionPtr ExpressionParser::expression() {
  const Level level(depth_, tokens_.line());
  ExpressionPtr value = disjunction();
  while (tokens_.is_name("if")) {
    const int line = tokens_.next().line;
    ExpressionPtr condition = disjunction(), otherwise;
    if (tokens_.skip_name("else")) otherwise = expression();
    value = make(line, Conditional{std::move(condition), std::move(value), std::move(otherwise)});
  }
  return value;
}

ExpressionPtr ExpressionParser::or_tuple() { return tuple(true, false); }
ExpressionPtr ExpressionParser::plain_tuple() { return tuple(false, false); }

ExpressionPtr ExpressionParser::tuple(bool with_condition, bool in_brackets) {
  const int line = tokens_.line();
  const auto ends = [&] {
    return tokens_.is(TokenKind::kOutputEnd) || tokens_.is(TokenKind::kBlockEnd) || tokens_.is_sign(")");
  };
  ListDisplay items{{}, true};
  bool is_tuple = in_brackets && ends();
  while (!ends()) {
    items.items.push_back(with_condition ? expression() : disjunction());
    if (!tokens_.skip_sign(",")) break;
    is_tuple = true;
  }
  if (is_tuple) return make(line, std::move(items));
  if (items.items.empty()) tokens_.fail_expected("an expression");
  return std::move(items.items[0]);
}

ExpressionPtr ExpressionParser::disjunction() {
  const Level level(depth_, tokens_.line());
  ExpressionPtr left = conjunction();
  for (int line = tokens_.line(); tokens_.skip_name("or"); line = tokens_.line())
    left = make(line, Logic{false, std::move(left), conjunction()});
  return left;
}

ExpressionPtr ExpressionParser::conjunction() {
  ExpressionPtr left = negation();
  for (int line = tokens_.line(); tokens_.skip_name("and"); line = tokens_.line())
    left = make(line, Logic{true, std::move(left), negation()});
  return left;
}

ExpressionPtr ExpressionParser::negation() {
  const Level level(depth_, tokens_.line());
  const int line = tokens_.line();
  if (!tokens_.skip_name("not")) return comparison();
  return make(line, Unary{Unary::Op::kNot, negation()});
}

ExpressionPtr ExpressionParser::comparison() {
  static const std::pair<const char*, CompareOp> kSigns[] = {
      {"==", CompareOp::kEqual},     {"!=", CompareOp::kNotEqual}, {"<", CompareOp::kLess},
      {"<=", CompareOp::kLessEqual}, {">", CompareOp::kGreater},   {">=", CompareOp::kGreaterEqual}};
  const int line = tokens_.line();
  Comparison all{sum(), {}};
  for (bool found = true; found;) {
    found = false;
    for (const auto& [sign, op] : kSigns)
      if (tokens_.skip_sign(sign)) {
        all.rest.emplace_back(op, sum());
        found = true;
        break;
      }
    if (found) continue;
    const bool is_not = tokens_.is_name("not") && tokens_.is_name("in", 1);
    if (is_not) tokens_.next();
    found = tokens_.skip_name("in");
    if (found)
      all.rest.emplace_back(is_not ? CompareOp::kNotIn : CompareOp::kIn, sum());
  }
  return all.rest.empty() ? std::move(all.first) : make(line, std::move(all));
}

ExpressionPtr ExpressionParser::sum() {
  ExpressionPtr left = concatenation();
  while (tokens_.is_sign("+") || tokens_.is_sign("-")) {
    const Token& sign = tokens_.next();
    left = make(sign.line, Binary{sign.text == "+" ? BinaryOp::kAdd : BinaryOp::kSubtract, std::move(left),
                                  concatenation()});
  }
  return left;
}

ExpressionPtr ExpressionParser::concatenation() {
  const int line = tokens_.line();
  Concat all;
  all.parts.push_back(product());
  while (tokens_.skip_sign("~")) all.parts.push_back(product());
  return all.parts.size() == 1 ? std::move(all.parts[0]) : make(line, std::move(all));
}

ExpressionPtr ExpressionParser::product() {
  static const std::pair<const char*, BinaryOp> kSigns[] = {{"*", BinaryOp::kMultiply},
                                                            {"/", BinaryOp::kDivide},
                                                            {"//", BinaryOp::kFloorDivide},
                                                            {"%", BinaryOp::kModulo}};
  ExpressionPtr left = power();
  const auto sign = [&] {
    return std::ranges::find_if(kSigns, [&](const auto& s) { return tokens_.is_sign(s.first); });
  };
  for (auto found = sign(); found != std::end(kSigns); found = sign()) {
    const int line = tokens_.next().line;
    left = make(line, Binary{found->second, std::move(left), power()});
  }
  return left;
}

ExpressionPtr ExpressionParser::power() {
  ExpressionPtr left = unary(true);
  while (tokens_.is_sign("**")) {
    const int line = tokens_.next().line;
    left = make(line, Binary{BinaryOp::kPower, std::move(left), unary(true)});
  }
  return left;
}

ExpressionPtr ExpressionParser::unary(bool with_filters) {
  const Level level(depth_, tokens_.line());
  const int line = tokens_.line();
  ExpressionPtr value;
  if (tokens_.skip_sign("-"))
    value = make(line, Unary{Unary::Op::kNegative, unary(false)});
  else if (tokens_.skip_sign("+"))
    value = make(line, Unary{Unary::Op::kPositive, unary(false)});
  else
    value = primary();
  value = postfix(std::move(value));
  return with_filters ? filters_and_tests(std::move(value)) : std::move(value);
}

ExpressionPtr ExpressionParser::primary() {
  const int line = tokens_.line();
  if (tokens_.is(TokenKind::kString)) {
    std::string text;
    while (tokens_.is(TokenKind::kString)) text += tokens_.next().text;
    return make(line, Literal{std::move(text)});
  }
  if (tokens_.is(TokenKind::kInteger) || tokens_.is(TokenKind::kFloat)) return number();
  if (tokens_.is_sign("[")) return list_display();
  if (tokens_.is_sign("{")) return dict_display();
  if (tokens_.skip_sign("(")) {
    ExpressionPtr inside = tuple(true, true);
    tokens_.expect_sign(")");
    return inside;
  }
  const std::string name = tokens_.any_name("an expression");
  if (name == "true" || name == "True") return make(line, Literal{true});
  if (name == "false" || name == "False") return make(line, Literal{false});
  if (name == "none" || name == "None") return make(line, Literal{None{}});
  if (name == "varargs") macro_uses_.positional = true;
  if (name == "kwargs") macro_uses_.named = true;
  if (name == "caller") macro_uses_.caller = true;
  return make(line, Name{name});
}

ExpressionPtr ExpressionParser::number() {
  const Token& token = tokens_.next();
  if (token.kind == TokenKind::kFloat) return make(token.line, Literal{float_in(token.text).value_or(0.0)});
  const auto value = integer_in_text(token.text, 0);
  if (!value) fail("line {}: {} is no int of 64 bits", token.line, token.text);
  return make(token.line, Literal{*value});
}

ExpressionPtr ExpressionParser::list_display() {
  const int line = tokens_.next().line;
  ListDisplay list;
  while (!tokens_.is_sign("]")) {
    list.items.push_back(expression());
    if (!tokens_.skip_sign(",")) break;
  }
  tokens_.expect_sign("]");
  return make(line, std::move(list));
}

ExpressionPtr ExpressionParser::dict_display() {
  const int line = tokens_.next().line;
  DictDisplay dict;
  while (!tokens_.is_sign("}")) {
    ExpressionPtr key = expression();
    tokens_.expect_sign(":");
    dict.entries.emplace_back(std::move(key), expression());
    if (!tokens_.skip_sign(",")) break;
  }
  tokens_.expect_sign("}");
  return make(line, std::move(dict));
}

ExpressionPtr ExpressionParser::postfix_of_name() { return postfix(primary()); }

ExpressionPtr ExpressionParser::postfix(ExpressionPtr object) {
  for (;;) {
    if (tokens_.is_sign(".") || tokens_.is_sign("[")) {
      object = subscript(std::move(object));
    } else if (tokens_.is_sign("(")) {
      const int line = tokens_.line();
      object = make(line, CallOf{std::move(object), arguments()});
    } else {
      return object;
    }
  }
}

ExpressionPtr ExpressionParser::filters_and_tests(ExpressionPtr input) {
  for (;;) {
    if (tokens_.skip_sign("|")) {
      input = filter(std::move(input));
    } else if (tokens_.skip_name("is")) {
      input = test(std::move(input));
    } else if (tokens_.is_sign("(")) {
      const int line = tokens_.line();
      input = make(line, CallOf{std::move(input), arguments()});
    } else {
      return input;
    }
  }
}

ExpressionPtr ExpressionParser::subscript(ExpressionPtr object) {
  const int line = tokens_.line();
  if (tokens_.skip_sign("[")) return subscript_item(std::move(object));
  tokens_.next();
  if (tokens_.is(TokenKind::kInteger)) {
    ExpressionPtr key = number();
    return make(line, ItemOf{std::move(object), std::move(key)});
  }
  return make(line, AttributeOf{std::move(object), tokens_.any_name("the name of an attribute")});
}

ExpressionPtr ExpressionParser::subscript_item(ExpressionPtr object) {
  const int line = tokens_.line();
  const auto part = [&] {
    return tokens_.is_sign(":") || tokens_.is_sign("]") ? ExpressionPtr() : expression();
  };
  SliceOf slice{std::move(object), part(), {}, {}};
  const bool is_slice = tokens_.skip_sign(":");
  if (is_slice) {
    slice.stop = part();
    if (tokens_.skip_sign(":")) slice.step = part();
  }
  tokens_.expect_sign("]");
  if (is_slice) return make(line, std::move(slice));
  if (!slice.start) fail("line {}: expected an item or a slice between [ and ]", line);
  return make(line, ItemOf{std::move(slice.object), std::move(slice.start)});
}

ExpressionPtr ExpressionParser::filters_of_block() {
  ExpressionPtr value = filter({});
  while (tokens_.skip_sign("|")) value = filter(std::move(value));
  return value;
}

ExpressionPtr ExpressionParser::filter(ExpressionPtr input) {
  const int line = tokens_.line();
  FilterOf filter{std::move(input), tokens_.any_name("the name of a filter"), {}};
  if (conditions_ == 0 && !vocabulary_.has_filter(filter.name))
    fail("line {}: the filter '{}' is not supported", line, filter.name);
  if (tokens_.is_sign("(")) filter.arguments = arguments();
  return make(line, std::move(filter));
}

ExpressionPtr ExpressionParser::test(ExpressionPtr input) {
  const int line = tokens_.line();
  const bool is_not = tokens_.skip_name("not");
  TestOf test{std::move(input), tokens_.any_name("the name of a test"), {}};
  if (conditions_ == 0 && !vocabulary_.has_test(test.name))
    fail("line {}: the test '{}' is not supported", line, test.name);
  test.arguments = test_arguments();
  ExpressionPtr value = make(line, std::move(test));
  return is_not ? make(line, Unary{Unary::Op::kNot, std::move(value)}) : std::move(value);
}

// Parses the arguments of a test. A single one needs no parentheses: x is divisibleby 3.
ArgumentList ExpressionParser::test_arguments() {
  if (tokens_.is_sign("(")) return arguments();
  ArgumentList list;
  if (!begins_test_argument()) return list;
  if (tokens_.is_name("is"))
    fail("line {}: two tests follow each other: put brackets around the first", tokens_.line());
  list.positional.push_back(postfix(primary()));
  return list;
}

bool ExpressionParser::begins_test_argument() const {
  if (tokens_.is(TokenKind::kName))
    return !tokens_.is_name("else") && !tokens_.is_name("or") && !tokens_.is_name("and");
  return tokens_.is(TokenKind::kString) || tokens_.is(TokenKind::kInteger) || tokens_.is(TokenKind::kFloat) ||
         tokens_.is_sign("[") || tokens_.is_sign("{");
}

// Parses an argument. Jinja's order is: positional arguments, *list, named arguments, **mapping. Named arguments may precede
// *list.
void ExpressionParser::argument(ArgumentList& list) {
  const int line = tokens_.line();
  if (tokens_.skip_sign("*")) {
    if (list.more_positional || list.more_named) fail("line {}: a second * among the arguments", line);
    list.more_positional = expression();
  } else if (tokens_.skip_sign("**")) {
    if (list.more_named) fail("line {}: a second ** among the arguments", line);
    list.more_named = expression();
  } else if (tokens_.is(TokenKind::kName) && tokens_.peek(1).kind == TokenKind::kOperator &&
             tokens_.peek(1).text == "=") {
    if (list.more_named) fail("line {}: an argument stands behind ** among the arguments", line);
    std::string name = tokens_.next().text;
    tokens_.next();
    list.named.emplace_back(std::move(name), expression());
  } else {
    if (list.more_positional || list.more_named || !list.named.empty())
      fail("line {}: an argument without a name stands behind one with a name, or behind *", line);
    list.positional.push_back(expression());
  }
}

ArgumentList ExpressionParser::arguments() {
  tokens_.expect_sign("(");
  ArgumentList list;
  while (!tokens_.is_sign(")")) {
    argument(list);
    if (!tokens_.skip_sign(",")) break;
  }
  tokens_.expect_sign(")");
  return list;
}

Target ExpressionParser::target(bool allow_attribute) {
  const Level level(depth_, tokens_.line());
  Target all;
  bool is_tuple = false;
  do {
    if (is_tuple && !tokens_.is(TokenKind::kName) && !tokens_.is_sign("(")) break;
    all.parts.push_back(one_target(allow_attribute));
    is_tuple = tokens_.is_sign(",") || is_tuple;
  } while (tokens_.skip_sign(","));
  if (is_tuple) return all;
  Target one = std::move(all.parts[0]);
  return one;
}

// Parses a name, an attribute, or a tuple in parentheses.
Target ExpressionParser::one_target(bool allow_attribute) {
  if (tokens_.skip_sign("(")) {
    Target inside = target(false);
    tokens_.expect_sign(")");
    return inside;
  }
  Target one{tokens_.any_name("a name to assign to"), "", {}};
  if (allow_attribute && tokens_.skip_sign(".")) one.attribute = tokens_.any_name("the name of an attribute");
  static constexpr std::string_view kConstants[] = {"true", "false", "none", "True", "False", "None", "loop"};
  if (std::ranges::find(kConstants, one.name) != std::end(kConstants))
    fail("line {}: '{}' cannot be assigned to", tokens_.line(), one.name);
  return one;
}

}  // namespace genesis::jinja

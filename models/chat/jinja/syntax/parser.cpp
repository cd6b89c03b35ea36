#include "models/chat/jinja/syntax/parser.h"

#include <algorithm>
#include <map>

#include "schema/file/format/utf8.h"

namespace genesis::jinja {
namespace {

constexpr size_t kMaxTemplate = size_t{1} << 20;  // bytes; published templates have up to 30,000
constexpr int kMaxDepth = 100;                    // nesting of blocks

class Parser {
 public:
  Parser(std::string_view source, const Vocabulary& vocabulary)
      : tokens_(tokenize(source)), expressions_(tokens_, vocabulary) {}

  Block run() { return block({}); }

 private:
  using Statements = std::map<std::string, void (Parser::*)(Block&), std::less<>>;

  // Parses statements up to one of the tags that `ends` names, whose name is not consumed; up to the end of the template if
  // `ends` is empty.
  Block block(std::initializer_list<std::string_view> ends) {
    if (++depth_ > kMaxDepth) fail("line {}: blocks are nested more than {} deep", tokens_.line(), kMaxDepth);
    Block all;
    while (!tokens_.is(TokenKind::kEnd)) {
      const Token& token = tokens_.next();
      line_ = token.line;
      if (token.kind == TokenKind::kText)
        add(all, TextOut{token.text});
      else if (token.kind == TokenKind::kOutputBegin)
        output(all);
      else if (std::ranges::find(ends, tokens_.peek().text) != ends.end())
        return --depth_, std::move(all);
      else
        statement(all);
    }
    if (ends.size() > 0)
      fail("line {}: the template ends and {{% {} %}} is missing", tokens_.line(), *(ends.end() - 1));
    --depth_;
    return all;
  }

  template <class Node>
  void add(Block& all, Node node) {
    all.push_back({line_, std::move(node)});
  }

  void end_tag() { tokens_.expect(TokenKind::kBlockEnd, "'%}'"); }
  // Parses the body of a block, from the end of its opening tag through its closing tag.
  Block body(std::string_view end) {
    const int line = line_;
    end_tag();
    Block inside = block({end});
    tokens_.next();
    end_tag();
    line_ = line;
    return inside;
  }

  void output(Block& all) {
    ExpressionPtr value = expressions_.or_tuple();
    tokens_.expect(TokenKind::kOutputEnd, "'}}'");
    add(all, Output{std::move(value)});
  }

  void statement(Block& all) {
    static const Statements kStatements = {
        {"break", &Parser::leave_loop}, {"call", &Parser::call},   {"continue", &Parser::next_item},
        {"filter", &Parser::filter},    {"for", &Parser::loop},    {"generation", &Parser::generation},
        {"if", &Parser::condition},     {"macro", &Parser::macro}, {"set", &Parser::set},
        {"with", &Parser::with}};
    const int line = line_;
    const std::string name = tokens_.any_name("the name of a statement");
    const auto found = kStatements.find(name);
    if (found == kStatements.end()) fail_statement(line, name);
    (this->*found->second)(all);
  }

  [[noreturn]] static void fail_statement(int line, const std::string& name) {
    static constexpr std::string_view kOtherFiles[] = {"include", "import", "from", "extends"};
    if (std::ranges::find(kOtherFiles, name) != std::end(kOtherFiles))
      fail("line {}: the statement '{}' is not supported: a chat template is one file and reads no other",
           line, name);
    fail("line {}: the statement '{}' is not supported here", line, name);
  }

  void condition(Block& all) {
    const int line = line_;
    If result;
    expressions_.enter_condition();
    for (bool more = true; more;) {
      ExpressionPtr test = expressions_.plain_tuple();
      end_tag();
      result.branches.emplace_back(std::move(test), block({"elif", "else", "endif"}));
      more = tokens_.skip_name("elif");
    }
    if (tokens_.skip_name("else")) {
      end_tag();
      result.otherwise = block({"endif"});
    }
    expressions_.leave_condition();
    tokens_.expect_name("endif");
    end_tag();
    line_ = line;
    add(all, std::move(result));
  }

  void loop(Block& all) {
    const int line = line_;
    For result;
    result.target = expressions_.target(false);
    tokens_.expect_name("in");
    result.items = expressions_.plain_tuple();
    if (tokens_.skip_name("if")) result.condition = expressions_.expression();
    result.is_recursive = tokens_.skip_name("recursive");
    end_tag();
    ++loops_;
    result.body = block({"else", "endfor"});
    --loops_;
    if (tokens_.skip_name("else")) {
      end_tag();
      result.otherwise = block({"endfor"});
    }
    tokens_.expect_name("endfor");
    end_tag();
    line_ = line;
    add(all, std::move(result));
  }

  void leave_loop(Block& all) { jump(all, Break{}); }
  void next_item(Block& all) { jump(all, Continue{}); }
  template <class Jump>
  void jump(Block& all, Jump node) {
    if (loops_ == 0) fail("line {}: break and continue stand inside of for", line_);
    end_tag();
    add(all, node);
  }

  void set(Block& all) {
    Target target = expressions_.target(true);
    if (tokens_.skip_sign("=")) {
      ExpressionPtr value = expressions_.or_tuple();
      end_tag();
      return add(all, Set{std::move(target), std::move(value)});
    }
    ExpressionPtr filter;
    if (tokens_.skip_sign("|")) filter = expressions_.filters_of_block();
    Block inside = body_without_jumps("endset");
    add(all, SetBlock{std::move(target), std::move(filter), std::move(inside)});
  }

  void filter(Block& all) {
    ExpressionPtr filter = expressions_.filters_of_block();
    Block inside = body_without_jumps("endfilter");
    add(all, FilterBlock{std::move(filter), std::move(inside)});
  }

  // Parses the parameters of a macro: (name, name=default).
  void parameters(Macro& macro) {
    tokens_.expect_sign("(");
    while (!tokens_.is_sign(")")) {
      std::string name = tokens_.any_name("the name of a parameter");
      ExpressionPtr otherwise;
      if (tokens_.skip_sign("="))
        otherwise = expressions_.expression();
      else if (!macro.parameters.empty() && macro.parameters.back().second)
        fail("line {}: the parameter '{}' has no default, and one ahead of it has", line_, name);
      macro.parameters.emplace_back(std::move(name), std::move(otherwise));
      if (!tokens_.skip_sign(",")) break;
    }
    tokens_.expect_sign(")");
  }

  // Parses the body of a block that renders to a value: break and continue in it cannot refer to a loop around it.
  Block body_without_jumps(std::string_view end) {
    const int loops = std::exchange(loops_, 0);
    Block inside = body(end);
    loops_ = loops;
    return inside;
  }

  void macro_body(Macro& macro, std::string_view end) {
    auto& uses = expressions_.macro_uses();
    const auto around = std::exchange(uses, {});
    macro.body = body_without_jumps(end);
    macro.takes_positional = uses.positional;
    macro.takes_named = uses.named;
    macro.takes_caller = uses.caller;
    uses = {uses.positional || around.positional, uses.named || around.named, uses.caller || around.caller};
  }

  void macro(Block& all) {
    auto macro = std::make_shared<Macro>();
    macro->name = tokens_.any_name("the name of a macro");
    parameters(*macro);
    macro_body(*macro, "endmacro");
    add(all, std::move(macro));
  }

  void call(Block& all) {
    auto caller = std::make_shared<Macro>();
    caller->name = "caller";
    if (tokens_.is_sign("(")) parameters(*caller);
    ExpressionPtr call = expressions_.postfix_of_name();
    if (!std::holds_alternative<CallOf>(call->node)) fail("line {}: expected a call behind 'call'", line_);
    macro_body(*caller, "endcall");
    add(all, CallBlock{std::move(call), std::move(caller)});
  }

  void with(Block& all) {
    With result;
    while (!tokens_.is(TokenKind::kBlockEnd)) {
      Target target = expressions_.target(false);
      tokens_.expect_sign("=");
      result.values.emplace_back(std::move(target), expressions_.expression());
      if (!tokens_.skip_sign(",")) break;
    }
    result.body = body("endwith");
    add(all, std::move(result));
  }

  void generation(Block& all) { add(all, Generation{body_without_jumps("endgeneration")}); }

  TokenStream tokens_;
  ExpressionParser expressions_;
  int line_ = 1, depth_ = 0, loops_ = 0;
};

}  // namespace

Block parse_template(std::string_view source, const Vocabulary& vocabulary) {
  if (source.size() > kMaxTemplate) fail("it has {} bytes, the limit is {}", source.size(), kMaxTemplate);
  if (!utf8::is_valid(source)) fail("it is not UTF-8");
  return Parser(source, vocabulary).run();
}

}  // namespace genesis::jinja

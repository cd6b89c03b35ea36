// Executes the syntax tree of a template. An interpreter object renders once.
#pragma once

#include "models/chat/jinja/library/library.h"
#include "models/chat/jinja/rendered.h"
#include "models/chat/jinja/syntax/syntax.h"

namespace genesis::jinja {

// The variables of one scope of a template. Missing names are looked up in the parent.
struct Scope {
  std::shared_ptr<Scope> parent;
  std::map<std::string, Value, std::less<>> names;
};

class Interpreter : public Rendering {
 public:
  Interpreter(const Limits& limits, std::time_t now) : Rendering(limits, now) {}
  ~Interpreter() { empty_namespaces(); }
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  // Renders a template. Throws Error with the line of the template.
  Rendered run(const Block& block, const Dict& variables);

 private:
  enum class Flow { kNext, kBreak, kContinue };
  // Opens a scope for the lifetime of this object: variables set inside are gone afterwards.
  class Inside {
   public:
    Inside(Interpreter& interpreter, std::shared_ptr<Scope> parent)
        : interpreter_(interpreter), before_(interpreter.scope_) {
      interpreter_.scope_ = std::make_shared<Scope>(Scope{std::move(parent), {}});
    }
    explicit Inside(Interpreter& interpreter) : Inside(interpreter, interpreter.scope_) {}
    ~Inside() { interpreter_.scope_ = before_; }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;

   private:
    Interpreter& interpreter_;
    std::shared_ptr<Scope> before_;
  };

  Value evaluate(const Expression& expression);
  Value evaluate_or(const ExpressionPtr& expression, Value otherwise);
  Arguments evaluate(const std::string& function, const ArgumentList& list);
  Value node(const Literal& literal);
  Value node(const Name& name);
  Value node(const ListDisplay& list);
  Value node(const DictDisplay& dict);
  Value node(const AttributeOf& attribute);
  Value node(const ItemOf& item);
  Value node(const SliceOf& slice);
  Value node(const CallOf& call);
  Value node(const FilterOf& filter);
  Value node(const TestOf& test);
  Value node(const Unary& unary);
  Value node(const Binary& binary);
  Value node(const Concat& concat);
  Value node(const Comparison& comparison);
  Value node(const Logic& logic);
  Value node(const Conditional& conditional);

  Flow run(const Block& block);
  Flow run(const Statement& statement);
  Flow node(const TextOut& text);
  Flow node(const Output& output);
  Flow node(const If& condition);
  Flow node(const For& loop);
  Flow node(const Set& set);
  Flow node(const SetBlock& set);
  Flow node(const FilterBlock& filter);
  Flow node(const std::shared_ptr<Macro>& macro);
  Flow node(const CallBlock& call);
  Flow node(const With& with);
  Flow node(const Generation& generation);
  Flow node(const Break&) { return Flow::kBreak; }
  Flow node(const Continue&) { return Flow::kContinue; }

  void write(std::string_view text);
  std::string rendered(const Block& block);  // in a new scope
  std::string captured(const std::function<void()>& write_all);
  std::shared_ptr<const Sequence> chosen_items(const For& loop, const Value& value);
  Flow repeat(const For& loop, const Value& value, int level);
  void assign(const Target& target, const Value& value);
  Value filtered(const ExpressionPtr& filter, std::string text);
  Value make_macro(std::shared_ptr<Macro> macro);
  void bind_parameters(const Macro& macro, Arguments& arguments);
  Value run_macro(const Macro& macro, std::shared_ptr<Scope> scope, Arguments& arguments);
  Value call(const Value& callee, Arguments& arguments);

  std::shared_ptr<Scope> scope_;
  std::vector<std::shared_ptr<Scope>> kept_;  // scopes that macros were defined in
  std::vector<std::string> block_texts_;  // texts of {% filter %} blocks whose filters are being evaluated
  Rendered result_;
  std::string* out_ = nullptr;
  int line_ = 0;
};

}  // namespace genesis::jinja

// Reads the text form of graphs and models (schema/graph/text.h). A recursive-descent parser without a token table: the language
// is simple enough for one look-ahead character.
#include <algorithm>
#include <cctype>
#include <charconv>
#include <map>

#include "schema/encoding/quantized_formats.h"
#include "schema/graph/state_storage.h"
#include "schema/graph/text.h"

namespace genesis {
namespace {

// Reads characters and knows the position for errors. Skips blanks and comments before every token.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  char peek() {
    skip_blanks();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool accept(std::string_view token) {
    skip_blanks();
    if (text_.substr(at_, token.size()) != token) return false;
    at_ += token.size();
    return true;
  }
  void expect(std::string_view token) {
    if (!accept(token)) fail_here("'" + std::string(token) + "'");
  }
  // Reads a run of name characters, or a quoted string.
  std::string name(std::string_view what) {
    if (peek() == '"') return quoted();
    std::string word(
        run([](unsigned char c) { return std::isalnum(c) || c == '_' || c == '.' || c == '-'; }));
    if (word.empty()) fail_here(std::string(what));
    return word;
  }
  std::string quoted() {
    expect("\"");
    std::string text;
    while (at_ < text_.size() && text_[at_] != '"') {
      if (text_[at_] == '\\' && at_ + 1 < text_.size()) {
        ++at_;
        text += text_[at_] == 'n' ? '\n' : text_[at_];
      } else {
        text += text_[at_];
      }
      ++at_;
    }
    if (at_ >= text_.size()) fail_here("a closing '\"'");
    ++at_;
    return text;
  }
  // Reads from '[' to ']'.
  std::string_view bracketed() {
    skip_blanks();
    const size_t start = at_, end = text_.find(']', at_);
    if (end == std::string_view::npos) fail_here("']'");
    at_ = end + 1;
    return text_.substr(start, at_ - start);
  }
  template <class F>
  std::string_view run(F&& belongs) {
    skip_blanks();
    const size_t start = at_;
    while (at_ < text_.size() && belongs(static_cast<unsigned char>(text_[at_]))) ++at_;
    return text_.substr(start, at_ - start);
  }
  std::string position() const {
    return fmt::format("in line {}",
                       1 + std::count(text_.begin(), text_.begin() + static_cast<long>(at_), '\n'));
  }
  [[noreturn]] void fail_here(const std::string& expected) {
    skip_blanks();
    const std::string_view rest = text_.substr(at_, text_.substr(at_, 20).find('\n'));
    fail("expected {}, got {}", expected, at_ < text_.size() ? "'" + std::string(rest) + "'" : "the end");
  }

 private:
  void skip_blanks() {
    while (at_ < text_.size()) {
      if (text_.substr(at_, 2) == "//")
        at_ = std::min(text_.find('\n', at_), text_.size());
      else if (std::isspace(static_cast<unsigned char>(text_[at_])))
        ++at_;
      else
        return;
    }
  }

  std::string_view text_;
  size_t at_ = 0;
};

// --- attribute values and tensors

bool is_number_char(unsigned char c) { return std::isalnum(c) || c == '+' || c == '-' || c == '.'; }

AttrValue parse_number(std::string_view word) {
  int64_t integer = 0;
  const char* end = word.data() + word.size();
  if (const auto [stop, error] = std::from_chars(word.data(), end, integer);
      error == std::errc() && stop == end)
    return integer;
  double real = 0;
  if (const auto [stop, error] = std::from_chars(word.data(), end, real); error == std::errc() && stop == end)
    return real;
  fail("'{}' is not a number", word);
}

AttrValue parse_word(Scanner& in) {
  const std::string_view word = in.run(is_number_char);
  if (word.empty()) in.fail_here("an attribute value");
  if (word == "true" || word == "false") return word == "true";
  if (const auto dtype = parse_dtype(word)) return *dtype;
  return parse_number(word);
}

template <class T>
std::vector<T> list_of(const std::vector<AttrValue>& items) {
  std::vector<T> list;
  for (const AttrValue& item : items) {
    if (auto* value = std::get_if<T>(&item))
      list.push_back(*value);
    else if (auto* integer = std::get_if<int64_t>(&item); integer && std::is_same_v<T, double>)
      list.push_back(T(*integer));
    else
      fail("a list mixes a {} with others", kind_name(item));
  }
  return list;
}
template <>
std::vector<std::string> list_of(const std::vector<AttrValue>& items) {
  std::vector<std::string> list;
  for (const AttrValue& item : items) list.push_back(std::get<std::string>(item));
  return list;
}

std::vector<AttrValue> parse_items(Scanner& in) {
  std::vector<AttrValue> items;
  in.expect("(");
  while (!in.accept(")")) {
    if (!items.empty()) in.expect(",");
    items.push_back(in.peek() == '"' ? AttrValue(in.quoted()) : parse_word(in));
  }
  return items;
}

// `standard` is the op's default value, which determines the element type of an empty list.
AttrValue parse_list(Scanner& in, const AttrValue* standard) {
  const std::vector<AttrValue> items = parse_items(in);
  const auto any = [&](auto tag) {
    return std::ranges::any_of(items,
                               [](const AttrValue& v) { return std::holds_alternative<decltype(tag)>(v); });
  };
  const bool wants_reals = standard && std::holds_alternative<std::vector<double>>(*standard);
  if (items.empty() && standard && std::holds_alternative<std::vector<std::string>>(*standard))
    return std::vector<std::string>{};
  if (!items.empty() && any(std::string{})) {
    for (const AttrValue& item : items)
      if (!std::holds_alternative<std::string>(item)) fail("a list mixes strings with others");
    return list_of<std::string>(items);
  }
  if (wants_reals || any(double{})) return list_of<double>(items);
  return list_of<int64_t>(items);
}

AttrValue parse_value(Scanner& in, const AttrValue* standard) {
  switch (in.peek()) {
    case '"':
      return in.quoted();
    case '[':
      return Shape::parse(in.bracketed());
    case '(':
      return parse_list(in, standard);
    default:
      return parse_word(in);
  }
}

Attributes parse_attributes(Scanner& in, const OpDef& op) {
  Attributes attributes;
  const Attributes standard = op.canonical({});
  in.expect("{");
  while (!in.accept("}")) {
    if (attributes.size() > 0) in.expect(",");
    std::string name = in.name("an attribute name");
    in.expect("=");
    AttrValue value = parse_value(in, standard.find(name));
    attributes.set(std::move(name), std::move(value));
  }
  return attributes;
}

TensorType parse_type(Scanner& in) {
  const std::string_view word = in.run([](unsigned char c) { return std::isalnum(c); });
  const auto dtype = parse_dtype(word);
  if (!dtype) fail("'{}' is not a dtype", word);
  return {*dtype, in.peek() == '[' ? Shape::parse(in.bracketed()) : Shape()};
}

Tensor parse_tensor(Scanner& in, const TensorType& type, const std::string& name) {
  if (in.accept("...")) fail("'{}' was printed without its data, so it cannot be read back", name);
  const std::vector<AttrValue> items = parse_items(in);
  return dispatch(type.dtype, [&]<class T>(TypeTag<T>) {
    std::vector<T> values;
    for (const AttrValue& item : items) {
      if (auto* integer = std::get_if<int64_t>(&item))
        values.push_back(static_cast<T>(*integer));
      else if (auto* real = std::get_if<double>(&item))
        values.push_back(static_cast<T>(*real));
      else if (auto* flag = std::get_if<bool>(&item))
        values.push_back(static_cast<T>(static_cast<int>(*flag)));
      else
        fail("'{}' holds a {}, expected numbers", name, kind_name(item));
    }
    return Tensor::of<T>(type.shape.sizes(), values);
  });
}

// --- declarations

class Parser {
 public:
  Parser(std::string_view text, Model& model) : in_(text), model_(model) {
    for (size_t i = 0; i < model.tensors().size(); ++i)
      tensors_[model.tensors()[i].name] = static_cast<int32_t>(i);
  }

  void parse() {
    with_context(
        [&] {
          while (in_.peek() != '\0') parse_declaration();
        },
        [&] { return in_.position() + " of the text form"; });
  }

 private:
  void parse_declaration() {
    const std::string word = in_.name("'state', 'tensor', 'entry' or 'metadata'");
    if (word == "metadata") return parse_metadata();
    if (word == "state") return parse_state();
    if (word == "tensor") return parse_table_tensor();
    if (word == "entry") return parse_entry();
    fail("'{}' is not a declaration: expected 'state', 'tensor', 'entry' or 'metadata'", word);
  }

  void parse_metadata() {
    const std::string key = in_.quoted();
    in_.expect("=");
    model_.metadata[key] = in_.quoted();
  }

  StateRole parse_role() {
    const std::string word = in_.name("the role of the state");
    for (int i = 0; i <= static_cast<int>(StateRole::kStep); ++i)
      if (word == name_of(static_cast<StateRole>(i))) return static_cast<StateRole>(i);
    fail("'{}' is not the role of a state: expected parameter, buffer, optimizer, cache, random or step",
         word);
  }

  void parse_state() {
    State state;
    in_.expect("@");
    state.name = in_.name("the name of a state");
    in_.expect(":");
    state.type = parse_type(in_);
    state.role = parse_role();
    if (in_.accept("of ")) state.cache = parse_cache_layout();
    state.trainable = in_.accept("trainable");
    if (in_.accept("as")) {
      state.encoded = parse_encoded(state);
    } else if (in_.accept("="))
      state.initial = parse_tensor(in_, state.type, state.name);
    model_.add_state(std::move(state));
  }

  CacheLayout parse_cache_layout() {
    CacheLayout layout{.kind = in_.name("what the cache holds")};
    in_.expect("rows");
    layout.rows_axis = parse_axis();
    if (in_.accept("positions")) layout.positions_axis = parse_axis();
    return layout;
  }

  int parse_axis() {
    const std::string word = in_.name("the number of an axis");
    const AttrValue number = parse_number(word);
    const auto* axis = std::get_if<int64_t>(&number);
    if (!axis || *axis < 0 || *axis >= kMaxRank) fail("'{}' is not the number of an axis", word);
    return static_cast<int>(*axis);
  }

  EncodedValues parse_encoded(const State& state) {
    const std::string name = in_.name("the name of a format");
    EncodedValues values{find_file_format(name, state.type.dtype), {}};
    if (!values.format)
      fail("'{}' is no format of {}: expected q8, q4 or q4m", name, name_of(state.type.dtype));
    if (const auto why = values.format->why_not(state.type)) fail("state '{}': {}", state.name, *why);
    for (size_t i = 0; i < values.format->parts.size(); ++i) {
      in_.expect("=");
      values.parts.push_back(parse_tensor(in_, values.format->part_type(i, state.type), state.name));
    }
    return values;
  }

  void parse_table_tensor() {
    in_.expect("#");
    const std::string name = in_.name("the name of a tensor");
    in_.expect(":");
    const TensorType type = parse_type(in_);
    in_.expect("=");
    if (tensors_.contains(name)) fail("tensor '{}' is declared twice", name);
    tensors_[name] = model_.add_tensor(name, parse_tensor(in_, type, name));
  }

  void parse_entry() {
    Graph& graph = model_.add_entry(in_.name("the name of an entry point"));
    values_.clear();
    in_.expect("(");
    while (!in_.accept(")")) {
      if (!graph.inputs().empty()) in_.expect(",");
      const std::string name = in_.name("the name of an input");
      in_.expect(":");
      values_[name] = graph.add_input(name, parse_type(in_));
    }
    in_.expect("{");
    while (!in_.accept("}")) parse_line(graph);
  }

  void parse_line(Graph& graph) {
    if (in_.peek() == '%') return parse_node(graph);
    const std::string word = in_.name("a node, 'return' or 'update'");
    if (word == "return") {
      const std::string name = in_.name("the name of an output");
      in_.expect("=");
      graph.add_output(name, parse_reference(graph));
    } else if (word == "update") {
      in_.expect("@");
      const int32_t state = find_state(in_.name("the name of a state"));
      in_.expect("=");
      graph.add_update(state, parse_reference(graph));
    } else {
      fail("'{}' cannot begin a line: expected a node, 'return' or 'update'", word);
    }
  }

  void parse_node(Graph& graph) {
    in_.expect("%");
    const std::string name = in_.name("the name of a node");
    in_.expect("=");
    const std::string op_name = in_.name("an op");
    const OpDef* op = find_op(op_name);
    if (op == nullptr) fail("there is no op '{}'", op_name);
    std::vector<Value> inputs;
    in_.expect("(");
    while (!in_.accept(")")) {
      if (!inputs.empty()) in_.expect(",");
      inputs.push_back(parse_reference(graph));
    }
    const Attributes attributes = in_.peek() == '{' ? parse_attributes(in_, *op) : Attributes();
    const std::vector<Value> outputs = graph.add_node(*op, attributes, inputs, name);
    if (!outputs.empty() && outputs[0].name() != name) fail("the name '{}' is taken", name);
    if (in_.accept(":")) check_types(outputs, name);
    for (const Value& output : outputs) values_["%" + output.name()] = output;
  }

  void check_types(const std::vector<Value>& outputs, const std::string& name) {
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (i > 0) in_.expect(",");
      const TensorType given = parse_type(in_);
      if (!(given == outputs[i].type()))
        fail("output {} of '{}' is {}, the text says {}", i, name, outputs[i].type().to_string(),
             given.to_string());
    }
  }

  int32_t find_state(const std::string& name) {
    const int32_t state = model_.find_state(name);
    if (state < 0) fail("there is no state '{}'", name);
    return state;
  }

  Value parse_reference(Graph& graph) {
    if (in_.accept("@")) return graph.state(find_state(in_.name("the name of a state")));
    if (in_.accept("#")) {
      const std::string name = in_.name("the name of a tensor");
      if (!tensors_.contains(name)) fail("there is no tensor '{}'", name);
      return graph.constant(tensors_[name]);
    }
    std::string name = in_.accept("%") ? "%" : "";
    name += in_.name("a value");
    if (name[0] == '%' && in_.peek() == ':' && in_.accept(":"))
      name += ":" + in_.name("the number of an output");
    const auto at = values_.find(name);
    if (at == values_.end()) fail("there is no value '{}' before this line", name);
    return at->second;
  }

  Scanner in_;
  Model& model_;
  std::map<std::string, int32_t> tensors_;
  std::map<std::string, Value> values_;  // by name within the entry point; names of nodes include the '%'
};

}  // namespace

void parse_text(std::string_view text, Model& model) { Parser(text, model).parse(); }

std::unique_ptr<Model> parse_text(std::string_view text) {
  auto model = std::make_unique<Model>();
  parse_text(text, *model);
  return model;
}

}  // namespace genesis

#include "schema/ops/elementwise/fused_program.h"
#include "schema/core/parse_number.h"

#include <algorithm>
#include <charconv>

namespace genesis {
namespace {

constexpr size_t kMaxOps = 128;

// Reads "name %1 %2 {key=value, ...}".
class LineReader {
 public:
  explicit LineReader(std::string_view text) : rest_(text) {}

  std::string word() {
    const size_t end = std::min(rest_.find_first_of(" {"), rest_.size());
    std::string result(rest_.substr(0, end));
    rest_.remove_prefix(end);
    return result;
  }

  bool take(std::string_view token) {
    while (rest_.starts_with(' ')) rest_.remove_prefix(1);
    if (!rest_.starts_with(token)) return false;
    rest_.remove_prefix(token.size());
    return true;
  }
  void expect(std::string_view token) {
    if (!take(token)) fail("expected '{}' before '{}'", token, rest_);
  }
  bool done() { return take("") && rest_.empty(); }

  int number() {
    int value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc()) fail("expected a number before '{}'", rest_);
    rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
    return value;
  }

  Attributes attributes() {
    Attributes result;
    if (!take("{")) return result;
    do {
      take("");
      std::string name = until("=");
      expect("=");
      result.set(std::move(name), value());
    } while (take(","));
    expect("}");
    return result;
  }

 private:
  std::string until(std::string_view stops) {
    const size_t end = std::min(rest_.find_first_of(stops), rest_.size());
    std::string text(rest_.substr(0, end));
    rest_.remove_prefix(end);
    return text;
  }

  AttrValue value() {
    if (take("\"")) return quoted();
    if (take("(")) return list();
    if (rest_.starts_with('[')) {
      std::string text = until("]") + "]";
      expect("]");
      return Shape::parse(text);
    }
    return plain(until(",} )"));
  }

  std::string quoted() {
    std::string text;
    while (!rest_.empty() && rest_.front() != '"') {
      if (rest_.front() == '\\') rest_.remove_prefix(1);
      if (rest_.empty()) break;
      text += rest_.front();
      rest_.remove_prefix(1);
    }
    expect("\"");
    return text;
  }

  // Reads a list of integers, or a list of reals if one of the items is real.
  AttrValue list() {
    std::vector<int64_t> integers;
    std::vector<double> reals;
    bool real = false;
    while (!take(")")) {
      const AttrValue item = plain((take(""), until(",)")));
      if (auto* i = std::get_if<int64_t>(&item))
        integers.push_back(*i), reals.push_back(static_cast<double>(*i));
      else if (auto* d = std::get_if<double>(&item))
        reals.push_back(*d), real = true;
      else
        fail("a list holds something that is not a number");
      take(",");
    }
    return real ? AttrValue(reals) : AttrValue(integers);
  }

  static AttrValue plain(const std::string& text) {
    if (text == "true" || text == "false") return text == "true";
    if (const auto dtype = parse_dtype(text)) return *dtype;
    if (const auto integer = parse_number<int64_t>(text)) return *integer;
    double real;  // unlike parse_number<double>, accepts an infinity
    const char* end = text.data() + text.size();
    if (const auto [at, error] = std::from_chars(text.data(), end, real); error == std::errc() && at == end)
      return real;
    fail("'{}' is no attribute value", text);
  }

  std::string_view rest_;
};

FusedOp parse_line(const std::string& text, int known_values) {
  LineReader in(text);
  const std::string name = in.word();
  FusedOp line;
  line.op = find_op(name);
  if (!line.op) fail("there is no op '{}'", name);
  while (in.take("%")) {
    line.operands.push_back(in.number());
    if (line.operands.back() < 0 || line.operands.back() >= known_values)
      fail("%{} is not defined before this line", line.operands.back());
  }
  line.attributes = line.op->canonical(in.attributes());
  if (!in.done()) fail("unexpected text at the end of the line");
  return line;
}

// Checks a line, infers its type and adds it.
void append(FusedProgram& program, FusedOp line) {
  std::vector<TensorType> operands;
  for (int operand : line.operands) operands.push_back(program.type(operand));
  const int rank = operands.empty() ? 0 : operands[0].shape.rank();
  const OpDef& op = *line.op;
  if (!is_fusable(op, line.attributes, rank))
    fail("'{}{}' cannot stand in a fused region", op.name(), line.attributes.to_string());
  line.type = infer_types(op, line.attributes, operands).at(0);
  program.space = broadcast(program.space, line.type.shape);
  program.has_rows = program.has_rows || is_row_reduction(op, line.attributes, rank);
  program.ops.push_back(std::move(line));
}

Shape row_shape(Shape shape) {
  shape[shape.rank() - 1] = 1;
  return shape;
}

// Checks that results and reduced values cover the whole space, or one element in each of its rows.
void check_shapes(const FusedProgram& program) {
  const Shape& space = program.space;
  for (const FusedOp& line : program.ops)
    if (program.has_rows && is_row_reduction(*line.op, line.attributes, space.rank()) &&
        !(program.type(line.operands[0]).shape == space))
      fail("{} is reduced over {}, but the region runs over {}", line.op->name(),
           program.type(line.operands[0]).to_string(), space.to_string());
  for (int output : program.outputs) {
    const Shape& shape = program.type(output).shape;
    if (shape == space || (program.has_rows && shape == row_shape(space))) continue;
    fail("result %{} has shape {}, but the region runs over {}", output, shape.to_string(),
         space.to_string());
  }
}

FusedProgram with_inputs(Types inputs) {
  FusedProgram program;
  program.inputs.assign(inputs.begin(), inputs.end());
  for (const TensorType& type : inputs) program.space = broadcast(program.space, type.shape);
  return program;
}

}  // namespace

const TensorType& FusedProgram::type(int value) const {
  const auto index = static_cast<size_t>(value);
  return index < inputs.size() ? inputs[index] : ops[index - inputs.size()].type;
}

bool is_row_reduction(const OpDef& op, const Attributes& attributes, int rank) {
  static constexpr std::string_view kReductions[] = {"sum", "mean", "max", "min"};
  if (std::ranges::find(kReductions, op.name()) == std::end(kReductions)) return false;
  const auto* axes = std::get_if<std::vector<int64_t>>(attributes.find("axes"));
  const auto* keep = std::get_if<bool>(attributes.find("keep_dims"));
  if (!axes || !keep || !*keep || rank == 0) return false;
  return axes->empty() ? rank == 1 : axes->size() == 1 && (axes->front() == -1 || axes->front() == rank - 1);
}

bool is_fusable(const OpDef& op, const Attributes& attributes, int rank) {
  return op.info.elementwise || op.name() == "full" || op.name() == "expand" ||
         is_row_reduction(op, attributes, rank);
}

FusedProgram parse_fused_program(const std::vector<std::string>& body, const std::vector<int64_t>& outputs,
                                 Types inputs) {
  FusedProgram program = with_inputs(inputs);
  if (body.empty() || body.size() > kMaxOps)
    fail("a fused region has 1 to {} ops, this one has {}", kMaxOps, body.size());
  for (const std::string& line : body)
    with_context([&] { append(program, parse_line(line, program.num_values())); },
                 [&] { return fmt::format("in '{}' of a fused region", line); });
  if (outputs.empty()) fail("a fused region has no results");
  for (int64_t output : outputs) {
    if (output < static_cast<int64_t>(inputs.size()) || output >= program.num_values())
      fail("result %{} of a fused region is not made by one of its ops", output);
    program.outputs.push_back(static_cast<int>(output));
  }
  check_shapes(program);
  return program;
}

FusedProgram single_op_program(const OpDef& op, const Attributes& attributes, Types inputs) {
  FusedProgram program = with_inputs(inputs);
  FusedOp line{&op, attributes, {}, {}};
  for (size_t i = 0; i < inputs.size(); ++i) line.operands.push_back(static_cast<int>(i));
  append(program, std::move(line));
  program.outputs = {static_cast<int>(inputs.size())};
  return program;
}

std::string fused_op_text(const OpDef& op, const Attributes& attributes, const std::vector<int>& operands) {
  std::string text(op.name());
  for (int operand : operands) text += " %" + std::to_string(operand);
  return attributes.size() ? text + " " + attributes.to_string() : text;
}

}  // namespace genesis

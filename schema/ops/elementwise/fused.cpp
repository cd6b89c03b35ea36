#include "schema/ops/elementwise/fused.h"

#include "schema/ops/elementwise/fused_program.h"

namespace genesis {
namespace ops {

std::vector<TensorType> Fused::infer(Types in) const {
  const FusedProgram program = parse_fused_program(*this, in);
  std::vector<TensorType> types;
  for (int value : program.outputs) types.push_back(program.type(value));
  return types;
}

double Fused::sum_length(Types in, Types) const {
  const FusedProgram program = parse_fused_program(*this, in);
  return program.has_rows ? row_length({DType::f32, program.space}) : 1;
}

std::vector<InPlace> Fused::in_place(Types in, Types) const {
  const FusedProgram program = parse_fused_program(*this, in);
  const int num_inputs = static_cast<int>(in.size());
  std::vector<int> last_use(in.size(), -1);
  for (size_t i = 0; i < program.ops.size(); ++i)
    for (int operand : program.ops[i].operands)
      if (operand < num_inputs) last_use[static_cast<size_t>(operand)] = static_cast<int>(i);
  std::vector<InPlace> pairs;
  for (size_t o = 0; o < program.outputs.size(); ++o)
    for (int i = 0; i < num_inputs; ++i)
      if (last_use[static_cast<size_t>(i)] <= program.outputs[o] - num_inputs)
        pairs.push_back({static_cast<int>(o), i});
  return pairs;
}

}  // namespace ops

FusedProgram parse_fused_program(const ops::Fused& op, Types inputs) {
  return parse_fused_program(op.body, op.outputs, inputs);
}

std::span<const OpDef* const> fused_ops() { return kOpDefs<ops::Fused>; }

std::vector<Value> fused(std::vector<Value> inputs, std::vector<std::string> body,
                         std::vector<int64_t> outputs) {
  return emit_node(ops::Fused{std::move(body), std::move(outputs)}, inputs);
}

}  // namespace genesis

#include "tests/fuzz/random_graph.h"

#include <algorithm>
#include <array>

#include "schema/ops/tensor/loop.h"

namespace genesis::testing {

int64_t random_size(Mutator& mutator, bool extreme) {
  static constexpr int64_t kOdd[] = {7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 128, 129, 200, 257, 300};
  static constexpr int64_t kExtreme[] = {
      int64_t{1} << 31, (int64_t{1} << 32) + 1, int64_t{1} << 40, int64_t{1} << 52,       int64_t{1} << 53,
      int64_t{1} << 54, int64_t{1} << 55,       int64_t{1} << 61, (int64_t{1} << 62) - 1, INT64_MAX};
  if (extreme && mutator.chance(3)) return kExtreme[mutator.below(std::size(kExtreme))];
  switch (mutator.below(6)) {
    case 0:
      return 0;
    case 1:
      return kOdd[mutator.below(std::size(kOdd))];
    default:
      return static_cast<int64_t>(1 + mutator.below(5));
  }
}

namespace {

// Input shapes of ops, in letters that stand for the sizes of this graph.
constexpr std::string_view kShapes[] = {"",     "a",    "b",    "c",    "d",    "1",   "2",    "ab",   "bc",
                                        "cb",   "ac",   "dc",   "ec",   "aa",   "abc", "abd",  "abe",  "1bc",
                                        "abcd", "aecd", "acbd", "abec", "aebc", "a1c", "abdd", "abcde"};

class GraphMaker {
 public:
  explicit GraphMaker(Mutator& mutator)
      : mutator_(mutator), model_(std::make_unique<Model>()), graph_(model_->add_entry("main")) {
    extreme_ = mutator.chance(3);
    for (Dim& size : sizes_) size = random_size(mutator, extreme_);
    if (mutator.chance(5)) sizes_[mutator.below(sizes_.size())] = Dim::symbol("batch");
    static constexpr DType kMain[] = {DType::f32, DType::f32,  DType::f32, DType::f32,
                                      DType::f64, DType::bf16, DType::f16, DType::i64};
    main_ = kMain[mutator.below(std::size(kMain))];
  }

  std::unique_ptr<Model> make() {
    for (uint64_t nodes = 1 + mutator_.below(5); nodes > 0; --nodes) add_some_node();
    add_outputs();
    return std::move(model_);
  }

 private:
  // Most attempts give no valid node. The first valid one is kept.
  void add_some_node() {
    constexpr int kAttempts = 150;
    const OpDef* op = all_ops()[mutator_.below(all_ops().size())];
    if (is<ops::Loop>(*op)) return;  // a body is an entry point, of which there is one
    for (int attempt = 0; attempt < kAttempts; ++attempt)
      if (try_add(*op)) return;
  }

  struct Operand {
    int32_t value = -1;  // a value of the graph, or
    TensorType type;     // the type of a new input
  };

  bool try_add(const OpDef& op) {
    const auto [min, max] = op.info.inputs;
    std::vector<Operand> operands(static_cast<size_t>(min) +
                                  mutator_.below(static_cast<uint64_t>(std::min(max - min, 6)) + 1));
    for (Operand& operand : operands)
      operand = &operand != operands.data() && mutator_.chance(3) ? operands[0] : some_operand();
    if (op.info.random) operands[0] = {-1, {DType::i64, {2}}};
    std::vector<TensorType> types;
    for (const Operand& operand : operands) types.push_back(operand.type);
    try {
      const Attributes attributes = op.canonical(some_attributes(op));
      if (infer_types(op, attributes, types).empty()) return false;
      std::vector<Value> inputs;
      for (const Operand& operand : operands)
        inputs.push_back(operand.value < 0 ? new_input(operand.type) : graph_.handle({operand.value}));
      graph_.add_node(op, attributes, inputs);
      return true;
    } catch (const Error&) {
      return false;
    }
  }

  Operand some_operand() {
    const size_t known = graph_.values().size();
    if (known > 0 && mutator_.chance(2)) {
      const auto at = static_cast<int32_t>(mutator_.below(known));
      return {at, graph_.type({at})};
    }
    return {-1, {mutator_.chance(4) ? static_cast<DType>(mutator_.below(kNumDTypes)) : main_, some_shape()}};
  }

  Shape some_shape() {
    Shape shape;
    for (char letter : kShapes[mutator_.below(std::size(kShapes))])
      shape.push_back(letter >= 'a' ? sizes_[static_cast<size_t>(letter - 'a')] : Dim(letter - '0'));
    return shape;
  }

  Value new_input(const TensorType& type) {
    const std::string name = "x" + std::to_string(graph_.values().size());
    if (!type.shape.is_constant() || !mutator_.chance(5)) return graph_.add_input(name, type);
    return graph_.state(model_->add_state({name, type, StateRole::kBuffer, false, Tensor()}));
  }

  Attributes some_attributes(const OpDef& op) {
    Attributes attributes;
    for (const auto& [name, value] : op.canonical({}))
      if (mutator_.chance(2)) attributes.set(name, some_attribute(value));
    return attributes;
  }

  int64_t some_number() {
    if (mutator_.chance(8)) return mutator_.number();
    const Dim& size = sizes_[mutator_.below(sizes_.size())];
    if (mutator_.chance(3) && size.is_constant()) return size.value();
    return static_cast<int64_t>(mutator_.below(7)) - 2;
  }

  AttrValue some_attribute(const AttrValue& like) {
    static const std::string kNames[] = {"none", "mean", "sum",       "tanh", "half", "interleaved", "bthd",
                                         "bhtd", "gelu", "gelu_tanh", "silu", "relu", "bias",        "x"};
    if (std::holds_alternative<int64_t>(like)) return some_number();
    if (std::holds_alternative<std::string>(like)) return kNames[mutator_.below(std::size(kNames))];
    if (std::holds_alternative<Shape>(like)) return some_shape();
    if (std::holds_alternative<std::vector<int64_t>>(like)) return some_numbers();
    return mutator_.attribute(like);
  }

  std::vector<int64_t> some_numbers() {
    std::vector<int64_t> numbers(mutator_.below(5));
    const bool axes = mutator_.chance(2);
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = axes ? static_cast<int64_t>(i) : some_number();
    if (axes && numbers.size() > 1) std::swap(numbers[0], numbers[mutator_.below(numbers.size())]);
    return numbers;
  }

  void add_outputs() {
    for (const Node& node : graph_.nodes())
      for (ValueId output : node.outputs)
        if (!mutator_.chance(3)) graph_.add_output("y" + std::to_string(output.index), graph_.handle(output));
    for (size_t state = 0; state < model_->states().size(); ++state) try_update(static_cast<int32_t>(state));
  }

  void try_update(int32_t state) {
    for (size_t i = graph_.values().size(); i-- > 0;) {
      const Value value = graph_.handle({static_cast<int32_t>(i)});
      if (!(value.type() == model_->state(state).type) || mutator_.chance(3)) continue;
      return graph_.add_update(state, value);
    }
  }

  Mutator& mutator_;
  std::unique_ptr<Model> model_;
  Graph& graph_;
  std::array<Dim, 5> sizes_;  // sizes of the letters
  bool extreme_ = false;
  DType main_ = DType::f32;
};

}  // namespace

std::unique_ptr<Model> random_graph(Mutator& mutator) { return GraphMaker(mutator).make(); }

}  // namespace genesis::testing

// Tests low precision in training as graphs: the dtype of each kind of value and each class of op.
#include <set>

#include "passes/precision/cast_precision.h"
#include "passes/training/train_step.h"
#include "tests/passes/passes_test_util.h"

namespace genesis::passes {
namespace {

TEST(MixedPrecision, EveryOpDeclaresItsClass) {
  std::set<Precision> seen;
  for (const OpDef* op : all_ops()) {
    EXPECT_NE(op->info.precision, Precision::kUndeclared) << op->name();
    seen.insert(op->info.precision);
  }
  EXPECT_EQ(seen.size(), std::size(EnumNames<Precision>::names)) << "every class has an op";
}

// Has a weight read twice, a norm's weight, a real input, positions, and a state that is not a parameter.
constexpr const char* kText = R"(
state @w: f32[4,4] parameter trainable
state @norm: f32[4] parameter trainable
state @running: f32[4] buffer
entry loss(x: f32[b,4], y: f32[b,4]) {
  %h = linear(x, @w)
  %n = rms_norm(%h, @norm) {has_weight=true}
  %positions = arange() {length=[4], dtype=f32}
  %p = sin(%positions)
  %q = add(%n, %p)
  %z = linear(%q, @w)
  %two = full() {value=2.0}
  %s = mul(%z, %two)
  %mean = mean(%s) {axes=(0)}
  %next = add(@running, %mean)
  %error = sub(%s, y)
  %squares = square(%error)
  %loss = mean(%squares)
  return loss = %loss
  update @running = %next
}
)";

TEST(MixedPrecision, FollowsClassesAndKinds) {
  const auto model = parse_text(kText);
  const Graph low = mixed_precision(model->entry("loss"), DType::bf16);
  verify(low);
  EXPECT_EQ(to_text(low), R"(entry loss(x: f32[b,4], y: f32[b,4]) {
  %h.cast = cast(x) {dtype=bf16} : bf16[b,4]
  %w.cast = cast(@w) {dtype=bf16} : bf16[4,4]
  %h = linear(%h.cast, %w.cast) : bf16[b,4]
  %n = rms_norm(%h, @norm) {has_weight=true} : bf16[b,4]
  %positions = arange() {dtype=f32, length=[4]} : f32[4]
  %p = sin(%positions) : f32[4]
  %q.cast = cast(%p) {dtype=bf16} : bf16[4]
  %q = add(%n, %q.cast) : bf16[b,4]
  %z = linear(%q, %w.cast) : bf16[b,4]
  %two = full() {value=2.0} : f32[]
  %s = mul(%z, %two) : bf16[b,4]
  %mean.cast = cast(%s) : f32[b,4]
  %mean = mean(%mean.cast) {axes=(0)} : f32[4]
  %next = add(@running, %mean) : f32[4]
  %error = sub(%mean.cast, y) : f32[b,4]
  %squares = square(%error) : f32[b,4]
  %loss = mean(%squares) : f32[]
  return loss = %loss
  update @running = %next
}
)");
}

TEST(MixedPrecision, KeepsNamedNodesInF32) {
  const auto model = parse_text(kText);
  const std::string text = to_text(mixed_precision(model->entry("loss"), DType::bf16, {"n", "q"}));
  EXPECT_NE(text.find("%n = rms_norm(%n.cast, @norm) {has_weight=true} : f32[b,4]"), std::string::npos)
      << text;
  EXPECT_NE(text.find("%q = add(%n, %p) : f32[b,4]"), std::string::npos) << text;
  EXPECT_NE(text.find("%z = linear(%z.cast, %w.cast) : bf16[b,4]"), std::string::npos) << text;
}

TEST(MixedPrecision, KeepingEverythingGivesTheF32Graph) {
  for (const char* options : {"adamw,clip=1", "sgd,momentum=0.9,accumulate=2,clip_value=0.5"}) {
    std::string texts[2];
    for (int low : {0, 1}) {
      const auto model = parse_text(kText);
      TrainOptions train = parse_train_options(options);
      if (low) {
        train.precision = TrainPrecision::kBf16;
        train.keep_f32 = {"*"};
      }
      add_train_step(*model, train);
      texts[low] = to_text(model->entry("train_step"));
    }
    EXPECT_EQ(texts[0], texts[1]);
  }
}

TEST(MixedPrecision, AWeightIsCastOnceAndUpdatedInF32) {
  const auto model = parse_text(kText);
  add_train_step(*model, parse_train_options("adamw,precision=bf16"));
  verify(*model);
  const Graph& graph = model->entry("train_step");
  int casts_of_w = 0, updates = 0;
  for (const Node& node : graph.nodes()) {
    if (node.op->name() == "cast" && graph.value(node.inputs[0]).name == "w") ++casts_of_w;
    if (node.op->name() != "adam_update") continue;
    ++updates;
    const auto types = graph.input_types(node);  // lr, step, parameter, gradient, m, v
    const bool matrix = types[2].shape.rank() == 2;
    EXPECT_EQ(types[2].dtype, DType::f32);
    EXPECT_EQ(types[3].dtype, matrix ? DType::bf16 : DType::f32)
        << "the gradient, as the backward pass made it";
    EXPECT_EQ(types[4].dtype, DType::f32);
  }
  EXPECT_EQ(casts_of_w, 1);
  EXPECT_EQ(updates, 2);
  EXPECT_EQ(to_text(model->entry("loss")), to_text(parse_text(kText)->entry("loss"))) << "as authored";
}

TEST(MixedPrecision, LossScaleIsStatesOfTheStep) {
  const auto model = parse_text(kText);
  add_train_step(*model, parse_train_options("adamw,precision=f16,loss_scale=1024"));
  verify(*model);
  const State& scale = model->state(model->find_state("optimizer.loss_scale"));
  EXPECT_EQ(scale.initial.to_doubles()[0], 1024);
  const Graph& graph = model->entry("train_step");
  std::set<std::string> outputs;
  for (const NamedValue& output : graph.outputs()) outputs.insert(output.name);
  EXPECT_EQ(outputs, (std::set<std::string>{"grad_norm", "loss", "loss_scale", "lr", "skipped_steps"}));
  for (const Node& node : graph.nodes())
    if (node.op->name() == "adam_update") {
      EXPECT_TRUE(std::get<bool>(*node.attributes.find("skip_nonfinite"))) << node.name;
    }
}

TEST(MixedPrecision, ErrorsNameThePattern) {
  const auto model = parse_text(kText);
  TrainOptions options;
  options.precision = TrainPrecision::kBf16;
  options.keep_f32 = {"no.such.layer*"};
  try {
    add_train_step(*model, options);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("'no.such.layer*'"), std::string::npos) << error.message();
  }
  EXPECT_THROW(cast_precision(*model, DType::bf16, {"no.such.layer*"}), Error);
  EXPECT_THROW(parse_train_options("adamw,precision=f64"), Error);
  EXPECT_THROW(parse_train_options("adamw,precision=f16,loss_scale=0"), Error);
}

// A weight of a kept node also stays f32 in the states.
TEST(MixedPrecision, InferenceKeepsWeightsOfKeptNodes) {
  const auto model = parse_text(kText);
  const auto low = cast_precision(*model, DType::f16, {"n"});
  verify(*low);
  EXPECT_EQ(low->state(low->find_state("w")).type.dtype, DType::f16);
  EXPECT_EQ(low->state(low->find_state("norm")).type.dtype, DType::f32);
}

}  // namespace
}  // namespace genesis::passes

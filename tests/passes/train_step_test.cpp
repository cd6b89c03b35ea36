#include "passes/training/train_step.h"

#include "passes/core/bind.h"
#include "passes/pipelines.h"
#include "tests/passes/passes_test_util.h"
#include "tests/passes/warnings.h"

namespace genesis::passes {
namespace {

constexpr const char* kText = R"(
state @w: f32[3] parameter trainable
state @b: f32[1] parameter trainable
state @frozen: f32[3] parameter
state @unused: f32[5] parameter trainable
state @mean: f32[3] buffer
entry loss(x: f32[batch,3], scale: f32[]) {
  %h = mul(x, @w)
  %g = add(%h, @frozen)
  %p = add(%g, @b)
  %q = mul(%p, scale)
  %next = maximum(@mean, @frozen)
  %loss = mean(%q)
  return loss = %loss
  return q = %q
  update @mean = %next
}
)";

std::string train_text(const std::string& options, const char* text = kText) {
  const auto model = parse_text(text);
  add_train_step(*model, parse_train_options(options));
  verify(*model);
  return to_text(model->entry("train_step"));
}

std::vector<std::string> lines_with(const std::string& text, const std::string& part) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    if (line.find(part) != std::string::npos) lines.push_back(line.substr(2));
    at = end + 1;
  }
  return lines;
}

// The C++ API gives the same as genesis-opt --train: the loss goes through the preparation first.
TEST(TrainStep, AddTrainingPreparesTheLoss) {
  const auto by_hand = parse_text(kText), model = parse_text(kText);
  const TrainOptions options{.optimizer = optim::SGD{.lr = 0.5}, .clip = 1};
  by_hand->replace_entry(run_passes(by_hand->entry("loss"), preparation_pipeline(), {}, {}));
  add_train_step(*by_hand, options);
  add_training(*model, options);
  EXPECT_EQ(to_text(model->entry("train_step")), to_text(by_hand->entry("train_step")));
  EXPECT_EQ(to_text(model->entry("loss")), to_text(by_hand->entry("loss")));
  EXPECT_THROW(add_training(*model, options), Error) << "there is a train_step";
  EXPECT_THROW(add_train_step(*parse_text(kText), {.optimizer = optim::SGD{.lr = -1}}), Error);
}

TEST(TrainStep, UpdatesParametersOptimizerStatesAndWhatTheLossUpdates) {
  const auto model = parse_text(kText);
  add_train_step(*model, parse_train_options("adamw,lr=0.5,weight_decay=0.1,clip=1,no_decay=1d"));
  verify(*model);
  const Graph& step = model->entry("train_step");
  std::vector<std::string> updated, outputs;
  for (const StateUpdate& update : step.updates()) updated.push_back(model->state(update.state).name);
  for (const NamedValue& output : step.outputs()) outputs.push_back(output.name);
  EXPECT_EQ(updated, (std::vector<std::string>{"w", "b", "mean", "optimizer.step", "optimizer.w.m",
                                               "optimizer.w.v", "optimizer.b.m", "optimizer.b.v"}));
  EXPECT_EQ(outputs, (std::vector<std::string>{"loss", "grad_norm", "lr", "q"}));
  EXPECT_EQ(model->state(model->find_state("optimizer.step")).role, StateRole::kStep);
  EXPECT_EQ(model->state(model->find_state("optimizer.w.m")).role, StateRole::kOptimizer);
  EXPECT_EQ(model->metadata.at("training"), "adamw,lr=0.5,weight_decay=0.1,clip=1,no_decay=1d");
}

std::vector<std::string> outputs_of(const std::string& options, const char* text) {
  const auto model = parse_text(text);
  add_train_step(*model, parse_train_options(options));
  verify(*model);
  std::vector<std::string> outputs;
  for (const NamedValue& output : model->entry("train_step").outputs()) outputs.push_back(output.name);
  return outputs;
}

constexpr const char* kManyOutputs = R"(
state @w: f32[3] parameter trainable = (0.5, -1.0, 2.0)
entry loss(x: f32[batch,3]) {
  %p = mul(x, @w)
  %loss = mean(%p)
  %accuracy = max(%p)
  %lr = min(%p)
  return loss = %loss
  return accuracy = %accuracy
  return products = %p
  return lr = %lr
}
)";

TEST(TrainStep, OutputsBesideTheLossAreChosenByName) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(outputs_of("sgd", kManyOutputs), (Names{"loss", "grad_norm", "lr", "accuracy", "products"}));
  EXPECT_EQ(outputs_of("sgd,outputs=acc*", kManyOutputs), (Names{"loss", "grad_norm", "lr", "accuracy"}));
  EXPECT_EQ(outputs_of("sgd,output=accuracy,outputs=products", kManyOutputs),
            (Names{"loss", "grad_norm", "lr", "products"}));
  const auto message = [](const std::string& options) -> std::string {
    try {
      outputs_of(options, kManyOutputs);
    } catch (const Error& error) {
      return error.message();
    }
    return "";
  };
  EXPECT_NE(message("sgd,outputs=acuracy").find("which has: loss, accuracy, products, lr"), std::string::npos);
  EXPECT_NE(message("sgd,outputs=lr;accuracy").find("rename"), std::string::npos);
}

// The minimized value may have the name "loss", too, which then is the step's own.
TEST(TrainStep, TellsOfOutputsThatItLeavesOut) {
  const auto warnings = [](const std::string& options, const std::string& returned) {
    const std::string text =
        "state @w: f32[3] parameter trainable = (0.5, -1.0, 2.0)\nentry loss(x: f32[batch,3]) {\n"
        "%p = mul(x, @w)\n%loss = mean(%p)\n%total = max(%p)\nreturn loss = " +
        returned + "\nreturn total = %total\n}\n";
    return testing::warnings_of([&] { train_text(options, text.c_str()); });
  };
  EXPECT_NE(warnings("sgd,output=total", "%loss").find("the output 'loss' of entry point 'loss' is left out"),
            std::string::npos);
  EXPECT_EQ(warnings("sgd,output=total", "%total"), "");
  EXPECT_EQ(warnings("sgd", "%loss"), "");
}

TEST(TrainStep, IsTheSameTwice) {
  EXPECT_EQ(train_text("lion,accumulate=2"), train_text("lion,accumulate=2"));
}

TEST(TrainStep, TrainsASubset) {
  EXPECT_EQ(lines_with(train_text("sgd,freeze=b"), "update @").size(), 3u);  // w, mean, step
  EXPECT_EQ(lines_with(train_text("sgd,train=b;nothing"), "update @b").size(), 1u);
  EXPECT_EQ(lines_with(train_text("sgd,momentum=0.9"), "update @").size(), 6u);
}

TEST(TrainStep, DecayFollowsTheExclusions) {
  const auto decays = [](const std::string& options) {
    return lines_with(train_text(options), "weight_decays=(0.25)").size();
  };
  EXPECT_EQ(decays("adamw,weight_decay=0.25"), 2u);
  EXPECT_EQ(decays("adamw,weight_decay=0.25,no_decay=b"), 1u);
  EXPECT_EQ(decays("adamw,weight_decay=0.25,no_decay=1d"), 0u);
}

TEST(TrainStep, GroupsSetRateDecayAndWhatIsTrained) {
  const std::string text =
      train_text("adamw,lr=0.5,weight_decay=0.25,group={w:lr=0.5x},group={*:weight_decay=0.125}");
  const auto updates = lines_with(text, "adam_update(");
  ASSERT_EQ(updates.size(), 2u);
  EXPECT_NE(updates[0].find("weight_decays=(0.25)"), std::string::npos)
      << updates[0] << ": the first group counts";
  EXPECT_NE(updates[1].find("weight_decays=(0.125)"), std::string::npos) << updates[1];
  EXPECT_NE(updates[0].substr(0, updates[0].find("{")), updates[1].substr(0, updates[1].find("{")));
  EXPECT_EQ(lines_with(train_text("sgd,group={b:freeze}"), "update @b").size(), 0u);
  EXPECT_EQ(train_text("adamw,no_decay=1d,group={*:weight_decay=0.01}"), train_text("adamw"))
      << "above no_decay";
}

// Updates with equal rates stay alike, so that they can be one node.
TEST(TrainStep, ParametersOfOneRateShareIt) {
  const std::string text = train_text("adamw,group={w:lr=0.5x},group={b:lr=0.5x,weight_decay=0}");
  EXPECT_EQ(lines_with(text, " = mul(%optimizer.cast").size(), 1u) << text;
  EXPECT_EQ(train_text("adamw,group={w:lr=1x,weight_decay=0.01}"), train_text("adamw"));
}

TEST(TrainStep, APatternOfAGroupHasToNameAParameter) {
  const auto message = [](const std::string& options) {
    try {
      train_text(options, R"(
state @layers.0.fc.bias: f32[1] parameter trainable
state @layers.1.fc.bias: f32[1] parameter trainable
entry loss() {
  %sum = mul(@layers.0.fc.bias, @layers.1.fc.bias)
  %loss = mean(%sum)
  return loss = %loss
}
)");
    } catch (const Error& error) {
      return error.message();
    }
    return std::string("no error");
  };
  EXPECT_NE(message("sgd,group={*bais:lr=2x}")
                .find("the pattern '*bais' of the parameter group '*bais:lr=2x' names no parameter; near it "
                      "are: bias"),
            std::string::npos)
      << message("sgd,group={*bais:lr=2x}");
  EXPECT_EQ(message("sgd,group={*bias:lr=2x}"), "no error");
}

TEST(TrainStep, AccumulatesOverSlicesOfTheInputs) {
  const std::string text = train_text("sgd,accumulate=3");
  EXPECT_EQ(text.substr(0, text.find('\n')), "entry train_step(x: f32[3*batch,3], scale: f32[]) {");
  EXPECT_EQ(
      lines_with(text, " = slice(x)"),
      (std::vector<std::string>{"%x.slice = slice(x) {length=[batch]} : f32[batch,3]",
                                "%x.slice_1 = slice(x) {length=[batch], start=[batch]} : f32[batch,3]",
                                "%x.slice_2 = slice(x) {length=[batch], start=[2*batch]} : f32[batch,3]"}));
  // The running statistic goes through all micro-batches.
  EXPECT_EQ(lines_with(text, "maximum("),
            (std::vector<std::string>{"%next = maximum(@mean, @frozen) : f32[3]",
                                      "%next_1 = maximum(%next, @frozen) : f32[3]",
                                      "%next_2 = maximum(%next_1, @frozen) : f32[3]"}));
  // The ranks of a mesh average their values of it, as they do with losses and gradients.
  EXPECT_EQ(lines_with(text, "update @mean"),
            std::vector<std::string>{"update @mean = %optimizer.all_reduce_1:1"});
  const std::vector<std::string> averages = lines_with(text, " = all_reduce(");
  ASSERT_EQ(averages.size(), 2u);
  EXPECT_NE(averages[1].find(", %next_2) {axis=\"data\", reduction=\"mean\"}"), std::string::npos) << averages[1];
}

TEST(TrainStep, BindsToTheSizesOfAllMicroBatches) {
  const auto model = parse_text(kText);
  add_train_step(*model, parse_train_options("adam,accumulate=4"));
  const Graph bound = bind(model->entry("train_step"), {{"batch", 2}});
  verify(bound);
  EXPECT_EQ(bound.type(bound.inputs()[0]).to_string(), "f32[8,3]");
}

void expect_error(const char* text, const std::string& options, const char* part) {
  try {
    train_text(options, text);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(error.message().find(part), std::string::npos) << error.message();
  }
}

TEST(TrainStep, ErrorsNameWhatDoesNotFit) {
  expect_error(kText, "sgd,entry=nonsense", "no entry point 'nonsense'; it has: loss");
  expect_error(kText, "sgd,output=nonsense", "no output 'nonsense' to minimize; it has: loss, q");
  expect_error(kText, "sgd,output=q", "'q' of type f32[batch,3]: a loss is one real number");
  expect_error(kText, "sgd,train=nothing",
               "there is no parameter to train in entry point 'loss' (train=nothing");
  expect_error(kText, "sgd,name=loss", "already has an entry point 'loss'");
  const char* detached = R"(
state @w: f32[] parameter trainable
entry loss() {
  %a = ge(@w, @w)
  %b = cast(%a)
  return loss = %b
}
)";
  expect_error(detached, "sgd", "does not depend on any parameter to train");
}

}  // namespace
}  // namespace genesis::passes

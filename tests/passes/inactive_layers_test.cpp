// A loss built for evaluation is trained without its dropout and with fixed batch statistics. Tests that
// add_train_step reports it, also for a model saved and loaded before.
#include "builder/genesis.h"
#include "passes/training/train_step.h"
#include "schema/file/reader.h"
#include "schema/file/writer.h"
#include "tests/passes/passes_test_util.h"
#include "tests/passes/warnings.h"
#include "tests/schema/file_models.h"

namespace genesis::passes {
namespace {

std::string warnings_of(Model& model) {
  return testing::warnings_of([&] { add_train_step(model); });
}

std::unique_ptr<Model> classifier(Mode mode, double p, bool norm = false) {
  auto model = std::make_unique<Model>();
  const Scope scope(*model, 1);
  const nn::Linear fc(scope / "fc", 4, 3);
  const nn::Dropout drop(scope / "drop", p);
  const nn::BatchNorm1d bn(scope / "bn", 3);
  for (const bool trains : {false, true}) {
    GraphBuilder g(*model, trains ? "loss" : "forward", trains ? mode : Mode::kEval);
    Value x = fc(drop(g.input("x", DType::f32, {symbol("batch"), 4})));
    if (norm) x = bn(x);
    if (trains)
      g.output("loss", cross_entropy(x, g.input("target", DType::i64, {symbol("batch")})));
    else
      g.output("y", x);
  }
  return model;
}

TEST(InactiveLayers, ALossWithoutItsDropoutIsWarnedOf) {
  const std::string warning = warnings_of(*classifier(Mode::kEval, 0.5));
  for (const char* part : {"'loss'", "dropout 'drop'", "Mode::kTrain"})
    EXPECT_NE(warning.find(part), std::string::npos) << warning;
  EXPECT_NE(warnings_of(*classifier(Mode::kEval, 0, true)).find("batch norm 'bn'"), std::string::npos);
}

TEST(InactiveLayers, OthersAreNot) {
  EXPECT_EQ(warnings_of(*classifier(Mode::kTrain, 0.5, true)), "")
      << "`forward` alone has layers that are off";
  EXPECT_EQ(warnings_of(*classifier(Mode::kEval, 0)), "") << "a dropout of 0 does nothing anyway";
  const auto model = classifier(Mode::kEval, 0.5);
  model->remove_entry("loss");
  GraphBuilder g(*model, "loss", Mode::kTrain);
  const Value w = g.state("fc.weight");
  g.output("loss", mean(w * w));
  EXPECT_EQ(warnings_of(*model), "") << "the loss was built anew";
}

TEST(InactiveLayers, AFileKeepsTheTrace) {
  const testing::TemporaryFolder folder;
  save_model(*classifier(Mode::kEval, 0.5), folder / "m.genesis");
  EXPECT_NE(warnings_of(*load_model(folder / "m.genesis")).find("dropout 'drop'"), std::string::npos);
}

}  // namespace
}  // namespace genesis::passes

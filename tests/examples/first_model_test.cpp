// Runs the program of README unchanged, and checks that the file it saves has the learned values.
#include <filesystem>
#include <regex>

#include "executor/session.h"
#include "schema/file/reader.h"
#include "tests/schema/file_models.h"
#include "tests/tools/process.h"

#include <gtest/gtest.h>

namespace genesis {
namespace {

using namespace testing;

// Returns the same points as the program.
NamedTensors products() {
  const Tensor points = Tensor::rand({256, 2}, 2);
  const auto numbers = points.as<float>();
  std::vector<float> products;
  for (size_t i = 0; i < numbers.size(); i += 2) products.push_back(numbers[i] * numbers[i + 1]);
  return {{"x", points}, {"y", Tensor::of({256, 1}, products)}};
}

double last_loss(const std::string& printed) {
  const std::regex line("step 500: loss ([0-9.]+)\n$");
  std::smatch found;
  EXPECT_TRUE(std::regex_search(printed, found, line)) << printed;
  return found.empty() ? 0 : std::stod(found[1]);
}

TEST(FirstModel, TheFileHoldsWhatWasLearnt) {
  const TemporaryFolder folder;
  const Process program = run_process(
      {"sh", "-c", "cd " + folder.path().string() + " && " GENESIS_BUILD_ROOT "/examples/first_model"});
  ASSERT_EQ(program.code, 0) << program.err;
  const double printed = last_loss(program.out);
  EXPECT_GT(printed, 0);
  EXPECT_LT(printed, 0.001);
  Session saved(std::shared_ptr<const Model>(load_model(folder / "first_model.genesis")));
  const double loss = saved.run("loss", products()).at("loss").item<double>();
  // The last update came after the printed loss.
  EXPECT_NEAR(loss, printed, 0.5 * printed);
}

}  // namespace
}  // namespace genesis

#include "passes/pipelines.h"

#include <fstream>
#include <sstream>

#include "tests/passes/passes_test_util.h"

namespace genesis::passes {
namespace {

TEST(Pipelines, EveryPassHasAReasonAndARowInTheDocs) {
  std::ifstream file(std::string(GENESIS_SOURCE_ROOT) + "/docs/passes.md");
  std::stringstream docs;
  docs << file.rdbuf();
  for (const auto pipeline : {preparation_pipeline(), low_precision_pipeline(), inference_pipeline(), training_pipeline()})
    for (const Pass& pass : pipeline) {
      EXPECT_FALSE(pass.why.empty()) << pass.name;
      EXPECT_NE(docs.str().find("| `" + std::string(pass.name) + "` |"), std::string::npos)
          << pass.name << " is not in docs/passes.md";
    }
}

TEST(Pipelines, ATrainingGraphIsOneThatUpdatesATrainableParameter) {
  const auto model = parse_text(R"(
state @w: f32[3] parameter trainable
state @frozen: f32[3] parameter
entry infer() {
  %n = neg(@w)
  update @frozen = %n
}
entry train() {
  %n = neg(@w)
  update @w = %n
}
)");
  EXPECT_EQ(pipeline_for(model->entry("infer")).data(), inference_pipeline().data());
  EXPECT_EQ(pipeline_for(model->entry("train")).data(), training_pipeline().data());
}

TEST(Pipelines, UnknownNamesAreErrors) {
  EXPECT_NO_THROW(check_pass_names({"simplify", "fuse_attention"}));
  try {
    check_pass_names({"simplfy"});
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_NE(error.message().find(
                  "there is no pass 'simplfy' (did you mean 'simplify'?); the passes are: simplify, cse,"),
              std::string::npos)
        << error.message();
  }
}

}  // namespace
}  // namespace genesis::passes

// Tests the device "auto" and the seed of a session.
#include "executor/runtime/device.h"
#include "executor/session.h"
#include "schema/graph/text.h"
#include "tests/op_harness.h"
#include "tests/schema/file_models.h"

namespace genesis {
namespace {

using namespace testing;
using Doubles = std::vector<double>;

constexpr const char* kDraws = R"(
state @rng: i64[2] random = (3, 0)
entry draw(x: f32[4]) {
  %kept = dropout(@rng, x) {p=0.5}
  %next = rng_next(@rng)
  return y = %kept
  update @rng = %next
}
)";
constexpr const char* kDrawsNothing = "entry negate(x: f32[2]) {\n  %y = neg(x)\n  return y = %y\n}\n";

std::shared_ptr<const Model> parsed_model(const char* text) { return parse_text(text); }

Doubles draws(Session& session, int runs) {
  const Tensor x = Tensor::of<float>({4}, {1, 2, 3, 4});
  Doubles all;
  for (int i = 0; i < runs; ++i)
    for (double y : session.run("draw", {{"x", x}}).at("y").to_doubles()) all.push_back(y);
  return all;
}

TEST(SessionSettings, AutoIsTheGpuWhereOneCanBeUsedElseTheCpu) {
  const std::string best = why_no_cuda().empty() ? "cuda" : "cpu";
  EXPECT_EQ(resolve_device("auto"), best);
  EXPECT_EQ(target_of("auto").device, target_of(best).device);
  Session session(parsed_model(kDrawsNothing), {.device = "auto"});
  EXPECT_EQ(session.device(), best);
  const Tensor x = Tensor::of<float>({2}, {1, -2});
  EXPECT_EQ(session.run("negate", {{"x", x}}).at("y").to_doubles(), (Doubles{-1, 2}));
}

TEST(SessionSettings, OtherDevicesStayAsTheyAreNamed) {
  for (const char* name : {"cpu", "cuda", "cuda:7"}) EXPECT_EQ(resolve_device(name), name);
  EXPECT_EQ(Session(parsed_model(kDrawsNothing)).device(), "cpu");
  expect_error([] { resolve_device("gpu"); }, {"no device 'gpu'", "cpu, cuda or cuda:N", "auto"});
}

TEST(SessionSettings, TheSeedIsTheModelsUntilItIsSet) {
  Session session(parsed_model(kDraws));
  EXPECT_EQ(session.seed(), 3u);
  const Doubles first = draws(session, 8);
  EXPECT_EQ(session.seed(), 3u) << "runs move the step, not the seed";
  session.set_seed(3);
  EXPECT_EQ(draws(session, 8), first) << "from the beginning";
  session.set_seed(~uint64_t{0});
  EXPECT_EQ(session.seed(), ~uint64_t{0});
  const Doubles other = draws(session, 8);
  EXPECT_NE(other, first);
  Session second(parsed_model(kDraws));
  second.set_seed(~uint64_t{0});
  EXPECT_EQ(draws(second, 8), other);
}

TEST(SessionSettings, TheSeedIsSavedWithTheStates) {
  const TemporaryFolder folder;
  Session session(parsed_model(kDraws));
  session.set_seed(11);
  draws(session, 2);
  session.save(folder / "m.genesis");
  Session loaded(parsed_model(kDraws));
  loaded.load(folder / "m.genesis");
  EXPECT_EQ(loaded.seed(), 11u);
  EXPECT_EQ(draws(loaded, 8), draws(session, 8));
}

TEST(SessionSettings, AModelThatDrawsNothingHasNoSeed) {
  Session session(parsed_model(kDrawsNothing));
  EXPECT_EQ(session.seed(), std::nullopt);
  session.set_seed(5);
  EXPECT_EQ(session.seed(), std::nullopt);
  Session odd(parsed_model("state @rng: i64[3] random\nentry read(x: f32[1]) {\n  return x = x\n}\n"));
  expect_error([&] { odd.set_seed(5); }, {"'rng'", "i64[3]", "i64[2]"});
}

}  // namespace
}  // namespace genesis

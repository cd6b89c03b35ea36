// Tests that the learned values of a Session survive a file.
#include <fstream>

#include "executor/training/checkpoint.h"
#include "schema/file/reader.h"
#include "schema/file/writer.h"
#include "schema/graph/text.h"
#include "tests/op_harness.h"
#include "tests/schema/file_models.h"

namespace genesis {
namespace {

using namespace testing;
using Doubles = std::vector<double>;

constexpr const char* kCounter = R"(
state @count: f32[2] buffer = (10.0, 20.0)
state @moment: f32[2] optimizer
state @cache: f32[3] cache
entry step(x: f32[2]) {
  %next = add(@count, x)
  %sum = add(@moment, %next)
  return after = %next
  update @count = %next
  update @moment = %sum
}
)";
// Compared with kCounter, one state is missing, one has another type and one is new. The cache may differ.
constexpr const char* kOther = R"(
state @count: f32[3] buffer = (1.0, 2.0, 3.0)
state @extra: f32[1] buffer = (4.0)
state @cache: f32[9] cache
entry nothing(x: f32[2]) {
  return x = x
}
)";

Tensor two(float a, float b) { return Tensor::of<float>({2}, {a, b}); }
std::shared_ptr<Model> counter() { return parse_text(kCounter); }
Doubles after_a_step(Session& session) {
  return session.run("step", {{"x", two(1, 2)}}).at("after").to_doubles();
}

TEST(SessionFile, SavesWhatWasLearntAndLoadsItAgain) {
  const TemporaryFolder folder;
  const std::shared_ptr<Model> model = counter();
  model->metadata["checkpoint.step"] = "7";  // the session began at a checkpoint
  Session session(model);
  session.set_state("cache", Tensor::of<float>({3}, {1, 2, 3}));
  EXPECT_EQ(after_a_step(session), (Doubles{11, 22}));
  session.save(folder / "m.genesis");

  const std::shared_ptr<const Model> file = load_model(folder / "m.genesis", {.verify = Verify::kFull});
  EXPECT_FALSE(file->metadata.contains("checkpoint.step"));
  Session opened(file);
  EXPECT_EQ(opened.state("moment").to_doubles(), (Doubles{11, 22}));
  EXPECT_EQ(opened.state("cache").to_doubles(), Doubles(3)) << "a cache is not kept";
  EXPECT_EQ(after_a_step(opened), (Doubles{12, 24}));

  Session fresh(counter());
  EXPECT_EQ(after_a_step(fresh), (Doubles{11, 22}));
  EXPECT_EQ(after_a_step(fresh), (Doubles{12, 24}));
  fresh.set_state("cache", Tensor::of<float>({3}, {4, 5, 6}));
  fresh.load(folder / "m.genesis");
  EXPECT_EQ(fresh.state("count").to_doubles(), (Doubles{11, 22}));
  EXPECT_EQ(fresh.state("cache").to_doubles(), (Doubles{4, 5, 6})) << "and not touched";
  EXPECT_EQ(after_a_step(fresh), (Doubles{12, 24}));
  EXPECT_EQ(fresh.state("moment").to_doubles(), (Doubles{23, 46}));
}

TEST(SessionFile, SavesOverTheFileItsModelIsMappedFrom) {
  const TemporaryFolder folder;
  save_model(*counter(), folder / "m.genesis");
  Session session(std::shared_ptr<const Model>(load_model(folder / "m.genesis")));
  after_a_step(session);
  session.save(folder / "m.genesis");
  session.load(folder / "m.genesis");
  EXPECT_EQ(after_a_step(session), (Doubles{12, 24}));
}

TEST(SessionFile, ACheckpointLoadsToo) {
  const TemporaryFolder folder;
  Session session(counter());
  after_a_step(session);
  const Checkpoint checkpoint = save_checkpoint(session, folder / "run", 1);
  Session fresh(counter());
  fresh.load(checkpoint.path);
  EXPECT_EQ(after_a_step(fresh), (Doubles{12, 24}));
}

TEST(SessionFile, OneErrorListsAllThatDoesNotFitAndNothingChanges) {
  const TemporaryFolder folder;
  save_model(*parse_text(kOther), folder / "other.genesis");
  Session session(counter());
  after_a_step(session);
  expect_error(
      [&] { session.load(folder / "other.genesis"); },
      {"1 missing: moment (f32[2])", "1 unknown to the model: extra",
       "1 with another type: count is f32[3], expected f32[2]", "nothing was changed", "other.genesis"});
  expect_error([&] { session.load(folder / "none.genesis"); }, {"none.genesis"});
  EXPECT_EQ(session.state("count").to_doubles(), (Doubles{11, 22}));
  EXPECT_EQ(session.state("moment").to_doubles(), (Doubles{11, 22}));
}

// Every byte is verified before the first state changes.
TEST(SessionFile, ADamagedFileChangesNothing) {
  const TemporaryFolder folder;
  Session session(counter());
  after_a_step(session);
  session.save(folder / "m.genesis");
  std::fstream file(folder / "m.genesis", std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-1, std::ios::end).put('\x55');
  file.close();
  after_a_step(session);
  expect_error([&] { session.load(folder / "m.genesis"); }, {"m.genesis"});
  EXPECT_EQ(session.state("count").to_doubles(), (Doubles{12, 24}));
}

TEST(SessionFile, StatesByName) {
  Session session(counter());
  NamedTensors states = session.states();
  EXPECT_EQ(states.size(), 2u);
  expect_error([&] { states["cuont"]; },
               {"the session has no state 'cuont'", "count", "did you mean 'count'?"});
  states["moment"] = two(5, 6);
  session.set_states(states);
  EXPECT_EQ(session.state("moment").to_doubles(), (Doubles{5, 6}));
  states["moment"] = Tensor();
  states["count"] = two(0, 0);
  expect_error([&] { session.set_states(states); }, {"moment holds no data"});
  EXPECT_EQ(session.state("count").to_doubles(), (Doubles{10, 20}));
  states.erase("moment");
  expect_error([&] { session.set_states(states); }, {"1 missing: moment"});
}

}  // namespace
}  // namespace genesis

// Tests folders of checkpoints: only one run at a time writes to them. Damaged checkpoints do not count, and are not
// taken for the start of a new run.
#include "executor/training/checkpoint.h"

#include <sys/wait.h>
#include <unistd.h>

#include <set>

#include "executor/training/checkpoint_lock.h"
#include "schema/graph/text.h"
#include "tests/op_harness.h"
#include "tests/schema/file_models.h"

namespace genesis {
namespace {

using namespace testing;
namespace fs = std::filesystem;

constexpr const char* kText =
    "state @n: f32[4] parameter trainable = (1, 2, 3, 4)\nentry main() {\n  return y = @n\n}\n";

class CheckpointFolder : public ::testing::Test {
 protected:
  void save(int64_t step, int keep) { save_checkpoint(session_, folder_.path(), step, keep); }
  fs::path file(int64_t step) const { return folder_ / fmt::format("step-{:09}.genesis", step); }
  // Writes a file of another size and time.
  void damage(int64_t step) const { write_bytes(file(step), "damaged"); }
  std::set<int64_t> steps() const {
    std::set<int64_t> found;
    for (const auto& entry : fs::directory_iterator(folder_.path()))
      found.insert(std::stoll(entry.path().filename().string().substr(5)));
    return found;
  }
  const fs::path& path() const { return folder_.path(); }

 private:
  TemporaryFolder folder_;
  Session session_{std::shared_ptr<const Model>(parse_text(kText))};
};

TEST_F(CheckpointFolder, ADamagedOneOfAnEarlierStepDoesNotCountAmongThoseToKeep) {
  for (const int64_t step : {1, 2, 3}) save(step, 3);
  damage(3);
  save(4, 2);
  EXPECT_EQ(steps(), (std::set<int64_t>{2, 3, 4})) << "4 and 2 are intact";
  save(5, 2);
  EXPECT_EQ(steps(), (std::set<int64_t>{4, 5})) << "a damaged one goes with those that are older";
}

TEST_F(CheckpointFolder, OfDamagedOnesOnlyIsAnErrorThatNamesThem) {
  EXPECT_FALSE(find_checkpoint(path()));
  save(1, 2);
  save(2, 2);
  damage(2);
  EXPECT_EQ(find_checkpoint(path())->step, 1);
  damage(1);
  expect_error([&] { find_checkpoint(path()); },
               {"all checkpoints", "step-000000001.genesis", "step-000000002.genesis", "begin at step 0"});
}

TEST_F(CheckpointFolder, IsWrittenByOneRunAtATime) {
  {
    const CheckpointLock lock(path());
    expect_error(
        [&] { CheckpointLock second(path()); },
        {"in use", fmt::format("process {} on host", ::getpid()), " since 2", "UTC", path().c_str()});
    save(1, 2);
    EXPECT_EQ(find_checkpoint(path())->step, 1) << "who reads needs no lock";
  }
  EXPECT_EQ(steps(), std::set<int64_t>{1}) << "the lock leaves nothing behind";
  const CheckpointLock again(path());
}

TEST_F(CheckpointFolder, IsFreeAgainWhenItsRunWasKilled) {
  const pid_t child = ::fork();
  if (child == 0) {
    const CheckpointLock lock(path());
    ::_exit(0);  // nothing is cleaned up, like after a signal
  }
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(fs::exists(path() / ".lock"));
  const CheckpointLock lock(path());
  EXPECT_NE(read_bytes(path() / ".lock").find(fmt::format("process {} ", ::getpid())), std::string::npos);
}

TEST_F(CheckpointFolder, IsRidOfWhatKilledRunsLeftAndOfNothingElse) {
  for (const char* name :
       {".step-000000007.genesis.tmp-0123456789abcdef", ".notes.txt.tmp-0123456789abcdef",
        "step-000000007.genesis.tmp-0123456789abcdef", ".step-x.genesis.tmp-0123456789abcdef"})
    write_bytes(path() / name, "left behind");
  const CheckpointLock lock(path());
  std::set<std::string> left;
  for (const auto& entry : fs::directory_iterator(path())) left.insert(entry.path().filename().string());
  EXPECT_EQ(left, (std::set<std::string>{".lock", ".notes.txt.tmp-0123456789abcdef",
                                         ".step-x.genesis.tmp-0123456789abcdef",
                                         "step-000000007.genesis.tmp-0123456789abcdef"}));
}

}  // namespace
}  // namespace genesis

// Tests models whose weights stay in other files: they load as if they had the weights, can be moved together with
// those files, and report missing or changed files.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "schema/file/other_formats/safetensors.h"
#include "schema/file/reader.h"
#include "schema/file/writer.h"
#include "tests/schema/file_models.h"

namespace genesis {
namespace {

using namespace testing;
namespace fs = std::filesystem;

class Links : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(folder_ / "weights");
    write_weights(1);
    const SafeTensors read = read_safetensors(weights());
    Model model;
    for (const auto& [name, tensor] : read.tensors)
      model.add_state({name, tensor.type(), StateRole::kParameter, true, tensor});
    model.add_state({"own", own_.type(), StateRole::kParameter, true, own_});
    save_model(model, file(), {.segment_bytes = 64, .links = {read.file}});
  }
  void write_weights(float first) const {
    SafeTensors contents;
    contents.tensors["a"] = Tensor::of<float>({20}, std::vector<float>(20, first));
    contents.tensors["b"] = Tensor::of<float>({3}, {4, 5, 6});
    contents.tensors["c"] = Tensor::of<uint8_t>({3}, {7, 8, 9});
    write_safetensors(weights(), contents);
  }
  fs::path weights() const { return folder_ / "weights" / "w.safetensors"; }
  fs::path file() const { return folder_ / "m.genesis"; }
  void expect_loads(const fs::path& path, const LoadOptions& options = {}) const {
    const auto model = load_model(path, options);
    EXPECT_EQ(model->state(model->find_state("a")).initial.to_doubles(), std::vector<double>(20, 1));
    EXPECT_EQ(model->state(model->find_state("b")).initial.to_doubles(), (std::vector<double>{4, 5, 6}));
    EXPECT_EQ(model->state(model->find_state("c")).initial.to_doubles(), (std::vector<double>{7, 8, 9}));
    EXPECT_EQ(model->state(model->find_state("own")).initial.to_doubles(), (std::vector<double>{2, 3}));
  }
  void refused(const std::vector<std::string>& parts, const LoadOptions& options = {}) const {
    try {
      load_model(file(), options);
      ADD_FAILURE() << "it was loaded";
    } catch (const Error& error) {
      for (const std::string& part : parts)
        EXPECT_NE(error.message().find(part), std::string::npos) << part << " / " << error.message();
    }
  }

  const TemporaryFolder folder_;
  const Tensor own_ = Tensor::of<float>({2}, {2, 3});
};

TEST_F(Links, LoadAsIfTheFileHeldThem) {
  expect_loads(file());
  expect_loads(file(), {.verify = Verify::kFull});
  const FileInfo info = inspect_file(file(), {.verify = Verify::kFull});
  size_t linked = 0;
  for (const SegmentInfo& segment : info.segments) linked += segment.link == "weights/w.safetensors";
  EXPECT_EQ(linked, 2U);  // a fills a segment of 64 bytes, b and c share another
  EXPECT_EQ(info.segments.size(), 3U);
  EXPECT_EQ(info.data_bytes, 8U);
}

TEST_F(Links, AreSavedAsCopiesUnlessAskedForAgain) {
  const auto model = load_model(file());
  save_model(*model, folder_ / "copy.genesis");
  fs::remove_all(folder_ / "weights");
  expect_loads(folder_ / "copy.genesis", {.verify = Verify::kFull});
}

TEST_F(Links, MoveTogetherAndAreFoundThroughSymbolicLinks) {
  fs::create_directory(folder_ / "elsewhere");
  fs::create_symlink(file(), folder_ / "elsewhere" / "link.genesis");
  expect_loads(folder_ / "elsewhere" / "link.genesis");
  fs::rename(file(), folder_ / "elsewhere" / "m.genesis");
  fs::rename(folder_ / "weights", folder_ / "elsewhere" / "weights");
  expect_loads(folder_ / "elsewhere" / "m.genesis");
}

TEST_F(Links, TakeAFileThatWasWrittenAgainWithTheSameBytes) {
  fs::last_write_time(weights(), fs::file_time_type::clock::now() - std::chrono::hours(5));
  expect_loads(file());
}

TEST_F(Links, RefuseAFileThatChanged) {
  write_weights(8);
  refused({"weights/w.safetensors", "has changed since", "--link", "m.genesis"});
}

TEST_F(Links, RefuseAFileOfAnotherSize) {
  write_bytes(weights(), read_bytes(weights()) + "more");
  refused({"weights/w.safetensors", "has changed since", "bytes, it had"});
}

// Only reading all of the file finds this change.
TEST_F(Links, VerifyingFindsAChangeThatKeptTheTime) {
  const auto time = fs::last_write_time(weights());
  write_weights(8);
  fs::last_write_time(weights(), time);
  refused({"weights/w.safetensors", "has changed since"}, {.verify = Verify::kFull});
}

TEST_F(Links, NameAFileThatIsGone) {
  fs::remove(weights());
  refused({"weights/w.safetensors", "is not there", "--link"});
}

// For a missing checkpoint part the advice is not to build the model again.
TEST_F(Links, SayOfAPartThatCheckpointsStayTogether) {
  const fs::path part = folder_ / "step-000000003.parts" / "rank-1.genesis";
  fs::create_directory(part.parent_path());
  fs::copy_file(weights(), part);
  const SafeTensors read = read_safetensors(part);
  Model model;
  for (const auto& [name, tensor] : read.tensors)
    model.add_state({name, tensor.type(), StateRole::kParameter, true, tensor});
  save_model(model, file(), {.segment_bytes = 64, .links = {read.file}});
  const std::string bytes = read_bytes(part);
  write_bytes(part, bytes.substr(0, bytes.size() - 1));
  refused({"rank-1.genesis", "bytes, it had", "stay together", "--resume"});
  write_bytes(part, bytes.substr(0, bytes.size() - 1) + "x");
  refused({"rank-1.genesis", "are others", "stay together"});
  fs::remove(part);
  refused({"rank-1.genesis", "is not there", "stay together", "--resume"});
}

TEST_F(Links, AreFoundWhereRelativePathsWereGiven) {
  const fs::path before = fs::current_path();
  fs::current_path(folder_.path());
  const SafeTensors read = read_safetensors("weights/w.safetensors");
  Model model;
  for (const auto& [name, tensor] : read.tensors)
    model.add_state({name, tensor.type(), StateRole::kParameter, true, tensor});
  save_model(model, "relative.genesis", {.links = {read.file}});
  fs::create_directory("deep");
  save_model(model, "deep/relative.genesis", {.links = {read.file}});
  fs::current_path(before);
  for (const char* name : {"relative.genesis", "deep/relative.genesis"})
    EXPECT_EQ(load_model(folder_ / name)->state(1).initial.to_doubles(), (std::vector<double>{4, 5, 6}));
}

TEST_F(Links, AreNotSavedOverTheirOwnFile) {
  const std::string before = read_bytes(weights());
  EXPECT_THROW(save_model(*load_model(file()), weights(), {.links = {read_safetensors(weights()).file}}),
               Error);
  EXPECT_EQ(read_bytes(weights()), before);
}

TEST_F(Links, AreNotFollowedFromBytesInMemory) { EXPECT_THROW(load_bytes(read_bytes(file())), Error); }

TEST_F(Links, ThatAreMeantAndNotUsedLeaveThingsAsTheyAre) {
  Model model;
  model.add_state({"own", own_.type(), StateRole::kParameter, true, own_});
  save_model(model, folder_ / "a.genesis", {.links = {read_safetensors(weights()).file}});
  save_model(model, folder_ / "b.genesis");
  EXPECT_EQ(read_bytes(folder_ / "a.genesis"), read_bytes(folder_ / "b.genesis"));
}

}  // namespace
}  // namespace genesis

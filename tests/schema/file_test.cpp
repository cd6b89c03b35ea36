// Tests saving and loading models: everything is restored, equal models give equal bytes, and weights are not copied.
#include <gtest/gtest.h>

#include <cstdlib>

#include "schema/file/layout.h"
#include "schema/file/reader.h"
#include "schema/file/writer.h"
#include "schema/file/attached_files.h"
#include "tests/schema/file_models.h"

namespace genesis {
namespace {

using namespace testing;

// Returns everything about a model except its weights' bytes, which are represented by their hashes.
file::ModelRecord facts(const Model& model) { return file::lay_out(model, {.segment_bytes = 1 << 20}).record; }

TEST(File, EverythingComesBack) {
  const TemporaryFolder folder;
  const auto model = rich_model();
  save_model(*model, folder / "m.genesis");
  const auto loaded = load_model(folder / "m.genesis", {.verify = Verify::kFull});
  EXPECT_EQ(facts(*loaded), facts(*model));
  EXPECT_EQ(loaded->metadata, model->metadata);
  EXPECT_EQ(attached_file(*loaded, "tokenizer.json"), "{\"model\": {}}");
  EXPECT_EQ(attached_file(*loaded, "empty.txt"), "");
  EXPECT_EQ(attached_file(*loaded, "nothing.txt"), std::nullopt);
  const Graph &a = model->entry("forward"), &b = loaded->entry("forward");
  ASSERT_EQ(a.values().size(), b.values().size());
  for (size_t i = 0; i < a.values().size(); ++i) {
    EXPECT_EQ(a.values()[i].name, b.values()[i].name);
    EXPECT_EQ(a.values()[i].type, b.values()[i].type);
  }
  for (size_t i = 0; i < a.nodes().size(); ++i) EXPECT_EQ(a.nodes()[i].origins, b.nodes()[i].origins);
}

TEST(File, TheSameModelGivesTheSameBytes) {
  const TemporaryFolder folder;
  save_model(*rich_model(), folder / "a.genesis");
  save_model(*rich_model(), folder / "b.genesis");
  save_model(*load_model(folder / "a.genesis"), folder / "c.genesis");
  EXPECT_EQ(read_bytes(folder / "a.genesis"), read_bytes(folder / "b.genesis"));
  EXPECT_EQ(read_bytes(folder / "a.genesis"), read_bytes(folder / "c.genesis"));
}

TEST(File, WeightsAreStoredOnceAlignedAndNotCopied) {
  const TemporaryFolder folder;
  save_model(*rich_model(), folder / "m.genesis");
  const auto loaded = load_model(folder / "m.genesis");
  const auto& states = loaded->states();
  EXPECT_EQ(states[0].initial.data(), states[1].initial.data());
  EXPECT_TRUE(loaded->state(loaded->find_state("cache")).initial.empty_handle());
  EXPECT_FALSE(loaded->state(loaded->find_state("nothing")).initial.empty_handle());
  for (const State& state : states) {
    if (state.initial.empty_handle() || state.initial.bytes() == 0) continue;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(state.initial.data()) % 256, 0U) << state.name;
  }
  // The 8 MiB of the cache start as zeros and take no space.
  EXPECT_LT(std::filesystem::file_size(folder / "m.genesis"), 16384U);
}

TEST(File, TensorsOutliveTheModelAndAReplacementOfTheFile) {
  const TemporaryFolder folder;
  save_model(*rich_model(), folder / "m.genesis");
  auto loaded = load_model(folder / "m.genesis");
  const Tensor weight = loaded->state(0).initial;
  loaded->set_initial(0, Tensor::of<float>({2, 3}, {0, 0, 0, 0, 0, 0}));
  save_model(*loaded, folder / "m.genesis");  // overwrites the file it is mapped from
  loaded.reset();
  EXPECT_EQ(weight.as<float>()[5], 6.0F);
  EXPECT_EQ(load_model(folder / "m.genesis")->state(0).initial.as<float>()[5], 0.0F);
}

TEST(File, FilesAreOfAMinorVersionThatReadersMayIgnore) {
  const TemporaryFolder folder;
  auto model = rich_model();
  save_model(*model, folder / "with.genesis");
  EXPECT_EQ(inspect_file(folder / "with.genesis").minor, 1);
  model->files.clear();
  save_model(*model, folder / "without.genesis");
  EXPECT_EQ(inspect_file(folder / "without.genesis").minor, 0);
}

TEST(File, FilesAreHashedWithTheRest) {
  const TemporaryFolder folder;
  auto model = rich_model();
  save_model(*model, folder / "m.genesis");
  std::string bytes = read_bytes(folder / "m.genesis");
  const size_t at = bytes.find("{\"model\": {}}");
  ASSERT_NE(at, std::string::npos);
  bytes[at] ^= 1;
  write_bytes(folder / "m.genesis", bytes);
  load_model(folder / "m.genesis");  // does not read segments
  EXPECT_THROW(load_model(folder / "m.genesis", {.verify = Verify::kFull}), Error);
}

TEST(File, ManySegmentsEachWithItsHash) {
  const TemporaryFolder folder;
  Model model;
  for (int i = 0; i < 10; ++i) {
    const std::vector<float> values(1000, static_cast<float>(i));
    model.add_state({"w" + std::to_string(i),
                     {DType::f32, {1000}},
                     StateRole::kParameter,
                     true,
                     Tensor::of<float>({1000}, values)});
  }
  save_model(model, folder / "m.genesis", {.segment_bytes = 8000});
  const FileInfo info = inspect_file(folder / "m.genesis", {.verify = Verify::kFull});
  ASSERT_EQ(info.segments.size(), 5U);
  for (const SegmentInfo& segment : info.segments) {
    EXPECT_EQ(segment.offset % 4096, 0U);
    EXPECT_EQ(segment.tensors, 2U);
  }
  const auto loaded = load_model(folder / "m.genesis");
  for (int i = 0; i < 10; ++i) EXPECT_EQ(loaded->state(i).initial.as<float>()[999], static_cast<float>(i));

  // One bit of the third segment is flipped: only the full check finds it, and names it.
  std::string bytes = read_bytes(folder / "m.genesis");
  bytes[info.segments[2].offset + 17] ^= 4;
  write_bytes(folder / "m.genesis", bytes);
  EXPECT_EQ(load_error(folder / "m.genesis"), "");
  try {
    load_model(folder / "m.genesis", {.verify = Verify::kFull});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("segment 2 is damaged"), std::string::npos) << error.message();
  }
}

TEST(File, SavingAndVerifyingTellHowFarTheyAre) {
  const TemporaryFolder folder;
  Model model;
  for (const char* name : {"a", "b", "c"})
    model.add_state({name, {DType::f32, {100}}, StateRole::kParameter, true,
                     Tensor::of<float>({100}, std::vector<float>(100, *name))});
  std::vector<std::string> heard;
  const OnProgress progress = [&](std::string_view what, uint64_t done, uint64_t total) {
    heard.push_back(fmt::format("{} {} of {}", what, done, total));
  };
  save_model(model, folder / "m.genesis", {.progress = progress});
  load_model(folder / "m.genesis", {.verify = Verify::kFull, .progress = progress});
  const std::vector<std::string> expected = {"hashing 1200 of 1200", "writing 400 of 1424", "writing 912 of 1424",
                                             "writing 1424 of 1424", "verifying 1424 of 1424"};
  EXPECT_EQ(heard, expected);
}

TEST(File, InspectTellsWhatIsInside) {
  const TemporaryFolder folder;
  save_model(*rich_model(), folder / "m.genesis");
  const FileInfo info = inspect_file(folder / "m.genesis");
  EXPECT_EQ(info.major, 1);
  EXPECT_EQ(info.file_bytes, std::filesystem::file_size(folder / "m.genesis"));
  EXPECT_EQ(info.entries, (std::vector<std::string>{"forward", "train_step"}));
  EXPECT_EQ(info.states, 6U);
  EXPECT_EQ(info.constants, 4U);
  EXPECT_EQ(info.producer.substr(0, 8), "genesis ");
  EXPECT_EQ(info.ops.front().name, "add");
  EXPECT_EQ(info.ops.front().nodes, 2U);
}

TEST(File, FlatcPrintsTheGraph) {
  const TemporaryFolder folder;
  save_model(*golden_model(), folder / "m.genesis");
  write_bytes(folder / "graph.bin", read_bytes(folder / "m.genesis").substr(64));
  const std::string command = "flatc --json --raw-binary -o " + folder.path().string() +
                              " " GENESIS_SOURCE_ROOT "/schema/file/format/genesis.fbs -- " +
                              (folder / "graph.bin").string();
  ASSERT_EQ(std::system(command.c_str()), 0) << command;
  EXPECT_NE(read_bytes(folder / "graph.json").find("op: \"where\""), std::string::npos);
}

TEST(File, AnEmptyModelIsAFileToo) {
  const TemporaryFolder folder;
  save_model(Model(), folder / "m.genesis");
  const auto loaded = load_model(folder / "m.genesis", {.verify = Verify::kFull});
  EXPECT_TRUE(loaded->entries().empty());
  EXPECT_TRUE(loaded->states().empty());
}

}  // namespace
}  // namespace genesis

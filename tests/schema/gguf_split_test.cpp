// Tests models in several GGUF files: they are found by their names and must be consistent.
#include "schema/file/other_formats/gguf_split.h"

#include <gtest/gtest.h>

#include <optional>

#include "tests/error_of.h"
#include "tests/schema/file_models.h"
#include "tests/schema/gguf_bytes.h"

namespace genesis {
namespace {

using namespace testing;

struct Part {
  std::string tensor;
  std::optional<uint16_t> number, count;
  std::optional<int32_t> total = std::nullopt;
};

std::string bytes_of(const Part& part) {
  constexpr uint32_t kU16 = 2, kI32 = 5;
  GgufBytes g;
  g.start(1, (part.number ? 1 : 0) + (part.count ? 1 : 0) + (part.total ? 1 : 0));
  if (part.number) g.fact("split.no", kU16, *part.number);
  if (part.count) g.fact("split.count", kU16, *part.count);
  if (part.total) g.fact("split.tensors.count", kI32, *part.total);
  return g.tensor(part.tensor, {8}, 0, 0).with_data(std::string(32, part.tensor[0]));
}

class GgufSplit : public ::testing::Test {
 protected:
  std::string write(const std::string& name, const Part& part) const {
    write_bytes(folder_ / name, bytes_of(part));
    return (folder_ / name).string();
  }
  std::string write_three() const {
    write("m-00003-of-00003.gguf", {"c", 2, 3});
    write("m-00002-of-00003.gguf", {"b", 1, 3});
    return write("m-00001-of-00003.gguf", {"a", 0, 3, 3});
  }
  void refused(const std::string& path, const std::vector<std::string>& parts) const {
    const std::string error = testing::error_of([&] { read_gguf_model(path); });
    for (const std::string& part : parts)
      EXPECT_NE(error.find(part), std::string::npos) << part << " / " << error;
  }

  const TemporaryFolder folder_;
};

TEST_F(GgufSplit, ReadsAllPartsByTheFirst) {
  const Gguf whole = read_gguf_model(write_three());
  ASSERT_EQ(whole.tensors.size(), 3U);
  EXPECT_EQ(whole.files.size(), 3U);
  for (const char* name : {"a", "b", "c"})
    EXPECT_EQ(std::to_integer<char>(whole.tensors.at(name).bytes[31]), name[0]);
}

TEST_F(GgufSplit, OneFileIsWholeWhateverItsName) {
  EXPECT_EQ(read_gguf_model(write("m-00001-of-00002.gguf", {"a", {}, {}})).tensors.size(), 1U);
  EXPECT_EQ(read_gguf_model(write("m.gguf", {"a", 0, 1, 1})).tensors.size(), 1U);
  refused(write("m.gguf", {"a", 0, 1, 2}), {"m.gguf", "2 tensors", "there are 1"});
}

TEST_F(GgufSplit, NamesAPartThatIsMissing) {
  const std::string first = write_three();
  std::filesystem::remove(folder_ / "m-00002-of-00003.gguf");
  refused(first, {"part 2 of 3 is missing", "m-00002-of-00003.gguf"});
}

TEST_F(GgufSplit, AsksForTheFirstPart) {
  write_three();
  refused((folder_ / "m-00002-of-00003.gguf").string(), {"part 2 of 3", "m-00001-of-00003.gguf"});
}

TEST_F(GgufSplit, RefusesNamesThatSayOtherwise) {
  const Part first = {"a", 0, 3, 3};
  refused(write("m.gguf", first), {"m.gguf", "one of 3 parts", "'model-00001-of-00003.gguf'"});
  refused(write("m-00001-of-00002.gguf", first), {"one of 2 parts", "'split.count' say one of 3"});
  refused(write("m-00002-of-00003.gguf", first), {"part 2", "'split.no' say part 1", "renamed"});
}

TEST_F(GgufSplit, RefusesPartsThatDoNotAgree) {
  const std::string first = write_three();
  const auto second_is = [&](const Part& part, const std::vector<std::string>& parts) {
    write("m-00002-of-00003.gguf", part);
    refused(first, parts);
  };
  second_is({"b", 2, 3}, {"m-00002-of-00003.gguf", "'split.no' say part 3", "renamed"});
  second_is({"b", 1, 4}, {"m-00002-of-00003.gguf", "'split.count' are 4", "first part 3"});
  second_is({"b", {}, {}}, {"m-00002-of-00003.gguf", "'split.count' are not there"});
  second_is({"a", 1, 3}, {"'a'", "earlier part"});
  write("m-00002-of-00003.gguf", {"b", 1, 3});
  write("m-00001-of-00003.gguf", {"a", 0, 3, 7});
  refused(first, {"7 tensors", "there are 3"});
  write("m-00001-of-00003.gguf", {"a", 5, 3, 3});
  refused(first, {"'split.no'", "which of 3 parts"});
}

}  // namespace
}  // namespace genesis

// Tests that files written by older versions of Genesis still load with the same meaning. The folder golden/ has one
// file per format version, made by golden/make_golden.cpp of that version.
#include <gtest/gtest.h>

#include "schema/file/reader.h"
#include "schema/graph/state_storage.h"
#include "schema/graph/text.h"
#include "tests/schema/file_models.h"

namespace genesis {
namespace {

const std::filesystem::path kFolder = std::filesystem::path(GENESIS_SOURCE_ROOT) / "tests/schema/golden";

TEST(Golden, VersionOneMeansWhatItMeant) {
  const auto loaded = load_model(kFolder / "v1.genesis", {.verify = Verify::kFull});
  EXPECT_EQ(to_text(*loaded), testing::read_bytes(kFolder / "v1.txt"));
  EXPECT_EQ(loaded->metadata.at("architecture"), "golden");
  EXPECT_EQ(inspect_file(kFolder / "v1.genesis").major, 1);
}

TEST(Golden, VersionTwoMeansWhatItMeant) {
  const auto loaded = load_model(kFolder / "v2.genesis", {.verify = Verify::kFull});
  EXPECT_EQ(to_text(*loaded, {.max_values = 1000}), testing::read_bytes(kFolder / "v2.txt"));
  EXPECT_EQ(loaded->state(loaded->find_state("q4.weight")).encoded.format->name, "q4");
  EXPECT_EQ(inspect_file(kFolder / "v2.genesis").major, 2);
}

TEST(Golden, VersionThreeMeansWhatItMeant) {
  const auto loaded = load_model(kFolder / "v3.genesis", {.verify = Verify::kFull});
  EXPECT_EQ(to_text(*loaded, {.max_values = 1000}), testing::read_bytes(kFolder / "v3.txt"));
  EXPECT_EQ(loaded->state(loaded->find_state("joined.weight")).initial.to_doubles(),
            (std::vector<double>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(inspect_file(kFolder / "v3.genesis").major, 3);
}

TEST(Golden, VersionFourMeansWhatItMeant) {
  const auto loaded = load_model(kFolder / "v4.genesis", {.verify = Verify::kFull});
  EXPECT_EQ(to_text(*loaded, {.max_values = 1000}), testing::read_bytes(kFolder / "v4.txt"));
  EXPECT_EQ(loaded->state(loaded->find_state("joined.of_sets")).initial.to_doubles(),
            (std::vector<double>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(inspect_file(kFolder / "v4.genesis").major, 4);
}

}  // namespace
}  // namespace genesis

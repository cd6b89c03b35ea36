// Tests what states declare about the texts that they cache: in the text form, in files, and for files that declare nothing.
#include "schema/graph/caches.h"

#include "schema/graph/text.h"
#include "schema/graph/verify.h"
#include "tests/op_harness.h"
#include "tests/schema/file_models.h"

namespace genesis {
namespace {

using namespace testing;

constexpr const char* kText = R"(state @k: bf16[2,6,3,4] cache of keys rows 0 positions 1
state @latent: f32[6,2,8] cache of "a latent" rows 1 positions 0
state @inputs: f32[2,5] cache of inputs rows 0
state @sampling.token: i64[2] cache
)";
const CacheLayout kOfOldFiles{.kind = "", .rows_axis = 0, .positions_axis = 1};

TEST(Caches, AreDeclaredInTheTextForm) {
  const auto model = parse_text(kText);
  EXPECT_EQ(to_text(*model), kText);
  EXPECT_EQ(cache_layout(model->state(0)), (CacheLayout{"keys", 0, 1}));
  EXPECT_EQ(cache_layout(model->state(1)), (CacheLayout{"a latent", 1, 0}));
  EXPECT_EQ(cache_layout(model->state(2)), (CacheLayout{"inputs", 0, -1}));
  EXPECT_FALSE(cache_layout(model->state(3)));
}

TEST(Caches, AreDeclaredInTheFile) {
  const TemporaryFolder folder;
  save_model(*parse_text(kText), folder / "m.genesis");
  EXPECT_EQ(to_text(*load_model(folder / "m.genesis")), kText);
  EXPECT_EQ(inspect_file(folder / "m.genesis").minor, 3);
  EXPECT_EQ(inspect_file(folder / "m.genesis").major, 1) << "older readers ignore declarations";
}

TEST(Caches, OfOlderFilesAreTheCachesOfRankFour) {
  const auto model = parse_text(R"(
state @k: f32[2,6,3,4] cache
state @token: i64[2] cache
state @weight: f32[2,6,3,4] buffer
)");
  EXPECT_EQ(cache_layout(model->state(0)), kOfOldFiles);
  EXPECT_FALSE(cache_layout(model->state(1)));
  EXPECT_FALSE(cache_layout(model->state(2)));
  EXPECT_EQ(cache_size(*model), (CacheSize{2, 6}));
}

TEST(Caches, HaveASizeAndBytes) {
  const auto model = parse_text(kText);
  EXPECT_EQ(cache_size(*model), (CacheSize{2, 6}));
  EXPECT_EQ(cache_bytes(*model, {2, 6}), 2 * 6 * 12 * 2 + 6 * 2 * 8 * 4 + 2 * 5 * 4);
  EXPECT_EQ(cache_bytes(*model, {3, 100}), 3 * 100 * 12 * 2 + 100 * 3 * 8 * 4 + 3 * 5 * 4);
  EXPECT_EQ(cache_type(model->state(1), {3, 100}).shape, (Shape{100, 3, 8}));
  EXPECT_EQ(cache_type(model->state(3), {3, 100}).shape, (Shape{2}));
  EXPECT_FALSE(cache_size(*parse_text("state @token: i64[2] cache\n")));
  expect_error([&] { cache_bytes(*model, {int64_t{1} << 40, int64_t{1} << 40}); }, {"overflow"});
}

TEST(Caches, ThatCannotBeAreRefused) {
  const auto refused = [](const CacheLayout& layout, StateRole role, const std::vector<std::string>& parts) {
    Model model;
    model.add_state({.name = "k", .type = {DType::f32, {2, 6}}, .role = role, .cache = layout});
    expect_error([&] { verify(model); }, parts);
    const std::string bytes = file_of(model);
    expect_error([&] { load_bytes(bytes); }, parts);
  };
  refused({"keys", 0, 1}, StateRole::kBuffer, {"'k'", "'keys'", "role is buffer"});
  refused({"keys", 2, 1}, StateRole::kCache, {"axis of rows is 2", "rank is 2"});
  refused({"keys", -1, 1}, StateRole::kCache, {"axis of rows is -1"});
  refused({"keys", 0, 2}, StateRole::kCache, {"axis of positions is 2"});
  refused({"keys", 1, 1}, StateRole::kCache, {"both axis 1"});
  expect_error([] { parse_text("state @k: f32[2,6] cache of keys rows x\n"); }, {"'x'", "line 1"});
}

}  // namespace
}  // namespace genesis

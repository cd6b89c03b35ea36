// Tests where the values of states are said to be, without memory and without a device.
#include "executor/states/stored_places.h"

#include <gtest/gtest.h>

#include "schema/encoding/quantized_formats.h"

namespace genesis {
namespace {

constexpr int32_t kA = 0, kB = 1, kC = 2;

Model three_states() {
  Model model;
  model.add_state({"a", {DType::f32, {4, 64}}, StateRole::kParameter, true, Tensor()});
  model.add_state({"b", {DType::f32, {2, 64}}, StateRole::kParameter, true, Tensor()});
  model.add_state({"c", {DType::f32, {5}}, StateRole::kBuffer, false, Tensor()});
  return model;
}

// Numbers the parts of the groups, adds them to the model, and returns the places of its states.
StoredPlaces places_of(Model& model, StateStorage storage) {
  number_parts(storage, model.states().size());
  add_parts(model, storage);
  return StoredPlaces(model, std::move(storage));
}

TEST(StoredPlaces, StatesOwnTheirMemoryWithoutGroups) {
  const Model model = three_states();
  const StoredPlaces places(model);
  for (const int32_t state : {kA, kB, kC}) {
    EXPECT_FALSE(places.is_in_parts(state));
    EXPECT_FALSE(places.is_shared(state));
    EXPECT_EQ(places.home(state), state);
    EXPECT_EQ(places.kept_type(state), model.state(state).type);
  }
  EXPECT_EQ(places.homes({kC, kA}), (std::vector<int32_t>{kC, kA}));
}

TEST(StoredPlaces, MembersFollowOneAnotherInTheirParts) {
  Model model = three_states();
  const StoredPlaces places = places_of(model, {{{&bf16_halves_format(), {kA, kB}, {}}}});
  EXPECT_EQ(places.of(kA).first, 0);
  EXPECT_EQ(places.of(kB).first, 4 * 64);
  EXPECT_EQ(places.home(kB), 3);
  EXPECT_EQ(places.homes({kB, kC}), (std::vector<int32_t>{3, 4, kC}));
  EXPECT_EQ(places.members_of(4), (std::vector<int32_t>{kA, kB}));
  EXPECT_TRUE(places.members_of(kC).empty());
  EXPECT_FALSE(places.is_shared(kA)) << "one rank has all of it";
}

// The second of two ranks: the upper halves stay whole, of the lower ones each rank has the same share of each member.
TEST(StoredPlaces, WholePartsAndShardsHaveTheirOwnPlaces) {
  Model model = three_states();
  const int64_t half = 6 * 64 / 2;
  const StoredPlaces places = places_of(model, {{{&bf16_halves_format(),
                                                  {kA, kB},
                                                  {},
                                                  Shard{.axis = "data", .first = half, .count = half},
                                                  /*whole_parts=*/1}}});
  EXPECT_EQ(places.of(kB).first_in(0), 4 * 64) << "behind all values of a";
  EXPECT_EQ(places.of(kB).first_in(1), 2 * 64) << "behind this rank's values of a";
  EXPECT_EQ(places.of(kB).shard.first, 64);
  EXPECT_EQ(places.of(kB).shard.count, 64);
  EXPECT_TRUE(places.is_shared(kA));
  EXPECT_EQ(places.kept_type(kA).to_string(), "f32[128]");
  EXPECT_EQ(places.kept_type(kC).to_string(), "f32[5]");
}

// A slice of a has the blocks of q8 in it, and no memory.
TEST(StoredPlaces, SlicesLeadToTheParts) {
  Model model = three_states();
  const int32_t slice = 3;
  const Shard rows{.axis = "tensor", .first = 0, .count = 2 * 64, .shape = {2, 64}};
  const StateFormat& q8 = quantized_format(WeightFormat::kQ8, DType::f32);
  const StoredPlaces places =
      places_of(model, {{{plain_format(DType::f32), {kA}, {}, rows}, {&q8, {slice}, {}}}});
  EXPECT_EQ(places.stored_slice(kA), slice);
  EXPECT_EQ(places.whole_of(slice), kA);
  EXPECT_EQ(places.stored_slice(kB), -1);
  EXPECT_EQ(places.whole_of(kB), -1);
  EXPECT_EQ(places.home(kA), 4);
  EXPECT_EQ(places.homes({kA}), (std::vector<int32_t>{4, 5}));
  EXPECT_EQ(places.kept_type(kA).to_string(), "f32[128]");
  EXPECT_FALSE(places.is_encoded_in_model(slice));
}

// Groups are referred to by address, so a move must keep them.
TEST(StoredPlaces, CanBeMoved) {
  Model model = three_states();
  StoredPlaces places = places_of(model, {{{&bf16_halves_format(), {kA}, {}}}});
  StoredPlaces moved(model);
  moved = std::move(places);
  EXPECT_EQ(moved.of(kA).group, &moved.storage().groups[0]);
}

}  // namespace
}  // namespace genesis

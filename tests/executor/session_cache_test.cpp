// Tests that a session gives a model's cache the size that it is asked for, and enlarges it with the texts in it.
#include "executor/inspector.h"
#include "executor/session.h"
#include "passes/core/cache_size.h"
#include "schema/graph/caches.h"
#include "schema/graph/text.h"
#include "tests/op_harness.h"

namespace genesis {
namespace {

using namespace testing;
using Doubles = std::vector<double>;

constexpr const char* kText = R"(
state @keys: f32[1,2,1] cache of keys rows 0 positions 1
state @sums: f32[1,1] cache of sums rows 0
state @weight: f32[1] parameter = (2)
state @steps: i64[] step
entry decode(x: f32[1,1,1], position: i64[1]) {
  %scaled = mul(x, @weight)
  %new_keys = dynamic_update_slice(@keys, %scaled, position) {axis=1}
  %flat = reshape(x) {shape=[1,1]}
  %new_sums = add(@sums, %flat)
  %one = full() {shape=[], dtype=i64, value=1}
  %new_steps = add(@steps, %one)
  return keys = %new_keys
  return sums = %new_sums
  return steps = %new_steps
  update @keys = %new_keys
  update @sums = %new_sums
  update @steps = %new_steps
}
)";

std::shared_ptr<const Model> parsed_model() { return parse_text(kText); }

NamedTensors read(Session& session, const std::vector<float>& x, int64_t position) {
  const auto rows = std::ssize(x);
  return session.run("decode",
                     {{"x", Tensor::of<float>({rows, 1, 1}, x)},
                      {"position", Tensor::of<int64_t>({rows}, std::vector<int64_t>(x.size(), position))}});
}

TEST(SessionCache, HasTheSizeOfTheOptions) {
  Session session(parsed_model(), {.cache = CacheSize{.rows = 2, .positions = 3}});
  EXPECT_EQ(cache_size(session.model()), (CacheSize{2, 3}));
  read(session, {1, 5}, 0);
  NamedTensors out = read(session, {3, 7}, 2);
  EXPECT_EQ(out["keys"].to_doubles(), (Doubles{2, 0, 6, 10, 0, 14}));
  EXPECT_EQ(out["sums"].to_doubles(), (Doubles{4, 12}));
  Session as_it_is(parsed_model());
  EXPECT_EQ(cache_size(as_it_is.model()), (CacheSize{1, 2}));
}

TEST(SessionCache, TakesTheBytesThatWereSaid) {
  for (const CacheSize size : {CacheSize{1, 2}, CacheSize{3, 1000}}) {
    Session session(parsed_model(), {.cache = size});
    const int64_t before = Inspector(session).memory().state_bytes;
    read(session, std::vector<float>(static_cast<size_t>(size.rows), 1), 0);
    const int64_t steps = 8;
    EXPECT_EQ(Inspector(session).memory().state_bytes - before, cache_bytes(*parsed_model(), size) + steps);
  }
}

TEST(SessionCache, GrowsWithTheTextsInIt) {
  Session session(parsed_model(), {.cache = CacheSize{.rows = 2, .positions = 2}});
  read(session, {1, 5}, 0);
  read(session, {3, 7}, 1);
  session.grow_cache(4);
  EXPECT_EQ(cache_size(session.model()), (CacheSize{2, 4}));
  EXPECT_EQ(session.state("keys").to_doubles(), (Doubles{2, 6, 0, 0, 10, 14, 0, 0}));
  NamedTensors out = read(session, {4, 8}, 2);
  EXPECT_EQ(out["keys"].to_doubles(), (Doubles{2, 6, 8, 0, 10, 14, 16, 0}));
  EXPECT_EQ(out["sums"].to_doubles()[0], 8);
  EXPECT_EQ(Inspector(session).memory().plans, 1) << "plans of the old size are gone";
  session.grow_cache(4);
  EXPECT_EQ(session.state("keys").to_doubles(), (Doubles{2, 6, 8, 0, 10, 14, 16, 0}));
}

TEST(SessionCache, GrowsBeforeTheFirstText) {
  Session session(parsed_model());
  session.grow_cache(5);
  EXPECT_EQ(read(session, {1}, 4)["keys"].to_doubles(), (Doubles{0, 0, 0, 0, 2}));
}

TEST(SessionCache, GrowsNextToTrainedStates) {
  Session session(parsed_model());
  session.set_state("weight", Tensor::of<float>({1}, {3}));
  read(session, {1}, 1);
  session.grow_cache(3);
  NamedTensors out = read(session, {1}, 2);
  EXPECT_EQ(out["keys"].to_doubles(), (Doubles{0, 3, 3}));
  EXPECT_EQ(out["steps"].item<int64_t>(), 2);
  session.reset_states(StateRole::kCache);
  EXPECT_EQ(session.state("keys").to_doubles(), (Doubles{0, 0, 0}));
}

TEST(SessionCache, WhatCannotGrowIsAnError) {
  Session session(parsed_model(), {.cache = CacheSize{.rows = 1, .positions = 4}});
  expect_error([&] { session.grow_cache(3); }, {"3 positions", "it has 4"});
  read(session, {1}, 3);
  expect_error([&] { session.grow_cache(int64_t{1} << 62); }, {"overflow"});
  EXPECT_EQ(session.state("keys").to_doubles(), (Doubles{0, 0, 0, 2}));
  session.start("decode",
                {{"x", Tensor::of<float>({1, 1, 1}, {1})}, {"position", Tensor::of<int64_t>({1}, {0})}});
  expect_error([&] { session.grow_cache(8); }, {"result()"});
  session.result();
  Session none(parse_text("entry f(x: f32[2]) {\n %y = neg(x)\n return y = %y\n}\n"));
  expect_error([&] { none.grow_cache(8); }, {"declares no caches"});
  expect_error(
      [] {
        Session(parse_text("entry f(x: f32[2]) {\n return y = x\n}\n"), {.cache = CacheSize{1, 8}});
      },
      {"declares no caches"});
}

}  // namespace
}  // namespace genesis

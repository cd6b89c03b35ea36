// Tests the model of cost: rooflines, exchanges, launches, and the work of nodes whose sizes are symbols.
#include "schema/graph/cost_model.h"

#include <gtest/gtest.h>

#include "schema/graph/text.h"

namespace genesis {
namespace {

TEST(CostModel, ANodeTakesTheLongerOfArithmeticAndMemory) {
  const Rates rates = {.bytes = 4, .flops = 8};
  EXPECT_EQ(time_of({.bytes = 8, .flops = 8}, rates), 2);
  EXPECT_EQ(time_of({.bytes = 8, .flops = 32}, rates), 4);
  EXPECT_EQ(time_in_flops({.bytes = 8, .flops = 32}, 2), 32);
  EXPECT_EQ(time_in_flops({.bytes = 8, .flops = 32}, 5), 40);
}

TEST(CostModel, AnExchangeTakesItsLatencyAndItsBytes) {
  EXPECT_EQ(exchange_time({.latency = 3, .bytes = 2}, 2, 8), 10);
  EXPECT_EQ(exchange_time({.latency = 3, .bytes = 2}, 0, 8), 4);
}

TEST(CostModel, FollowsTheFactsOfATarget) {
  const Target target = {.launch_seconds = 2,
                         .bytes_per_second = 4,
                         .flops_per_second = 8,
                         .exchanged_per_second = 16,
                         .exchange_seconds = 3};
  EXPECT_EQ(seconds_saved_by_one_step_for(target, 3), 4);
  EXPECT_EQ(seconds_saved_by_one_step_for(target, 1), 0);
  EXPECT_EQ(seconds_saved_by_one_step_for(target, 0), 0);
  EXPECT_EQ(seconds_to_move(target, 6), 1.5);
  EXPECT_EQ(time_of({.bytes = 4, .flops = 16}, rates_of(target)), 2);
  EXPECT_EQ(exchange_time(link_of(target), 1, 32), 5);
}

TEST(CostModel, TheWorkOfANodeFollowsTheSizesOfItsSymbols) {
  const auto model = parse_text(R"(entry forward(x: bf16[batch,4], w: bf16[4,8]) {
  %y = matmul(x, w) : bf16[batch,8]
  %flat = reshape(%y) {shape=[8*batch]} : bf16[8*batch]
  return y = %flat
}
)");
  const Graph& graph = model->entry("forward");
  const Node &product = graph.nodes()[0], &view = graph.nodes()[1];
  const Cost cost = cost_of(graph, product, {{"batch", 2}});
  EXPECT_EQ(cost.flops, 2 * 2 * 4 * 8);
  EXPECT_EQ(cost.bytes, 2 * (2 * 4 + 4 * 8 + 2 * 8));
  EXPECT_EQ(cost_of(graph, view, {{"batch", 2}}).bytes, 0);
  EXPECT_TRUE(multiplies_low_precision(graph.input_types(product)));
  EXPECT_FALSE(multiplies_low_precision({}));
}

}  // namespace
}  // namespace genesis

// Tests what a session reports about a run in progress, and about the first value that is not finite.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "executor/inspector.h"
#include "executor/session.h"
#include "schema/core/error.h"
#include "schema/graph/text.h"

namespace genesis {
namespace {

// Two wide halves that can run side by side, and their sum.
constexpr const char* kWide = R"(
entry f(x: f32[n,n]) {
  %a = matmul(x, x)
  %b = sin(x)
  %c = matmul(%b, %b)
  %y = add(%a, %c)
  return y = %y
}
)";

NamedTensors square(int64_t n) {
  std::vector<float> values(static_cast<size_t>(n * n));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 17) / 17;
  return {{"x", Tensor::of<float>({n, n}, values)}};
}

TEST(SessionTimeline, HasEveryStepOnThreadsThatDoOneThingAtATime) {
  for (const int threads : {1, 2, 4}) {
    Session session(std::shared_ptr<const Model>(parse_text(kWide)), {.threads = threads});
    const NamedTensors inputs = square(300);
    const std::vector<double> expected = session.run("f", inputs).at("y").to_doubles();
    const Timeline timeline = Inspector(session).timeline("f", inputs);
    EXPECT_LE(timeline.tracks.size(), static_cast<size_t>(threads));
    std::map<int32_t, double> us;  // by step
    for (const Timeline::Track& track : timeline.tracks) {
      double last = 0;
      for (const Timeline::Span& span : track.spans) {
        EXPECT_GE(span.start_us, last) << track.name;
        EXPECT_GE(span.end_us, span.start_us);
        last = span.end_us;
        us[span.step] += span.end_us - span.start_us;
      }
    }
    EXPECT_EQ(us.size(), session.plan("f", inputs).steps.size());
    for (const auto& [step, time] : us) EXPECT_GT(time, 0) << step;
    // Observing changes no result, and does not persist.
    EXPECT_EQ(session.run("f", inputs).at("y").to_doubles(), expected);
  }
}

TEST(SessionTimeline, EndsWithAFaultLikeAnyRun) {
  Session session(std::shared_ptr<const Model>(parse_text(R"(
state @table: f32[4,2] parameter trainable = (0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0)
entry look(i: i64[n]) {
  %rows = embedding(i, @table)
  return rows = %rows
}
)")));
  const NamedTensors bad = {{"i", Tensor::of<int64_t>({2}, {1, 9})}},
                     good = {{"i", Tensor::of<int64_t>({2}, {1, 2})}};
  EXPECT_THROW(Inspector(session).timeline("look", bad), Error);
  EXPECT_EQ(Inspector(session).timeline("look", good).tracks.size(),
            Inspector(session).timeline("look", good).tracks.size());
  EXPECT_EQ(session.run("look", good).at("rows").to_doubles()[0], 2);
}

TEST(SessionNonfinite, BringsWhatTheNodeReadAndGave) {
  Session session(std::shared_ptr<const Model>(parse_text(R"(
entry f(x: f32[n], d: f32[n]) {
  %ratio = div(x, d)
  %y = add(%ratio, x)
  return y = %y
}
)")),
                  {.optimize = false, .find_nonfinite = true});
  try {
    session.run("f", {{"x", Tensor::of<float>({2}, {1, 3})}, {"d", Tensor::of<float>({2}, {2, 0})}});
    ADD_FAILURE() << "nothing was found";
  } catch (const NonfiniteError& error) {
    const NonfiniteError::Found& found = error.found();
    EXPECT_EQ(found.entry, "f");
    EXPECT_EQ(found.sizes.at("n"), 2);
    EXPECT_EQ(found.author, "ratio");
    EXPECT_EQ(found.op, "div");
    EXPECT_EQ(found.element, 1);
    ASSERT_EQ(found.inputs.size(), 2u);
    ASSERT_EQ(found.outputs.size(), 1u);
    EXPECT_EQ(found.inputs[0]->to_doubles(), (std::vector<double>{1, 3}));
    EXPECT_EQ(found.inputs[1]->to_doubles(), (std::vector<double>{2, 0}));
    EXPECT_TRUE(std::isinf(found.outputs[0]->to_doubles()[1]));
  }
}

// A step that overwrote its input cannot show it anymore.
TEST(SessionNonfinite, DoesNotShowWhatIsOverwritten) {
  Session session(std::shared_ptr<const Model>(parse_text(R"(
state @count: f32[2] buffer = (1.0, 0.0)
entry f(x: f32[2]) {
  %next = div(x, @count)
  return y = x
  update @count = %next
}
)")),
                  {.optimize = false, .find_nonfinite = true});
  try {
    session.run("f", {{"x", Tensor::of<float>({2}, {1, 3})}});
    ADD_FAILURE() << "nothing was found";
  } catch (const NonfiniteError& error) {
    const NonfiniteError::Found& found = error.found();
    ASSERT_EQ(found.inputs.size(), 2u);
    EXPECT_TRUE(found.inputs[0].has_value());
    if (found.inputs[1]) {
      EXPECT_EQ(found.inputs[1]->to_doubles(), (std::vector<double>{1, 0}));
    }
  }
}

}  // namespace
}  // namespace genesis

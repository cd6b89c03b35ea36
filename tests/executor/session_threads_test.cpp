// Tests several threads that use one Session: one after another is allowed, concurrent use is an Error.
#include <atomic>
#include <cmath>
#include <thread>

#include "executor/inspector.h"
#include "executor/session.h"
#include "executor/state_dict.h"
#include "schema/graph/text.h"
#include "tests/op_harness.h"
#include "tests/schema/file_models.h"

namespace genesis {
namespace {

using namespace testing;

constexpr const char* kModel = R"(
state @count: f32[] buffer = (0.0)
state @one: f32[] buffer = (1.0)
entry wide(x: f32[n,n]) {
  %e = exp(x)
  %p = matmul(%e, %e)
  %s = sum(%p)
  %next = add(@count, @one)
  return y = %s
  return count = %next
  update @count = %next
}
)";

std::shared_ptr<const Model> parsed_model() { return parse_text(kModel); }
NamedTensors square(int64_t n) {
  return {{"x", Tensor::of<float>({n, n}, std::vector<float>(static_cast<size_t>(n * n), 0.0F))}};
}
double run(Session& session, int64_t n) { return session.run("wide", square(n)).at("y").to_doubles()[0]; }

struct Call {
  const char* name;
  std::function<void(Session&)> make;
};

// Returns every call that runs, compiles or accesses states.
std::vector<Call> calls(const TemporaryFolder& folder) {
  const NamedTensors x = square(3);
  const Tensor one = Tensor::scalar<float>(1);
  return {{"run", [=](Session& s) { s.run("wide", x); }},
          {"start", [=](Session& s) { s.start("wide", x); }},
          {"stage", [=](Session& s) { s.stage("wide", x); }},
          {"result", [](Session& s) { s.result(); }},
          {"explain_nonfinite", [=](Session& s) { Inspector(s).explain_nonfinite("wide", x); }},
          {"plan",
           [](Session& s) {
             s.plan("wide", {{"n", 3}});
           }},
          {"plan of inputs", [=](Session& s) { s.plan("wide", x); }},
          {"profile", [=](Session& s) { Inspector(s).profile("wide", x); }},
          {"timeline", [=](Session& s) { Inspector(s).timeline("wide", x); }},
          {"seconds_per_run", [=](Session& s) { Inspector(s).seconds_per_run("wide", x, 1); }},
          {"observe", [=](Session& s) { Inspector(s).observe("wide", x, {}); }},
          {"state", [](Session& s) { s.state("count"); }},
          {"set_state", [=](Session& s) { s.set_state("count", one); }},
          {"states", [](Session& s) { s.states(); }},
          {"set_states",
           [=](Session& s) {
             s.set_states({{"count", one}, {"one", one}});
           }},
          {"state_dict", [](Session& s) { state_dict(s); }},
          {"load_state_dict", [=](Session& s) { load_state_dict(s, {}, false); }},
          {"save", [&](Session& s) { s.save(folder / "m.genesis"); }},
          {"load", [&](Session& s) { s.load(folder / "saved.genesis"); }},
          {"seed", [](Session& s) { s.seed(); }},
          {"set_seed", [](Session& s) { s.set_seed(1); }},
          {"reset_states", [](Session& s) { s.reset_states(StateRole::kBuffer); }},
          {"memory", [](Session& s) { Inspector(s).memory(); }},
          {"measure_peaks", [](Session& s) { Inspector(s).measure_peaks(); }}};
}

void expect_refused(const Call& call, Session& session) {
  SCOPED_TRACE(call.name);
  expect_error([&] { call.make(session); }, {"one thread at a time", "Session of its own"});
}

// The observer holds the run while a call comes, from the run's own thread and from another.
TEST(OneSession, RefusesEveryCallWhileARunGoesOn) {
  const TemporaryFolder folder;
  Session session(parsed_model());
  session.save(folder / "saved.genesis");
  bool seen = false;
  Inspector(session).observe("wide", square(4), [&](const Step&, auto, auto) {
    if (std::exchange(seen, true)) return;
    for (const Call& call : calls(folder)) {
      expect_refused(call, session);
      std::thread([&] { expect_refused(call, session); }).join();
    }
  });
  EXPECT_TRUE(seen);
  EXPECT_EQ(session.run("wide", square(4)).at("count").to_doubles()[0], 2);
}

TEST(OneSession, AfterAnErrorTheNextCallIsWelcome) {
  Session session(parsed_model());
  expect_error([&] { session.run("none"); }, {"'none'"});
  expect_error([&] { Inspector(session).observe("wide", square(2), [](auto&&...) { fail("enough"); }); },
               {"enough"});
  EXPECT_EQ(run(session, 4), 64);
}

// However two threads meet, each run is either done completely or refused.
TEST(OneSession, TwoThreadsAtOnceGiveResultsOrErrorsButNoCrash) {
  Session session(parsed_model(), {.max_plans = 4});
  std::atomic<int> done = 0, refused = 0;
  const auto work = [&](int64_t seed) {
    for (int64_t i = 0; i < 300; ++i) {
      const int64_t n = 1 + (i * 7 + seed) % 24;
      try {
        EXPECT_EQ(run(session, n), static_cast<double>(n * n * n));
        ++done;
      } catch (const Error& error) {
        EXPECT_NE(error.message().find("one thread at a time"), std::string::npos) << error.message();
        ++refused;
      }
    }
  };
  std::thread a(work, 0), b(work, 5);
  a.join();
  b.join();
  EXPECT_EQ(done + refused, 600);
  EXPECT_EQ(session.state("count").to_doubles()[0], done);
}

TEST(OneSession, ThreadsMayTakeTurns) {
  Session session(parsed_model());
  std::thread([&] { session.start("wide", square(5)); }).join();
  double y = 0;
  std::thread([&] { y = session.result().at("y").to_doubles()[0]; }).join();
  EXPECT_EQ(y, 125);
  EXPECT_EQ(run(session, 6), 216);
}

}  // namespace
}  // namespace genesis

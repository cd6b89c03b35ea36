#include "tools/viz/files/trace_file.h"

#include <algorithm>
#include <limits>

#include "schema/file/io/atomic_write.h"
#include "schema/graph/cost_model.h"
#include "tools/common/tool.h"
#include "tools/viz/data/plan_data.h"

namespace genesis::viz {
namespace {

class TraceWriter {
 public:
  TraceWriter(const Plan& plan, const std::vector<std::string>& kernels)
      : plan_(plan), kernels_(kernels), live_(live_bytes(plan)) {}

  void name_process(int64_t process, const std::string& name) { add_name("process_name", process, 0, name); }
  void name_track(int64_t process, int64_t track, const std::string& name) {
    add_name("thread_name", process, track, name);
  }

  void add_step(int64_t process, int64_t track, size_t i, double start_us, double end_us) {
    const Step& step = plan_.steps[i];
    const Cost cost = cost_of(step);
    events_.push_back({{"name", step.name},
                       {"cat", step.op->info.collective ? "communication" : step.op->name()},
                       {"ph", "X"},
                       {"pid", process},
                       {"tid", track},
                       {"ts", start_us},
                       {"dur", end_us - start_us},
                       {"args",
                        {{"op", step.op->name()},
                         {"from", step.authored},
                         {"kernel", kernels_[i]},
                         {"bytes", cost.bytes},
                         {"flops", cost.flops}}}});
  }

  // `starts`: by step; infinite for a step that did not run.
  void add_memory(int64_t process, const std::vector<double>& starts, double end_us) {
    for (size_t i = 0; i < starts.size(); ++i)
      if (starts[i] <= end_us) add_count(process, starts[i], live_[i]);
    add_count(process, end_us, 0);
  }

  Json finish() { return {{"traceEvents", std::move(events_)}, {"displayTimeUnit", "ms"}}; }

 private:
  void add_name(const char* what, int64_t process, int64_t track, const std::string& name) {
    events_.push_back(
        {{"name", what}, {"ph", "M"}, {"pid", process}, {"tid", track}, {"args", {{"name", name}}}});
  }
  void add_count(int64_t process, double us, int64_t bytes) {
    events_.push_back({{"name", "arena, bytes alive"},
                       {"ph", "C"},
                       {"pid", process},
                       {"ts", us},
                       {"args", {{"bytes", bytes}}}});
  }

  const Plan& plan_;
  const std::vector<std::string>& kernels_;
  const std::vector<int64_t> live_;  // by step
  Json events_ = Json::array();
};

void add_alone(TraceWriter& trace, int64_t process, const std::string& device, const Plan& plan,
               const std::vector<StepTiming>& timings) {
  trace.name_process(process, plan.entry + " on " + device + ", one step after the other");
  trace.name_track(process, 0, "steps");
  std::vector<double> starts;
  for (size_t i = 0; i < timings.size(); ++i) {
    trace.add_step(process, 0, i, timings[i].start_us, timings[i].end_us);
    starts.push_back(timings[i].start_us);
  }
  trace.add_memory(process, starts, timings.back().end_us);
}

// Adds a rank's steps and memory. The bytes alive at a step come from the plan's order, which concurrent steps follow
// roughly.
void add_rank(TraceWriter& trace, const std::string& device, const Plan& plan, const Json& timeline,
              int64_t rank, bool has_others) {
  const int64_t process = rank + 1;  // Perfetto shows process 0 as an idle CPU
  trace.name_process(process,
                     plan.entry + " on " + device + (has_others ? fmt::format(", rank {}", rank) : ""));
  const Json &tracks = timeline["tracks"], &spans = timeline["spans"];
  for (size_t track = 0; track < tracks.size(); ++track)
    if (tracks[track]["rank"] == rank)
      trace.name_track(process, static_cast<int64_t>(track), tracks[track]["name"].get<std::string>());
  std::vector<double> starts(plan.steps.size(), std::numeric_limits<double>::infinity());
  double end = 0;
  for (size_t i = 0; i < spans["step"].size(); ++i) {
    const auto track = spans["track"][i].get<size_t>(), step = spans["step"][i].get<size_t>();
    if (tracks[track]["rank"] != rank || step >= starts.size()) continue;
    const double start_us = spans["start_us"][i], end_us = spans["end_us"][i];
    trace.add_step(process, static_cast<int64_t>(track), step, start_us, end_us);
    starts[step] = std::min(starts[step], start_us);
    end = std::max(end, end_us);
  }
  trace.add_memory(process, starts, end);
}

}  // namespace

void write_trace(const std::string& path, const std::string& device, const Plan& plan,
                 const std::vector<StepTiming>& timings, const std::vector<std::string>& kernels,
                 const Json& timeline) {
  TraceWriter trace(plan, kernels);
  const int64_t ranks = timeline.is_null() ? 0 : timeline["tracks"].back()["rank"].get<int64_t>() + 1;
  for (int64_t rank = 0; rank < ranks; ++rank) add_rank(trace, device, plan, timeline, rank, ranks > 1);
  add_alone(trace, ranks + 1, device, plan, timings);
  write_file_atomically(path, tools::json_text(trace.finish()));
}

}  // namespace genesis::viz

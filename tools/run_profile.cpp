// genesis-run profile: where the time of an entry point goes, node by node.
#include <algorithm>
#include <iostream>
#include <map>

#include "executor/cost.h"
#include "schema/file/atomic_write.h"
#include "schema/file/reader.h"
#include "tools/run_commands.h"
#include "tools/run_inputs.h"

namespace genesis::tools {
namespace {

struct Flags {
  std::string file, entry = "forward", trace;
  int64_t runs = 5, top = 30;
  bool by_op = false;
  InputFlags inputs;
  RunFlags run;
  Output out;
};

// One line of the table: a node, or all nodes of an op.
struct Row {
  std::string name, op;
  int64_t count = 0;
  double us = 0, least_us = 0, bytes = 0, flops = 0;

  double gbps() const { return us > 0 ? bytes / us / 1e3 : 0; }
  double gflops() const { return us > 0 ? flops / us / 1e3 : 0; }
  // The part of the time that the device's limits would need: bytes at full bandwidth or products at full
  // rate.
  double roofline() const { return us > 0 ? least_us / us : 0; }
};

// The fastest of several runs, step by step: what disturbs a run only ever makes it slower.
std::vector<StepTiming> best_timings(Session& session, const Flags& flags, const NamedTensors& inputs) {
  session.run(flags.entry, inputs);
  std::vector<StepTiming> best = session.profile(flags.entry, inputs);
  for (int64_t i = 1; i < flags.runs; ++i) {
    const std::vector<StepTiming> next = session.profile(flags.entry, inputs);
    if (next.back().end_us < best.back().end_us) best = next;
  }
  return best;
}

std::vector<Row> make_rows(const Plan& plan, const std::vector<StepTiming>& timings, const DevicePeaks& peaks,
                           bool by_op) {
  std::map<std::string, Row> rows;
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const Step& step = plan.steps[i];
    const std::string op(step.op->name());
    Row& row = rows[by_op ? op : step.name];
    const Cost cost = cost_of(step);
    row.name = by_op ? op : step.name;
    row.op = op;
    row.count += 1;
    row.us += timings[i].end_us - timings[i].start_us;
    row.least_us += peaks.microseconds(step);
    row.bytes += cost.bytes;
    row.flops += cost.flops;
  }
  std::vector<Row> sorted;
  for (auto& [name, row] : rows) sorted.push_back(row);
  std::stable_sort(sorted.begin(), sorted.end(), [](const Row& a, const Row& b) { return a.us > b.us; });
  return sorted;
}

// The format of chrome://tracing and Perfetto.
void write_trace(const std::string& path, const Plan& plan, const std::vector<StepTiming>& timings) {
  nlohmann::ordered_json events = nlohmann::ordered_json::array();
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const Step& step = plan.steps[i];
    const Cost cost = cost_of(step);
    events.push_back({{"name", step.name},
                      {"cat", step.op->name()},
                      {"ph", "X"},
                      {"pid", 1},
                      {"tid", 1},
                      {"ts", timings[i].start_us},
                      {"dur", timings[i].end_us - timings[i].start_us},
                      {"args", {{"from", step.authored}, {"bytes", cost.bytes}, {"flops", cost.flops}}}});
  }
  const nlohmann::ordered_json trace{{"traceEvents", events}, {"displayTimeUnit", "ms"}};
  write_file_atomically(path, trace.dump());
}

void print_table(const Flags& flags, const std::vector<Row>& rows, const DevicePeaks& peaks, double total) {
  std::cout << fmt::format("{:>10} {:>6} {:>10} {:>8} {:>9} {:>9}  {}\n", "us", "share", "bytes", "GB/s",
                           "GFLOP/s", "roofline", flags.by_op ? "op" : "node");
  for (size_t i = 0; i < rows.size() && static_cast<int64_t>(i) < flags.top; ++i) {
    const Row& row = rows[i];
    std::cout << fmt::format(
        "{:10.1f} {:5.1f}% {:>10} {:8.1f} {:9.1f} {:8.0f}%  {}\n", row.us, 100 * row.us / total,
        human_bytes(row.bytes), row.gbps(), row.gflops(), 100 * row.roofline(),
        flags.by_op ? fmt::format("{} x{}", row.name, row.count) : fmt::format("{} ({})", row.name, row.op));
  }
  std::cout << fmt::format(
      "{:10.1f} us in all; this device: {:.0f} GFLOP/s f32, {:.0f} with 16 bits, copies {:.1f} GB/s\n", total,
      peaks.f32_gflops, peaks.low_gflops, peaks.copy_gbps);
}

void profile(const Flags& flags) {
  check_can_write(flags.trace);
  if (flags.runs < 1) fail("--runs {}: expected a positive number", flags.runs);
  const std::shared_ptr<const Model> model = load_model(flags.file);
  const NamedTensors inputs = flags.inputs.make(model->entry(flags.entry));
  Session session(model, flags.run.session_options());
  const Plan& plan = session.plan_for(flags.entry, inputs);
  if (plan.steps.empty()) fail("entry point '{}' has nothing to run", flags.entry);
  const std::vector<StepTiming> timings = best_timings(session, flags, inputs);
  if (!flags.trace.empty()) write_trace(flags.trace, plan, timings);
  const DevicePeaks peaks = session.measure_peaks();
  const std::vector<Row> rows = make_rows(plan, timings, peaks, flags.by_op);
  const double total = timings.back().end_us;
  nlohmann::ordered_json json{{"entry", flags.entry},
                              {"total_us", total},
                              {"steps", plan.steps.size()},
                              {"arena_bytes", plan.arena_bytes},
                              {"arena_lower_bound", plan.lower_bound_bytes},
                              {"peaks", peaks_json(peaks)}};
  for (const Row& row : rows)
    json["rows"].push_back({{"name", row.name},
                            {"op", row.op},
                            {"count", row.count},
                            {"us", row.us},
                            {"bytes", row.bytes},
                            {"flops", row.flops},
                            {"roofline", row.roofline()}});
  flags.out.print(json, [&] { print_table(flags, rows, peaks, total); });
}

}  // namespace

void add_profile(CLI::App& app) {
  auto flags = std::make_shared<Flags>();
  CLI::App* command =
      app.add_subcommand("profile", "time per node, bytes, share of the device's limits; Chrome trace");
  command->add_option("file", flags->file, "a .genesis file")->required();
  command->add_option("--entry", flags->entry, "entry point")->capture_default_str();
  command->add_option("--runs", flags->runs, "runs; the fastest is shown")->capture_default_str();
  command->add_option("--top", flags->top, "rows to print")->capture_default_str();
  command->add_flag("--by-op", flags->by_op, "sum up nodes of the same op");
  command->add_option("--trace", flags->trace,
                      "write a Chrome trace (chrome://tracing, ui.perfetto.dev) here");
  flags->inputs.add_to(*command);
  flags->run.add_to(*command);
  flags->out.add_to(*command);
  command->footer(
      "Example:\n  genesis-run profile train.genesis --entry train_step --size batch=8 --size seq=256 "
      "--by-op");
  command->callback([flags] { profile(*flags); });
}

}  // namespace genesis::tools

// genesis-run profile: shows how the time of an entry point is spent, node by node.
#include <fmt/ranges.h>

#include <algorithm>
#include <iostream>
#include <map>

#include "executor/inspection/benchmark.h"
#include "executor/inspection/profile_table.h"
#include "executor/inspector.h"
#include "schema/file/reader.h"
#include "tools/common/numbers.h"
#include "tools/common/printable.h"
#include "tools/common/ranks.h"
#include "tools/run/nonfinite_page.h"
#include "tools/run/run_commands.h"
#include "tools/run/run_inputs.h"
#include "tools/viz/files/trace_file.h"
#include "tools/viz/run_pages.h"

namespace genesis::tools {
namespace {

struct ProfileFlags {
  std::string file, entry = "forward", trace, page, compare, mesh;
  int64_t runs = 5, top = 30;
  int zero = 0;
  bool by_op = false;
  InputFlags inputs;
  RunFlags run;
  Output out;
};

// The times of a plan's steps, and the timeline of all ranks.
struct Measured {
  std::vector<StepTiming> timings;  // fastest run, since disturbances only ever add time
  std::vector<double> median_us;    // by step, over all runs
  std::vector<std::string> kernels;
  viz::Json timeline;

  StepTimes times() const {
    StepTimes times{{}, median_us, kernels};
    for (const StepTiming& timing : timings) times.us.push_back(timing.end_us - timing.start_us);
    return times;
  }
};

void time_steps(Session& session, const ProfileFlags& flags, const NamedTensors& inputs, Measured& measured) {
  session.run(flags.entry, inputs);
  std::vector<std::vector<double>> runs;
  for (int64_t i = 0; i < flags.runs; ++i) {
    const std::vector<StepTiming> next = Inspector(session).profile(flags.entry, inputs);
    runs.emplace_back();
    for (const StepTiming& timing : next) runs.back().push_back(timing.end_us - timing.start_us);
    if (i == 0 || next.back().end_us < measured.timings.back().end_us) measured.timings = next;
  }
  measured.median_us = viz::median_times(runs);
}

std::string kernels_text(const ProfileRow& row) {
  if (row.kernels.size() == 1) return row.kernels.begin()->first;
  std::vector<std::string> texts;
  for (const auto& [kernel, count] : row.kernels) texts.push_back(fmt::format("{} x{}", kernel, count));
  return fmt::format("{}", fmt::join(texts, ", "));
}

std::string share_text(const ProfileRow& row) {
  if (!row.judged()) return "-";
  return row.too_fast() ? ">100%" : fmt::format("{:.0f}%", 100 * row.roofline());
}

// Explains the marks in the table's last column, if it has any.
void print_notes(const std::vector<ProfileRow>& rows) {
  if (!std::ranges::all_of(rows, [](const ProfileRow& row) { return row.judged(); }))
    std::cout << fmt::format(
        "-: steps of less than {} us, which is too short to judge, or with work that depends on data\n",
        kShortestJudgedMicroseconds);
  if (std::ranges::any_of(rows, [](const ProfileRow& row) { return row.too_fast(); }))
    std::cout << ">100%" << kFasterThanLimits << "\n";
}

void print_table(const ProfileFlags& flags, const Plan& plan, const std::vector<ProfileRow>& rows,
                 const DevicePeaks& peaks, double total) {
  std::cout << sizes_line(plan.entry, plan.bindings);
  std::cout << fmt::format("{:>10} {:>10} {:>6} {:>10} {:>8} {:>9} {:>9}  {}\n", "us", "median", "share",
                           "bytes", "GB/s", "GFLOP/s", "roofline", flags.by_op ? "op" : "node");
  for (size_t i = 0; i < rows.size() && static_cast<int64_t>(i) < flags.top; ++i) {
    const ProfileRow& row = rows[i];
    std::cout << fmt::format(
        "{:10.1f} {:10.1f} {:5.1f}% {:>10} {:8.1f} {:9.1f} {:>9}  {}\n", row.us, row.median_us,
        100 * row.us / total, human_bytes(row.bytes), row.gbps(), row.gflops(), share_text(row),
        flags.by_op ? fmt::format("{} x{} ({})", row.name, row.count, kernels_text(row))
                    : fmt::format("{} ({}, {})", printable(row.name), row.op, kernels_text(row)));
  }
  std::cout << fmt::format(
      "{:10.1f} us in all; this device: {:.0f} GFLOP/s f32, {:.0f} with 16 bits, {:.1f} GB/s from memory{}\n",
      total, peaks.f32_gflops, peaks.low_gflops, std::max(peaks.copy_gbps, peaks.read_gbps),
      peaks.caches.empty() ? "" : fmt::format(", up to {:.1f} from a cache", peaks.caches.front().gbps));
  print_notes(rows);
}

nlohmann::ordered_json rows_json(const Plan& plan, const std::vector<ProfileRow>& rows,
                                 const DevicePeaks& peaks, double total) {
  nlohmann::ordered_json json{{"entry", plan.entry},
                              {"sizes", plan.bindings},
                              {"total_us", total},
                              {"steps", plan.steps.size()},
                              {"arena_bytes", plan.arena_bytes},
                              {"arena_lower_bound", plan.lower_bound_bytes},
                              {"peaks", peaks_json(peaks)}};
  for (const ProfileRow& row : rows)
    json["rows"].push_back({{"name", row.name},
                            {"op", row.op},
                            {"count", row.count},
                            {"kernels", row.kernels},
                            {"us", row.us},
                            {"median_us", row.median_us},
                            {"bytes", row.bytes},
                            {"flops", row.flops},
                            {"roofline", row.judged() ? nlohmann::ordered_json(row.roofline()) : nullptr}});
  return json;
}

Measured measure(Session& session, const ProfileFlags& flags, const NamedTensors& inputs, World& world) {
  Measured measured;
  with_nonfinite_page(flags.run, flags.file, session, [&] {
    time_steps(session, flags, inputs, measured);
    measured.kernels = Inspector(session).kernels(flags.entry, inputs);
    measured.timeline = viz::best_timeline([&] { return Inspector(session).timeline(flags.entry, inputs); },
                                           flags.runs, measured.timings.size(), world);
  });
  return measured;
}

viz::Measurement measurement_of(const Session& session, const ProfileFlags& flags, const Measured& measured,
                                const DevicePeaks& peaks) {
  return {session.device(), flags.runs, measured.timings, measured.median_us,
          measured.kernels, peaks,      measured.timeline};
}

// Profiles the model of --compare, with the device limits measured for the first model.
viz::ProfiledModel profile_other(const ProfileFlags& flags, const std::shared_ptr<const Model>& model,
                                 const SessionOptions& options, const DevicePeaks& peaks, World& world) {
  Session session(model, options);
  const NamedTensors inputs = flags.inputs.make(model->entry(flags.entry));
  const Measured measured = measure(session, flags, inputs, world);
  return {flags.compare, model, session.plan(flags.entry, inputs),
          measurement_of(session, flags, measured, peaks)};
}

void profile_rank(const ProfileFlags& flags, const std::shared_ptr<World>& world) {
  const FirstRankSpeaks quiet(*world);
  const std::shared_ptr<const Model> model = load_model(flags.file),
                                     other = flags.compare.empty() ? nullptr : load_model(flags.compare);
  if (other)  // finds a wrong model before the work with the first
    with_context([&] { flags.inputs.make(other->entry(flags.entry)); },
                 [&] { return "in " + flags.compare; });
  const NamedTensors inputs = flags.inputs.make(model->entry(flags.entry), world->mesh());
  const SessionOptions options = session_options(flags.run, world, flags.mesh, flags.zero);
  flags.run.memory.check_limits_one_of({flags.entry}, *model);
  Session session(model, options);
  const Plan& plan = session.plan(flags.entry, inputs);
  check_has_steps(plan);
  const Measured measured = measure(session, flags, inputs, *world);
  if (!world->is_first()) return;
  if (!flags.trace.empty())
    viz::write_trace(flags.trace, session.device(), plan, measured.timings, measured.kernels,
                     measured.timeline);
  const DevicePeaks peaks = measure_peaks_until(session, [&](const DevicePeaks& limits) {
    const std::vector<ProfileRow> nodes = profile_table(plan, measured.times(), limits, false);
    return std::ranges::none_of(nodes, [](const ProfileRow& row) { return row.too_fast(); });
  });
  const std::vector<ProfileRow> rows = profile_table(plan, measured.times(), peaks, flags.by_op);
  const double total = measured.timings.back().end_us;
  if (!flags.page.empty()) {
    std::vector<viz::ProfiledModel> sides{
        {flags.file, model, plan, measurement_of(session, flags, measured, peaks)}};
    if (other) sides.push_back(profile_other(flags, other, options, peaks, *world));
    viz::write_profile_page(flags.page, options, sides);
  }
  flags.out.print(rows_json(plan, rows, peaks, total), [&] { print_table(flags, plan, rows, peaks, total); });
}

void profile(ProfileFlags flags, const Command& app) {
  check_rules(app, {{flags.out.json, {"--top"}, "with --json, which has all rows"}});
  check_can_write(flags.trace);
  check_can_write(flags.page);
  check_rules(app, {{flags.page.empty(), {"--compare"}, "without -o, the page that shows it"},
                    {!flags.mesh.empty(), {"--compare"}, "with --mesh"}});
  run_ranks(flags.mesh, flags.run, SharedWork::kBatches, [&](const auto& world) {
    for (std::string* name : {&flags.file, &flags.compare}) *name = model_file(*name, *world);
    profile_rank(flags, world);
  });
}

}  // namespace

void add_profile(Command& app) {
  auto flags = std::make_shared<ProfileFlags>();
  Command* command = app.add_subcommand(
      "profile", "time and kernel per node, bytes, share of the device's limits; Chrome trace");
  command->add_option("file", flags->file, kModelName)->required();
  command->add_option("--entry", flags->entry, "entry point")->capture_default_str();
  add_number(*command, "--runs", flags->runs,
             "runs; the fastest is shown, with the median of each step over all", Range<int64_t>{1, 1000000});
  add_number(*command, "--top", flags->top, "rows to print", at_least<int64_t>(1));
  command->add_flag("--by-op", flags->by_op, "sum up nodes of the same op");
  command->add_option("--trace", flags->trace,
                      "write a Chrome trace (chrome://tracing, ui.perfetto.dev) here");
  command->add_option(
      "-o,--output", flags->page,
      "write a page for a browser with the times on it: FILE.html, or FILE.json for its data alone");
  command->add_option("--compare", flags->compare,
                      "with -o: profile this model too; the page shows both, memory and time side by side");
  Option* with_mesh = add_mesh(*command, flags->mesh,
                               "such as data=2: the ranks run together, and the page and the trace show all");
  add_zero(*command, with_mesh, flags->zero);
  flags->inputs.add_to(*command);
  flags->run.add_to(*command);
  flags->run.memory.add_to(*command);
  flags->out.add_to(*command);
  command->footer(
      "Example:\n  genesis-run profile train.genesis --entry train_step --size batch=8 --size seq=256 "
      "--by-op\n"
      "  genesis-run profile train.genesis --entry train_step --size batch=8 --size seq=256 -o run.html\n"
      "us and everything behind it are of the fastest run, median is each step's over all runs.\n"
      "roofline is the part of the time that the device's limits, measured now, would need: products at the "
      "full\n"
      "rate, bytes at the speed of memory or of the cache that can hold them. It is - (null in JSON) for "
      "steps that\n"
      "are too short to judge or whose work depends on data. `genesis-run info --kernels` says why better "
      "kernels\n"
      "declined a step; --disable kernel:NAME goes without one.");
  command->callback([flags, command] { profile(*flags, *command); });
}

}  // namespace genesis::tools

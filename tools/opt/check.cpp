#include "tools/opt/check.h"

#include <algorithm>
#include <charconv>
#include <iostream>

#include "executor/compile.h"
#include "executor/distributed/prediction.h"
#include "executor/distributed/traffic.h"
#include "executor/runtime/device.h"
#include "models/zoo.h"
#include "passes/core/bind.h"
#include "passes/distribution/pipeline/stages.h"
#include "passes/distribution/rank_sizes.h"
#include "schema/ranks/mesh_axes.h"
#include "tools/common/numbers.h"
#include "tools/common/option_values.h"
#include "tools/common/printable.h"
#include "tools/common/ranks.h"

namespace genesis::tools {
namespace {

double ratio_to_bound(const Plan& plan) {
  if (plan.lower_bound_bytes == 0) return 1;
  return static_cast<double>(plan.arena_bytes) / static_cast<double>(plan.lower_bound_bytes);
}

// Returns lines about the states and optimizer states that a rank keeps and the data it exchanges; also adds them to
// `row`. In a pipeline the rank is of the first stage.
std::string rank_lines(const CompiledEntry& compiled, const Mesh& mesh, nlohmann::ordered_json& row) {
  const int64_t kept = state_bytes(compiled);
  row["state_bytes"] = kept;
  const bool has_stages = mesh.size(kPipelineAxis) > 1;
  std::string text = fmt::format("  {}states take {}",
                                 has_stages         ? "on stage 0 "
                                 : mesh.ranks() > 1 ? "on each rank "
                                                    : "",
                                 human_bytes(kept));
  if (const int64_t bytes = optimizer_bytes(compiled); bytes > 0) {
    row["optimizer_bytes"] = bytes;
    text += fmt::format(", those of the optimizer {}", human_bytes(bytes));
  }
  text += "\n";
  for (const AxisTraffic& along : traffic_of(compiled.plan, mesh)) {
    row["exchanged"][along.axis] = {{"calls", along.calls}, {"bytes", along.bytes}};
    text += fmt::format("  each rank{} sends {} along '{}', in {} exchanges\n",
                        has_stages ? " of stage 0" : "", human_bytes(along.bytes), along.axis, along.calls);
  }
  return text;
}

// Parses "310,50,8": GB/s between ranks of a host, GB/s between hosts, and ranks per host.
RankLinks parse_links(const std::string& text) {
  RankLinks links;
  if (text.empty()) return links;
  int64_t numbers[3] = {};
  const char *at = text.data(), *end = at + text.size();
  for (size_t i = 0; i < 3; ++i) {
    const auto [stop, error] = std::from_chars(at, end, numbers[i]);
    const bool is_next = i == 2 ? stop == end : stop != end && *stop == ',';
    if (error != std::errc() || numbers[i] < 1 || !is_next)
      fail_usage(
          "--links {}: expected GB/s beside each other, GB/s between hosts and ranks of a host, as 310,50,8",
          text);
    at = stop + 1;
  }
  links.same_host = 1e9 * static_cast<double>(numbers[0]);
  links.other_hosts = 1e9 * static_cast<double>(numbers[1]);
  links.ranks_each_host = numbers[2];
  return links;
}

// Returns a line with the predicted time of a run on `flags.chip`, also added to `row`; empty without a chip.
std::string prediction_line(const Plan& plan, const Mesh& mesh, const CheckFlags& flags,
                            nlohmann::ordered_json& row) {
  if (flags.chip.empty()) return "";
  const Prediction predicted =
      predict(plan, mesh, read_value("--chip " + flags.chip, [&] { return chip_rates(flags.chip); }),
              parse_links(flags.links));
  row["predicted"] = {{"chip", flags.chip},
                      {"ms", 1e-3 * predicted.step_us},
                      {"compute_ms", 1e-3 * predicted.compute_us},
                      {"exchange_ms", 1e-3 * predicted.exchange_us}};
  return fmt::format(
      "  predicted for {}: {:.2f} ms, {:.2f} of them computing; exchanges take {:.2f}, of which {:.2f} "
      "show\n",
      flags.chip, 1e-3 * predicted.step_us, 1e-3 * predicted.compute_us, 1e-3 * predicted.exchange_us,
      1e-3 * predicted.shown_us());
}

// Returns the first rank of each pipeline stage.
std::vector<int64_t> ranks_of_stages(const Mesh& mesh) {
  std::vector<int64_t> ranks;
  for (int64_t rank = 0; rank < mesh.ranks(); ++rank)
    if (mesh.place(rank, kPipelineAxis) == std::ssize(ranks)) ranks.push_back(rank);
  return ranks;
}

// Returns lines about each stage of a pipeline (its layers, its share of the multiplications, its memory) and the
// time that stages wait. Empty without a pipeline.
std::string stage_lines(const Model& model, const std::string& entry, const Bindings& sizes,
                        const Target& target, SessionOptions options, nlohmann::ordered_json& row) {
  const std::vector<int64_t> ranks = ranks_of_stages(options.mesh);
  if (ranks.size() == 1) return "";
  const passes::PipelineSummary summary =
      passes::summarize_pipeline(model, entry, sizes, std::ssize(ranks), target);
  double flops = 0;
  for (const passes::StageSummary& stage : summary.stages) flops += stage.flops;
  std::string text;
  for (size_t i = 0; i < ranks.size(); ++i) {
    const passes::StageSummary& stage = summary.stages[i];
    options.rank = ranks[i];
    const CompiledEntry compiled = compile_entry(model, entry, sizes, target, options);
    const double share = flops > 0 ? stage.flops / flops : 0;
    row["stages"].push_back({{"first", stage.first},
                             {"last", stage.last},
                             {"flops", stage.flops},
                             {"flops_share", share},
                             {"state_bytes", state_bytes(compiled)},
                             {"arena_bytes", compiled.plan.arena_bytes}});
    text += fmt::format("  stage {}: {} to {}, {:.1f}% of the FLOPs, states {}, arena {}\n", i, stage.first,
                        stage.last, 100 * share, human_bytes(state_bytes(compiled)),
                        human_bytes(compiled.plan.arena_bytes));
  }
  row["micro_batches"] = summary.micro_batches;
  row["bubble"] = summary.bubble;
  return text + fmt::format("  stages wait {:.1f}% of the time (1F1B, {} micro-batch{})\n",
                            100 * summary.bubble, summary.micro_batches,
                            summary.micro_batches == 1 ? "" : "es");
}

// Returns " with --size batch=8 --size seq=256".
std::string size_options(const Bindings& sizes) {
  std::string text;
  for (const auto& [symbol, size] : sizes)
    text += fmt::format("{} --size {}={}", text.empty() ? " with" : "", symbol, size);
  return text;
}

// Returns default sizes for "batch" and "seq": those that `genesis-run train` uses, with that batch for each rank
// along `data`.
Bindings usual_sizes(const Model& model, const Mesh& mesh) {
  constexpr int64_t kBatch = 8, kTokens = 256;
  const int64_t context = models::longest_text(model);
  return {{"batch", kBatch * mesh.size(kDataAxis)},
          {"seq", context > 0 ? std::min(kTokens, context) : kTokens}};
}

// Returns `sizes` with default sizes added for the missing symbols of `entries`. `told` receives a line about those
// added.
Bindings with_usual_sizes(const Model& model, const std::vector<std::string>& entries, const Mesh& mesh,
                          Bindings sizes, std::string& told) {
  const Bindings usual = usual_sizes(model, mesh);
  for (const std::string& name : entries)
    for (const std::string& symbol : passes::symbols_of(model.entry(name)))
      if (const auto size = usual.find(symbol); size != usual.end() && sizes.insert(*size).second)
        told += fmt::format(" --size {}={}", symbol, size->second);
  if (!told.empty()) told = "sizes that are not given:" + told + "\n";
  return sizes;
}

}  // namespace

void CheckFlags::add_to(Command& app) {
  app.add_option("--check", device,
                 "check that this device runs every node, and print the memory that it takes; default: the "
                 "GPU if there is one, else the CPU")
      ->expected(0, 1)
      ->default_str("auto");
  app.add_option("--size", sizes,
                 "SYMBOL=SIZE, for --check; batch=8 for each rank along data and seq=256 when not given")
      ->take_all();
  Option* with_mesh =
      add_mesh(app, mesh, "such as data=8: with --check, print the memory and messages of each rank");
  add_zero(app, with_mesh, zero);
  app.add_option("--chip", chip, "with --check: predict how long a run takes on these chips: h100 or h200");
  app.add_option("--links", links,
                 "with --chip: GB/s between ranks of a host, GB/s between hosts, ranks of a host (310,50,8 "
                 "when not given)")
      ->needs("--chip");
}

void check_entries(const Model& model, const std::vector<std::string>& entries, const CheckFlags& flags,
                   const CheckOptions& options) {
  const std::string device = resolve_device(flags.device);
  const Target target = target_of(device);
  const Mesh mesh = flags.mesh.empty() ? Mesh() : Mesh::parse(flags.mesh);
  warn_of_useless_zero(flags.mesh, flags.zero);
  check_sizes_exist(model, parse_sizes(flags.sizes));
  std::string text;
  const Bindings sizes = with_usual_sizes(model, entries, mesh, parse_sizes(flags.sizes), text);
  if (!flags.chip.empty() && mesh.size(kPipelineAxis) > 1)
    fail(
        "--chip {}: how long stages of a pipeline wait for each other is not in the prediction: leave one of "
        "--chip and pipeline={} out",
        flags.chip, mesh.size(kPipelineAxis));
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const std::string& name : entries) {
    check_sizes_known(model.entry(name), sizes);
    const Bindings rank_sizes = passes::sizes_of_rank(model.entry(name), sizes, mesh);
    const SessionOptions session{.disabled = {options.disable.begin(), options.disable.end()},
                                 .memory_budget = options.memory_budget,
                                 .mesh = mesh,
                                 .zero = flags.zero};
    const CompiledEntry compiled =
        with_context([&] { return compile_entry(model, name, rank_sizes, target, session); },
                     [&] { return "while compiling entry point '" + name + "'" + size_options(sizes); });
    const Plan& plan = compiled.plan;
    nlohmann::ordered_json row{{"entry", name},
                               {"steps", plan.steps.size()},
                               {"arena_bytes", plan.arena_bytes},
                               {"lower_bound", plan.lower_bound_bytes},
                               {"ratio", ratio_to_bound(plan)}};
    for (size_t i = 0; i < plan.peak.size() && i < 10; ++i)
      row["peak"].push_back({{"name", plan.peak[i].name}, {"bytes", plan.peak[i].bytes}});
    const std::string exchanged = rank_lines(compiled, mesh, row) +
                                  stage_lines(model, name, rank_sizes, target, session, row) +
                                  prediction_line(plan, mesh, flags, row);
    json.push_back(row);
    text += fmt::format("{}: {} steps, arena {} (lower bound {}, ratio {:.3f}){}\n{}", name,
                        plan.steps.size(), human_bytes(plan.arena_bytes), human_bytes(plan.lower_bound_bytes),
                        row["ratio"].get<double>(), memory_lines(plan.peak), exchanged);
  }
  options.out.print({{"device", device}, {"mesh", mesh.to_string()}, {"sizes", sizes}, {"entries", json}},
                    [&] { std::cout << printable_lines(text); });
}

}  // namespace genesis::tools

#include "tools/viz/run_pages.h"

#include <filesystem>

#include "schema/file/json_text.h"
#include "tools/viz/data/difference_data.h"
#include "tools/viz/data/model_data.h"
#include "tools/viz/data/page_data.h"
#include "tools/viz/page_file.h"

namespace genesis::viz {
namespace {

// Returns the options to show one entry point with the sizes of a run.
ModelOptions options_of(const std::string& entry, const Bindings& sizes, const std::string& device) {
  ModelOptions options{.entries = {entry}, .sizes = sizes};
  options.entry.session.device = device;
  options.entry.budgets = false;
  return options;
}

PageParts parts_of(const std::string& file, const char* what, const char* view) {
  return {.title = std::filesystem::path(file).filename().string() + ", " + what, .view = view};
}

Json profiled_data(const ProfiledModel& one, const SessionOptions& session, Tables& tables) {
  ModelOptions options = options_of(one.plan.entry, one.plan.bindings, one.measured.device);
  options.entry.session = session;
  options.entry.session.device = one.measured.device;
  options.entry.session.collectives = nullptr;
  options.entry.sizes_are_of_rank = true;
  options.entry.measured = &one.measured;
  return model_data(*one.model, one.file, options, tables);
}

}  // namespace

void write_profile_page(const std::string& output, const SessionOptions& session,
                        const std::vector<ProfiledModel>& models) {
  Tables tables(models[0].plan.bindings);
  PageParts parts = parts_of(models[0].file, "measured", models.size() > 1 ? "difference" : "time");
  for (const ProfiledModel& one : models) parts.models.push_back(profiled_data(one, session, tables));
  if (models.size() > 1)
    parts.difference =
        difference_data(*models[0].model, parts.models[0], *models[1].model, parts.models[1], tables);
  write_page(output, page_data(std::move(parts), tables));
}

void write_comparison_page(const std::string& output, const Model& model, const std::string& file,
                           const Bindings& sizes, const Comparison& comparison) {
  Tables tables(sizes);
  PageParts parts = parts_of(file, "compared", "numerics");
  parts.models.push_back(model_data(model, file, options_of(comparison.entry, sizes, "cpu"), tables));
  parts.numerics = numerics_data(comparison, tables);
  write_page(output, page_data(std::move(parts), tables));
}

void write_nonfinite_page(const std::string& output, const Session& session, const std::string& file,
                          const SessionOptions& options, const NonfiniteError& error) {
  const NonfiniteError::Found& found = error.found();
  Tables tables(found.sizes);
  ModelOptions shown = options_of(found.entry, found.sizes, session.device());
  shown.entry.session = options;
  shown.entry.session.device = session.device();
  PageParts parts = parts_of(file, "not finite", "numerics");
  parts.models.push_back(model_data(session.model(), file, shown, tables));
  parts.numerics = nonfinite_data(error, session.device(), tables);
  write_page(output, page_data(std::move(parts), tables));
}

Json best_timeline(const std::function<Timeline()>& run, int64_t runs, size_t steps, World& world) {
  Json best;
  std::vector<std::vector<double>> times;
  for (int64_t i = 0; i < runs; ++i) {
    world.barrier();
    const Timeline mine = run();
    times.push_back(step_times(mine, steps));
    std::vector<Json> ranks;
    for (const std::string& text : world.gather(timeline_data(mine, world.rank()).dump()))
      ranks.push_back(parse_ordered_json_text(text));
    const Json all = joined_timelines(ranks);
    if (all["tracks"].empty()) return nullptr;
    if (best.is_null() || all["total_us"].get<double>() < best["total_us"].get<double>()) best = all;
  }
  best["median_us"] = median_times(times);
  return best;
}

}  // namespace genesis::viz

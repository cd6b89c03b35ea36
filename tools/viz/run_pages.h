// The pages that genesis-run writes about runs: times of nodes, differences between two runs, and values that are not finite. Each
// function writes FILE.html, or FILE.json for the page's data alone, and throws Error if the file cannot be written.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "executor/distributed/world.h"
#include "executor/session.h"
#include "tools/viz/data/measured_data.h"
#include "tools/viz/data/numerics_data.h"

namespace genesis::viz {

// A model with its measurements.
struct ProfiledModel {
  std::string file;
  std::shared_ptr<const Model> model;
  Plan plan;
  Measurement measured;
};

// Writes the times of the entry point of one model, or those of two side by side. `session`: the options of the runs.
void write_profile_page(const std::string& output, const SessionOptions& session,
                        const std::vector<ProfiledModel>& models);

// Writes all compared values, and the distributions of the first differing value on both sides. `sizes`: those of the runs.
void write_comparison_page(const std::string& output, const Model& model, const std::string& file,
                           const Bindings& sizes, const Comparison& comparison);

// Writes the graph, and histograms of the inputs and outputs of the node that `error` names.
void write_nonfinite_page(const std::string& output, const Session& session, const std::string& file,
                          const SessionOptions& options, const NonfiniteError& error);

// Calls `run` `runs` times on all ranks together. Returns the timeline of the shortest run over all ranks, with the median time of
// each of the `steps` steps of this rank. Null if the device gives no timeline.
Json best_timeline(const std::function<Timeline()>& run, int64_t runs, size_t steps, World& world);

}  // namespace genesis::viz

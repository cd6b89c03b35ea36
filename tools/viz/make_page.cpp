#include "tools/viz/make_page.h"

#include <filesystem>

#include "executor/runtime/device.h"
#include "executor/switches.h"
#include "schema/file/reader.h"
#include "tools/common/tool.h"
#include "tools/viz/data/difference_data.h"
#include "tools/viz/data/model_data.h"
#include "tools/viz/data/page_data.h"
#include "tools/viz/files/training_data.h"
#include "tools/viz/other_formats/other_format_data.h"

namespace genesis::viz {
namespace {

std::string file_name(const std::string& path) { return std::filesystem::path(path).filename().string(); }

class PageMaker {
 public:
  explicit PageMaker(const PageRequest& request) : request_(request) {
    if (is_other_format(request.compare))
      fail("--compare {}: only .genesis files are compared; genesis-build makes one of a folder with weights",
           request.compare);
    if (is_other_format(request.input) && !(request.entry.empty() && request.sizes.empty()))
      fail("{}: --entry and --size are for .genesis files", request.input);
    tell("reading " + file_name(request.input));
    if (!request.input.empty() && !is_other_format(request.input)) model_ = load_model(request.input);
    if (!model_ && !request.compare.empty()) fail("{}: only .genesis files are compared", request.input);
    if (!request.compare.empty()) other_ = load_model(request.compare);
    check_sizes();
  }

  Json make() {
    Tables tables(all_sizes());
    PageParts parts{.title = title(), .view = view()};
    if (model_) parts.models.push_back(model_data(*model_, request_.input, options(), tables));
    if (!parts.models.empty()) check_mesh(parts.models.front());
    if (is_other_format(request_.input)) parts.models.push_back(other_format_data(request_.input, tables));
    if (other_) {
      parts.models.push_back(model_data(*other_, request_.compare, options(), tables));
      parts.difference =
          difference_data(*model_, parts.models[0], *other_, parts.models[1], tables, request_.progress);
    }
    for (const std::string& path : request_.metrics)
      for (const auto& file : metrics_files(path)) parts.runs.push_back(run_data(file));
    return page_data(std::move(parts), tables);
  }

 private:
  std::string title() const {
    if (request_.input.empty()) return file_name(request_.metrics.front());
    return other_ ? file_name(request_.input) + " and " + file_name(request_.compare)
                  : file_name(request_.input);
  }
  std::string view() const {
    if (!request_.view.empty()) return request_.view;
    return request_.input.empty() ? "training" : other_ ? "difference" : "";
  }

  void tell(const std::string& what) const {
    if (request_.progress) request_.progress(what, 0, 0);
  }

  static Json run_data(const std::filesystem::path& file) {
    MetricsTail run(file);
    run.update();
    if (run.rows() == 0)
      fail("{} has no steps to show: `genesis-run train --metrics FILE` writes them", file.string());
    return run.run_data();
  }

  // Returns the sizes for both models: a symbol means the same in both.
  Bindings all_sizes() const {
    Bindings sizes = request_.sizes;
    for (const auto* model : {model_.get(), other_.get()})
      if (model) sizes.merge(assumed_sizes(*model, request_.sizes));
    return sizes;
  }

  // A size must exist in at least one of two models.
  void check_sizes() const {
    for (const auto& [symbol, size] : request_.sizes) {
      const bool is_in_other = other_ && assumed_sizes(*other_, {}).contains(symbol);
      if (model_ && !is_in_other) tools::check_sizes_exist(*model_, {{symbol, size}});
    }
  }

  // Throws Error if no entry point exchanges data along the mesh, because the page would show nothing of it.
  void check_mesh(const Json& model) const {
    if (request_.mesh.empty()) return;
    for (const Json& entry : model["entries"])
      if (entry.contains("problem") || (entry.contains("mesh") && !entry["mesh"]["traffic"].empty())) return;
    fail(
        "--mesh {}: no entry point of {} exchanges anything along its axes: a training step does along "
        "'data'",
        request_.mesh, request_.input);
  }

  ModelOptions options() const {
    ModelOptions options{.sizes = request_.sizes};
    if (!request_.entry.empty()) options.entries = {request_.entry};
    options.entry.session.device = resolve_device(request_.device);
    options.entry.session.disabled = request_.disable;
    // An unknown name is a mistake of the user, so it throws here instead of becoming a problem of the model.
    parse_switches_and_environment(request_.disable, target_of(options.entry.session.device));
    options.entry.budgets = !other_;
    if (!request_.mesh.empty()) options.entry.session.mesh = Mesh::parse(request_.mesh);
    options.entry.session.zero = request_.zero;
    options.entry.passes = !request_.graph_only;
    options.values = request_.values;
    options.entry.progress = request_.progress;
    return options;
  }

  const PageRequest& request_;
  std::shared_ptr<const Model> model_, other_;
};

}  // namespace

Json make_page(const PageRequest& request) { return PageMaker(request).make(); }

}  // namespace genesis::viz

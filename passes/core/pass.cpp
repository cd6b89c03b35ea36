#include "passes/core/pass.h"

#include <chrono>
#include <filesystem>

#include "passes/core/rewrite_log.h"
#include "passes/core/rewriter.h"
#include "schema/file/io/atomic_write.h"
#include "schema/graph/text.h"
#include "schema/graph/verify.h"

namespace genesis::passes {
namespace {

Graph run_one(const Graph& graph, const Pass& pass, const PassContext& context,
              const PipelineOptions& options, PassReport& report) {
  const LoggedPass logged(pass.name);
  const auto start = std::chrono::steady_clock::now();
  Graph result = pass.run(graph, context);
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  report.nodes_after = result.nodes().size();
  report.changed = !same_graph(graph, result);
  if (options.verify_each && report.changed) verify(result);
  return result;
}

Graph run_all(const Graph& graph, std::span<const Pass> pipeline, const PassContext& context,
              const PipelineOptions& options) {
  Graph current = graph.share();
  int number = 0;
  for (const Pass& pass : pipeline) {
    ++number;
    if (options.disabled.contains(pass.name)) continue;
    PassReport report{.name = std::string(pass.name),
                      .nodes_before = current.nodes().size(),
                      .nodes_after = current.nodes().size()};
    if (!pass.may_change || pass.may_change(current, context))
      current = with_context([&] { return run_one(current, pass, context, options, report); },
                             [&] { return fmt::format("in pass '{}'", pass.name); });
    if (report.changed && options.on_change) options.on_change(number, pass, current);
    if (options.reports) options.reports->push_back(std::move(report));
  }
  return current;
}

}  // namespace

Graph run_passes(const Graph& graph, std::span<const Pass> pipeline, const PassContext& context,
                 const PipelineOptions& options) {
  if (options.verify_each) return run_all(graph, pipeline, context, options);
  try {
    Graph result = run_all(graph, pipeline, context, options);
    if (!result.shares_with(graph)) verify(result);
    return result;
  } catch (const Error&) {
    run_all(graph, pipeline, context, {.disabled = options.disabled, .verify_each = true});
    throw;
  }
}

std::function<void(int, const Pass&, const Graph&)> dump_to_folder(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) fail("cannot make the folder '{}' for dumps: {}", folder, error.message());
  return [folder](int number, const Pass& pass, const Graph& graph) {
    const std::string path = fmt::format("{}/{}.{:02}-{}.txt", folder, graph.name(), number, pass.name);
    write_file_atomically(path, to_text(graph, {.origins = true}), LinkAtName::kReplaced);
  };
}

}  // namespace genesis::passes

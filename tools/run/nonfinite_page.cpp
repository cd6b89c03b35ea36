#include "tools/run/nonfinite_page.h"

#include <filesystem>

#include "tools/common/printable.h"
#include "tools/viz/data/model_data.h"
#include "tools/viz/data/numerics_data.h"
#include "tools/viz/data/page_data.h"
#include "tools/viz/page_file.h"

namespace genesis::tools {
namespace {

void write_page(const RunFlags& flags, const std::string& file, const Session& session,
                const NonfiniteError& error) {
  const NonfiniteError::Found& found = error.found();
  viz::Tables tables(found.sizes);
  viz::ModelOptions options{.entries = {found.entry}, .sizes = found.sizes};
  options.entry.session = flags.session_options();
  options.entry.session.device = session.device();
  options.entry.budgets = false;
  viz::PageParts parts{.title = std::filesystem::path(file).filename().string() + ", not finite",
                       .view = "numerics"};
  parts.models.push_back(viz::model_data(session.model(), file, options, tables));
  parts.numerics = viz::nonfinite_data(error, session.device(), tables);
  viz::write_page(flags.nonfinite_page, viz::page_data(std::move(parts), tables));
}

}  // namespace

void with_nonfinite_page(const RunFlags& flags, const std::string& file, const Session& session,
                         const std::function<void()>& body) {
  check_can_write(flags.nonfinite_page);
  try {
    body();
  } catch (NonfiniteError& error) {
    if (flags.nonfinite_page.empty()) throw;
    write_page(flags, file, session, error);
    error.add_context("its inputs and outputs are in " + printable(flags.nonfinite_page));
    throw;
  }
}

}  // namespace genesis::tools

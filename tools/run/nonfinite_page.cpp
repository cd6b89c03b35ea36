#include "tools/run/nonfinite_page.h"

#include "tools/common/printable.h"
#include "tools/viz/run_pages.h"

namespace genesis::tools {

void with_nonfinite_page(const RunFlags& flags, const std::string& file, const Session& session,
                         const std::function<void()>& body) {
  check_can_write(flags.nonfinite_page);
  try {
    body();
  } catch (NonfiniteError& error) {
    if (flags.nonfinite_page.empty()) throw;
    viz::write_nonfinite_page(flags.nonfinite_page, session, file, flags.session_options(), error);
    error.add_context("its inputs and outputs are in " + printable(flags.nonfinite_page));
    throw;
  }
}

}  // namespace genesis::tools

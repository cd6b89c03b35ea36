// --nonfinite-page: the first node with a value that is not finite as a page for a browser, where --find-nonfinite found one.
#pragma once

#include <functional>
#include <string>

#include "executor/session.h"
#include "tools/common/tool.h"

namespace genesis::tools {

// Runs `body`, which runs `session`, made of the model in `file`. An Error that names such a node rises after the page is
// written; the page has the graph, and histograms of what the node read and gave.
void with_nonfinite_page(const RunFlags& flags, const std::string& file, const Session& session,
                         const std::function<void()>& body);

}  // namespace genesis::tools

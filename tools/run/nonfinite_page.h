// --nonfinite-page: if --find-nonfinite has found a node with a value that is not finite, writes a page for a browser
// about it.
#pragma once

#include <functional>
#include <string>

#include "executor/session.h"
#include "tools/common/tool.h"

namespace genesis::tools {

// Runs `body`, which runs `session`, made of the model in `file`. If an Error names such a node, writes the page and
// then throws the Error again. The page has the graph, and histograms of the node's inputs and outputs.
void with_nonfinite_page(const RunFlags& flags, const std::string& file, const Session& session,
                         const std::function<void()>& body);

}  // namespace genesis::tools
